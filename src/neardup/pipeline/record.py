"""Build the content of run.json, and the part of it that the terminal shows."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

import neardup
from neardup import kernels
from neardup.cluster import count_beyond_cap
from neardup.corpus.inputs import InputFile, InputOptions, find_inputs
from neardup.corpus.shards import Shard
from neardup.formats.tables import write_json
from neardup.lsh.curve import format_layout
from neardup.options import Options
from neardup.pipeline.backends.backend import Advance, Backend
from neardup.pipeline.budget import peak_memory
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.run_inputs import describe_file, describe_reading, hash_file
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.decide import RoundTally
from neardup.pipeline.stages.rank import Ranking
from neardup.pipeline.stages.tables import TableSummary
from neardup.runtime import map_in_order
from neardup.spec import Spec
from neardup.text.lines import IgnoredLines

LISTED_BUCKETS = 100
LISTED_REASONS = 20
LISTED_LINES = 50
SAMPLED_MEMBERS = 3


class StageClock:
    """Measures the seconds and the peak memory of each stage."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self.stages: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure the block as stage `name`."""
        begun = time.perf_counter()
        yield
        seconds = round(time.perf_counter() - begun, 4)
        self.stages.append({"name": name, "seconds": seconds, "peak_memory_bytes": peak_memory()})

    @property
    def seconds(self) -> dict[str, float]:
        """Seconds by stage, and the total."""
        stages = {stage["name"]: stage["seconds"] for stage in self.stages}
        return stages | {"total": round(time.perf_counter() - self._begun, 4)}


@dataclass(frozen=True)
class FinishedRun:
    """A finished run: the content of run.json, and what the terminal shows besides.

    largest   the largest clusters: (name of the kept document, copies)
    examples  removed documents: (name, name of the witness, decisive similarity, whether that is
              the cosine of two signals)
    options   the matching options, with what the run has counted
    """

    record: dict[str, Any]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float, bool]]
    options: Options


@dataclass
class RunCounts:
    """How many documents a run had, and how many went which way.

    documents  new documents, without those of an earlier corpus
    identical  removed documents that are identical to another one
    reasons    rejected documents by reason
    earlier    documents of the earlier corpus
    by_earlier removed documents whose witness is in the earlier corpus; None if it is not counted
    vetoed     kept documents that would be removed without --distinguish or --unless; None without
    undated    documents without a date, if the keep policy compares dates
    dropped    removed documents that were dropped by decisions; None without decisions
    by_signal  removed documents by the signal that removed them; None without two signals
    """

    documents: int
    removed: int
    identical: int
    tally: RoundTally
    reasons: Counter[str] = field(default_factory=Counter)
    earlier: int = 0
    by_earlier: int | None = None
    vetoed: int | None = None
    undated: int = 0
    dropped: int | None = None
    by_signal: dict[str, int] | None = None

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    @property
    def splits_removed(self) -> bool:
        """Whether there is an earlier corpus, and it is known what was removed because of it."""
        return self.earlier > 0 and self.by_earlier is not None


def describe_run(job: Job, counts: RunCounts) -> dict[str, Any]:
    """Return the specification, parameters, counts and metrics for run.json."""
    options, columns, meeting = job.options, job.columns, job.options.meeting
    verified = counts.tally.verified
    return {
        "version": neardup.__version__,
        "spec": options.spec.stated,
        "fingerprint": options.spec.fingerprint,
        "parameters": {
            "threshold": options.threshold,
            "recall": options.recall,
            **_describe_tables(options),
            "verify": options.verify,
            "measure": options.measure,
            "keep": options.keep,
            "cluster": options.cluster,
            "limit": options.limit,
            **job.described_columns,
            "within": columns.within,
            "distinguish": str(options.distinguish),
            **({} if options.vectors is None else options.vectors.stated),
            "workers": job.workers,
            "pairs": job.pairs,
            "kept_files": job.kept,
            "strict": job.strict,
            "skip_bad_files": job.skip_bad_files,
            **describe_input_options(job),
            **describe_limits(job),
            "prefer": job.prefer,
            "against": list(job.against_names or map(str, job.against)),
            "strip": str(options.strip),
            "save_sketches": job.save_sketches,
            **({} if job.annotate is None else {"annotate": job.annotate}),
            "keep_full": job.keep_full,
        },
        "reading": describe_reading(job.reading),
        "counts": {
            "documents": counts.documents,
            "kept": counts.documents - counts.removed - counts.rejected,
            "removed": counts.removed,
            "rejected": counts.rejected,
            "identical": counts.identical,
            "comparisons": verified,
            "earlier": counts.earlier,
            **({"removed_by_earlier": counts.by_earlier} if counts.splits_removed else {}),
            **({} if counts.vetoed is None else {"vetoed": counts.vetoed}),
            **({} if counts.dropped is None else {"dropped": counts.dropped}),
            **describe_undated(options, counts.undated),
        },
        **({} if counts.by_signal is None else {"removed_by": counts.by_signal}),
        "reasons": dict(counts.reasons.most_common(LISTED_REASONS)),
        **describe_unread(job),
        "predicted": {
            "recall_at_threshold": meeting.probability(options.threshold),
            "false_candidate_rate": meeting.false_positive_rate(options.threshold),
            **_predict_vectors(options),
        },
        **({"vector_curve": options.vectors.points} if options.vectors is not None else {}),
        "metrics": {
            "candidate_pairs_per_doc": verified / max(counts.documents, 1),
            "verify_drop_rate": (verified - counts.tally.similar) / max(verified, 1),
            "rounds": counts.tally.rounds,
        },
    }


