"""How is the index now, and how were the last minutes? Put together when somebody asks.

The seven names that people know from MinHash systems have no prefix; all others begin with
`neardup_`. What is not known is not there: without a budget, a golden set, or any traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from threading import Lock
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from neardup.evaluation.scores import Scores
from neardup.index.stats import Stats
from neardup.index.times import BOUNDS, Times, quantile
from neardup.index.work import Counters
from neardup.service.windows import RecentGrowth

SIGNATURE_BUDGET: Final = 0.05
"""Seconds to make the signature of a document in; that of 1 MB takes a tenth of it."""

Gauges = dict[str, tuple[str, float | None]]

GAUGES: Final[Mapping[str, tuple[str, Callable[[Stats], float | None]]]] = {
    "bucket_size_p99": ("Documents in a bucket, 99 of 100 have no more", lambda s: s.buckets.p99),
    "index_memory_bytes": ("Memory that the index holds", lambda s: s.index_memory_bytes),
    "neardup_memory_budget_bytes": ("Memory that it may hold", lambda s: s.memory_budget),
    "neardup_buckets": ("Buckets", lambda s: s.buckets.buckets),
    "neardup_bucket_size_max": ("Documents in the largest bucket", lambda s: s.buckets.largest),
    "neardup_full_buckets": (
        "Buckets of which only the first documents are compared",
        lambda s: s.buckets.full,
    ),
    "neardup_documents": ("Documents in the index", lambda s: s.documents),
    "neardup_documents_kept": ("Documents that are no copies", lambda s: s.kept),
    "neardup_documents_copies": ("Documents that are copies of kept ones", lambda s: s.copies),
    "neardup_documents_buried": (
        "Removed documents that tables hold until compaction",
        lambda s: s.buried,
    ),
    "neardup_queue_documents": ("Documents that wait to be added", lambda s: s.queue),
    "neardup_queue_limit": ("Documents that may wait", lambda s: s.queue_limit),
    "neardup_sequence": ("The last change of the index", lambda s: s.sequence),
    "neardup_snapshot_sequence": ("The last change in the snapshot", lambda s: s.snapshot_sequence),
    "neardup_wal_bytes": ("What is safe, but not in the main file yet", lambda s: s.wal_bytes),
}
COUNTERS: Final[Mapping[str, tuple[str, Callable[[Counters], int]]]] = {
    "neardup_queries": ("Texts that were asked about", lambda c: c.queries),
    "neardup_added": ("Documents that were added", lambda c: c.added),
    "neardup_removed": ("Documents that were removed", lambda c: c.removed),
    "neardup_documents_rejected": ("Documents that can't be compared", lambda c: c.rejected),
    "neardup_lookups": ("Documents whose buckets were looked up", lambda c: c.judged),
    "neardup_candidates": ("Documents that they met in buckets", lambda c: c.candidates),
    "neardup_compared": ("Candidates that were compared", lambda c: c.compared),
    "neardup_similar": ("Candidates that were similar enough", lambda c: c.similar),
}


class Readings(Collector):
    """What is not counted here, but by others. Thread-safe."""

    def __init__(
        self,
        index_stats: Callable[[], Stats | None],
        signature_budget: float,
        clock: Callable[[], float],
    ) -> None:
        self._index_stats, self._signature_budget, self._clock = (
            index_stats,
            signature_budget,
            clock,
        )
        self._lock = Lock()
        self._growth, self._times = RecentGrowth(), RecentGrowth()
        self._golden_interval: float | None = None
        self._golden_at = 0.0
        self._golden: dict[str, Scores] = {}

    def expect_golden(self, interval: float) -> None:
        with self._lock:
            if self._golden_interval is None:
                self._golden_at = self._clock()
            self._golden_interval = interval

    def set_golden(self, scores: Mapping[str, Scores]) -> None:
        with self._lock:
            self._golden, self._golden_at = dict(scores), self._clock()

    def collect(self) -> Iterator[Metric]:
        stats = self._index_stats()
        with self._lock:
            now = self._clock()
            gauges, golden = self._watch(now), self._golden
            if stats is not None:
                gauges |= self._last_minutes(stats.since_open, now)
        gauges["neardup_ready"] = "Whether the index is loaded", float(stats is not None)
        if stats is not None:
            gauges |= {name: (help, read(stats)) for name, (help, read) in GAUGES.items()}
            yield from _counted(stats.since_open)
            yield _by("neardup_memory_bytes", "Memory, by part", "part", stats.memory_bytes)
            yield _by("neardup_disk_bytes", "Bytes on disk, by file", "file", stats.disk_bytes)
        for name, (help, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(name, help, value=value)
        yield from _scored(golden)

    def _last_minutes(self, done: Counters, now: float) -> Gauges:
        counters = (
            done.judged,
            done.candidates,
            done.compared,
            done.similar,
            done.slots,
            done.empty_slots,
        )
        judged, candidates, compared, similar, slots, empty = self._growth.since(counters, now)
        times = self._times.since(tuple(done.sketch_times.counts), now)
        return {
            "candidate_pairs_per_doc": (
                "Documents that one meets in its buckets",
                _share(candidates, judged),
            ),
            "verify_drop_rate": (
                "Share of compared candidates that were not similar",
                _share(compared - similar, compared),
            ),
            "empty_bin_rate": ("Share of slots that no shingle fell into", _share(empty, slots)),
            "signature_build_latency_p99": (
                "Seconds to make a document's signature, 99 of 100 take no more",
                quantile(times, 0.99),
            ),
            "neardup_signature_budget_seconds": (
                "Seconds to make a document's signature in",
                self._signature_budget,
            ),
        }

    def _watch(self, now: float) -> Gauges:
        if self._golden_interval is None:
            return {}
        return {
            "neardup_golden_age_seconds": (
                "Since the golden set was checked",
                max(now - self._golden_at, 0.0),
            ),
            "neardup_golden_interval_seconds": (
                "Seconds between its checks",
                self._golden_interval,
            ),
        }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _counted(done: Counters) -> Iterator[Metric]:
    for name, (help, read) in COUNTERS.items():
        yield CounterMetricFamily(name, help, value=read(done))
    yield _timed("neardup_signature_seconds", "Time to make a signature", done.sketch_times)
    yield _timed("neardup_commit_seconds", "Time to store added documents", done.commit_times)


def _timed(name: str, help: str, times: Times) -> Metric:
    ends = zip([*map(str, BOUNDS), "+Inf"], accumulate(times.counts), strict=True)
    return HistogramMetricFamily(name, help, buckets=list(ends), sum_value=times.seconds)


def _by(name: str, help: str, label: str, values: Mapping[str, float | None]) -> Metric:
    family = GaugeMetricFamily(name, help, labels=(label,))
    for key, value in values.items():
        if value is not None:
            family.add_metric((key,), value)
    return family


def _scored(golden: Mapping[str, Scores]) -> Iterator[Metric]:
    """By `texts`, what the operating point says of them; by `index`, what the index does."""
    recall = {by: scores.recall.value for by, scores in golden.items()}
    precision = {by: scores.precision.value for by, scores in golden.items()}
    pairs = {by: scores.tp + scores.fp + scores.fn + scores.tn for by, scores in golden.items()}
    yield _by("recall_on_labeled_set", "Share of labelled duplicates found", "by", recall)
    yield _by("precision_on_labeled_set", "Share of pairs found labelled so", "by", precision)
    yield _by("neardup_golden_pairs", "Labelled pairs that were checked", "by", pairs)
