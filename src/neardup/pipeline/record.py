"""The content of run.json, and the values of it that a terminal shows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

import neardup
from neardup import kernels
from neardup.cluster import count_beyond_cap
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Shard
from neardup.corpus.streams import name_read_errors
from neardup.formats.tables import write_json
from neardup.lsh.curve import format_layout
from neardup.options import Options
from neardup.pipeline.budget import peak_memory
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.band import BucketFiles
from neardup.pipeline.stages.decide import RoundTally
from neardup.pipeline.stages.rank import Ranking
from neardup.pipeline.stages.tables import TableSummary
from neardup.spec import Spec
from neardup.text.lines import IgnoredLines

LISTED_BUCKETS = 100
LISTED_REASONS = 20
LISTED_LINES = 50
SAMPLED_MEMBERS = 3


class StageClock:
    """Seconds and memory by stage."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self.stages: list[dict[str, Any]] = []

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        seconds = round(time.perf_counter() - begun, 4)
        self.stages.append({"name": name, "seconds": seconds, "peak_memory_bytes": peak_memory()})

    @property
    def seconds(self) -> dict[str, float]:
        stages = {stage["name"]: stage["seconds"] for stage in self.stages}
        return stages | {"total": round(time.perf_counter() - self._begun, 4)}


@dataclass(frozen=True)
class FinishedRun:
    """What a run leaves: its record, as in run.json, and what the terminal shows of it."""

    record: dict[str, Any]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float]]


@dataclass
class RunCounts:
    """What came out."""

    documents: int
    removed: int
    identical: int
    tally: RoundTally
    reasons: Counter[str] = field(default_factory=Counter)
    earlier: int = 0

    @property
    def rejected(self) -> int:
        return self.reasons.total()


def describe_run(job: Job, counts: RunCounts) -> dict[str, Any]:
    """What was asked for, and what came out."""
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
            "text": columns.text,
            "id": None if job.merge_rows else columns.id,
            "within": columns.within,
            "workers": job.workers,
            "pairs": job.pairs,
            "kept_files": job.kept,
            "strict": job.strict,
            "skip_bad_files": job.skip_bad_files,
            "prefer": job.prefer,
            "against": [str(path) for path in job.against],
            "strip": str(options.strip),
            "save_sketches": job.save_sketches,
            "keep_full": job.keep_full,
            "merge_rows": columns.id if job.merge_rows else None,
        },
        "counts": {
            "documents": counts.documents,
            "kept": counts.documents - counts.removed - counts.rejected,
            "removed": counts.removed,
            "rejected": counts.rejected,
            "identical": counts.identical,
            "comparisons": verified,
            "earlier": counts.earlier,
        },
        "reasons": dict(counts.reasons.most_common(LISTED_REASONS)),
        "predicted": {
            "recall_at_threshold": meeting.probability(options.threshold),
            "false_candidate_rate": meeting.false_positive_rate(options.threshold),
        },
        "metrics": {
            "candidate_pairs_per_doc": verified / max(counts.documents, 1),
            "verify_drop_rate": (verified - counts.tally.similar) / max(verified, 1),
            "rounds": counts.tally.rounds,
        },
    }


def _describe_tables(options: Options) -> dict[str, Any]:
    """The tables; bands and rows by themselves where all are alike."""
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


def measure_empty_bins(spec: Spec, sketches: Sketches) -> dict[str, float]:
    """Of a one-permutation sketch: the share of slots that were empty before they were filled."""
    if spec.sketch != "oneperm":
        return {}
    new = [block for block in sketches.blocks if block.start >= sketches.first_new]
    documents = sum(int(np.count_nonzero(block.usable())) for block in new)
    empty = sum(block.empty_slots for block in new)
    return {"empty_bin_rate": empty / max(documents * spec.slots, 1)}


def describe_ignored_lines(ignored: IgnoredLines) -> dict[str, Any]:
    """The lines that were ignored: how many, and the most frequent ones."""
    if not len(ignored):
        return {}
    listed = [
        {"line": line, "documents": documents}
        for line, documents in ignored.most_frequent()[:LISTED_LINES]
    ]
    return {"ignored_lines": {"count": len(ignored), "listed": listed}}


