// The test vectors of the protocol, which neardup's reference has made.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import {
  BBitMinHash, EmptyText, Key, MinHash, NeardupError, ParameterError, Sketcher, Spec,
} from "../index.js";
import { bytesToHex, toHex } from "../src/arithmetic.js";
import { blake2b } from "../src/blake2b.js";
import { characterTable, isDropped } from "../src/characters.js";
import { halvesOf } from "../src/key.js";
import { normalForm } from "../src/normal-form.js";
import { siphash } from "../src/siphash.js";
import { UnitHasher } from "../src/units.js";
import { xxh3 } from "../src/xxh3.js";
import { xxh64 } from "../src/xxh64.js";

const FOLDER = new URL(
  process.env.NEARDUP_VECTORS ?? "../../../spec/vectors/1/", import.meta.url,
);

const bytesOf = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (pair) => parseInt(pair, 16));
const seedOf = (hex) => BigInt(`0x${hex}`);

function hash64(bytes, seed = "0000000000000000") {
  const out = new Int32Array(2);
  const [high, low] = seed.match(/.{8}/g).map((half) => parseInt(half, 16));
  xxh64(bytes, 0, bytes.length, low, high, out, 0);
  return toHex(out[0], out[1]);
}

function codesOf(text, profile) {
  const table = characterTable(profile);
  return Array.from(normalForm(text, profile), (letter) => letter.codePointAt(0))
    .filter((code) => !isDropped(code, profile))
    .map((code) => table.folded(code, table.entry(code)));
}

function unitsOf(text, spec, key = null) {
  const hasher = new UnitHasher(spec, key);
  const count = hasher.hashUnits(text);
  const { hashes } = hasher;
  return Array.from({ length: count }, (_, n) => toHex(hashes[2 * n], hashes[2 * n + 1]));
}

/** The content hash as two numbers, of the bytes that the service takes. */
function contentOf(content) {
  return content.match(/.{16}/g).map((half) => bytesToHex(bytesOf(half).reverse()));
}

const hex32 = (slot) => slot.toString(16).padStart(8, "0");

const SUPPORTED = {
  hash: ["xxh64", "siphash"], sketch: ["minhash"], family: ["affine32"],
  unit: ["word", "char", "line"],
};

/** Whether a vector is about something that this library has; all others must be refused. */
function isSupported({ spec }) {
  if (spec === undefined) {
    return true;
  }
  const fields = JSON.parse(spec);
  const known = Object.keys(fields).every((name) => name in new Spec());
  return known && Object.entries(SUPPORTED).every(([name, all]) => all.includes(fields[name]));
}

const keyOf = (given) => (given.key === undefined ? null : new Key(given.key));