def describe_undated(options: Options, undated: int) -> dict[str, int]:
    """Return the count of documents without a date, if the keep policy compares dates."""
    return {"undated": undated} if options.keep_policy.dates else {}


def describe_input_options(job: Job) -> dict[str, Any]:
    """Return the parameters about input files for run.json."""
    defaults = inspect.signature(find_inputs).parameters
    used = {name: defaults[name].default for name in InputOptions.__annotations__}
    used |= job.input_options
    lists = {name: list(used[name]) for name in ("include", "exclude")}
    return used | lists | {"max_rejected": job.max_rejected}


def describe_limits(job: Job) -> dict[str, Any]:
    """Return the column of sources and the limits of what may be removed, where they are given."""
    source = job.columns.source
    return ({} if source is None else {"source": source}) | job.limits.stated


def describe_unread(job: Job) -> dict[str, Any]:
    """Return the files that were found and not read, and the hints, for run.json."""
    return {"unread_files": job.unread.describe(), "hints": list(job.hints)}


def _describe_tables(options: Options) -> dict[str, Any]:
    """Return the hash tables; with `bands` and `rows` where all bands have the same rows."""
    if options.spec.of_vectors:
        return {}  # the parameter `vectors` has the planes
    if options.by_bits:
        return {"hamming": options.hamming, "blocks": options.blocks, "weights": options.weights}
    first, *others = options.curve.parts
    weights = {"weights": options.weights} if options.spec.of_bags else {}
    return {
        "bands": None if others else first.bands,
        "rows": None if others else first.rows,
        "tables": format_layout(options.curve),
        **weights,
    }


def _predict_vectors(options: Options) -> dict[str, float]:
    """Return the predicted recall at the least cosine, if vectors find candidates beside texts."""
    signal = options.vectors
    if signal is None or not signal.finds or options.spec.of_vectors:
        return {}
    return {"recall_at_cosine": signal.meeting.probability(signal.threshold)}


def measure_empty_bins(spec: Spec, sketches: Sketches) -> dict[str, float]:
    """Return the share of slots that were empty before densification (one-permutation sketches)."""
    if spec.sketch != "oneperm":
        return {}
    new = [block for block in sketches.blocks if block.start >= sketches.first_new]
    documents = sum(int(np.count_nonzero(block.usable())) for block in new)
    empty = sum(block.empty_slots for block in new)
    return {"empty_bin_rate": empty / max(documents * spec.slots, 1)}


def describe_ignored_lines(ignored: IgnoredLines) -> dict[str, Any]:
    """Return the number of ignored lines, and the most frequent ones; {} if there are none."""
    if not len(ignored):
        return {}
    listed = [
        {"line": line, "documents": documents}
        for line, documents in ignored.most_frequent()[:LISTED_LINES]
    ]
    return {"ignored_lines": {"count": len(ignored), "listed": listed}}


@dataclass(frozen=True)
class HotBucket:
    """A bucket with many members: its size, and a sample of its members' ranks.

    beyond  how many members count as leaders no more, because the bucket is full
    """

    size: int
    beyond: int
    band: int
    key: int
    members: NDArray[np.int64]


