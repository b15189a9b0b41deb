// The family affine32: shingles to the slots of a signature.
//
// Slots are unsigned; the loop compares signed integers, which is faster. Adding 2^31 turns the
// order of the one into that of the other, so that b has it already.

import { halves } from "./arithmetic.js";
import { xxh64 } from "./xxh64.js";

/** Slots that are made together, so that each shingle is read once for all of them. */
const TOGETHER = 4;
const LARGEST = 0x7fffffff;
const TURN = 0x80000000 | 0;

const encoder = new TextEncoder();

/** The constants a and b of the slots of a specification. */
export class Permutations {
  constructor(slots, seed) {
    this.slots = slots;
    const padded = Math.ceil(slots / TOGETHER) * TOGETHER;
    this.a = new Int32Array(padded);
    this.b = new Int32Array(padded);
    const [low, high] = halves(seed);
    const hash = new Int32Array(2);
    for (let slot = 0; slot < slots; slot++) {
      for (const [name, constants] of [["a", this.a], ["b", this.b]]) {
        const bytes = encoder.encode(`${name}:${slot}`);
        xxh64(bytes, 0, bytes.length, low, high, hash, 0);
        constants[slot] = name === "a" ? hash[0] | 1 : (hash[0] + TURN) | 0;
      }
    }
  }

  /**
   * Return the slots of a set of shingles; repeated ones change nothing.
   *
   * @param {Int32Array} shingles the lower halves of their hashes
   * @param {number} count of the shingles
   */
  signature(shingles, count) {
    const { a, b } = this;
    const slots = new Uint32Array(this.slots);
    for (let slot = 0; slot < a.length; slot += TOGETHER) {
      const [a0, a1, a2, a3] = [a[slot], a[slot + 1], a[slot + 2], a[slot + 3]];
      const [b0, b1, b2, b3] = [b[slot], b[slot + 1], b[slot + 2], b[slot + 3]];
      let m0 = LARGEST;
      let m1 = LARGEST;
      let m2 = LARGEST;
      let m3 = LARGEST;
      for (let n = 0; n < count; n++) {
        const x = shingles[n];
        const v0 = (Math.imul(a0, x) + b0) | 0;
        const v1 = (Math.imul(a1, x) + b1) | 0;
        const v2 = (Math.imul(a2, x) + b2) | 0;
        const v3 = (Math.imul(a3, x) + b3) | 0;
        m0 = v0 < m0 ? v0 : m0;
        m1 = v1 < m1 ? v1 : m1;
        m2 = v2 < m2 ? v2 : m2;
        m3 = v3 < m3 ? v3 : m3;
      }
      // Writes beyond the last slot of a typed array are ignored.
      slots[slot] = m0 ^ TURN;
      slots[slot + 1] = m1 ^ TURN;
      slots[slot + 2] = m2 ^ TURN;
      slots[slot + 3] = m3 ^ TURN;
    }
    return slots;
  }
}
