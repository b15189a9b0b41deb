"""Find exact duplicates by a membership filter: one pass in input order, in bounded memory.

`set` stores the hash and the number of every kept document, so that witnesses are known. `bloom`
and `cuckoo` only tell that an equal hash was inserted, with false positives: documents that they
remove have no witness, and a few of them are no copies.
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
from neardup.pipeline.disk_estimate import estimate_disk
from neardup.pipeline.exact_hashes import ExactSpec, HashMaker
from neardup.pipeline.job import Job
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.rank import rank_documents
from neardup.pipeline.stages.removed import RemovedDocuments
from neardup.runtime import Progress
from neardup.spec import check_choice

FILTER_KINDS: Final = ("set", "bloom", "cuckoo")
DEFAULT_RATE: Final = 0.01

ProbabilisticFilter = BloomFilter | CuckooFilter


@dataclass(frozen=True)
class ExactFilter:
    """The settings of the filter.

    kind      `set`, `bloom` or `cuckoo`
    fpr       the rate of false positives, for `bloom` only
    expected  the number of documents it is sized for; None: for all documents of the input
    """

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
        """Make it from options, checked against the other options; None without --filter."""
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
        """Make the filter for the expected number of documents, or else for `documents`."""
        planned = self.expected or max(documents, 1)
        return CuckooFilter(planned) if self.fpr is None else BloomFilter(planned, self.fpr)

    def announce(self, job: Job, exact_spec: ExactSpec, progress: Progress) -> None:
        """Report before the run the memory that it needs, and how many documents will be lost.

        An error if the filter does not fit into memory.
        """
        if self.kind == "set":
            return
        documents = 0
        with suppress(NeardupError):  # the stage that reads everything reports it
            shards = cut_shards(job.ordered_inputs(), job.reading)
            documents = estimate_disk(job, shards, HashMaker(exact_spec)).documents
        planned = self.expected or documents
        if not planned:
            return
        membership, count = self.make(documents), max(documents, planned)
        more = f" (the input has about {count:,})" if count > planned else ""
        progress.say(
            f"{self.kind} filter for {planned:,} documents{more}, "
            f"{format_bytes(membership.nbytes)}: about "
            f"{membership.shape.expected_lost(count):,.0f} documents that are no copies will be "
            "lost"
        )


@dataclass(frozen=True)
class FilterResult:
    """For each document whether it is kept; and the description of the filter for run.json."""

    kept: NDArray[np.bool_]
    described: dict[str, Any]


def filter_documents(
    filtering: ExactFilter,
    job: Job,
    documents: Sketches,
    verdicts: RemovedDocuments,
    progress: Progress,
) -> FilterResult:
    """Keep each document whose hash is not in the filter yet; add the others to `verdicts`."""
    rank_documents(documents, job.options, [])  # an error if there are more than MAX_DOCUMENTS
    progress.stage("filtering", len(documents), "documents")
    seen = _HashSetPass() if filtering.kind == "set" else _FilterPass(filtering, len(documents))
    kept = np.zeros(len(documents), bool)
    for block in documents.blocks:
        usable = np.flatnonzero(block.usable())
        hashes = np.ascontiguousarray(block.column("content")[:, usable].T)
        numbers = usable + block.start
        is_new = seen.insert(hashes, numbers, verdicts)
        kept[numbers[is_new]] = True
        progress.advance(block.rows)
    described = {"kind": filtering.kind, "fpr": filtering.fpr, "expected": filtering.expected}
    return FilterResult(kept, described | seen.describe())


class _HashSetPass:
    """A hash table of all kept documents, by their 128-bit hashes."""

    def __init__(self) -> None:
        self._table = HashTable(words=2)

    def insert(
        self, hashes: NDArray[np.uint64], numbers: NDArray[np.int64], verdicts: RemovedDocuments
    ) -> NDArray[np.bool_]:
        """Return which of these documents are new; the witness of the others is the first copy."""
        first = self._table.put_many(hashes, numbers)
        is_copy = first >= 0
        verdicts.add(numbers[is_copy], first[is_copy], np.ones(np.count_nonzero(is_copy)), True)
        return ~is_copy

    def describe(self) -> dict[str, Any]:
        return {
            "bytes": self._table.nbytes,
            "estimated_fpr": 0.0,
            "expected_lost": 0.0,
            "witnesses": True,
        }


class _FilterPass:
    """A Bloom or cuckoo filter of the first halves of the hashes."""

    def __init__(self, filtering: ExactFilter, documents: int) -> None:
        self._filter, self._seen = filtering.make(documents), 0

    def insert(
        self, hashes: NDArray[np.uint64], numbers: NDArray[np.int64], verdicts: RemovedDocuments
    ) -> NDArray[np.bool_]:
        """Return which of these documents are new; the witness of the others is unknown."""
        try:
            is_copy = self._filter.insert_many(hashes[:, 0], once=True)
        except FilterFull as full:
            raise UsageError(
                f"the filter is full with {len(self._filter):,} documents, at document "
                f"{int(numbers[full.taken]):,}: give a larger --expected, or drop it"
            ) from None
        self._seen += len(is_copy)
        verdicts.add_unwitnessed(numbers[is_copy])
        return ~is_copy

    def describe(self) -> dict[str, Any]:
        membership = self._filter
        lost = estimate_lost(membership.shape, len(membership), self._seen)
        return {
            "bytes": membership.nbytes,
            "estimated_fpr": membership.estimated_fpr,
            "expected_lost": round(lost, 1),
            "witnesses": False,
        }


def estimate_lost(shape: BloomShape | CuckooShape, kept: int, documents: int) -> float:
    """Estimate how many distinct documents were lost, if `kept` of `documents` were kept.

    The number of distinct documents is searched for which the expected rest is `kept`. A filter
    that is far too full keeps nearly none, however many there are: then the answer is the upper
    bound, that all documents were distinct.
    """
    most = shape.expected_lost(documents)
    if documents - most <= kept + most**0.5:  # all may have been distinct
        return float(documents - kept)
    low, high = kept, documents
    while high - low > 1:
        distinct = (low + high) // 2
        if distinct - shape.expected_lost(distinct) < kept:
            low = distinct
        else:
            high = distinct
    return shape.expected_lost(high)
