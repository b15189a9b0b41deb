"""The metrics of the service, in Prometheus' text format.

Events are counted as they happen; the statistics of the index are read when /metrics is requested.
Seven names that are common in MinHash systems have no prefix; all others begin with `neardup_`. A
metric without a value is left out: without a budget, a golden set, or any traffic.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from threading import Lock
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client import generate_latest as rendered
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from neardup.evaluation.scores import Scores
from neardup.index.stats import BOUNDS, Counters, Stats, Times, quantile

WINDOW_SECONDS: Final = 300.0
LOOKS: Final = 10
"""Readings that are kept for a window, however often the counters are read."""


class RecentGrowth:
    """The growth of counters in the last minutes, in bounded memory.

    If a counter has decreased, all counters have restarted at 0. Time is an argument; a clock that
    goes backwards counts as standing still.

    Args:
        window: seconds to look back.
    """

    def __init__(self, window: float = WINDOW_SECONDS) -> None:
        self._window = window
        self._last: Sequence[int] = ()
        self._looks: deque[tuple[float, Sequence[int]]] = deque()

    def since(self, counters: Sequence[int], now: float) -> list[int]:
        """Return the growth since about the start of the window, or since the counters started."""
        zeros = (0,) * len(counters)
        before = self._last or zeros
        if not self._looks or any(new < old for new, old in zip(counters, before, strict=True)):
            self._looks = deque([(-math.inf, zeros)])
        self._last = counters
        now = max(now, self._looks[-1][0])
        if now - self._looks[-1][0] >= self._window / LOOKS:
            self._looks.append((now, counters))
        while self._looks[1][0] <= now - self._window:
            self._looks.popleft()
        return [new - old for new, old in zip(counters, self._looks[0][1], strict=True)]


SIGNATURE_BUDGET: Final = 0.05
"""Seconds allowed for the signature of a document; that of 1 MB takes a tenth of it."""

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
    "neardup_tombstones": (
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
    "neardup_forgotten": ("Removed documents that were too old", lambda c: c.forgotten),
    "neardup_documents_rejected": ("Documents that can't be compared", lambda c: c.rejected),
    "neardup_lookups": ("Documents whose buckets were looked up", lambda c: c.judged),
    "neardup_candidates": ("Documents that they met in buckets", lambda c: c.candidates),
    "neardup_compared": ("Candidates that were compared", lambda c: c.compared),
    "neardup_similar": ("Candidates that were similar enough", lambda c: c.similar),
}


class IndexCollector(Collector):
    """Exports the statistics of the index and the scores of the golden set. Thread-safe.

    Args:
        index_stats: returns the statistics of the index; None while it is being loaded.
        signature_budget: seconds allowed for the signature of a document.
        clock: returns monotonic seconds.
    """

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
        self._upkeep_at: float | None = None

    def set_upkeep(self) -> None:
        with self._lock:
            self._upkeep_at = self._clock()

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
        upkeep: Gauges = {}
        if self._upkeep_at is not None:
            upkeep["neardup_upkeep_age_seconds"] = (
                "Since upkeep was last done",
                max(now - self._upkeep_at, 0.0),
            )
        if self._golden_interval is None:
            return upkeep
        return upkeep | {
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
    """Yield the scores by `texts` (the operating point) and by `index` (its clusters)."""
    recall = {by: scores.recall.value for by, scores in golden.items()}
    precision = {by: scores.precision.value for by, scores in golden.items()}
    pairs = {by: scores.tp + scores.fp + scores.fn + scores.tn for by, scores in golden.items()}
    yield _by("recall_on_labeled_set", "Share of labelled duplicates found", "by", recall)
    yield _by("precision_on_labeled_set", "Share of pairs found labelled so", "by", precision)
    yield _by("neardup_golden_pairs", "Labelled pairs that were checked", "by", pairs)


CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
WATCHED: Final = ("busy", "too_many_requests", "output_error")
"""Reasons that alerts use: exported from 0 on, or the first one would not count as growth."""
SECONDS: Final = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
)


class Metrics:
    """Counts events, and renders them with the statistics of the index. Thread-safe.

    Each instance has a registry of its own.

    Args:
        index_stats: returns the statistics of the index; None while it is being loaded.
        signature_budget: seconds allowed for the signature of a document.
        clock: returns monotonic seconds.
    """

    def __init__(
        self,
        index_stats: Callable[[], Stats | None],
        *,
        signature_budget: float = SIGNATURE_BUDGET,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "neardup_requests",
            "Requests that were answered",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            "neardup_request_seconds",
            "Time to answer a request that is no stream",
            ("route", "method"),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._rejected = Counter(
            "neardup_rejected",
            "Requests and documents that were refused, by why",
            ("reason",),
            registry=self._registry,
        )
        self._upkeep_failures = Counter(
            "neardup_upkeep_failures",
            "Snapshots, switches of the generation and passes that forget documents that failed",
            registry=self._registry,
        )
        self._undated = Gauge(
            "neardup_forget_undated",
            "Documents that are never forgotten, because their metadata has no date",
            registry=self._registry,
        )
        self._dropped_lines = Counter(
            "neardup_log_lines_dropped",
            "Lines of the log that were dropped, because they could not be written in time",
            registry=self._registry,
        )
        self._under_way = Gauge(
            "neardup_under_way",
            "Requests that are being answered, by kind: requests or streams",
            ("kind",),
            registry=self._registry,
        )
        self._connections = Gauge(
            "neardup_open_connections",
            "Connections that are open",
            registry=self._registry,
        )
        self._connections_refused = Counter(
            "neardup_connections_refused",
            "Connections that were closed, because too many were open, in all or of an address",
            registry=self._registry,
        )
        for reason in WATCHED:
            self._rejected.labels(reason)
        ProcessCollector(registry=self._registry)
        self._readings = IndexCollector(index_stats, signature_budget, clock)
        self._registry.register(self._readings)

    def observe_request(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count an answered request.

        Args:
            route: the pattern of the path, of which there are few.
            method: the HTTP method.
            status: the HTTP status.
            seconds: the time to answer; None for a stream, whose client decides how long it takes.
        """
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, method).observe(seconds)

    def observe_rejected(self, reason: str, count: int = 1) -> None:
        """Count refused requests or documents. There are few reasons; none quotes a request."""
        self._rejected.labels(reason).inc(count)

    def observe_upkeep(self) -> None:
        """Note that upkeep was done, or tried, just now."""
        self._readings.set_upkeep()

    def observe_upkeep_failure(self) -> None:
        """Count a snapshot, a switch of the generation or a pass that has failed."""
        self._upkeep_failures.inc()

    def observe_dropped_lines(self, count: int) -> None:
        """Count lines of the log that were dropped."""
        self._dropped_lines.inc(count)

    def watch_places(self, **counts: Callable[[], int]) -> None:
        """Export the requests under way of each kind, which a function returns."""
        for kind, count in counts.items():
            self._under_way.labels(kind).set_function(count)

    def observe_undated(self, documents: int) -> None:
        """Set the number of documents without a date to forget them by."""
        self._undated.set(documents)

    def observe_connections(self, open: int, *, refused: bool = False) -> None:
        """Set the number of open connections, and count one that was refused.

        Args:
            open: the connections that are open now.
            refused: whether one is closed, because too many are open.
        """
        self._connections.set(open)
        if refused:
            self._connections_refused.inc()

    def expect_golden(self, interval: float) -> None:
        """Export the age of the golden set, whose next check is due in `interval` seconds."""
        self._readings.expect_golden(interval)

    def observe_golden(self, scores: Mapping[str, Scores]) -> None:
        """Set the scores of the golden set, by `texts` and by `index`."""
        self._readings.set_golden(scores)

    def render(self) -> bytes:
        """Return all metrics, in Prometheus' text format."""
        return rendered(self._registry)
