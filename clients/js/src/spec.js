// The specification: everything that decides a text's shingles and signature. Two signatures may be
// compared only if their specifications have the same fingerprint.

import { bytesToHex } from "./arithmetic.js";
import { blake2b } from "./blake2b.js";
import { FormatError, ParameterError, SpecMismatch } from "./errors.js";

export const PROFILES = ["conservative", "standard", "plain", "aggressive", "look-alikes"];
const HASHES = ["xxh64", "siphash"];
const UNITS = ["word", "char", "line"];
const BITS = [1, 2, 4, 8, 16, 32];
const MAX_SHINGLE = 1000;
const MAX_SLOTS = 65536;
const MAX_SEED = (1n << 64n) - 1n;

const DEFAULTS = {
  profile: "standard",
  unit: "word",
  size: 5,
  hash: "xxh64",
  seed: 0n,
  sketch: "minhash",
  family: "affine32",
  slots: 128,
  bits: 32,
  unicode: "14.0.0",
  version: 1,
  key: "",
};
/** Fields with values that neardup has and this library has not. */
const FIXED = ["sketch", "family", "unicode", "version"];
/** Fields that are in a specification only if they have a value. */
const LATER = ["strip", "ignored", "key", "weights", "vectors", "mask"];

export class Spec {
  constructor(fields = {}) {
    for (const [name, value] of Object.entries(fields)) {
      if (!(name in DEFAULTS) && !(LATER.includes(name) && value === "")) {
        throw new ParameterError(unsupported(name, value));
      }
    }
    Object.assign(this, DEFAULTS, pick(fields));
    for (const name of FIXED) {
      if (this[name] !== DEFAULTS[name]) {
        throw new ParameterError(unsupported(name, this[name]));
      }
    }
    requireOne("hash", this.hash, HASHES);
    requireKeyId(this.hash, this.key);
    requireOne("text profile", this.profile, PROFILES);
    requireOne("shingle unit", this.unit, UNITS);
    requireOne("bits of a slot", this.bits, BITS);
    requireWhole("shingle size", this.size, MAX_SHINGLE);
    requireWhole("number of slots", this.slots, MAX_SLOTS);
    this.seed = toSeed(this.seed);
    Object.freeze(this);
  }

  static of(shingle = "word:5", fields = {}) {
    const parts = /^(\w+):([0-9]{1,9})$/.exec(shingle);
    if (!parts) {
      throw new ParameterError(
        `shingle ${shown(shingle)} is not UNIT:SIZE: write word:5, char:24 or line:1`,
      );
    }
    return new Spec({ ...fields, unit: parts[1], size: Number(parts[2]) });
  }

  static fromJSON(text) {
    let values;
    try {
      values = parseWithSeeds(text);
    } catch (error) {
      throw new FormatError(`not a specification: ${error.message}`);
    }
    const missing = Object.keys(DEFAULTS).filter(
      (name) => !LATER.includes(name) && !Object.hasOwn(values ?? {}, name),
    );
    if (missing.length > 0) {
      throw new FormatError(`not a specification of this version: without ${missing.join(", ")}`);
    }
    return new Spec(values);
  }

  get shingle() {
    return `${this.unit}:${this.size}`;
  }

  get canonical() {
    const stated = Object.keys(DEFAULTS).filter((name) => !LATER.includes(name) || this[name]);
    const named = stated.sort().map((name) => {
      const value = name === "seed" ? this.seed.toString() : JSON.stringify(this[name]);
      return `${JSON.stringify(name)}:${value}`;
    });
    return `{${named.join(",")}}`;
  }

  get fingerprint() {
    return bytesToHex(blake2b(new TextEncoder().encode(this.canonical), 16));
  }

  /** This specification with all bits of a slot. */
  get whole() {
    return this.bits === DEFAULTS.bits ? this : this.withBits(DEFAULTS.bits);
  }

  withBits(bits) {
    return new Spec({ ...this, bits });
  }

  requireSame(other, mine, theirs) {
    const names = Object.keys(DEFAULTS).filter((name) => this[name] !== other[name]);
    if (names.length > 0) {
      const differing = names.map((name) => `${name} ${this[name]} against ${other[name]}`);
      throw new SpecMismatch(
        `${mine} and ${theirs} differ in ${differing.join(", ")}: make both by the same ` +
          "specification",
      );
    }
  }
}

/** Parse JSON with seeds as strings: they may have more digits than a number of JavaScript. */
export function parseWithSeeds(text) {
  return JSON.parse(text.replace(/("seed"\s*:\s*)([0-9]+)/g, '$1"$2"'));
}

function pick(fields) {
  const found = {};
  for (const name of Object.keys(fields)) {
    if (name in DEFAULTS && fields[name] !== undefined) {
      found[name] = fields[name];
    }
  }
  return found;
}

function unsupported(name, value) {
  const known = name in DEFAULTS ? `, only ${DEFAULTS[name]}` : "";
  return (
    `${name} ${shown(value)} is not supported by this library${known}: send the text to the ` +
    "service, or make the sketch with neardup"
  );
}

function requireOne(what, value, allowed) {
  if (!allowed.includes(value)) {
    throw new ParameterError(
      `${what} ${shown(value)} is not supported: choose one of ${allowed.join(", ")}`,
    );
  }
}

function requireKeyId(hash, key) {
  const wanted = hash === "siphash" ? /^[0-9a-f]{16}$/ : /^$/;
  if (typeof key !== "string" || !wanted.test(key)) {
    throw new ParameterError(
      "a specification with hash siphash has the id of its key, 16 digits, and no other has one",
    );
  }
}

function requireWhole(what, value, most) {
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new ParameterError(`${what} must be a whole number from 1 to ${most}, not ${shown(value)}`);
  }
}

function toSeed(value) {
  const safe = typeof value === "number" ? Number.isSafeInteger(value) : typeof value === "bigint";
  const written = typeof value === "string" && /^[0-9]{1,20}$/.test(value);
  const seed = safe || written ? BigInt(value) : -1n;
  if (seed < 0n || seed > MAX_SEED) {
    throw new ParameterError(
      `seed must be a whole number from 0 to 2^64 - 1, a BigInt from 2^53 on, not ${shown(value)}`,
    );
  }
  return seed;
}

function shown(value) {
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
