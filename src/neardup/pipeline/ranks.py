"""Which copy is better? A rank for each document: by the keep policy, then by input order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import concat_keep
from neardup.errors import UsageError
from neardup.in_memory import by_value
from neardup.options import Options
from neardup.pipeline.sketches import Sketches

Integers = NDArray[np.int64]
MOST = 2**31
"""Two ranks and a bit fit into 64 bits."""


@dataclass(frozen=True)
class Ranking:
    """Documents to ranks and back; without an order they are the same."""

    order: NDArray[np.uint32] | None = None
    inverse: NDArray[np.uint32] | None = None

    def documents(self, ranks: Integers) -> Integers:
        return ranks if self.order is None else self.order[ranks].astype(np.int64)

    def of(self, documents: Integers) -> Integers:
        return documents if self.inverse is None else self.inverse[documents].astype(np.int64)


def ranked(sketches: Sketches, options: Options, classes: list[int]) -> Ranking:
    """The documents before each number in `classes` rank before those after it."""
    if len(sketches) >= MOST:
        raise UsageError(
            f"{len(sketches):,} documents are more than one run takes ({MOST:,}): "
            "split the input, and use --against"
        )
    policy, _ = options.keep_policy
    if policy == "first":
        return Ranking()
    if policy == "longest":
        order = np.argsort(-_whole(sketches, "lengths"), kind="stable")
    else:
        values = concat_keep(
            block.arrow("keep") if block.start >= sketches.first_new else pa.nulls(block.rows)
            for block in sketches.blocks
        )
        order = by_value(values, "descending" if policy == "max" else "ascending")
    group = np.searchsorted(np.array(classes), order, side="right")
    by_rank: NDArray[np.uint32] = order[np.argsort(group, kind="stable")].astype(np.uint32)
    inverse = np.empty(len(by_rank), np.uint32)
    inverse[by_rank] = np.arange(len(by_rank), dtype=np.uint32)
    return Ranking(by_rank, inverse)


def _whole(sketches: Sketches, name: str) -> Integers:
    return np.concatenate([block.column(name) for block in sketches.blocks] or [np.empty(0)])
