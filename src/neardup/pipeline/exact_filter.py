"""Exact duplicates by a membership filter: one pass in input order, in bounded memory.

`set` keeps the hash and the number of every kept document, so it knows witnesses. `bloom` and
`cuckoo` only know that an equal hash was inserted, with false positives: documents that they remove
have no witness, and some of them are no copies.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.shards import cut_shards
from neardup.errors import FilterFull, NeardupError, ParameterError, UsageError
from neardup.formatting import format_bytes
from neardup.membership.bloom import BloomFilter
from neardup.membership.cuckoo import CuckooFilter
from neardup.membership.exact import HashTable
from neardup.membership.sizing import BloomShape, CuckooShape, check_keys, check_rate
from neardup.pipeline.exact_hashes import ExactSpec, HashMaker
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.rank import rank_documents
from neardup.pipeline.stages.removed import RemovedDocuments
from neardup.pipeline.stages.sketch import estimate_disk
from neardup.runtime import Progress
from neardup.spec import check_choice

FILTER_KINDS: Final = ("set", "bloom", "cuckoo")
DEFAULT_RATE: Final = 0.01

ProbabilisticFilter = BloomFilter | CuckooFilter


@dataclass(frozen=True)
class ExactFilter:
    """Which filter, its rate of false positives, and for how many documents it is made."""

    kind: str
    fpr: float | None = None
    expected: int | None = None

    def __post_init__(self) -> None:
        check_choice("filter", self.kind, FILTER_KINDS)
        if self.expected is not None:
            object.__setattr__(self, "expected", check_keys(self.expected))
        if self.kind == "bloom":
            object.__setattr__(
                self, "fpr", check_rate(DEFAULT_RATE if self.fpr is None else self.fpr)
            )
        elif self.fpr is not None:
            raise ParameterError(
                "--fpr is not supported with --filter set, which is exact"
                if self.kind == "set"
                else "--fpr is not supported with --filter cuckoo, whose rate is always 0.0019 or "
                "less: use --filter bloom"
            )

    @classmethod
    def of(
        cls,
        kind: str | None,
        fpr: float | None,
        expected: int | None,
        exact_spec: ExactSpec,
        keep: str,
    ) -> ExactFilter | None:
        """As people write it; None if no filter is asked for."""
        if kind is None:
            if fpr is not None or expected is not None:
                raise UsageError("--fpr and --expected need a filter: add --filter bloom")
            return None
        if exact_spec.unit != "document":
            raise UsageError("--filter is supported with --unit document only")
        if keep != "first":
            raise UsageError(
                "--filter processes documents in input order: use --keep first, or drop --filter"
            )
        return cls(kind, fpr, expected)

    def make(self, documents: int) -> ProbabilisticFilter:
        """The filter for what is expected, or else for so many documents."""
        planned = self.expected or max(documents, 1)
        return CuckooFilter(planned) if self.fpr is None else BloomFilter(planned, self.fpr)

    def announce(self, job: Job, exact_spec: ExactSpec, progress: Progress) -> None:
        """Say before the run what it will cost: memory, and documents that are lost.

        A filter that does not fit into memory is refused here.
        """
        if self.kind == "set":
            return
        documents = 0
        with suppress(NeardupError):  # whoever reads all of it will say so
            shards = cut_shards(job.ordered_inputs(), job.reading)
            documents = estimate_disk(job, shards, HashMaker(exact_spec)).documents
        planned = self.expected or documents
        if not planned:
            return
        made, coming = self.make(documents), max(documents, planned)
        more = f", and about {coming:,} come" if coming > planned else ""
        progress.say(
            f"{self.kind} filter for {planned:,} documents{more}, "
            f"{format_bytes(made.nbytes)}: about "
            f"{made.shape.expected_lost(coming):,.0f} documents that are no copies will be lost"
        )


@dataclass(frozen=True)
class FilterResult:
    """Which documents stay, and what there is to say about the filter."""

    kept: NDArray[np.bool_]
    described: dict[str, Any]


def filter_documents(
    filtering: ExactFilter,
    job: Job,
    documents: Sketches,
    verdicts: RemovedDocuments,
    progress: Progress,
) -> FilterResult:
    """Each document that was not there before stays."""
    rank_documents(documents, job.options, [])  # an error if there are too many
    progress.stage("filtering", len(documents), "documents")
    known = _HashSetPass() if filtering.kind == "set" else _FilterPass(filtering, len(documents))
    kept = np.zeros(len(documents), bool)
    for block in documents.blocks:
        usable = np.flatnonzero(block.usable())
        hashes = np.ascontiguousarray(block.column("content")[:, usable].T)
        numbers = usable + block.start
        fresh = known.take(hashes, numbers, verdicts)
        kept[numbers[fresh]] = True
        progress.advance(block.rows)
    described = {"kind": filtering.kind, "fpr": filtering.fpr, "expected": filtering.expected}
    return FilterResult(kept, described | known.described())


class _HashSetPass:
    """Every document that stays, by its hash of 128 bits."""

    def __init__(self) -> None:
        self._table = HashTable(words=2)

    def take(
        self, hashes: NDArray[np.uint64], numbers: NDArray[np.int64], verdicts: RemovedDocuments
    ) -> NDArray[np.bool_]:
        """Which of these documents are new; the others are removed for the first one."""
        first = self._table.put_many(hashes, numbers)
        again = first >= 0
        verdicts.add(numbers[again], first[again], np.ones(np.count_nonzero(again)), True)
        return ~again

    def described(self) -> dict[str, Any]:
        return {
            "bytes": self._table.nbytes,
            "estimated_fpr": 0.0,
            "expected_lost": 0.0,
            "witnesses": True,
        }


class _FilterPass:
    """A filter over the first half of the hashes."""

    def __init__(self, filtering: ExactFilter, documents: int) -> None:
        self._filter, self._taken = filtering.make(documents), 0

    def take(
        self, hashes: NDArray[np.uint64], numbers: NDArray[np.int64], verdicts: RemovedDocuments
    ) -> NDArray[np.bool_]:
        """Which of these documents are new; the others are removed, nobody knows for which."""
        try:
            there = self._filter.insert_many(hashes[:, 0], once=True)
        except FilterFull as full:
            raise UsageError(
                f"the filter is full with {len(self._filter):,} documents, at document "
                f"{int(numbers[full.taken]):,}: give a larger --expected, or drop it"
            ) from None
        self._taken += len(there)
        verdicts.add_unwitnessed(numbers[there])
        return ~there

    def described(self) -> dict[str, Any]:
        found = self._filter
        lost = estimate_lost(found.shape, len(found), self._taken)
        return {
            "bytes": found.nbytes,
            "estimated_fpr": found.estimated_fpr,
            "expected_lost": round(lost, 1),
            "witnesses": False,
        }


def estimate_lost(shape: BloomShape | CuckooShape, kept: int, documents: int) -> float:
    """About how many were lost when so many stayed: as many as can be, if that can't be told.

    How many different documents came is what stayed and what is lost. A filter that is far too
    full keeps nearly none of those that come, however many they are.
    """
    most = shape.expected_lost(documents)
    if documents - most <= kept + most**0.5:  # all may have been different
        return float(documents - kept)
    low, high = kept, documents
    while high - low > 1:
        different = (low + high) // 2
        if different - shape.expected_lost(different) < kept:
            low = different
        else:
            high = different
    return shape.expected_lost(high)
