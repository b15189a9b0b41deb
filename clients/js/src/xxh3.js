// XXH3-64, the checksum of sketches: of more than 128 bytes, which every sketch has. A sketch is
// written once, so that this is BigInt, which is easier to read.

const MASK = (1n << 64n) - 1n;
const PRIME32 = [0x9e3779b1n, 0x85ebca77n, 0xc2b2ae3dn];
const PRIME64 = [
  0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n,
  0x27d4eb2f165667c5n,
];
const SECRET = Uint8Array.from(
  (
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff" +
    "7221b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46" +
    "a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581" +
    "a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428" +
    "afd7fbcabb4b407e"
  ).match(/../g),
  (pair) => parseInt(pair, 16),
);
const STRIPE = 64;
const STRIPES_OF_BLOCK = (SECRET.length - STRIPE) / 8;

/** The XXH3-64 of more than 128 bytes, as a BigInt. */
export function xxh3(bytes) {
  return bytes.length <= 240 ? ofMiddle(bytes) : ofMany(bytes);
}

function read(bytes, at) {
  return new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(at, true);
}

/** The halves of the 128-bit product, XORed. */
function fold(a, b) {
  const product = a * b;
  return (product & MASK) ^ (product >> 64n);
}

function avalanche(hash) {
  hash = ((hash ^ (hash >> 37n)) * 0x165667919e3779f9n) & MASK;
  return hash ^ (hash >> 32n);
}

function pair(bytes, at, secretAt) {
  return fold(
    read(bytes, at) ^ read(SECRET, secretAt),
    read(bytes, at + 8) ^ read(SECRET, secretAt + 8),
  );
}

function ofMiddle(bytes) {
  let sum = BigInt(bytes.length) * PRIME64[0];
  for (let n = 0; n < 8; n++) {
    sum += pair(bytes, 16 * n, 16 * n);
  }
  sum = avalanche(sum & MASK);
  for (let n = 8; n < Math.floor(bytes.length / 16); n++) {
    sum += pair(bytes, 16 * n, 16 * (n - 8) + 3);
  }
  return avalanche((sum + pair(bytes, bytes.length - 16, 136 - 17)) & MASK);
}

function ofMany(bytes) {
  const sums = [
    PRIME32[2], PRIME64[0], PRIME64[1], PRIME64[2], PRIME64[3], PRIME32[1], PRIME64[4], PRIME32[0],
  ];
  const stripes = Math.floor((bytes.length - 1) / STRIPE);
  for (let stripe = 0; stripe < stripes; stripe++) {
    const place = stripe % STRIPES_OF_BLOCK;
    accumulate(sums, bytes, STRIPE * stripe, 8 * place);
    if (place === STRIPES_OF_BLOCK - 1) {
      scramble(sums);
    }
  }
  accumulate(sums, bytes, bytes.length - STRIPE, SECRET.length - STRIPE - 7);
  let hash = BigInt(bytes.length) * PRIME64[0];
  for (let n = 0; n < 8; n += 2) {
    hash += fold(sums[n] ^ read(SECRET, 11 + 8 * n), sums[n + 1] ^ read(SECRET, 19 + 8 * n));
  }
  return avalanche(hash & MASK);
}

function accumulate(sums, bytes, at, secretAt) {
  for (let n = 0; n < 8; n++) {
    const value = read(bytes, at + 8 * n);
    const keyed = value ^ read(SECRET, secretAt + 8 * n);
    sums[n ^ 1] = (sums[n ^ 1] + value) & MASK;
    sums[n] = (sums[n] + (keyed & 0xffffffffn) * (keyed >> 32n)) & MASK;
  }
}

function scramble(sums) {
  for (let n = 0; n < 8; n++) {
    const key = read(SECRET, SECRET.length - STRIPE + 8 * n);
    sums[n] = ((sums[n] ^ (sums[n] >> 47n) ^ key) * PRIME32[0]) & MASK;
  }
}