@dataclass(frozen=True)
class HotBucket:
    """A bucket with many members, of which some are not compared with each other."""

    size: int
    beyond: int
    band: int
    key: int
    members: NDArray[np.int64]


class BucketStatistics:
    """The sizes of all buckets, and the largest and the full ones. Read them when decided."""

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
        for some in buckets:
            if roots is None:
                kept = kernels.kept_in(some.members, some.starts, state)
                beyond = np.maximum(kept - limit, 0)
            else:
                beyond = count_beyond_cap(roots[some.members].astype(np.int64), some.starts)
            self._count(some.sizes)
            self.full += int(np.count_nonzero(beyond))
            hot = [
                HotBucket(
                    int(some.sizes[g]),
                    int(beyond[g]),
                    some.band,
                    int(some.keys[g]),
                    some.members[some.starts[g] : some.starts[g + 1]][:SAMPLED_MEMBERS].astype(
                        np.int64
                    ),
                )
                for g in {*_find_largest(some.sizes), *_find_largest(beyond)}
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
        if not self.count:
            return {"buckets": 0, "bucket_size_p99": 0}
        ninety_nine = np.searchsorted(np.cumsum(self._sizes), 0.99 * self.count)
        return {"buckets": self.count, "bucket_size_p99": int(ninety_nine)}

    def describe(self, catalogue: Catalogue, ranking: Ranking) -> dict[str, Any]:
        full = [one for one in self._fullest if one.beyond]
        return {
            "hot_buckets": [_describe_bucket(one, catalogue, ranking) for one in self._largest],
            "full_buckets": {
                "count": self.full,
                "listed": [_describe_bucket(one, catalogue, ranking) for one in full],
            },
        }


def _find_largest(values: NDArray[np.int64]) -> list[int]:
    return np.argsort(-values, kind="stable")[:LISTED_BUCKETS].tolist()  # type: ignore[no-any-return]


def _sort_hottest(found: list[HotBucket], by: Callable[[HotBucket], int]) -> list[HotBucket]:
    return sorted(found, key=lambda one: (-by(one), one.band, one.key))[:LISTED_BUCKETS]


def _describe_bucket(bucket: HotBucket, catalogue: Catalogue, ranking: Ranking) -> dict[str, Any]:
    sample = catalogue.names(ranking.documents(bucket.members)).to_pylist()
    return {
        "band": bucket.band,
        "key": f"{bucket.key:016x}",
        "size": bucket.size,
        "not_compared": bucket.beyond,
        "sample": sample,
    }


class InputHasher:
    """The hashes of the inputs, made beside the other work, when each has been read."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._found: dict[InputFile, Future[tuple[int, str]]] = {}

    def add(self, *files: InputFile) -> None:
        """Hash some files soon."""
        for file in files:
            self._found[file] = self._pool.submit(hash_file, file)

    def inputs(self, catalogue: Catalogue) -> list[dict[str, Any]]:
        """Each input's size, hash and number of documents."""
        described = []
        counts = np.diff(catalogue.starts)[catalogue.new :].tolist()
        for file, rows in zip(catalogue.files[catalogue.new :], counts, strict=True):
            size, digest = self._found[file].result()
            described.append(
                {"file": file.name, "size": size, "documents": rows, "xxh3_128": digest}
            )
        return described

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def hash_file(file: InputFile) -> tuple[int, str]:
    """A file's size and the hash of its bytes."""
    digest, size = xxhash.xxh3_128(), 0
    with name_read_errors(file), open(file.path, "rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return size, digest.hexdigest()


def finish_run(
    job: Job,
    folder: Path,
    made: dict[str, Any],
    summary: TableSummary,
    clock: StageClock,
    inputs: Sequence[Shard],
) -> FinishedRun:
    """run.json, if no input has changed meanwhile; and what else is made when it is there."""
    for shard in inputs:
        shard.check()
    made |= {
        "seconds": clock.seconds,
        "stages": clock.stages,
        "peak_memory_bytes": peak_memory(),
        "memory_budget_bytes": job.budget.total,
    }
    write_json(folder / RUN_FILE, made)
    job.finish(folder)
    return FinishedRun(made, summary.largest, summary.examples)
