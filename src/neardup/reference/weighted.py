"""Sketches of bags with weights: weighted MinHash, dart by dart, and SimHash, bit by bit.

For weighted MinHash every element throws random darts at the rectangle of its weight, each with a
random slot and rank, and a slot is the least rank that hits it. Two bags have equal slots as
often as their weighted Jaccard similarity says. Weights are whole multiples of 2^-16.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, count
from math import frexp, inf
from struct import pack, unpack

from neardup.reference.hashes import MASK, mix, xxh64
from neardup.reference.sketches import shingle_hash

LN2 = 0.6931471805599453
ROOT = float.fromhex("0x1.6a09ep-1")
"""About sqrt(1/2): mantissas are from here to twice as much, where the series is accurate."""


def gap(h: int) -> float:
    """Return the gap between two ranks, an exponentially distributed number, from a hash.

    It is -ln((2^53 - u) / 2^53), where u is the upper 53 bits of the hash, by a short series, so
    that every machine computes the same bits.
    """
    m, power = frexp(2**53 - (h >> 11))
    if m < ROOT:
        m, power = m * 2.0, power - 1
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    series = (((1 / 9 * z + 1 / 7) * z + 1 / 5) * z + 1 / 3) * z + 1.0
    return -(power - 53.0) * LN2 - 2.0 * s * series


def strips(weight: int) -> Iterator[tuple[int, int, int]]:
    """Yield the strips that cover a weight: [0, 2^12), [2^12, 2^13), [2^13, 2^14), ...

    Each is its number, its left edge and the binary logarithm of its width.
    """
    left = 0
    for strip in count():
        if left >= weight:
            return
        e = 12 + max(strip - 1, 0)
        yield strip, left, e
        left += 2**e


def darts(x: int, weight: int, slots: int, top: float) -> Iterator[tuple[int, float]]:
    """Yield slot and rank of the darts of one element whose rank is at most `top`.

    A dart counts if it hits the weight; one that hits the rest of the last strip does not.
    """
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
    """Return the weighted MinHash signature: the least rank of each slot, as bits of a float32.

    Darts are thrown up to a rank that is doubled until every slot is hit.
    """
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
    """Return the bits of a number as a float32."""
    return int(unpack("<I", pack("<f", rank))[0])


def weighted_jaccard(a: Mapping[int, int], b: Mapping[int, int]) -> float:
    """Return the sum of the lesser weights divided by the sum of the greater ones."""
    both = {x: (a.get(x, 0), b.get(x, 0)) for x in {*a, *b}}
    greater = sum(map(max, both.values()))
    return sum(map(min, both.values())) / greater if greater else 1.0


ONE = 1 << 16
"""A weight of 1: weights are whole multiples of 2^-16."""


def bag(hashes: Sequence[int], size: int) -> list[int]:
    """Return the shingles with repeats: every run of `size` units.

    A text of fewer units is one shingle, an empty text has none.
    """
    last = max(len(hashes) - size, 0) if hashes else -1
    return [shingle_hash(hashes[at : at + size]) for at in range(last + 1)]


def words(element: int, bits: int) -> int:
    """Return the `bits` bits of a term: its 64-bit hash and, above it, mixes of that hash."""
    term = 0
    for place in range(-(-bits // 64)):
        word = mix((element + place * 0x9E3779B97F4A7C15) & MASK) if place else element
        term |= word << 64 * place
    return term & ((1 << bits) - 1)


def sums(terms: Iterable[tuple[int, int]], bits: int) -> list[int]:
    """Return for each bit the weights of the terms that have it, less those of the others.

    A term is a pair of its bits and its weight.
    """
    totals = [0] * bits
    for term, weight in terms:
        for bit in range(bits):
            totals[bit] += weight if term >> bit & 1 else -weight
    return totals


def sign(values: Sequence[int]) -> int:
    """Return the fingerprint of such sums: a bit is 1 if its sum is above 0."""
    return sum(1 << bit for bit, value in enumerate(values) if value > 0)


def simhash(elements: Iterable[int], bits: int = 64) -> int:
    """Return the SimHash fingerprint of elements of weight 1; a repeated element counts again."""
    return sign(sums(((words(element, bits), 1) for element in elements), bits))


def hamming(a: int, b: int) -> int:
    """Return the number of bits in which two fingerprints differ."""
    return (a ^ b).bit_count()


def log2(number: int) -> int:
    """Return the binary logarithm of an integer from 1 to 2^63 - 1, as a multiple of 2^-16.

    Each squaring gives one more binary digit: integers alone, so that all machines agree.
    """
    whole = number.bit_length() - 1
    x = number << 31 >> whole if whole <= 31 else number >> (whole - 31)
    digits = whole
    for _ in range(16):
        x = x * x >> 31
        digits = digits << 1 | x >> 32
        x >>= x >> 32
    return digits


def cells(documents: Iterable[Iterable[int]]) -> dict[int, int]:
    """Return for each cell the number of documents with a shingle in it.

    The cell of a shingle is the upper 22 bits of its hash.
    """
    counts: dict[int, int] = {}
    for document in documents:
        for cell in {element >> 42 for element in document}:
            counts[cell] = counts.get(cell, 0) + 1
    return counts


def inverse_frequency(documents: int, frequency: int) -> int:
    """Return the weight of a shingle by its document frequency, as a multiple of 2^-16.

    It is 1 + log2((1 + documents) / (1 + frequency)).
    """
    return ONE + log2(1 + documents) - log2(1 + min(frequency, documents))


def block_bounds(bits: int, blocks: int) -> list[tuple[int, int]]:
    """Cut the bits of a fingerprint into blocks; return the first bit and the end of each.

    Sizes differ by at most one bit; the larger blocks come first, from bit 0 on.
    """
    sizes = [bits // blocks + (place < bits % blocks) for place in range(blocks)]
    starts = [sum(sizes[:place]) for place in range(blocks)]
    return [(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def block_masks(bits: int, distance: int, blocks: int) -> list[int]:
    """Return for each table the mask of the bits that its key is made of.

    There is a table for each choice of all blocks but `distance` of them: fingerprints that differ
    in at most `distance` bits agree in one of these choices.
    """
    spans = [((1 << end) - 1) ^ ((1 << start) - 1) for start, end in block_bounds(bits, blocks)]
    return [sum(chosen) for chosen in combinations(spans, blocks - distance)]


def block_keys(fingerprint: int, bits: int, distance: int, blocks: int) -> list[int]:
    """Return the key of a fingerprint in each table.

    The key in table j is the xxHash64, with seed j, of the fingerprint under the mask of the table.
    """
    size = bits // 8
    return [
        xxh64((fingerprint & mask).to_bytes(size, "little"), table)
        for table, mask in enumerate(block_masks(bits, distance, blocks))
    ]


def within(
    queries: Sequence[int], fingerprints: Sequence[int], distance: int
) -> set[tuple[int, int, int]]:
    """Return (query, fingerprint, distance) for all pairs within the distance, by brute force."""
    return {
        (i, j, hamming(query, other))
        for i, query in enumerate(queries)
        for j, other in enumerate(fingerprints)
        if hamming(query, other) <= distance
    }
