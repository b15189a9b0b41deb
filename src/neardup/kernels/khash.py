"""k-hash MinHash: slot j is the least a_j x + b_j over a document's shingles x.

Modulo 2^32, of the lower halves of the shingles; or modulo the prime 2^61 - 1.

What was tried: one shingle a pass over the slots reads and writes each slot for every shingle
and ran at a fifth of the speed. Eight a pass: 27 G slot updates a second on one core. Modulo
2^61 - 1 the products are made of 32-bit halves, which vectors have (128-bit ones they don't):
2.4 G updates a second, four shingles a pass as fast as eight.
"""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import I64, U32, U64, inline, inner, kernel

EMPTY = np.uint32(0xFFFFFFFF)


@inner
def low(shingles, at, last):
    """The lower half of a shingle; past the end the last one again, which changes nothing."""
    return np.uint32(shingles[min(at, last)])


@kernel(U64, I64, U32, U32)
def minhash(shingles, offsets, a, b):
    """One row of slots a document; a document without shingles has all slots at 2^32 - 1."""
    rows, slots = offsets.size - 1, a.size
    out = np.empty((rows, slots), np.uint32)
    for i in range(rows):
        row = out[i]
        row[:] = EMPTY
        last = offsets[i + 1] - 1
        for p in range(offsets[i], offsets[i + 1], 8):
            x0, x1 = low(shingles, p, last), low(shingles, p + 1, last)
            x2, x3 = low(shingles, p + 2, last), low(shingles, p + 3, last)
            x4, x5 = low(shingles, p + 4, last), low(shingles, p + 5, last)
            x6, x7 = low(shingles, p + 6, last), low(shingles, p + 7, last)
            for j in range(slots):
                aj, bj = a[j], b[j]
                m01 = min(np.uint32(aj * x0 + bj), np.uint32(aj * x1 + bj))
                m23 = min(np.uint32(aj * x2 + bj), np.uint32(aj * x3 + bj))
                m45 = min(np.uint32(aj * x4 + bj), np.uint32(aj * x5 + bj))
                m67 = min(np.uint32(aj * x6 + bj), np.uint32(aj * x7 + bj))
                row[j] = min(row[j], min(min(m01, m23), min(m45, m67)))
    return out


U = np.uint64
PRIME, HALF, LOW, LOW29 = U((1 << 61) - 1), U(32), U(0xFFFFFFFF), U((1 << 29) - 1)
EMPTY_WIDE = U(0xFFFFFFFFFFFFFFFF)


@inline
def folded(x):
    """A number that is congruent modulo 2^61 - 1, at most 7 above it."""
    return (x & PRIME) + (x >> U(61))


@inner
def reduced(shingles, at, last):
    """A shingle modulo 2^61 - 1; past the end the last one again, which changes nothing."""
    x = folded(shingles[min(at, last)])
    return x - PRIME if x >= PRIME else x


@inline
def affine(a_high, a_low, b, x):
    """(a x + b) mod 2^61 - 1, where all are less than that; no sum reaches 2^64.

    With halves, a x = high 2^64 + middle 2^32 + low, and 2^61 is 1.
    """
    x_high, x_low = x >> HALF, x & LOW
    middle = a_high * x_low + a_low * x_high
    low = a_low * x_low
    high = a_high * x_high * U(8)
    y = folded(high + (middle >> U(29)) + ((middle & LOW29) << HALF) + folded(low) + b)
    return min(y, y - PRIME)


@kernel(U64, I64, U64, U64)
def minhash_m61(shingles, offsets, a, b):
    """One row of 64-bit slots a document; one without shingles has all slots at 2^64 - 1."""
    rows, slots = offsets.size - 1, a.size
    out = np.empty((rows, slots), np.uint64)
    for i in range(rows):
        row = out[i]
        row[:] = EMPTY_WIDE
        last = offsets[i + 1] - 1
        for p in range(offsets[i], offsets[i + 1], 4):
            x0, x1 = reduced(shingles, p, last), reduced(shingles, p + 1, last)
            x2, x3 = reduced(shingles, p + 2, last), reduced(shingles, p + 3, last)
            for j in range(slots):
                high, low, bj = a[j] >> HALF, a[j] & LOW, b[j]
                m01 = min(affine(high, low, bj, x0), affine(high, low, bj, x1))
                m23 = min(affine(high, low, bj, x2), affine(high, low, bj, x3))
                row[j] = min(row[j], min(m01, m23))
    return out
