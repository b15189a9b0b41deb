"""What does Prometheus see? What happened is counted here; what is, is read when it asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client import generate_latest as rendered

from neardup.evaluation.scores import Scores
from neardup.index.stats import Stats
from neardup.service.readings import SIGNATURE_BUDGET, Readings

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
WATCHED: Final = ("busy", "too_many_requests", "output_error")
"""Reasons that alerts look at: counted from 0 on, or the first one would not be seen as growth."""
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
    """Counts what happens, and renders it with what the index says of itself. Thread-safe.

    `index_stats` gives None while there is no index yet. Each has a registry of its own.
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
        for reason in WATCHED:
            self._rejected.labels(reason)
        ProcessCollector(registry=self._registry)
        self._readings = Readings(index_stats, signature_budget, clock)
        self._registry.register(self._readings)

    def observe_request(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """A request was answered. `route` is the pattern of the path: there are few of them.

        `seconds` is None for a stream, which takes as long as its client likes.
        """
        method = method if method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        if seconds is not None:
            self._seconds.labels(route, method).observe(seconds)

    def observe_rejected(self, reason: str, count: int = 1) -> None:
        """Requests or documents were refused. There are few reasons; none quotes what was sent."""
        self._rejected.labels(reason).inc(count)

    def expect_golden(self, interval: float) -> None:
        """A golden set will be checked in so many seconds: from now on its age is shown."""
        self._readings.expect_golden(interval)

    def observe_golden(self, scores: Mapping[str, Scores]) -> None:
        """The golden set was checked: scores, by what was asked."""
        self._readings.set_golden(scores)

    def render(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return rendered(self._registry)
