"""The state of an index in numbers: documents, memory, files, buckets, and work since it opened."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neardup.index import folder as places
from neardup.index.answer import NEW, REJECTED, Answer
from neardup.index.lookup import LookupTables

if TYPE_CHECKING:
    from neardup.index.decider import CandidatePairs, Judgements


@dataclass(frozen=True)
class BucketSizes:
    """How many kept documents the buckets have."""

    buckets: int
    p50: int
    p99: int
    largest: int
    full: int
    """Buckets with more kept documents than the limit, which are not all compared."""

    @classmethod
    def of(cls, tables: LookupTables, limit: int) -> BucketSizes:
        """Count the buckets of all tables; reads one table at a time."""
        shared, buckets = [], 0
        for table in tables.bands.tables:
            with tables.guard.reading():
                shared.append(table.shared(tables.dead))
                buckets += table.buckets
        if tables.cold:
            sizes, counts = tables.cold.sizes(len(tables.bands.tables))
            buckets += int(counts.sum())
            shared.append(np.repeat(sizes[sizes > 1], counts[sizes > 1]))
        sizes = np.sort(np.concatenate(shared)) if shared else np.empty(0, np.int64)
        alone = buckets - len(sizes)

        def at(share: float) -> int:
            place = int(np.ceil(share * buckets)) - 1 - alone
            return int(sizes[place]) if place >= 0 else min(buckets, 1)

        full = int(np.count_nonzero(sizes > limit))
        return cls(buckets, at(0.5), at(0.99), at(1.0), full)


def file_sizes(folder: Path) -> dict[str, int]:
    """Return the sizes of the files in a folder; files may be deleted meanwhile."""
    sizes = {}
    for file in sorted(folder.iterdir()):
        with suppress(FileNotFoundError):
            if file.is_file():
                sizes[file.name] = file.stat().st_size
    return sizes


def tree_bytes(folder: Path) -> int:
    """Return the size of all files in a folder and below it."""
    total = 0
    for file in folder.rglob("*"):
        with suppress(FileNotFoundError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def previous_bytes(index: Path) -> dict[str, int]:
    """Return the size of the previous generation by its name; empty if there is none."""
    listed = places.read_generations(index)
    if listed is None or listed.previous is None:
        return {}
    return {listed.previous: tree_bytes(index / listed.previous)}


@dataclass(frozen=True)
class Stats:
    """What an index holds and has done. Bytes are those of arrays in memory, or of files."""

    documents: int
    kept: int
    copies: int
    buried: int
    """Removed documents that stay in the tables until compaction."""
    sequence: int
    """The number of the last change."""
    snapshot_sequence: int
    """The last change that the snapshot contains."""
    queue: int
    """Documents that wait for the writer thread."""
    queue_limit: int
    bands: int
    """The number of band tables."""
    memory_bytes: dict[str, int]
    """Bytes in memory, by table."""
    memory_budget: int | None
    disk_bytes: dict[str, int]
    """Bytes on disk, by file."""
    earlier_bytes: dict[str, int]
    """Bytes of the previous generation by its name; empty if there is none."""
    wal_bytes: int
    """Bytes of the store's log."""
    buckets: BucketSizes
    since_open: Counters

    @property
    def index_memory_bytes(self) -> int:
        return sum(self.memory_bytes.values())

    @property
    def bytes_per_document(self) -> float:
        """Bytes in memory per document."""
        return self.index_memory_bytes / max(self.documents, 1)

    @property
    def candidate_pairs_per_doc(self) -> float:
        """Candidates per judged document."""
        return self.since_open.candidates / max(self.since_open.judged, 1)

    @property
    def verify_drop_rate(self) -> float:
        """The share of the compared candidates that were not similar; 0 if there were none."""
        compared = self.since_open.compared
        return 1.0 - self.since_open.similar / compared if compared else 0.0

    @property
    def empty_bin_rate(self) -> float:
        """The share of the slots of sketches that were empty before they were filled."""
        return self.since_open.empty_slots / max(self.since_open.slots, 1)

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields and properties, for JSON."""
        return asdict(self) | {
            "index_memory_bytes": self.index_memory_bytes,
            "bytes_per_document": self.bytes_per_document,
            "candidate_pairs_per_doc": self.candidate_pairs_per_doc,
            "verify_drop_rate": self.verify_drop_rate,
            "empty_bin_rate": self.empty_bin_rate,
        }


BOUNDS: Final = tuple(float(f"{digit}e{power}") for power in range(-5, 1) for digit in (1, 2, 5))
"""Seconds, from 10 microseconds to 5 seconds; there is one more count for what took longer."""


@dataclass
class Times:
    """A histogram of durations: counts of those up to each bound of BOUNDS.

    >>> times = Times()
    >>> times.add(0.003, 99)
    >>> times.add(0.03, 1)
    >>> quantile(times.counts, 0.99), quantile(times.counts, 1.0)
    (0.005, 0.05)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """Count `count` durations of `seconds` each."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.seconds += seconds * count


def quantile(counts: Sequence[int], share: float) -> float | None:
    """Return the duration that a share of them does not exceed, as Prometheus computes it.

    Durations count as evenly spread inside of a bucket; those beyond the last bound count as that
    bound. None if nothing was counted.
    """
    wanted = share * sum(counts)
    if not wanted:
        return None
    ends = list(accumulate(counts))
    place = bisect_left(ends, wanted)
    if place >= len(BOUNDS):
        return BOUNDS[-1]
    low = BOUNDS[place - 1] if place else 0.0
    return low + (BOUNDS[place] - low) * (1 - (ends[place] - wanted) / counts[place])


@dataclass
class Counters:
    """Counts of the work since the index was opened."""

    judged: int = 0
    looked_up: int = 0
    candidates: int = 0
    compared: int = 0
    similar: int = 0
    judge_seconds: float = 0.0
    added: int = 0
    new: int = 0
    rejected: int = 0
    again: int = 0
    removed: int = 0
    forgotten: int = 0
    """Removed documents that were too old."""
    queries: int = 0
    sketched: int = 0
    slots: int = 0
    empty_slots: int = 0
    sketch_times: Times = field(default_factory=Times)
    """Per document; the documents of a batch share its time equally."""
    commit_times: Times = field(default_factory=Times)

    def count_judged(self, documents: int, judgements: Judgements, seconds: float) -> None:
        """Count documents that the writer has judged."""
        self.judged += documents
        self.judge_seconds += seconds
        self.looked_up += judgements.looked_up
        self.candidates += judgements.candidates
        self.compared += judgements.compared
        self.similar += judgements.similar

    def count_query(self, documents: int, pairs: CandidatePairs, seconds: float) -> None:
        """Count texts that were judged for a query."""
        self.judged += documents
        self.judge_seconds += seconds
        self.candidates += len(pairs.rows)
        self.compared += pairs.compared
        self.similar += int(np.count_nonzero(pairs.similarity >= 0.0))

    def count_answers(self, answers: Sequence[Answer]) -> None:
        """Count the answers to documents that were added."""
        rejected = sum(answer.status == REJECTED for answer in answers)
        again = sum(answer.again for answer in answers)
        self.rejected += rejected
        self.again += again
        self.added += len(answers) - rejected - again
        self.new += sum(answer.status == NEW and not answer.again for answer in answers)
