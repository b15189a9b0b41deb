"""Weighted MinHash by darts: slot j is the least rank of the darts that fall on it.

Every element has a wall: weight from left to right, rank upwards. Darts hit it at random places
that depend on the element alone, one a unit of area on average; each dart belongs to a slot. An
element of weight w owns the darts to the left of w. The lowest dart of a slot is the same for two
documents with probability (common area of their walls) / (joint area): the sum of the lesser
weights divided by the sum of the greater ones.

The wall is cut into strips, [0, 2^12), [2^12, 2^13), [2^13, 2^14) ..., so that a light element
has few darts to throw. The darts of a strip are thrown from below; one comparison tells whether the
first is low enough. Weights are multiples of 2^-16: the first strip ends at 1/16.

What was tried: an element at a time, with branches, ran at half the speed; a first strip up to
2^-16, fair to the lightest elements, at two thirds; ICWS, which draws for each element and slot, at
a fortieth.
"""

from __future__ import annotations

import math

import numpy as np

from neardup.kernels.compile import I64, U64, inline, inner, int64, kernel, uint64
from neardup.kernels.hashing import mix

U = np.uint64
NEXT_STRIP = U(0x9E3779B97F4A7C15)
NEXT_DART = U(0xD1B54A32D192ED03)
PLACE = U(0xD6E8FEB86659FD93)
LN2 = 0.6931471805599453
THIRD, FIFTH, SEVENTH, NINTH = 1 / 3, 1 / 5, 1 / 7, 1 / 9
TO_HALF_ROOT, HALF_ROOT = U(0x00095F6200000000), U(0x3FE6A09E00000000)
FRACTION = U(0x000FFFFFFFFFFFFF)
LOW = U(0xFFFFFFFF)
FULL = U(0xFFFFFFFFFFFFFFFF)
FIRST_STRIP = U(12)


@inline
def gap(h):
    """Return the rank between two darts of a wall of width 1: -ln(q / 2^53), q = 2^53 - (h >> 11).

    Additions, products and one division: the same on every machine, which `log` is not. The
    mantissa m is taken from sqrt(1/2) to sqrt(2); the series of ln((1 + s) / (1 - s)) ends at s^9.
    """
    bits = np.float64((~h >> U(11)) + U(1)).view(np.uint64) + TO_HALF_ROOT
    power = np.float64(np.int64(bits >> U(52)) - 1023 - 53)
    mantissa = U((bits & FRACTION) + HALF_ROOT)
    m = U(mantissa).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = (((NINTH * z + SEVENTH) * z + FIFTH) * z + THIRD) * z + 1.0
    return -power * LN2 - 2.0 * s * series


@inner
def room_for(elements):
    """Return the size of a hash table for the elements: a power of two, at most half full."""
    room = 1
    while room < 2 * elements:
        room *= 2
    return room


@inner
def collect(shingles, weights, key, places, elements, sums):
    """Collect the distinct shingles, XORed with the key, and their weights; return their number."""
    room, used = U(room_for(shingles.size)), 0
    places[:room] = -1
    for p in range(shingles.size):
        x = shingles[p] ^ key
        at = x & (room - U(1))
        while places[at] >= 0 and elements[places[at]] != x:
            at = (at + U(1)) & (room - U(1))
        if places[at] < 0:
            places[at], elements[used], sums[used] = used, x, U(0)
            used += 1
        sums[places[at]] += weights[p]
    return used


@inner
def possible(elements, weights, left, step, limit, at, owner):
    """Select the elements whose strip may have a dart that is low enough, with its hash.

    No branch here and below: darts are random, and every branch would be mispredicted.
    """
    count = 0
    for p in range(elements.size):
        here = elements[U(p)] + step
        at[U(count)], owner[U(count)] = here, p
        count += np.int64((left < weights[U(p)]) & (mix(here) <= limit))
    return count


@inner
def throw(count, weights, left, e, top, at, owner, ranks, row):
    """Throw the next dart of each strip into the row of least ranks; return how many go on."""
    slots, height, going = U(row.size - 1), 2.0 ** -np.float64(e), 0
    for q in range(count):
        here, p = at[U(q)], owner[U(q)]
        h = mix(here)
        rank = ranks[U(q)] + gap(h) * height
        low_enough = rank <= top
        place = mix(h + PLACE)
        hit = low_enough & (left + (place >> (U(64) - e)) < weights[U(p)])
        # A dart that misses is written to the place after the slots.
        slot = ((place & LOW) * slots) >> U(32) if hit else slots
        row[slot] = min(row[slot], np.float32(rank))
        at[U(going)], owner[U(going)], ranks[U(going)] = here + NEXT_DART, p, rank
        going += np.int64(low_enough)
    return going


@inner
def throw_all(elements, weights, top, at, owner, ranks, row):
    """Throw all darts of a document up to rank `top`, strip by strip."""
    heaviest = weights.max()
    left, e, step = U(0), FIRST_STRIP, U(0)
    while left < heaviest:
        # A strip has a dart below `top` only if its first hash is below `limit`; 1e-12 more,
        # because exp is not exact.
        share = 1.0 - math.exp(-top * 2.0 ** np.float64(e)) + 1e-12
        limit = FULL if share >= 0.9999 else U(share * 2.0**64)
        count = possible(elements, weights, left, step, limit, at, owner)
        ranks[:count] = 0.0
        while count:
            count = throw(count, weights, left, e, top, at, owner, ranks, row)
        e += U(left > U(0))
        left = U(1) << e
        step += NEXT_STRIP


@kernel(U64, U64, I64, int64, uint64)
def throw_darts(shingles, weights, offsets, slots, key):
    """Return one row of slots a document, bits of a float32; all infinite without any weight."""
    rows, longest = offsets.size - 1, 1
    for i in range(rows):
        longest = max(longest, offsets[i + 1] - offsets[i])
    elements, sums = np.empty(longest, np.uint64), np.empty(longest, np.uint64)
    places = np.empty(room_for(longest), np.int64)
    at, owner, ranks = np.empty(longest, np.uint64), np.empty(longest, np.int64), np.empty(longest)
    out, row = np.empty((rows, slots), np.float32), np.empty(slots + 1, np.float32)
    for i in range(rows):
        row[:] = np.inf
        here = slice(offsets[i], offsets[i + 1])
        used = collect(shingles[here], weights[here], key, places, elements, sums)
        total = 0.0
        for p in range(used):
            total += np.float64(sums[p])
        if total > 0.0:
            # All slots are hit below this rank with probability 0.87; if not, it grows by half.
            top = (math.log(slots) + 2.0) * slots / total
            while row[:slots].max() > top:
                throw_all(elements[:used], sums[:used], top, at, owner, ranks, row)
                top *= 1.5
        out[i] = row[:slots]
    return out.view(np.uint32)
