// Texts to signatures, by one specification.

import { bytesToHex, toHex } from "./arithmetic.js";
import { EmptyText, ParameterError } from "./errors.js";
import { requireKey, secretSeed } from "./key.js";
import { MinHash } from "./minhash.js";
import { Permutations } from "./permutations.js";
import { Shingler } from "./shingles.js";
import { Spec } from "./spec.js";
import { UnitHasher } from "./units.js";
import { xxh64 } from "./xxh64.js";

export class Sketcher {
  #units;
  #shingler;
  #permutations;

  constructor(spec = new Spec(), key = null) {
    requireKey(spec, key);
    this.spec = spec;
    this.#units = new UnitHasher(spec, key);
    this.#shingler = new Shingler(spec.size);
    const seed = key === null ? spec.seed : secretSeed(key, spec.seed);
    this.#permutations = new Permutations(spec.slots, seed);
  }

  sketch(text) {
    const count = this.#hash(text);
    const slots = this.#permutations.signature(this.#shingler.low, count);
    return new MinHash(this.spec.whole, slots, this.#content());
  }

  shingles(text) {
    const count = this.#hash(text);
    const { low, high } = this.#shingler;
    const found = Array.from({ length: count }, (_, n) => toHex(low[n], high[n]));
    return [...new Set(found)].sort();
  }

  #hash(text) {
    if (typeof text !== "string") {
      throw new ParameterError(`a text is a string, not ${text === null ? "null" : typeof text}`);
    }
    const count = this.#units.hashUnits(text);
    if (count === 0) {
      throw new EmptyText("the text has nothing visible: neardup rejects it as empty");
    }
    return this.#shingler.hashShingles(this.#units.hashes, count);
  }

  /** The content hash of the last text, as the service takes it: both halves as bytes. */
  #content() {
    const { hashes, count } = this.#units;
    const bytes = littleEndian(hashes, 2 * count);
    const both = new Int32Array(4);
    xxh64(bytes, 0, bytes.length, 1, 0, both, 0);
    xxh64(bytes, 0, bytes.length, 2, 0, both, 2);
    return bytesToHex(littleEndian(both, 4));
  }
}

const IS_LITTLE_ENDIAN = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

function littleEndian(numbers, count) {
  if (IS_LITTLE_ENDIAN) {
    return new Uint8Array(numbers.buffer, numbers.byteOffset, 4 * count);
  }
  const view = new DataView(new ArrayBuffer(4 * count));
  for (let n = 0; n < count; n++) {
    view.setInt32(4 * n, numbers[n], true);
  }
  return new Uint8Array(view.buffer);
}