class BucketStatistics:
    """The sizes of all buckets, with the largest and the fullest ones.

    Made after the documents are decided: how full a bucket is depends on which documents are kept.
    """

    def __init__(
        self,
        buckets: BucketFiles,
        limit: int,
        state: NDArray[np.uint8],
        roots: NDArray[np.uint32] | None,
    ) -> None:
        self.count = self.full = 0
        self._sizes = np.zeros(1, np.int64)
        self._largest: list[HotBucket] = []
        self._fullest: list[HotBucket] = []
        for batch in buckets:
            if roots is None:
                kept = kernels.kept_in(batch.members, batch.starts, state)
                beyond = np.maximum(kept - limit, 0)
            else:
                beyond = count_beyond_cap(roots[batch.members].astype(np.int64), batch.starts)
            self._count(batch.sizes)
            self.full += int(np.count_nonzero(beyond))
            hot = [
                HotBucket(
                    int(batch.sizes[g]),
                    int(beyond[g]),
                    batch.band,
                    int(batch.keys[g]),
                    batch.members[batch.starts[g] : batch.starts[g + 1]][:SAMPLED_MEMBERS].astype(
                        np.int64
                    ),
                )
                for g in {*_find_largest(batch.sizes), *_find_largest(beyond)}
            ]
            self._largest = _sort_hottest([*self._largest, *hot], lambda one: one.size)
            self._fullest = _sort_hottest([*self._fullest, *hot], lambda one: one.beyond)

    def _count(self, sizes: NDArray[np.int64]) -> None:
        self.count += len(sizes)
        counted = np.bincount(sizes)
        longer, other = sorted((self._sizes, counted), key=len, reverse=True)
        self._sizes = longer.copy()
        self._sizes[: len(other)] += other

    def metrics(self) -> dict[str, Any]:
        """Return the number of buckets, and the 99th percentile of their sizes."""
        if not self.count:
            return {"buckets": 0, "bucket_size_p99": 0}
        ninety_nine = np.searchsorted(np.cumsum(self._sizes), 0.99 * self.count)
        return {"buckets": self.count, "bucket_size_p99": int(ninety_nine)}

    def describe(self, catalogue: Catalogue, ranking: Ranking) -> dict[str, Any]:
        """Return the largest and the fullest buckets, with the names of their first members."""
        full = [one for one in self._fullest if one.beyond]
        described = _describe_buckets([*self._largest, *full], catalogue, ranking)
        largest = len(self._largest)
        return {
            "hot_buckets": described[:largest],
            "full_buckets": {"count": self.full, "listed": described[largest:]},
        }


def _find_largest(values: NDArray[np.int64]) -> list[int]:
    return np.argsort(-values, kind="stable")[:LISTED_BUCKETS].tolist()  # type: ignore[no-any-return]


def _sort_hottest(buckets: list[HotBucket], by: Callable[[HotBucket], int]) -> list[HotBucket]:
    return sorted(buckets, key=lambda one: (-by(one), one.band, one.key))[:LISTED_BUCKETS]


def _describe_buckets(
    buckets: list[HotBucket], catalogue: Catalogue, ranking: Ranking
) -> list[dict[str, Any]]:
    """Describe buckets; their members are named together, as that goes through all sketches."""
    members = np.concatenate([np.zeros(0, np.int64), *(one.members for one in buckets)])
    names = iter(catalogue.names(ranking.documents(members)).to_pylist())
    return [
        {
            "band": one.band,
            "key": f"{one.key:016x}",
            "size": one.size,
            "not_compared": one.beyond,
            "sample": list(islice(names, len(one.members))),
        }
        for one in buckets
    ]


def hash_files(
    items: Iterable[InputFile], threads: int, advance: Advance
) -> Iterator[tuple[int, str]]:
    """Yield the size and the hash of each file: the work of `InputHasher`."""
    for _, hashed in map_in_order(items, hash_file, threads):
        yield hashed
        advance(1)


class InputHasher:
    """Has input files hashed in a thread, while the stages after reading work on other data."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._pool = backend, ThreadPoolExecutor(1)
        self._hashes: Future[dict[InputFile, tuple[int, str]]] = Future()
        self._stopped = False

    def add(self, *files: InputFile) -> None:
        """Queue files to be hashed."""
        self._hashes = self._pool.submit(self._hash, files)

    def _hash(self, files: Sequence[InputFile]) -> dict[InputFile, tuple[int, str]]:
        hashed = self._backend.run(hash_files, files, 1, self._go_on)
        return dict(zip(files, hashed, strict=True))

    def _go_on(self, _: int) -> None:
        if self._stopped:
            raise CancelledError

    def inputs(self, catalogue: Catalogue) -> list[dict[str, Any]]:
        """Return the size, the hash, the number of documents and the source of each new input."""
        described = []
        counts = np.diff(catalogue.starts)[catalogue.new :].tolist()
        for file, rows in zip(catalogue.files[catalogue.new :], counts, strict=True):
            size, digest = self._hashes.result()[file]
            described.append(
                {
                    "file": file.name,
                    "size": size,
                    "documents": rows,
                    "xxh3_128": digest,
                    "source": describe_file(file),
                }
            )
        return described

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._pool.shutdown(cancel_futures=True)


def finish_run(
    job: Job,
    folder: Path,
    described: dict[str, Any],
    summary: TableSummary,
    clock: StageClock,
    inputs: Sequence[Shard],
) -> FinishedRun:
    """Write run.json, then call `job.finish`. An error if an input has changed since it was read.

    `described` is the content of run.json without times and memory.
    """
    for shard in inputs:
        shard.check()
    described |= {
        "seconds": clock.seconds,
        "stages": clock.stages,
        "peak_memory_bytes": peak_memory(),
        "memory_budget_bytes": job.budget.total,
    }
    write_json(folder / RUN_FILE, described)
    job.finish(folder)
    return FinishedRun(described, summary.largest, summary.examples, job.options)
