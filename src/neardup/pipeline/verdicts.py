"""Every removed document with its witness, in input order; sorted on disk where there are many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.pipeline.budget import Budget
from neardup.pipeline.ranks import Ranking
from neardup.pipeline.rounds import split, windows
from neardup.pipeline.sorting import Records, Sorter, Stream

AT_ONCE = 1 << 18
EXACTLY = np.uint64(1)
NOBODY = 2**31 - 1
"""Stands for a witness that is not known; no document has this number."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Removed:
    """Some removed documents, in input order, and what each was removed for.

    The witness is -1, and the similarity NaN, where nobody knows.
    """

    documents: Integers
    witnesses: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]


class Verdicts:
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
        keys = documents.astype(np.uint64) << np.uint64(32) | np.uint64(NOBODY << 1)
        self._removed.add(keys, np.full(len(documents), np.nan))
        self.count += len(documents)

    def __iter__(self) -> Iterator[Removed]:
        for keys, values in _steps(self._removed):
            witnesses, documents = split(keys)
            witnesses[witnesses == NOBODY] = -1
            assert values is not None  # noqa: S101  # this sorter carries them
            yield Removed(documents, witnesses, values, (keys & EXACTLY) == 1)

    def clusters(self) -> Iterator[tuple[Integers, Integers]]:
        """The kept documents that have copies, in input order, and how many."""
        for keys, _ in _steps(self._clusters):
            kept, copies = np.unique((keys >> np.uint64(32)).astype(np.int64), return_counts=True)
            yield kept, copies

    def close(self) -> None:
        self._removed.close()
        self._clusters.close()


def _steps(sorter: Sorter) -> Iterator[Records]:
    stream = Stream(iter(sorter))
    for bound in windows([stream], AT_ONCE):
        records = stream.until(bound)
        if len(records[0]):
            yield records


def collect(
    verdicts: Verdicts,
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
    removed, doubles = Stream(decided), Stream(iter(copies))
    for bound in windows([removed, doubles], AT_ONCE):
        pairs, similarity = removed.until(bound)
        assert similarity is not None or not len(pairs)  # noqa: S101
        similar = np.empty(0) if similarity is None else similarity
        left, right = split(pairs)
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
