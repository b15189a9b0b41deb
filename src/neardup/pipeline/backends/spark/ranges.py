"""Which candidates does one task compare? Consecutive ones, by the bytes of their sets.

Ranks may go by length: ranges of equally many candidates would be of very unequal sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

SLICES = 1 << 12
"""Of so many slices the bytes are known; inside of one, sets are taken to be equally large."""


@dataclass(frozen=True)
class Ranges:
    """Bytes of the candidates' sets, and how many of them a range may have.

    edges   the first candidate of each slice, then how many there are
    before  the bytes of the sets before each of these
    each    bytes of sets in a range
    """

    edges: NDArray[np.int64]
    before: NDArray[np.int64]
    each: int

    @classmethod
    def of(cls, sets: DataFrame, count: int, most: int, tasks: int) -> Ranges:
        """Ranges of at most so many bytes, for at least so many tasks."""
        width = max(-(-count // SLICES), 1)
        edges = np.append(np.arange(0, count, width), count)
        sizes = np.zeros(len(edges) - 1, np.int64)
        by = sets.groupBy(sql.floor(sql.col("doc") / sql.lit(width)).alias("slice"))
        for row in by.agg(sql.sum("size").alias("bytes")).collect():
            sizes[row["slice"]] = row["bytes"]
        before = np.append(0, np.cumsum(sizes))
        return cls(edges, before, max(min(most, int(before[-1]) // tasks), 1))

    @property
    def count(self) -> int:
        """How many candidates there are."""
        return int(self.edges[-1])

    @property
    def bytes(self) -> int:
        """What all sets have."""
        return int(self.before[-1])

    @property
    def number(self) -> int:
        """How many ranges there are."""
        return max(-(-self.bytes // self.each), 1)

    @property
    def width(self) -> int:
        """Candidates in a range, on average."""
        return max(-(-self.count // self.number), 1)

    def starts(self, pairs: float) -> NDArray[np.int64]:
        """Where ranges begin if besides each candidate takes up such a part of a range."""
        load = self.before / self.each + self.edges * pairs
        cuts = np.interp(np.arange(1, np.ceil(load[-1])), load, self.edges)
        return np.unique(np.append(0, cuts.astype(np.int64)))
