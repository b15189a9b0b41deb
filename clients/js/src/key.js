// The secret of keyed hashes. It is in no message and in nothing that is written or sent.

import { bytesToHex } from "./arithmetic.js";
import { blake2b } from "./blake2b.js";
import { ParameterError } from "./errors.js";

const SIZE = 16;
/** Key -> its bytes, which nobody gets from the key itself. */
const secrets = new WeakMap();

export class Key {
  constructor(secret) {
    const bytes = typeof secret === "string" ? fromHex(secret) : secret;
    if (!(bytes instanceof Uint8Array) || bytes.length !== SIZE) {
      throw new ParameterError("a key has 16 bytes, or 32 hexadecimal digits");
    }
    secrets.set(this, bytes.slice());
    this.id = bytesToHex(derived(this, new Uint8Array(), "neardup key id"));
    Object.freeze(this);
  }
}

/** Return the halves that SipHash calls k0 and k1, low and high part by turns. */
export function halvesOf(key) {
  const view = new DataView(secrets.get(key).buffer);
  return Int32Array.from({ length: 4 }, (_, n) => view.getInt32(4 * n, true));
}

/** Return a secret seed for the constants of slots, derived from a public one. */
export function secretSeed(key, seed) {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, seed, true);
  const found = derived(key, new Uint8Array(view.buffer), "neardup seed");
  return new DataView(found.buffer).getBigUint64(0, true);
}

/** Throw unless this is the key of the specification, or neither has one. */
export function requireKey(spec, key) {
  if (key !== null && !(key instanceof Key)) {
    throw new ParameterError("the key of a specification is a Key: make one of its bytes");
  }
  if (spec.key !== (key?.id ?? "")) {
    const wanted = spec.key === "" ? "has no key" : `needs the key with the id ${spec.key}`;
    throw new ParameterError(`the specification ${wanted}, it was given ${key?.id ?? "none"}`);
  }
}

function derived(key, data, purpose) {
  return blake2b(data, 8, secrets.get(key), purpose);
}

function fromHex(digits) {
  const found = /^([0-9a-f]{32})(\r?\n)?$/i.exec(digits);
  return found && Uint8Array.from(found[1].match(/../g), (pair) => parseInt(pair, 16));
}
