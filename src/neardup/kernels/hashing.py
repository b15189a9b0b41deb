"""Hash functions over bytes in an array: xxHash64, MurmurHash3, FNV-1a, SipHash.

A hasher is (kind, k0, k1): the function and its initial values. xxHash64 and MurmurHash3 have k0 as
their seed, FNV-1a begins at its offset basis XOR k0, SipHash has k0 and k1 as its key.

What was tried: hashing byte by byte (FNV-1a) ran at half the speed of xxHash64. Words of fewer than
eight bytes take `xxh64_short`, which computes every step and lets masks choose, because a branch on
a word's length is mispredicted about once a word.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import HASHER, I64, U8, inline, kernel, uint64, uncounted
from neardup.kernels.intrinsics import load64

U = np.uint64
P1, P2, P3 = U(0x9E3779B185EBCA87), U(0xC2B2AE3D27D4EB4F), U(0x165667B19E3779F9)
P4, P5 = U(0x85EBCA77C2B2AE63), U(0x27D4EB2F165667C5)


@inline
def rotl(x, r):
    return (x << U(r)) | (x >> U(64 - r))


@inline
def avalanche(h):
    h ^= h >> U(33)
    h *= P2
    h ^= h >> U(29)
    h *= P3
    return h ^ (h >> U(32))


@uncounted
def mix(h):
    """Return MurmurHash3's 64-bit finaliser of a number."""
    h = (h ^ (h >> U(33))) * U(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> U(33))) * U(0xC4CEB9FE1A85EC53)
    return h ^ (h >> U(33))


@inline
def spread(hashed, salt):
    """Mix the 64 bits of a key's hash with the salt of a table or filter."""
    return mix(hashed ^ salt)


@inline
def lane(k):
    return rotl(k * P2, 31) * P1


@inline
def finish(h, rest, length):
    """Hash the last `length` < 8 bytes, the low bytes of `rest`, and finish. No branch."""
    n = U(length)
    four = U(0) - (n >> U(2))
    step = rotl(h ^ ((rest & U(0xFFFFFFFF)) * P1), 23) * P2 + P3
    h ^= (h ^ step) & four
    rest = rest >> (four & U(32))
    n &= U(3)
    step = rotl(h ^ ((rest & U(0xFF)) * P5), 11) * P1
    h ^= (h ^ step) & (U(0) - ((n + U(3)) >> U(2)))
    step = rotl(h ^ (((rest >> U(8)) & U(0xFF)) * P5), 11) * P1
    h ^= (h ^ step) & (U(0) - (n >> U(1)))
    step = rotl(h ^ (((rest >> U(16)) & U(0xFF)) * P5), 11) * P1
    h ^= (h ^ step) & (U(0) - (n & (n >> U(1))))
    return avalanche(h)


@inline
def xxh64_short(bytes8, length, seed):
    """Return the xxHash64 of the first `length` < 8 bytes of a little-endian word."""
    return finish(seed + P5 + U(length), bytes8, length)


@inline
def absorb(h, bytes8):
    """Hash eight bytes more."""
    return rotl(h ^ lane(bytes8), 27) * P1 + P4


@inline
def load_few(data, at, count):
    """Return the next `count` < 8 bytes, little-endian. No byte past the array is read."""
    if at + 8 <= data.size:
        return load64(data, at) & ((U(1) << U(8 * count)) - U(1))
    rest = U(0)
    for i in range(count):
        rest |= U(data[U(at + i)]) << U(8 * i)
    return rest


@uncounted
def xxh64(data, start, length, seed):
    """Return the xxHash64 of data[start : start + length]."""
    at = start
    end = start + length
    if length >= 32:
        v1, v2, v3, v4 = seed + P1 + P2, seed + P2, seed, seed - P1
        while at + 32 <= end:
            v1 = rotl(v1 + load64(data, at) * P2, 31) * P1
            v2 = rotl(v2 + load64(data, at + 8) * P2, 31) * P1
            v3 = rotl(v3 + load64(data, at + 16) * P2, 31) * P1
            v4 = rotl(v4 + load64(data, at + 24) * P2, 31) * P1
            at += 32
        h = rotl(v1, 1) + rotl(v2, 7) + rotl(v3, 12) + rotl(v4, 18)
        h = (h ^ lane(v1)) * P1 + P4
        h = (h ^ lane(v2)) * P1 + P4
        h = (h ^ lane(v3)) * P1 + P4
        h = (h ^ lane(v4)) * P1 + P4
    else:
        h = seed + P5
    h += U(length)
    while at + 8 <= end:
        h = absorb(h, load64(data, at))
        at += 8
    return finish(h, load_few(data, at, end - at), end - at)


