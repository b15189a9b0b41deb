"""How is the index now, and how were the last minutes? Put together when somebody asks.

The seven names that people know from MinHash systems have no prefix; all others begin with
`neardup_`. What is not known is not there: without a budget, a golden set, or any traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from neardup.evaluate.scores import Scores
from neardup.service.windows import RecentGrowth, RecentQuantile

if TYPE_CHECKING:
    from neardup.index.stats import Stats

SIGNATURE_BUDGET: Final = 0.05
"""Seconds to make the signature of a document in; that of 1 MB takes a tenth of it."""

Gauges = dict[str, tuple[str, float | None]]
Read = Callable[["Stats"], float | None]

GAUGES: Final[Mapping[str, tuple[str, Read]]] = {
    "bucket_size_p99": ("Documents in a bucket, 99 of 100 have no more", lambda s: s.bucket_p99),
    "index_memory_bytes": ("Bytes of memory that the index holds", lambda s: s.memory_bytes),
    "neardup_bucket_size_max": ("Documents in the largest bucket", lambda s: s.bucket_max),
    "neardup_full_buckets": ("Buckets that take no more documents", lambda s: s.full_buckets),
    "neardup_documents": ("Documents in the index", lambda s: s.documents),
    "neardup_documents_kept": ("Documents that are no copies", lambda s: s.kept),
    "neardup_documents_copies": ("Documents that are copies of kept ones", lambda s: s.copies),
    "neardup_queue_documents": ("Documents that wait to be added", lambda s: s.queue),
    "neardup_queue_limit": ("Documents that may wait", lambda s: s.queue_limit),
    "neardup_sequence": ("The last change of the index", lambda s: s.sequence),
    "neardup_snapshot_sequence": ("The last change in the snapshot", lambda s: s.snapshot_sequence),
    "neardup_snapshot_age_seconds": ("Since the snapshot was taken", lambda s: s.snapshot_age),
    "neardup_wal_bytes": ("Bytes of the write-ahead log", lambda s: s.wal_bytes),
    "neardup_wal_lag_seconds": ("Since the log was last put into the file", lambda s: s.wal_age),
}
COUNTERS: Final[Mapping[str, tuple[str, Read]]] = {
    "neardup_lookups": ("Documents whose buckets were looked up", lambda s: s.lookups),
    "neardup_candidates": ("Documents that they met in buckets", lambda s: s.candidates),
    "neardup_compared": ("Candidates that were compared", lambda s: s.compared),
    "neardup_similar": ("Candidates that were similar enough", lambda s: s.similar),
}


class Readings(Collector):
    """What is not a plain count. Thread-safe."""

    def __init__(
        self, index_stats: Callable[[], Stats | None], memory_budget: int | None,
        signature_budget: float, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._index_stats = index_stats
        self._memory_budget, self._signature_budget = memory_budget, signature_budget
        self._clock, self._lock = clock, Lock()
        self._latency = RecentQuantile()
        self._looked, self._sketched = RecentGrowth(4), RecentGrowth(2)
        self._slots = self._empty_slots = 0
        self._golden_interval: float | None = None
        self._golden_at = 0.0
        self._golden: dict[str, Scores] = {}

    def add_signatures(self, seconds: float, documents: int, slots: int, empty_slots: int) -> None:
        with self._lock:
            self._latency.add(seconds / max(documents, 1), documents, self._clock())
            self._slots += slots
            self._empty_slots += empty_slots

    def expect_golden(self, interval: float) -> None:
        with self._lock:
            self._golden_interval, self._golden_at = interval, self._clock()

    def set_golden(self, scores: Mapping[str, Scores]) -> None:
        with self._lock:
            self._golden, self._golden_at = dict(scores), self._clock()

    def collect(self) -> Iterator[Metric]:
        stats = self._index_stats()
        with self._lock:
            now = self._clock()
            gauges = self._settings() | self._last_minutes(now) | self._watch(now)
            golden = self._golden
            if stats is not None:
                gauges |= self._work(stats, now)
        if stats is not None:
            gauges |= {name: (help, read(stats)) for name, (help, read) in GAUGES.items()}
            yield from _counted(stats)
        gauges["neardup_ready"] = "Whether the index is loaded", float(stats is not None)
        for name, (help, value) in gauges.items():
            if value is not None:
                yield GaugeMetricFamily(name, help, value=value)
        yield from _scored(golden)

    def _settings(self) -> Gauges:
        return {
            "neardup_memory_budget_bytes": ("Bytes it may hold in memory", self._memory_budget),
            "neardup_signature_budget_seconds": (
                "Seconds to make a document's signature in", self._signature_budget,
            ),
        }  # fmt: skip

    def _last_minutes(self, now: float) -> Gauges:
        slots, empty = self._sketched.since((self._slots, self._empty_slots), now)
        return {
            "signature_build_latency_p99": (
                "Seconds to make a document's signature, 99 of 100 take no more",
                self._latency.quantile(0.99, now),
            ),
            "empty_bin_rate": ("Share of slots that no shingle fell into", _share(empty, slots)),
        }

    def _work(self, stats: Stats, now: float) -> Gauges:
        counters = stats.lookups, stats.candidates, stats.compared, stats.similar
        lookups, candidates, compared, similar = self._looked.since(counters, now)
        return {
            "candidate_pairs_per_doc": (
                "Documents that one meets in its buckets", _share(candidates, lookups),
            ),
            "verify_drop_rate": (
                "Share of compared candidates that were not similar",
                _share(compared - similar, compared),
            ),
        }  # fmt: skip

    def _watch(self, now: float) -> Gauges:
        if self._golden_interval is None:
            return {}
        return {
            "neardup_golden_age_seconds": (
                "Since the golden set was checked", now - self._golden_at,
            ),
            "neardup_golden_interval_seconds": (
                "Seconds between its checks", self._golden_interval,
            ),
        }  # fmt: skip


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _counted(stats: Stats) -> Iterator[Metric]:
    for name, (help, read) in COUNTERS.items():
        yield CounterMetricFamily(name, help, value=read(stats) or 0)
    parts = GaugeMetricFamily(
        "neardup_memory_bytes", "Bytes of memory that the index holds, by part", labels=("part",)
    )
    for part, size in stats.memory.items():
        parts.add_metric((part,), size)
    yield parts


def _scored(golden: Mapping[str, Scores]) -> Iterator[Metric]:
    """By `texts`, what the operating point says of them; by `index`, what the index does."""
    families = {
        "recall_on_labeled_set": ("Of the labelled duplicates, the share that is found", "recall"),
        "precision_on_labeled_set": (
            "Of the pairs that are found, the share that is labelled so", "precision",
        ),
    }  # fmt: skip
    for name, (help, share) in families.items():
        family = GaugeMetricFamily(name, help, labels=("by",))
        for by, scores in golden.items():
            value = getattr(scores, share).value
            if value is not None:
                family.add_metric((by,), value)
        yield family
    pairs = GaugeMetricFamily("neardup_golden_pairs", "Labelled pairs checked", labels=("by",))
    for by, scores in golden.items():
        pairs.add_metric((by,), scores.tp + scores.fp + scores.fn + scores.tn)
    yield pairs
