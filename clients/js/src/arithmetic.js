// 64-bit arithmetic on pairs of 32-bit integers. BigInt takes five to nine times as long.
//
// A number is (low, high), each a signed or unsigned 32-bit integer: only its bits count. The lower
// half of a product is Math.imul(low, otherLow), that of a sum (low + otherLow) | 0.

/** The upper 32 bits of the 64-bit product of two unsigned 32-bit integers. */
export function highProduct(a, b) {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = (Math.imul(aHigh, bLow) + (Math.imul(aLow, bLow) >>> 16)) | 0;
  const other = (Math.imul(aLow, bHigh) + (middle & 0xffff)) | 0;
  return (Math.imul(aHigh, bHigh) + (middle >>> 16) + (other >>> 16)) | 0;
}

/** The upper half of the product of two 64-bit numbers, modulo 2^64. */
export function productHigh(low, high, otherLow, otherHigh) {
  return (
    (highProduct(low, otherLow) + Math.imul(low, otherHigh) + Math.imul(high, otherLow)) | 0
  );
}

/** The upper half of the sum of two 64-bit numbers, modulo 2^64. */
export function sumHigh(low, high, otherLow, otherHigh) {
  const carry = (low + otherLow) >>> 0 < low >>> 0 ? 1 : 0;
  return (high + otherHigh + carry) | 0;
}

/** A number from its halves, as 16 hexadecimal digits. */
export function toHex(low, high) {
  return hex32(high) + hex32(low);
}

function hex32(value) {
  return (value >>> 0).toString(16).padStart(8, "0");
}

const BYTES = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/** Bytes as hexadecimal digits, two each. */
export function bytesToHex(bytes) {
  let digits = "";
  for (let at = 0; at < bytes.length; at++) {
    digits += BYTES[bytes[at]];
  }
  return digits;
}

/** The four bytes at a place as a signed 32-bit integer, little-endian. */
export function readInt32(bytes, at) {
  return bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24);
}

/** The halves of a BigInt of 64 bits, as signed integers: [low, high]. */
export function halves(number) {
  return [Number(BigInt.asIntN(32, number)), Number(BigInt.asIntN(32, number >> 32n))];
}
