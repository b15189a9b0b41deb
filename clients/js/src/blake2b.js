// BLAKE2b (RFC 7693), for fingerprints of specifications and what is derived from a key.

const MASK = (1n << 64n) - 1n;
const BLOCK = 128;
const START = [
  0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn, 0xa54ff53a5f1d36f1n,
  0x510e527fade682d1n, 0x9b05688c2b3e6c1fn, 0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n,
];
const ORDERS = [
  "0123456789abcdef", "ea489fd61c02b753", "b8c052fdae367194", "7931dcbe265a40f8",
  "905724afe1bc683d", "2c6a0b834d75fe19",
  "c51fed4a0763928b", "db7ec13950f4862a", "6fe9b308c2d714a5", "a2847615fb9e3cd0",
].map((digits) => [...digits].map((digit) => parseInt(digit, 16)));

/**
 * The BLAKE2b of bytes, as bytes.
 *
 * @param {Uint8Array} bytes
 * @param {number} size of the digest, in bytes
 * @param {Uint8Array} key a secret, or nothing
 * @param {string} purpose up to 16 letters of ASCII, called personalisation elsewhere
 */
export function blake2b(bytes, size, key = new Uint8Array(), purpose = "") {
  const state = [...START];
  state[0] ^= 0x01010000n ^ BigInt(key.length << 8) ^ BigInt(size);
  const letters = new Uint8Array(16);
  letters.set(new TextEncoder().encode(purpose));
  state[6] ^= new DataView(letters.buffer).getBigUint64(0, true);
  state[7] ^= new DataView(letters.buffer).getBigUint64(8, true);
  const data = new Uint8Array((key.length > 0 ? BLOCK : 0) + bytes.length);
  data.set(key);
  data.set(bytes, data.length - bytes.length);
  const blocks = Math.max(Math.ceil(data.length / BLOCK), 1);
  for (let n = 0; n < blocks; n++) {
    const last = n === blocks - 1;
    const block = new Uint8Array(BLOCK);
    block.set(data.subarray(BLOCK * n, BLOCK * (n + 1)));
    compress(state, new DataView(block.buffer), last ? data.length : BLOCK * (n + 1), last);
  }
  const digest = new DataView(new ArrayBuffer(64));
  state.forEach((word, n) => digest.setBigUint64(8 * n, word, true));
  return new Uint8Array(digest.buffer, 0, size);
}

function compress(state, block, counted, last) {
  const v = [...state, ...START];
  v[12] ^= BigInt(counted);
  if (last) {
    v[14] ^= MASK;
  }
  const words = Array.from({ length: 16 }, (_, n) => block.getBigUint64(8 * n, true));
  for (let round = 0; round < 12; round++) {
    const order = ORDERS[round % 10];
    for (let n = 0; n < 8; n++) {
      const turn = n < 4 ? 0 : 1; // columns, then diagonals
      const [a, b, c, d] = [0, 1, 2, 3].map((row) => 4 * row + ((n + row * turn) % 4));
      mix(v, a, b, c, d, words[order[2 * n]], words[order[2 * n + 1]]);
    }
  }
  for (let n = 0; n < 8; n++) {
    state[n] ^= v[n] ^ v[n + 8];
  }
}

function mix(v, a, b, c, d, x, y) {
  v[a] = (v[a] + v[b] + x) & MASK;
  v[d] = turn(v[d] ^ v[a], 32n);
  v[c] = (v[c] + v[d]) & MASK;
  v[b] = turn(v[b] ^ v[c], 24n);
  v[a] = (v[a] + v[b] + y) & MASK;
  v[d] = turn(v[d] ^ v[a], 16n);
  v[c] = (v[c] + v[d]) & MASK;
  v[b] = turn(v[b] ^ v[c], 63n);
}

function turn(word, right) {
  return ((word >> right) | (word << (64n - right))) & MASK;
}