XXH64, MURMUR3, FNV1A, SIPHASH = 0, 1, 2, 3

C1, C2 = U(0x87C37B91114253D5), U(0x4CF5AD432745937F)
N1, N2 = U(0x52DCE729), U(0x38495AB5)
FNV_BASIS, FNV_PRIME = U(14695981039346656037), U(0x100000001B3)
SIP0, SIP1 = U(0x736F6D6570736575), U(0x646F72616E646F6D)
SIP2, SIP3 = U(0x6C7967656E657261), U(0x7465646279746573)


@inline
def stir1(k):
    return rotl(k * C1, 31) * C2


@inline
def stir2(k):
    return rotl(k * C2, 33) * C1


@uncounted
def murmur3(data, start, length, seed):
    """Return both halves of the 128-bit MurmurHash3 x64 of data[start : start + length]."""
    h1, h2, at, end = seed, seed, start, start + length
    while at + 16 <= end:
        h1 ^= stir1(load64(data, at))
        h1 = (rotl(h1, 27) + h2) * U(5) + N1
        h2 ^= stir2(load64(data, at + 8))
        h2 = (rotl(h2, 31) + h1) * U(5) + N2
        at += 16
    if at + 8 <= end:
        h1 ^= stir1(load64(data, at))
        h2 ^= stir2(load_few(data, at + 8, end - at - 8))
    else:
        h1 ^= stir1(load_few(data, at, end - at))
    h1 ^= U(length)
    h2 ^= U(length)
    h1 += h2
    h2 += h1
    h1, h2 = mix(h1), mix(h2)
    h1 += h2
    return h1, h2 + h1


@uncounted
def fnv1a(data, start, length, basis):
    """Return the 64-bit FNV-1a of data[start : start + length]."""
    h = basis
    for at in range(start, start + length):
        h = (h ^ U(data[U(at)])) * FNV_PRIME
    return h


@inline
def sip_round(v0, v1, v2, v3):
    v0 += v1
    v2 += v3
    v1 = rotl(v1, 13) ^ v0
    v3 = rotl(v3, 16) ^ v2
    v0 = rotl(v0, 32)
    v2 += v1
    v0 += v3
    v1 = rotl(v1, 17) ^ v2
    v3 = rotl(v3, 21) ^ v0
    return v0, v1, rotl(v2, 32), v3


@uncounted
def siphash(data, start, length, k0, k1):
    """Return the 64-bit SipHash-2-4 of data[start : start + length]."""
    v0, v1, v2, v3 = k0 ^ SIP0, k1 ^ SIP1, k0 ^ SIP2, k1 ^ SIP3
    at, end = start, start + length
    last = U(length) << U(56)
    for _ in range((length >> 3) + 1):
        m = load64(data, at) if at + 8 <= end else last | load_few(data, at, end - at)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3 ^ m)
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        v0 ^= m
        at += 8
    v2 ^= U(0xFF)
    for _ in range(4):
        v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@uncounted
def hash_bytes(data, start, length, hasher):
    """Return the 64-bit hash of data[start : start + length]; of MurmurHash3 the first half."""
    kind, k0, k1 = hasher
    if kind == XXH64:
        return xxh64(data, start, length, k0)
    if kind == MURMUR3:
        return murmur3(data, start, length, k0)[0]
    if kind == FNV1A:
        return fnv1a(data, start, length, FNV_BASIS ^ k0)
    return siphash(data, start, length, k0, k1)


@kernel(U8, I64, HASHER)
def element_hashes(data, offsets, hasher):
    """Return the hash of every row of a byte column."""
    rows = offsets.size - 1
    out = np.empty(rows, np.uint64)
    for i in range(rows):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1] - offsets[i], hasher)
    return out


@kernel(U8, I64, uint64)
def hash_rows(data, offsets, seed):
    """Return the xxHash64 of every row of a byte or string column."""
    rows = offsets.size - 1
    out = np.empty(rows, np.uint64)
    for i in range(rows):
        out[i] = xxh64(data, offsets[i], offsets[i + 1] - offsets[i], seed)
    return out