const CHECKS = {
  version(_, expected) {
    assert.equal(new Spec().version, expected.version);
    assert.equal(new Spec().unicode, expected.unicode);
  },
  hash({ function: name, data, seed, key }, expected) {
    const bytes = bytesOf(data);
    if (name === "siphash") {
      const out = new Int32Array(2);
      siphash(bytes, 0, bytes.length, halvesOf(new Key(key)), out, 0);
      assert.equal(toHex(out[0], out[1]), expected.hash);
    } else if (name === "xxh64") {
      assert.equal(hash64(bytes, seed), expected.hash);
    } else if (name === "xxh3" && bytes.length > 128) {
      assert.equal(xxh3(bytes).toString(16).padStart(16, "0"), expected.hash);
    } else {
      return false;
    }
  },
  blake2b({ data, size }, expected) {
    assert.equal(bytesToHex(blake2b(bytesOf(data), size)), expected.digest);
  },
  normalise({ text, profile }, expected) {
    if (expected.refused) {
      assert.throws(() => codesOf(text, profile), ParameterError);
    } else {
      assert.deepEqual(codesOf(text, profile), expected.codes);
    }
  },
  units({ text, profile, unit }, expected) {
    const found = unitsOf(text, Spec.of(`${unit}:1`, { profile }));
    assert.deepEqual(found, expected.units.map((each) => hash64(bytesOf(each))));
  },
  shingles({ spec, seed, text, ...given }, expected) {
    const parsed = Spec.fromJSON(spec);
    assert.equal(parsed.seed, seedOf(seed));
    const sketcher = new Sketcher(parsed, keyOf(given));
    if (expected.unit_hashes.length === 0) {
      assert.throws(() => sketcher.shingles(text), EmptyText);
      return;
    }
    assert.deepEqual(unitsOf(text, parsed, keyOf(given)), expected.unit_hashes);
    assert.deepEqual(sketcher.shingles(text), expected.shingles);
    assert.deepEqual(contentOf(sketcher.sketch(text).content), expected.content);
  },
  document({ spec, text, tables, ...given }, expected) {
    const parsed = Spec.fromJSON(spec);
    assert.equal(parsed.canonical, spec);
    const sketcher = new Sketcher(parsed, keyOf(given));
    if (expected.refused) {
      const kind = expected.refused === "empty" ? EmptyText : ParameterError;
      assert.throws(() => sketcher.sketch(text), kind);
      return;
    }
    const found = sketcher.sketch(text);
    assert.equal(parsed.fingerprint, expected.fingerprint);
    assert.deepEqual(contentOf(found.content), expected.content);
    assert.deepEqual(Array.from(found.slots, hex32), expected.slots);
    assert.deepEqual(found.bandKeys(...tables), expected.keys);
    const kept = parsed.bits === 32 ? found : found.bBit(parsed.bits);
    assert.equal(bytesToHex(kept.toBytes()), expected.bytes);
    if (expected.packed !== undefined) {
      assert.equal(bytesToHex(kept.packed), expected.packed);
    }
    assert.deepEqual(kept.constructor.fromBytes(kept.toBytes()).slots, kept.slots);
  },
  similarity({ spec, a, b }, expected) {
    const parsed = Spec.fromJSON(spec);
    const sketcher = new Sketcher(parsed);
    const [first, second] = [a, b].map((text) => {
      const whole = sketcher.sketch(text);
      return parsed.bits === 32 ? whole : whole.bBit(parsed.bits);
    });
    assert.equal(first.jaccard(second), expected.estimate);
  },
  bands({ width, slots, tables }, expected) {
    if (width !== 32) {
      return false;
    }
    const values = Uint32Array.from(slots, (slot) => parseInt(slot, 16));
    const found = new MinHash(new Spec({ slots: values.length }), values);
    assert.deepEqual(found.bandKeys(...tables), expected.keys);
  },
  read({ bytes }, expected) {
    if (expected.refused) {
      assert.throws(() => MinHash.fromBytes(bytesOf(bytes)), NeardupError);
      assert.throws(() => BBitMinHash.fromBytes(bytesOf(bytes)), NeardupError);
      return;
    }
    const kind = JSON.parse(expected.spec).bits === 32 ? MinHash : BBitMinHash;
    const found = kind.fromBytes(bytesOf(bytes));
    assert.equal(found.spec.canonical, expected.spec);
    assert.deepEqual(Array.from(found.slots, hex32), expected.slots);
  },
};

/** How many vectors of each kind there are at least, so that none is passed over unseen. */
const FILES = {
  "hashes.jsonl": { hash: 70, blake2b: 5 },
  "texts.jsonl": { normalise: 200, units: 300 },
  "shingles.jsonl": { shingles: 120 },
  "documents.jsonl": { document: 90, similarity: 10 },
  "sketches.jsonl": { document: 20 },
  "bands.jsonl": { bands: 4, read: 8 },
};

for (const [file, least] of Object.entries(FILES)) {
  test(`vectors of ${file}`, () => {
    const counts = {};
    for (const line of readFileSync(new URL(file, FOLDER), "utf8").trim().split("\n")) {
      const { kind, name, given, expected } = JSON.parse(line);
      if (!(kind in CHECKS)) {
        continue;
      }
      if (!isSupported(given)) {
        assert.throws(() => new Sketcher(Spec.fromJSON(given.spec)), NeardupError, name);
        continue;
      }
      try {
        if (CHECKS[kind](given, expected) !== false) {
          counts[kind] = (counts[kind] ?? 0) + 1;
        }
      } catch (error) {
        error.message = `${file}, ${kind}, ${name}: ${error.message}`;
        throw error;
      }
    }
    for (const [kind, number] of Object.entries(least)) {
      assert.ok(counts[kind] >= number, `${file} has ${counts[kind] ?? 0} of ${kind}`);
    }
  });
}
