"""Collect the removed documents with their witnesses in input order, sorted on disk if many."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.pipeline.budget import Budget
from neardup.pipeline.sorting import (
    Keys,
    Records,
    SortedStream,
    Sorter,
    cut_windows,
    split_pairs,
)
from neardup.pipeline.stages.rank import Ranking

RECORDS_AT_ONCE = 1 << 17
EXACT_BIT = np.uint64(1)
NO_WITNESS = 2**31 - 1
"""The number of an unknown witness; no document has it."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class RemovedBatch:
    """Consecutive removed documents, in input order, with their witnesses.

    An unknown witness is -1, its similarity NaN. The clusters are named by kept documents, or with
    --keep none by those that would be kept. The cosines of two signals are NaN where unknown.
    """

    documents: Integers
    witnesses: Integers
    clusters: Integers
    similarity: NDArray[np.float64]
    exact: NDArray[np.bool_]
    cosine: NDArray[np.float64]

    def take(self, chosen: slice | NDArray[np.bool_]) -> RemovedBatch:
        """Return some of the documents."""
        return RemovedBatch(*(getattr(self, one.name)[chosen] for one in fields(self)))

    @classmethod
    def empty(cls) -> RemovedBatch:
        """Return no documents."""
        none = np.empty(0, np.int64)
        return cls(none, none, none, np.empty(0), np.empty(0, bool), np.empty(0))

    @classmethod
    def join(cls, batches: Sequence[RemovedBatch]) -> RemovedBatch:
        """Return the documents of one batch or more, in their order."""
        columns = ([getattr(batch, one.name) for batch in batches] for one in fields(cls))
        return cls(*map(np.concatenate, columns))


class RemovedDocuments:
    """All removed documents with their witnesses, and the clusters that these make.

    Args:
        folder: For files, if they are many.
        budget: The memory.
        keeps_none: Whether `remove_leaders` will remove the witnesses, too.
        has_cosines: Whether documents have a second similarity, the cosine of their vectors.
    """

    def __init__(
        self, folder: Path, budget: Budget, keeps_none: bool = False, has_cosines: bool = False
    ) -> None:
        self._removed = Sorter(folder / "removed", budget.share(4), carries=True)
        self._clusters = Sorter(folder / "clusters", budget.share(4))
        self._copies: Sorter | None = None
        if keeps_none:
            self._copies = Sorter(folder / "witnessed", budget.share(4), carries=True)
        self._cosines: Sorter | None = None
        self._copied_cosines: Sorter | None = None
        if has_cosines:
            self._cosines = Sorter(folder / "cosines", budget.share(4), carries=True)
            path = folder / "witnessed-cosines"
            self._copied_cosines = Sorter(path, budget.share(4), carries=True)
        self.count = 0

    def add(
        self,
        documents: Integers,
        witnesses: Integers,
        similarity: NDArray[np.float64],
        exact: bool,
        cosine: NDArray[np.float64] | None = None,
    ) -> None:
        """Add removed documents, in any order.

        `exact` states that the similarities are not estimates. Without cosines they are unknown.
        """
        removed, kept = documents.astype(np.uint64), witnesses.astype(np.uint64)
        keys = removed << np.uint64(32) | kept << np.uint64(1) | np.uint64(exact)
        self._removed.add(keys, similarity)
        _add_known(self._cosines, keys, cosine)
        self._clusters.add(kept << np.uint64(32) | removed)
        if self._copies is not None:
            copies = kept << np.uint64(32) | removed << np.uint64(1) | np.uint64(exact)
            self._copies.add(copies, similarity)
            _add_known(self._copied_cosines, copies, cosine)
        self.count += len(documents)

    def remove_leaders(self, first_new: int) -> Integers:
        """Remove the witnesses too, with the first of their copies as witness; return them.

        Does nothing unless that was asked for. Documents before `first_new` stay.
        """
        removed = [np.empty(0, np.int64)]
        if self._copies is None:
            return removed[0]
        last = -1
        cosines = SortedStream(iter(self._copied_cosines or ()))
        for keys, similarity in _read_windows(self._copies):
            assert similarity is not None  # noqa: S101  # this sorter carries them
            leaders, first = np.unique((keys >> np.uint64(32)).astype(np.int64), return_index=True)
            # The copies of a document may be in several windows.
            chosen = (leaders != last) & (leaders >= first_new)
            last = int(leaders[-1])
            copies = keys[first[chosen]] & np.uint64(0xFFFFFFFF)
            key = leaders[chosen].astype(np.uint64) << np.uint64(32) | copies
            self._removed.add(key, similarity[first[chosen]])
            _add_known(self._cosines, key, _spread(cosines, keys)[first[chosen]])
            removed.append(leaders[chosen])
            self.count += len(key)
        return np.concatenate(removed)

    def add_unwitnessed(self, documents: Integers) -> None:
        """Add removed documents whose witness is unknown."""
        keys = documents.astype(np.uint64) << np.uint64(32) | np.uint64(NO_WITNESS << 1)
        self._removed.add(keys, np.full(len(documents), np.nan))
        self.count += len(documents)

    def __iter__(self) -> Iterator[RemovedBatch]:
        """Yield all removed documents in input order."""
        cosines = SortedStream(iter(self._cosines or ()))
        for keys, values in _read_windows(self._removed):
            witnesses, documents = split_pairs(keys)
            witnesses[witnesses == NO_WITNESS] = -1
            assert values is not None  # noqa: S101  # this sorter carries them
            # Without kept documents the ranks are the input order: the first names the cluster.
            clusters = witnesses if self._copies is None else np.minimum(witnesses, documents)
            exact = (keys & EXACT_BIT) == 1
            cosine = _spread(cosines, keys)
            yield RemovedBatch(documents, witnesses, clusters, values, exact, cosine)

    def clusters(self) -> Iterator[tuple[Integers, Integers]]:
        """Yield the kept documents that have copies, in input order, and how many each has."""
        held, more = np.empty(0, np.int64), 0
        for keys, _ in _read_windows(self._clusters):
            kept, starts = np.unique((keys >> np.uint64(32)).astype(np.int64), return_index=True)
            copies = np.diff(starts, append=len(keys))
            if len(held) and held[0] == kept[0]:
                copies[0] += more
            elif len(held):
                yield held, np.array([more])
            yield kept[:-1], copies[:-1]
            held, more = kept[-1:], int(copies[-1])  # it may have copies in the next window too
        if len(held):
            yield held, np.array([more])

    def close(self) -> None:
        sorters = self._removed, self._clusters, self._copies, self._cosines, self._copied_cosines
        for sorter in sorters:
            if sorter is not None:
                sorter.close()


