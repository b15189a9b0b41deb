"""All removed documents with their witnesses, in input order; sorted on disk if there are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.pipeline.budget import Budget
from neardup.pipeline.sorting import Records, SortedStream, Sorter, cut_windows, split_pairs
from neardup.pipeline.stages.rank import Ranking

RECORDS_AT_ONCE = 1 << 18
EXACT_BIT = np.uint64(1)
NO_WITNESS = 2**31 - 1
"""Stands for a witness that is not known; no document has this number."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RemovedBatch:
    """Some removed documents, in input order, and what each was removed for.

    The witness is -1, and the similarity NaN, where nobody knows.
    """

    documents: Integers
    witnesses: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]


class RemovedDocuments:
    """All removed documents; `clusters` says who was kept for how many."""

    def __init__(self, folder: Path, budget: Budget) -> None:
        self._removed = Sorter(folder / "removed", budget.share(4), carries=True)
        self._clusters = Sorter(folder / "clusters", budget.share(4))
        self.count = 0

    def add(
        self, documents: Integers, witnesses: Integers, similarity: NDArray[np.float64], exact: bool
    ) -> None:
        """Take in some removed documents, in any order."""
        d, w = documents.astype(np.uint64), witnesses.astype(np.uint64)
        keys = d << np.uint64(32) | w << np.uint64(1) | np.uint64(exact)
        self._removed.add(keys, similarity)
        self._clusters.add(w << np.uint64(32) | d)
        self.count += len(documents)

    def add_unwitnessed(self, documents: Integers) -> None:
        """Take in documents that were removed for one that is not known."""
        keys = documents.astype(np.uint64) << np.uint64(32) | np.uint64(NO_WITNESS << 1)
        self._removed.add(keys, np.full(len(documents), np.nan))
        self.count += len(documents)

    def __iter__(self) -> Iterator[RemovedBatch]:
        for keys, values in _read_windows(self._removed):
            witnesses, documents = split_pairs(keys)
            witnesses[witnesses == NO_WITNESS] = -1
            assert values is not None  # noqa: S101  # this sorter carries them
            yield RemovedBatch(documents, witnesses, values, (keys & EXACT_BIT) == 1)

    def clusters(self) -> Iterator[tuple[Integers, Integers]]:
        """The kept documents that have copies, in input order, and how many."""
        for keys, _ in _read_windows(self._clusters):
            kept, copies = np.unique((keys >> np.uint64(32)).astype(np.int64), return_counts=True)
            yield kept, copies

    def close(self) -> None:
        self._removed.close()
        self._clusters.close()


def _read_windows(sorter: Sorter) -> Iterator[Records]:
    stream = SortedStream(iter(sorter))
    for bound in cut_windows([stream], RECORDS_AT_ONCE):
        records = stream.until(bound)
        if len(records[0]):
            yield records


def collect_removed(
    verdicts: RemovedDocuments,
    decided: Iterator[Records],
    copies: Sorter,
    ranking: Ranking,
    exact: bool,
    first_new: int,
) -> None:
    """From the pairs that decided, and the identical copies, to what is removed and why.

    A copy of a removed document goes with that one's witness. Documents before `first_new` are
    of an earlier corpus, of which nothing is removed.
    """
    removed, doubles = SortedStream(decided), SortedStream(iter(copies))
    for bound in cut_windows([removed, doubles], RECORDS_AT_ONCE):
        pairs, similarity = removed.until(bound)
        assert similarity is not None or not len(pairs)  # noqa: S101
        similar = np.empty(0) if similarity is None else similarity
        left, right = split_pairs(pairs)
        verdicts.add(ranking.documents(right), ranking.documents(left), similar, exact)
        twins, _ = doubles.until(bound)
        stands = (twins >> np.uint64(32)).astype(np.int64)
        copy = ranking.documents((twins & np.uint64(0xFFFFFFFF)).astype(np.int64))
        stands, copy = stands[copy >= first_new], copy[copy >= first_new]
        place = np.searchsorted(right, stands)
        gone = place < len(right)
        gone[gone] = right[place[gone]] == stands[gone]
        at = place[gone]
        verdicts.add(copy[gone], ranking.documents(left[at]), similar[at], exact)
        verdicts.add(
            copy[~gone], ranking.documents(stands[~gone]), np.ones(np.count_nonzero(~gone)), True
        )
