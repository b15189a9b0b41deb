"""Connected components of the similar pairs, on Spark: see `pipeline/components.py`.

A round pairs more of each bucket's first members with later ones that they are not connected with
yet. What the rounds know of a candidate is its root, four bytes, which every task gets. Each task
joins the similar pairs that it holds, and gives on only which roots were joined: a forest, no
larger than the number of roots. One task joins the forests; it holds nothing but the roots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame

from neardup import kernels
from neardup.pipeline.backends.spark.bits import SLICE
from neardup.pipeline.backends.spark.comparing import compared, left, right
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.members import Members, Part, Roots, Similar
from neardup.pipeline.backends.spark.tables import Batches, batch_of, numbers, run_in_arrow
from neardup.pipeline.rounds import Tally

TIMES = 4
"""How many times as many members a round looks at as the one before."""
ALL = np.iinfo(np.int64).max
FOREST = "doc int, root int"


@dataclass(frozen=True)
class Join:
    """In a task: pairs of connected documents to the roots that are none any more."""

    roots: Broadcast[Roots]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        before = self.roots.value
        parent = before.copy()
        for batch in batches:
            kernels.join_all(parent, numbers(batch, "root"), numbers(batch, "doc"))
        kernels.to_roots(parent)
        places = np.arange(len(parent), dtype=np.uint32)
        gone = np.flatnonzero((before == places) & (parent != places))
        yield batch_of(doc=gone.astype(np.int32), root=parent[gone].view(np.int32))


@dataclass(frozen=True)
class Gone:
    """In a task: the documents from `new` on that are no roots, each paired with its root."""

    roots: Broadcast[Roots]
    new: int

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in numbers(batch, "id").tolist():
                start = max(number * SLICE, self.new)
                root = self.roots.value[start : (number + 1) * SLICE].astype(np.int64)
                doc = np.arange(start, start + len(root))
                yield batch_of(pair=(doc << 32 | root << 1)[doc != root])


@dataclass
class Components:
    """The rounds over the members of buckets. A row of these has at most `largest`."""

    members: Members
    largest: int
    say: Callable[[str], None]
    tally: Tally = field(default_factory=Tally)
    told: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.roots = np.arange(self.members.count, dtype=np.uint32)

    def run(self) -> DataFrame:
        """Each removed candidate with its root: (doc, witness, similarity)."""
        send = self.members.work.spark.sparkContext.broadcast
        fresh, most, cap = 0, 1, self.members.cap
        while fresh < (cap if self.members.pieces else min(self.largest, cap)):
            sent = send(self.roots)
            part = Part(fresh, most, ALL)
            found = self.members.similar(sent, part, f"members-{self.tally.rounds}")
            joined = self._join(sent, found.pairs)
            sent.destroy()
            self._tell(most, found, joined)
            fresh, most = most, min(TIMES * most, cap)
        return self._removed(send(self.roots))

    def _join(self, roots: Broadcast[Roots], pairs: DataFrame) -> int:
        """Take in some similar pairs. How many roots are none any more."""
        edges = pairs.select(right().alias("doc"), left().alias("root"))
        forests = run_in_arrow(edges, Join(roots), FOREST).repartition(1)
        with in_plain_words("joining components"):
            forest = run_in_arrow(forests, Join(roots), FOREST).toArrow()
        self.roots = self.roots.copy()
        self.roots[forest.column("doc").to_numpy()] = forest.column("root").to_numpy()
        kernels.to_roots(self.roots)
        return len(forest)

    def _tell(self, most: int, found: Similar, joined: int) -> None:
        self.tally.rounds += 1
        self.tally.verified += found.compared
        self.tally.similar += found.count
        self.told.append(
            {
                "members": most,
                "new_pairs": found.compared,
                "edges": found.count,
                "joined": joined,
            }
        )
        self.say(
            f"round {self.tally.rounds}: {found.compared:,} new pairs, {found.count:,} similar "
            f"ones, {joined:,} documents joined to others"
        )

    def _removed(self, roots: Broadcast[Roots]) -> DataFrame:
        members = self.members
        slices = members.work.spark.range(0, max(-(-members.count // SLICE), 1))
        pairs = run_in_arrow(slices, Gone(roots, members.new), "pair long")
        compare = replace(members.compare, least=0.0)
        found = compared(pairs, members.count, members.sets, compare, members.ranges)
        return found.select(right().alias("doc"), left().alias("witness"), "similarity")
