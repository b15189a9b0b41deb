// xxHash64, on pairs of 32-bit integers.

import { highProduct, productHigh, readInt32, sumHigh } from "./arithmetic.js";

const P1_LOW = 0x85ebca87 | 0;
const P1_HIGH = 0x9e3779b1 | 0;
const P2_LOW = 0x27d4eb4f | 0;
const P2_HIGH = 0xc2b2ae3d | 0;
const P3_LOW = 0x9e3779f9 | 0;
const P3_HIGH = 0x165667b1 | 0;
const P4_LOW = 0xc2b2ae63 | 0;
const P4_HIGH = 0x85ebca77 | 0;
const P5_LOW = 0x165667c5 | 0;
const P5_HIGH = 0x27d4eb2f | 0;

const LANE_SHIFTS = [1, 7, 12, 18];

/** The four sums of a text of 32 bytes or more, low and high half by turns. */
const sums = new Int32Array(8);

/**
 * Write the xxHash64 of bytes, low half first.
 *
 * @param {Uint8Array} bytes
 * @param {number} start the first byte
 * @param {number} end the byte after the last one
 * @param {number} seedLow
 * @param {number} seedHigh
 * @param {Int32Array | Uint32Array} out
 * @param {number} place where in `out` the low half goes
 */
export function xxh64(bytes, start, end, seedLow, seedHigh, out, place) {
  let low, high;
  let at = start;
  if (end - start >= 32) {
    at = addStripes(bytes, start, end, seedLow, seedHigh);
    joinSums(out, place);
    low = out[place] | 0;
    high = out[place + 1] | 0;
  } else {
    low = (seedLow + P5_LOW) | 0;
    high = sumHigh(seedLow, seedHigh, P5_LOW, P5_HIGH);
  }
  const length = end - start;
  high = sumHigh(low, high, length, 0);
  low = (low + length) | 0;
  let old, lane;
  for (; at + 8 <= end; at += 8) {
    lane = readInt32(bytes, at);
    const laneHigh = readInt32(bytes, at + 4);
    let upper = productHigh(lane, laneHigh, P2_LOW, P2_HIGH);
    let lower = Math.imul(lane, P2_LOW);
    old = lower;
    lower = (lower << 31) | (upper >>> 1);
    upper = (upper << 31) | (old >>> 1);
    high ^= productHigh(lower, upper, P1_LOW, P1_HIGH);
    low ^= Math.imul(lower, P1_LOW);
    old = low;
    low = (low << 27) | (high >>> 5);
    high = (high << 27) | (old >>> 5);
    high = productHigh(low, high, P1_LOW, P1_HIGH);
    low = Math.imul(low, P1_LOW);
    high = sumHigh(low, high, P4_LOW, P4_HIGH);
    low = (low + P4_LOW) | 0;
  }
  if (at + 4 <= end) {
    lane = readInt32(bytes, at);
    high ^= (highProduct(lane, P1_LOW) + Math.imul(lane, P1_HIGH)) | 0;
    low ^= Math.imul(lane, P1_LOW);
    old = low;
    low = (low << 23) | (high >>> 9);
    high = (high << 23) | (old >>> 9);
    high = productHigh(low, high, P2_LOW, P2_HIGH);
    low = Math.imul(low, P2_LOW);
    high = sumHigh(low, high, P3_LOW, P3_HIGH);
    low = (low + P3_LOW) | 0;
    at += 4;
  }
  for (; at < end; at++) {
    const byte = bytes[at];
    high ^= (highProduct(byte, P5_LOW) + Math.imul(byte, P5_HIGH)) | 0;
    low ^= Math.imul(byte, P5_LOW);
    old = low;
    low = (low << 11) | (high >>> 21);
    high = (high << 11) | (old >>> 21);
    high = productHigh(low, high, P1_LOW, P1_HIGH);
    low = Math.imul(low, P1_LOW);
  }
  low ^= high >>> 1;
  high = productHigh(low, high, P2_LOW, P2_HIGH);
  low = Math.imul(low, P2_LOW);
  low ^= (low >>> 29) | (high << 3);
  high ^= high >>> 29;
  high = productHigh(low, high, P3_LOW, P3_HIGH);
  low = Math.imul(low, P3_LOW);
  out[place] = low ^ high;
  out[place + 1] = high;
}

/** Add all whole stripes of 32 bytes to `sums`; return the place after the last one. */
function addStripes(bytes, start, end, seedLow, seedHigh) {
  setSum(0, seedLow, seedHigh, P1_LOW, P1_HIGH);
  setSum(0, sums[0], sums[1], P2_LOW, P2_HIGH);
  setSum(1, seedLow, seedHigh, P2_LOW, P2_HIGH);
  setSum(2, seedLow, seedHigh, 0, 0);
  setSum(3, seedLow, seedHigh, -P1_LOW | 0, ~P1_HIGH);
  let at = start;
  for (; at + 32 <= end; at += 32) {
    for (let lane = 0; lane < 4; lane++) {
      addLane(lane, readInt32(bytes, at + 8 * lane), readInt32(bytes, at + 8 * lane + 4));
    }
  }
  return at;
}

function setSum(lane, low, high, otherLow, otherHigh) {
  sums[2 * lane + 1] = sumHigh(low, high, otherLow, otherHigh);
  sums[2 * lane] = low + otherLow;
}

function addLane(lane, inLow, inHigh) {
  const productLow = Math.imul(inLow, P2_LOW);
  const sumLow = sums[2 * lane];
  const high = sumHigh(
    sumLow, sums[2 * lane + 1], productLow, productHigh(inLow, inHigh, P2_LOW, P2_HIGH),
  );
  const low = (sumLow + productLow) | 0;
  const turnedLow = (low << 31) | (high >>> 1);
  const turnedHigh = (high << 31) | (low >>> 1);
  sums[2 * lane + 1] = productHigh(turnedLow, turnedHigh, P1_LOW, P1_HIGH);
  sums[2 * lane] = Math.imul(turnedLow, P1_LOW);
}

function joinSums(out, place) {
  let low = 0;
  let high = 0;
  for (let lane = 0; lane < 4; lane++) {
    const shift = LANE_SHIFTS[lane];
    const inLow = sums[2 * lane];
    const inHigh = sums[2 * lane + 1];
    const turnedLow = (inLow << shift) | (inHigh >>> (32 - shift));
    high = sumHigh(low, high, turnedLow, (inHigh << shift) | (inLow >>> (32 - shift)));
    low = (low + turnedLow) | 0;
  }
  for (let lane = 0; lane < 4; lane++) {
    const inLow = sums[2 * lane];
    sums[2 * lane] = 0;
    const inHigh = sums[2 * lane + 1];
    sums[2 * lane + 1] = 0;
    addLane(lane, inLow, inHigh);
    low ^= sums[2 * lane];
    high ^= sums[2 * lane + 1];
    high = productHigh(low, high, P1_LOW, P1_HIGH);
    low = Math.imul(low, P1_LOW);
    high = sumHigh(low, high, P4_LOW, P4_HIGH);
    low = (low + P4_LOW) | 0;
  }
  out[place] = low;
  out[place + 1] = high;
}
