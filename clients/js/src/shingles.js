// The hashes of units to the hashes of shingles.

import { highProduct, productHigh, sumHigh } from "./arithmetic.js";

const BASE = [0x7f4a7c15 | 0, 0x9e3779b9 | 0];
const LENGTH = [0x6659fd93 | 0, 0xd6e8feb8 | 0];
const MIX1 = [0xed558ccd | 0, 0xff51afd7 | 0];
const MIX2 = [0x1a85ec53 | 0, 0xc4ceb9fe | 0];

/** Makes the shingles of one text after the other, with repetitions, in their order. */
export class Shingler {
  /** @param {number} size units of a shingle */
  constructor(size) {
    this.size = size;
    /** The lower halves of the last text's shingles, which the slots are made of. */
    this.low = new Int32Array(1024);
    this.high = new Int32Array(1024);
    this.count = 0;
    this.leaving = power(size - 1);
  }

  /**
   * Put the shingles into `low` and `high`; return how many there are.
   *
   * @param {Int32Array} units hashes of units, low and high half by turns
   * @param {number} count of the units
   */
  hashShingles(units, count) {
    this.count = count === 0 ? 0 : Math.max(count - this.size, 0) + 1;
    if (this.low.length < this.count) {
      this.low = new Int32Array(2 * this.count);
      this.high = new Int32Array(2 * this.count);
    }
    const size = Math.min(this.size, count);
    const [extraLow, extraHigh] = product([size, 0], LENGTH);
    let low = 0;
    let high = 0;
    for (let at = 0; at < count; at++) {
      if (at >= this.size) {
        const out = 2 * (at - this.size);
        const gone = productHigh(units[out], units[out + 1], this.leaving[0], this.leaving[1]);
        const goneLow = Math.imul(units[out], this.leaving[0]);
        high = sumHigh(low, high, -goneLow | 0, goneLow === 0 ? -gone | 0 : ~gone);
        low = (low - goneLow) | 0;
      }
      high = productHigh(low, high, BASE[0], BASE[1]);
      low = Math.imul(low, BASE[0]);
      high = sumHigh(low, high, units[2 * at], units[2 * at + 1]);
      low = (low + units[2 * at]) | 0;
      if (at >= size - 1) {
        this.#mix(at - size + 1, (low + extraLow) | 0, sumHigh(low, high, extraLow, extraHigh));
      }
    }
    return this.count;
  }

  #mix(place, low, high) {
    low ^= high >>> 1;
    high = productHigh(low, high, MIX1[0], MIX1[1]);
    low = Math.imul(low, MIX1[0]);
    low ^= high >>> 1;
    high = (highProduct(low, MIX2[0]) + Math.imul(low, MIX2[1]) + Math.imul(high, MIX2[0])) | 0;
    low = Math.imul(low, MIX2[0]);
    this.low[place] = low ^ (high >>> 1);
    this.high[place] = high;
  }
}

function product(a, b) {
  return [Math.imul(a[0], b[0]), productHigh(a[0], a[1], b[0], b[1])];
}

/** The base, multiplied with itself so many times. */
function power(times) {
  let found = [1, 0];
  for (let n = 0; n < times; n++) {
    found = product(found, BASE);
  }
  return found;
}
