// SipHash-2-4, on pairs of 32-bit integers.

import { readInt32, sumHigh } from "./arithmetic.js";

const START = [
  0x70736575, 0x736f6d65, 0x6e646f6d, 0x646f7261, 0x6e657261, 0x6c796765, 0x79746573, 0x74656462,
];
/** The four words of the state, low and high half by turns. */
const v = new Int32Array(8);
/** The last word: what is left of the bytes, and their number. */
const last = new Uint8Array(8);

/**
 * Write the SipHash-2-4 of bytes, low half first.
 *
 * @param {Uint8Array} bytes
 * @param {number} start the first byte
 * @param {number} end the byte after the last one
 * @param {Int32Array} halves of the key, low and high part by turns
 * @param {Int32Array} out
 * @param {number} place where in `out` the low half goes
 */
export function siphash(bytes, start, end, halves, out, place) {
  for (let n = 0; n < 8; n++) {
    v[n] = START[n] ^ halves[n % 4];
  }
  let at = start;
  for (; at + 8 <= end; at += 8) {
    absorb(readInt32(bytes, at), readInt32(bytes, at + 4));
  }
  last.fill(0);
  for (let n = 0; at < end; n++, at++) {
    last[n] = bytes[at];
  }
  last[7] = end - start;
  absorb(readInt32(last, 0), readInt32(last, 4));
  v[4] ^= 0xff;
  rounds(4);
  out[place] = v[0] ^ v[2] ^ v[4] ^ v[6];
  out[place + 1] = v[1] ^ v[3] ^ v[5] ^ v[7];
}

function absorb(low, high) {
  v[6] ^= low;
  v[7] ^= high;
  rounds(2);
  v[0] ^= low;
  v[1] ^= high;
}

function rounds(count) {
  for (let n = 0; n < count; n++) {
    add(0, 2);
    add(4, 6);
    turnAndXor(2, 13, 0);
    turnAndXor(6, 16, 4);
    swap(0);
    add(4, 2);
    add(0, 6);
    turnAndXor(2, 17, 4);
    turnAndXor(6, 21, 0);
    swap(4);
  }
}

/** Add one word to another. */
function add(to, from) {
  v[to + 1] = sumHigh(v[to], v[to + 1], v[from], v[from + 1]);
  v[to] += v[from];
}

/** Turn a word left by so many bits, and XOR it with another one. */
function turnAndXor(word, bits, other) {
  const low = v[word];
  const high = v[word + 1];
  v[word] = ((low << bits) | (high >>> (32 - bits))) ^ v[other];
  v[word + 1] = ((high << bits) | (low >>> (32 - bits))) ^ v[other + 1];
}

/** Turn a word by 32 bits. */
function swap(word) {
  const low = v[word];
  v[word] = v[word + 1];
  v[word + 1] = low;
}
