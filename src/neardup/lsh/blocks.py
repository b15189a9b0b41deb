"""Cut a fingerprint into blocks; two that differ in few bits agree in some of them.

Of m blocks, k differing bits can touch k at most, so that m - k are equal. After Manku, Jain and
Das Sarma: there is a table for every choice of m - k blocks, whose bits are the table's key. Two
fingerprints within the distance share the key of at least one table, always.
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
"""Bits that make a key rare: in a table of 100 million, one in ten has company by chance."""
MOST_TABLES = 128

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Blocks(Meeting):
    """The tables for fingerprints of so many bits within a distance, by so many blocks.

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
        """All numbers of blocks that don't make too many tables."""
        check_distance(bits, distance)
        return [
            cls(bits, distance, blocks)
            for blocks in range(distance + 1, bits + 1)
            if math.comb(blocks, distance) <= MOST_TABLES
        ]

    @classmethod
    def usual(cls, bits: int, distance: int) -> Blocks:
        """The fewest tables whose keys are rare, or the rarest keys that there are."""
        able = cls.choices(bits, distance)
        return next((one for one in able if one.key_bits >= SELECTIVE), able[-1])

    @property
    def count(self) -> int:
        """How many tables there are."""
        return math.comb(self.blocks, self.distance)

    @property
    def key_bits(self) -> int:
        """The bits of the shortest key."""
        return min(int(mask).bit_count() for mask in self.whole_masks)

    @property
    def spans(self) -> list[int]:
        """The bits of each block; sizes differ by one at most, the larger blocks come first."""
        size, larger = divmod(self.bits, self.blocks)
        ends = [size * place + min(place, larger) for place in range(self.blocks + 1)]
        return [(1 << end) - (1 << start) for start, end in pairwise(ends)]

    @property
    def whole_masks(self) -> list[int]:
        """The bits that each table looks at, as one number."""
        return [sum(chosen) for chosen in combinations(self.spans, self.blocks - self.distance)]

    @cached_property
    def masks(self) -> Words:
        """The bits that each table looks at, as a row of 64-bit words."""
        low = (1 << 64) - 1
        rows = [
            [mask >> 64 * place & low for place in range(self.bits // 64)]
            for mask in self.whole_masks
        ]
        return np.array(rows, np.uint64)

    @property
    def stated(self) -> list[int]:
        """What keys depend on, besides the specification."""
        return [self.distance, self.blocks]

    @cached_property
    def meet(self) -> list[float]:
        """By the number of bits that differ: the chance to meet if they may be any."""
        sizes = [mask.bit_count() for mask in self.spans]
        # ways[j][d]: how many choices of d bits touch exactly j of the blocks so far.
        ways = [[1] + [0] * self.bits] + [[0] * (self.bits + 1) for _ in range(self.distance)]
        for size in sizes:
            for j in range(self.distance, 0, -1):
                for d in range(self.bits, 0, -1):
                    ways[j][d] += sum(
                        math.comb(size, here) * ways[j - 1][d - here]
                        for here in range(1, min(size, d) + 1)
                    )
        return [sum(row[d] for row in ways) / math.comb(self.bits, d) for d in range(self.bits + 1)]

    def probability(self, similarity: float) -> float:
        """The chance to meet if this share of all bits is equal: 1 within the distance."""
        return self.meet[round((1.0 - similarity) * self.bits)]

    def __str__(self) -> str:
        return f"{self.count} {'table' if self.count == 1 else 'tables'} of {self.blocks} blocks"

    def columns(self, table: int) -> slice:  # noqa: ARG002 (every table needs all columns)
        """The columns of the fingerprints that a table looks at."""
        return slice(0, self.bits // 64)

    def keys(self, fingerprints: Words) -> Words:
        """One row of keys a document: two documents are candidates if one of them is equal."""
        columns = np.ascontiguousarray(fingerprints.T)
        return np.stack([self.column_keys(columns, table) for table in range(self.count)], axis=1)

    def column_keys(self, columns: Words, table: int) -> Words:
        """The documents' keys of one table: xxHash64, seeded by its number, of the bits."""
        keys: Words = kernels.block_keys(columns, self.masks[table], table)
        return keys


@dataclass(frozen=True)
class ByJaccard(Meeting):
    """The same by the Jaccard similarity of two sets of equal size, whose fingerprints differ in
    a binomial number of bits: their cosine is 2J / (1 + J), a bit differs with chance angle / pi.
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
    check_choice("number of bits", bits, WIDTHS)
    check_whole(f"the Hamming distance of {bits} bits", distance, 0, bits - 1)
