"""The hash functions that an element can be hashed with: xxHash64, MurmurHash3, FNV-1a, SipHash.

A hasher is (kind, k0, k1): which function, and what it starts from. xxHash64 and MurmurHash3 take
k0 as their seed, FNV-1a begins at its offset basis XOR k0, SipHash has k0 and k1 as its key.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import HASHER, I64, U8, inline, inner, kernel, uint64
from neardup.kernels.hashing import load64, load_few, mix, rotl, xxh64

U = np.uint64
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


@inner
def murmur3(data, start, length, seed):
    """MurmurHash3 x64 of data[start : start + length]: both halves of its 128 bits."""
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


@inner
def fnv1a(data, start, length, basis):
    """FNV-1a, 64 bits, of data[start : start + length]."""
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


@inner
def siphash(data, start, length, k0, k1):
    """SipHash-2-4, 64 bits, of data[start : start + length]."""
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


@inner
def hash_bytes(data, start, length, hasher):
    """The 64-bit hash of data[start : start + length]; of MurmurHash3 the first half."""
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
    """The hash of every row of a byte column."""
    rows = offsets.size - 1
    out = np.empty(rows, np.uint64)
    for i in range(rows):
        out[i] = hash_bytes(data, offsets[i], offsets[i + 1] - offsets[i], hasher)
    return out


@kernel(U8, I64, uint64)
def hash_rows(data, offsets, seed):
    """xxHash64 of every row of a byte or string column."""
    rows = offsets.size - 1
    out = np.empty(rows, np.uint64)
    for i in range(rows):
        out[i] = xxh64(data, offsets[i], offsets[i + 1] - offsets[i], seed)
    return out
