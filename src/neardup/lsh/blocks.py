"""Split a fingerprint into blocks; fingerprints that differ in few bits have equal blocks.

k differing bits are in at most k of m blocks, so that m - k blocks are equal. After Manku, Jain and
Das Sarma: there is a table for every choice of m - k blocks, whose bits are the table's key. Two
fingerprints within the distance always share the key of at least one table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.lsh.curve import Meeting
from neardup.spec import check_choice, check_whole

WIDTHS = (64, 128)
SELECTIVE = 30
"""Bits of a selective key: of 100 million random fingerprints, one in ten shares its key."""
MOST_TABLES = 128

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Blocks(Meeting):
    """The tables that find fingerprints within a Hamming distance.

    Attributes:
        bits: The bits of a fingerprint, 64 or 128.
        distance: The Hamming distance k within which all pairs are found.
        blocks: The number m of blocks, above the distance; more blocks make longer keys, but
            more tables.

    >>> Blocks(64, 3, 4).count, Blocks(64, 3, 6).count
    (4, 20)
    """

    bits: int
    distance: int
    blocks: int

    def __post_init__(self) -> None:
        check_distance(self.bits, self.distance)
        least = self.distance + 1
        check_whole(
            f"the number of blocks for distance {self.distance}", self.blocks, least, self.bits
        )
        if self.count > MOST_TABLES:
            raise ParameterError(
                f"{self.blocks} blocks for distance {self.distance} make {self.count:,} tables, "
                f"more than {MOST_TABLES}: use fewer blocks or a smaller distance"
            )

    @classmethod
    def choices(cls, bits: int, distance: int) -> list[Blocks]:
        """Return one for each number of blocks that makes at most `MOST_TABLES` tables."""
        check_distance(bits, distance)
        return [
            cls(bits, distance, blocks)
            for blocks in range(distance + 1, bits + 1)
            if math.comb(blocks, distance) <= MOST_TABLES
        ]

    @classmethod
    def usual(cls, bits: int, distance: int) -> Blocks:
        """Return the fewest tables whose keys are selective, or else the longest keys."""
        able = cls.choices(bits, distance)
        return next((one for one in able if one.key_bits >= SELECTIVE), able[-1])

    @property
    def count(self) -> int:
        """The number of tables."""
        return math.comb(self.blocks, self.distance)

    @property
    def key_bits(self) -> int:
        """The number of bits of the shortest key."""
        return min(int(mask).bit_count() for mask in self.whole_masks)

    @property
    def spans(self) -> list[int]:
        """The bits of each block as a mask; sizes differ by at most one, larger blocks first."""
        size, larger = divmod(self.bits, self.blocks)
        ends = [size * place + min(place, larger) for place in range(self.blocks + 1)]
        return [(1 << end) - (1 << start) for start, end in pairwise(ends)]

    @property
    def whole_masks(self) -> list[int]:
        """The bits of each table's key, as a mask of all bits."""
        return [sum(chosen) for chosen in combinations(self.spans, self.blocks - self.distance)]

    @cached_property
    def masks(self) -> Words:
        """The bits of each table's key, as a row of 64-bit words."""
        low = (1 << 64) - 1
        rows = [
            [mask >> 64 * place & low for place in range(self.bits // 64)]
            for mask in self.whole_masks
        ]
        return np.array(rows, np.uint64)

    @property
    def stated(self) -> list[int]:
        """The parameters, besides the specification, that keys depend on; files state them."""
        return [self.distance, self.blocks]

    @cached_property
    def meet(self) -> list[float]:
        """The probability of sharing a key by the number of differing bits, at random places."""
        sizes = [mask.bit_count() for mask in self.spans]
        # ways[j][d]: how many choices of d bits touch exactly j of the blocks so far.
        ways = [[1] + [0] * self.bits] + [[0] * (self.bits + 1) for _ in range(self.distance)]
        for size in sizes:
            for j in range(self.distance, 0, -1):
                for d in range(self.bits, 0, -1):
                    ways[j][d] += sum(
                        math.comb(size, touched) * ways[j - 1][d - touched]
                        for touched in range(1, min(size, d) + 1)
                    )
        return [sum(row[d] for row in ways) / math.comb(self.bits, d) for d in range(self.bits + 1)]

    def probability(self, similarity: float) -> float:
        """Return the probability of sharing a key if this share of the bits is equal."""
        return self.meet[round((1.0 - similarity) * self.bits)]

    def __str__(self) -> str:
        return f"{self.count} {'table' if self.count == 1 else 'tables'} of {self.blocks} blocks"

    def columns(self, table: int) -> slice:  # noqa: ARG002 (every table needs all columns)
        """Return the columns of the fingerprints that a table uses: all of them."""
        return slice(0, self.bits // 64)

    def keys(self, fingerprints: Words) -> Words:
        """Return one row of keys a document; documents with an equal key are candidates."""
        columns = np.ascontiguousarray(fingerprints.T)
        return np.stack([self.column_keys(columns, table) for table in range(self.count)], axis=1)

    def column_keys(self, columns: Words, table: int) -> Words:
        """Return the documents' keys in one table: xxHash64 of its bits, seeded by its number."""
        keys: Words = kernels.block_keys(columns, self.masks[table], table)
        return keys


@dataclass(frozen=True)
class ByJaccard(Meeting):
    """The probability of sharing a key by the Jaccard similarity of two sets of equal size.

    The cosine of such sets is 2J / (1 + J); a bit of their fingerprints differs with probability
    angle / pi, so that the number of differing bits is binomial.
    """

    blocks: Blocks

    @property
    def condition(self) -> str:
        return " for documents of equal size"

    def probability(self, similarity: float) -> float:
        bits, differs = self.blocks.bits, math.acos(2 * similarity / (1 + similarity)) / math.pi
        return sum(
            math.comb(bits, d) * differs**d * (1 - differs) ** (bits - d) * meet
            for d, meet in enumerate(self.blocks.meet)
        )

    def __str__(self) -> str:
        return str(self.blocks)


def check_distance(bits: int, distance: int) -> None:
    """Raise `ParameterError` for a width or a distance that is not supported."""
    check_choice("number of bits", bits, WIDTHS)
    check_whole(f"the Hamming distance of {bits} bits", distance, 0, bits - 1)
