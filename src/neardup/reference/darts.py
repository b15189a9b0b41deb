"""Weighted MinHash by darts: what `kernels/darts.py` computes, dart by dart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from math import frexp, inf
from struct import pack, unpack

from neardup.reference.hashes import MASK, mix, xxh64

LN2 = 0.6931471805599453
ROOT = float.fromhex("0x1.6a09ep-1")
"""About sqrt(1/2), where the mantissas begin."""


def gap(h: int) -> float:
    """-ln of the share q that 2^53 - h's upper 53 bits are of 2^53, by a short series."""
    m, power = frexp(2**53 - (h >> 11))
    if m < ROOT:
        m, power = m * 2.0, power - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = (((1 / 9 * z + 1 / 7) * z + 1 / 5) * z + 1 / 3) * z + 1.0
    return -(power - 53.0) * LN2 - 2.0 * s * series


def strips(weight: int) -> Iterator[tuple[int, int, int]]:
    """Number, left edge and binary logarithm of the width: [0, 2^12), [2^12, 2^13), ..."""
    left = 0
    for strip in count():
        if left >= weight:
            return
        e = 12 + max(strip - 1, 0)
        yield strip, left, e
        left += 2**e


def darts(x: int, weight: int, slots: int, top: float) -> Iterator[tuple[int, float]]:
    """Slot and rank of the darts of one element that are not above `top`."""
    for strip, left, e in strips(weight):
        rank = 0.0
        for number in count():
            h = mix((x + strip * 0x9E3779B97F4A7C15 + number * 0xD1B54A32D192ED03) & MASK)
            rank += gap(h) * 2.0**-e
            if rank > top:
                break
            place = mix((h + 0xD6E8FEB86659FD93) & MASK)
            if left + (place >> (64 - e)) < weight:
                yield (place % 2**32 * slots) >> 32, rank


def weighted_signature(weights: Mapping[int, int], slots: int, seed: int) -> list[int]:
    """The least rank of each slot as the bits of a float32; weights are multiples of 2^-16."""
    if not any(weights.values()):
        return [bits(inf)] * slots
    key = xxh64(b"darts", seed)
    top = 1.0 / sum(weights.values())
    while True:
        ranks = [inf] * slots
        for x, weight in weights.items():
            for slot, rank in darts(x ^ key, weight, slots, top):
                ranks[slot] = min(ranks[slot], rank)
        if max(ranks) <= top:
            return [bits(rank) for rank in ranks]
        top *= 2


def bits(rank: float) -> int:
    return int(unpack("<I", pack("<f", rank))[0])


def weighted_jaccard(a: Mapping[int, int], b: Mapping[int, int]) -> float:
    """The sum of the lesser weights divided by the sum of the greater ones."""
    both = {x: (a.get(x, 0), b.get(x, 0)) for x in {*a, *b}}
    greater = sum(map(max, both.values()))
    return sum(map(min, both.values())) / greater if greater else 1.0
