"""Slow weighted sketches: MinHash by darts, dart by dart, and SimHash, term by term."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, count
from math import frexp, inf
from struct import pack, unpack

from neardup.reference.hashes import MASK, mix, xxh64
from neardup.reference.sketches import shingle_hash

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


ONE = 1 << 16
"""A weight of 1: weights are whole multiples of 2^-16."""


def bag(hashes: Sequence[int], size: int) -> list[int]:
    """Every run of `size` units, with repeats; fewer units than that are one whole shingle."""
    last = max(len(hashes) - size, 0) if hashes else -1
    return [shingle_hash(hashes[at : at + size]) for at in range(last + 1)]


def words(element: int, bits: int) -> int:
    """The bits of a term: its 64-bit hash and, above it, as many mixes of it as are needed."""
    found = 0
    for place in range(-(-bits // 64)):
        word = mix((element + place * 0x9E3779B97F4A7C15) & MASK) if place else element
        found |= word << 64 * place
    return found & ((1 << bits) - 1)


def sums(terms: Iterable[tuple[int, int]], bits: int) -> list[int]:
    """V: for every bit the weights of the terms that have it, less those of the others.

    A term comes as its bits and its weight.
    """
    found = [0] * bits
    for term, weight in terms:
        for bit in range(bits):
            found[bit] += weight if term >> bit & 1 else -weight
    return found


def sign(values: Sequence[int]) -> int:
    """The fingerprint: bit i is 1 if V[i] > 0."""
    return sum(1 << bit for bit, value in enumerate(values) if value > 0)


def simhash(elements: Iterable[int], bits: int = 64) -> int:
    """The fingerprint of elements that all weigh the same; a repeat counts again."""
    return sign(sums(((words(element, bits), 1) for element in elements), bits))


def hamming(a: int, b: int) -> int:
    return (a ^ b).bit_count()


def log2(number: int) -> int:
    """The logarithm of a whole number from 1 to 2^63 - 1, in 2^-16, by squaring: integers alone."""
    whole = number.bit_length() - 1
    x = number << 31 >> whole if whole <= 31 else number >> (whole - 31)
    found = whole
    for _ in range(16):
        x = x * x >> 31
        found = found << 1 | x >> 32
        x >>= x >> 32
    return found


def cells(documents: Iterable[Iterable[int]]) -> dict[int, int]:
    """In how many documents there is a shingle of each cell; a cell is a hash's top 22 bits."""
    found: dict[int, int] = {}
    for document in documents:
        for cell in {element >> 42 for element in document}:
            found[cell] = found.get(cell, 0) + 1
    return found


def inverse_frequency(documents: int, frequency: int) -> int:
    """1 + log2((1 + N) / (1 + df)), in 2^-16."""
    return ONE + log2(1 + documents) - log2(1 + min(frequency, documents))


def block_bounds(bits: int, blocks: int) -> list[tuple[int, int]]:
    """Blocks that differ by at most one bit in size, the larger ones first, from bit 0 on."""
    sizes = [bits // blocks + (place < bits % blocks) for place in range(blocks)]
    starts = [sum(sizes[:place]) for place in range(blocks)]
    return [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def block_masks(bits: int, distance: int, blocks: int) -> list[int]:
    """For each table the bits of its key: every choice of blocks but `distance` of them."""
    spans = [((1 << end) - 1) ^ ((1 << start) - 1) for start, end in block_bounds(bits, blocks)]
    return [sum(chosen) for chosen in combinations(spans, blocks - distance)]


def block_keys(fingerprint: int, bits: int, distance: int, blocks: int) -> list[int]:
    """The key of table j is the xxHash64, with seed j, of the bits that it looks at."""
    size = bits // 8
    return [
        xxh64((fingerprint & mask).to_bytes(size, "little"), table)
        for table, mask in enumerate(block_masks(bits, distance, blocks))
    ]


def within(
    queries: Sequence[int], fingerprints: Sequence[int], distance: int
) -> set[tuple[int, int, int]]:
    """Query, fingerprint and their distance, of all that are so near."""
    return {
        (i, j, hamming(query, other))
        for i, query in enumerate(queries)
        for j, other in enumerate(fingerprints)
        if hamming(query, other) <= distance
    }