def _add_known(sorter: Sorter | None, keys: Keys, cosine: NDArray[np.float64] | None) -> None:
    """Add the cosines that are known of pairs."""
    if sorter is not None and cosine is not None:
        known = ~np.isnan(cosine)
        sorter.add(keys[known], cosine[known])


def _spread(cosines: SortedStream, keys: Keys) -> NDArray[np.float64]:
    """Return the cosine of each pair, NaN where it is unknown; read them up to the last pair."""
    spread = np.full(len(keys), np.nan)
    # A bound is reached by what is held: a block more is read than the pairs need.
    cosines.reach(len(keys))
    known, values = cosines.until(int(keys[-1]) + 1)
    if values is not None:
        spread[np.searchsorted(keys, known)] = values
    return spread


def _read_windows(sorter: Sorter) -> Iterator[Records]:
    stream = SortedStream(iter(sorter))
    for bound in cut_windows([stream], RECORDS_AT_ONCE, bits=0):
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
    numbers: Callable[[Integers, Integers], NDArray[np.float64]] | None = None,
) -> Integers:
    """Add the documents of decided pairs, and identical copies, to the removed documents.

    A copy of a removed document gets that document's witness. Documents before `first_new` are of
    an earlier corpus, of which nothing is removed. Return the documents that were decided to be
    kept, and are removed with --keep none. `numbers` returns both similarities of pairs of ranks,
    if there are two signals.
    """
    removed, identical = SortedStream(decided), SortedStream(iter(copies))
    known = np.empty(0, np.uint64), np.empty(0), np.empty(0)
    for bound in cut_windows([removed, identical], RECORDS_AT_ONCE, bits=0):
        pairs, similarity = removed.until(None if bound is None else _next_document(bound))
        assert similarity is not None or not len(pairs)  # noqa: S101
        similar = np.empty(0) if similarity is None else similarity
        witness, loser = split_pairs(pairs)
        cosine = np.full(len(pairs), np.nan)
        if numbers is not None:
            similar, cosine = numbers(witness, loser).T
        of_both = ranking.documents(loser), ranking.documents(witness)
        verdicts.add(*of_both, similar, exact, cosine)
        # Copies of the last document of a window may be in the next one too.
        known = (
            np.append(known[0][-1:], pairs),
            np.append(known[1][-1:], similar),
            np.append(known[2][-1:], cosine),
        )
        witness, loser = split_pairs(known[0])
        twins, _ = identical.until(bound)
        leader = (twins >> np.uint64(32)).astype(np.int64)
        copy = ranking.documents((twins & np.uint64(0xFFFFFFFF)).astype(np.int64))
        leader, copy = leader[copy >= first_new], copy[copy >= first_new]
        place = np.searchsorted(loser, leader)
        is_removed = place < len(loser)
        is_removed[is_removed] = loser[place[is_removed]] == leader[is_removed]
        pair, is_kept = place[is_removed], ~is_removed
        of_best = ranking.documents(witness[pair])
        verdicts.add(copy[is_removed], of_best, known[1][pair], exact, known[2][pair])
        ones = np.ones(np.count_nonzero(is_kept))
        verdicts.add(copy[is_kept], ranking.documents(leader[is_kept]), ones, True)
    return verdicts.remove_leaders(first_new)


def _next_document(bound: int) -> int:
    """Return the first number of the document after that of `bound`."""
    return (bound >> 32) + 1 << 32
