// The sketch of a text: slots of 32 bits, or a few bits of each.

import { toHex } from "./arithmetic.js";
import { FormatError, ParameterError } from "./errors.js";
import { readSketch, requireSize, writeSketch } from "./sketch-bytes.js";
import { xxh64 } from "./xxh64.js";

const SPREAD = 0x9e3779b1 | 0;
const WIDTH = 32;

export class MinHash {
  constructor(spec, slots, content = null) {
    if (spec.bits !== WIDTH || slots.length !== spec.slots) {
      throw new ParameterError(
        `a MinHash has ${spec.slots} slots of ${WIDTH} bits, not ${slots.length} of ${spec.bits}`,
      );
    }
    this.spec = spec;
    this.slots = slots;
    this.content = content;
  }

  jaccard(other) {
    requireClass(other, MinHash);
    this.spec.requireSame(other.spec, "this MinHash", "the other");
    return shareOfEqual(this.slots, other.slots);
  }

  merge(other) {
    requireClass(other, MinHash);
    this.spec.requireSame(other.spec, "this MinHash", "the other");
    return new MinHash(this.spec, this.slots.map((slot, n) => Math.min(slot, other.slots[n])));
  }

  bandKeys(...tables) {
    const needed = tables.reduce((sum, [bands, rows]) => sum + bands * rows, 0);
    if (!(needed <= this.slots.length)) {
      throw new ParameterError(
        `the bands need ${needed} slots, there are ${this.slots.length}: use fewer bands or rows`,
      );
    }
    const bytes = this.slotBytes;
    const hash = new Int32Array(2);
    const keys = [];
    let start = 0;
    for (const [bands, rows] of tables) {
      for (let band = 0; band < bands; band++, start += 4 * rows) {
        xxh64(bytes, start, start + 4 * rows, keys.length, 0, hash, 0);
        keys.push(toHex(hash[0], hash[1]));
      }
    }
    return keys;
  }

  bBit(bits) {
    const spec = this.spec.withBits(bits);
    if (bits === WIDTH) {
      throw new ParameterError("bits of a slot are cut to 1, 2, 4, 8 or 16, not to all 32");
    }
    const packed = new Uint8Array(packedSize(spec));
    for (let slot = 0; slot < this.slots.length; slot++) {
      const value = Math.imul(this.slots[slot], SPREAD) >>> (WIDTH - bits);
      const at = slot * bits;
      packed[at >> 3] |= value << (at & 7);
      if (bits === 16) {
        packed[(at >> 3) + 1] = value >> 8;
      }
    }
    return new BBitMinHash(spec, packed);
  }

  /** The slots as bytes, as sketches and the service have them. */
  get slotBytes() {
    const bytes = new Uint8Array(4 * this.slots.length);
    const view = new DataView(bytes.buffer);
    this.slots.forEach((slot, n) => view.setUint32(4 * n, slot, true));
    return bytes;
  }

  toBytes() {
    return writeSketch(this.spec, this.slotBytes);
  }

  static fromBytes(bytes) {
    const { spec, content } = readSketch(bytes);
    if (spec.bits !== WIDTH) {
      throw new FormatError("these are the bytes of another sketch: read them with BBitMinHash");
    }
    requireSize(content, 4 * spec.slots);
    const view = new DataView(content.buffer, content.byteOffset);
    const slots = Uint32Array.from({ length: spec.slots }, (_, n) => view.getUint32(4 * n, true));
    return new MinHash(spec, slots);
  }
}

export class BBitMinHash {
  constructor(spec, packed) {
    if (spec.bits === WIDTH || packed.length !== packedSize(spec)) {
      throw new ParameterError(
        `${spec.slots} slots of ${spec.bits} bits are ${packedSize(spec)} bytes, not ` +
          `${packed.length}`,
      );
    }
    this.spec = spec;
    this.packed = packed;
  }

  /** The bits of each slot, one value a slot. */
  get slots() {
    const { bits, slots } = this.spec;
    return Uint16Array.from({ length: slots }, (_, n) => {
      const at = (n * bits) >> 3;
      return bits === 16
        ? this.packed[at] | (this.packed[at + 1] << 8)
        : (this.packed[at] >> ((n * bits) & 7)) & ((1 << bits) - 1);
    });
  }

  jaccard(other) {
    requireClass(other, BBitMinHash);
    this.spec.requireSame(other.spec, "this BBitMinHash", "the other");
    const chance = 2 ** -this.spec.bits;
    return Math.max((shareOfEqual(this.slots, other.slots) - chance) / (1 - chance), 0);
  }

  toBytes() {
    return writeSketch(this.spec, this.packed);
  }

  static fromBytes(bytes) {
    const { spec, content } = readSketch(bytes);
    if (spec.bits === WIDTH) {
      throw new FormatError("these are the bytes of another sketch: read them with MinHash");
    }
    requireSize(content, packedSize(spec));
    return new BBitMinHash(spec, content.slice());
  }
}

function packedSize(spec) {
  return Math.ceil((spec.slots * spec.bits) / 8);
}

function requireClass(other, kind) {
  if (!(other instanceof kind)) {
    throw new ParameterError(`the other must be a ${kind.name} too`);
  }
}

function shareOfEqual(a, b) {
  let equal = 0;
  for (let n = 0; n < a.length; n++) {
    equal += a[n] === b[n] ? 1 : 0;
  }
  return equal / a.length;
}
