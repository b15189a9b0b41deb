"""How long did things take? Counted by duration, so that any share can be told afterwards."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

BOUNDS: Final = tuple(float(f"{digit}e{power}") for power in range(-5, 1) for digit in (1, 2, 5))
"""Seconds, from 10 microseconds to 5 seconds; there is one more count for what took longer."""


@dataclass
class Times:
    """How many took no longer than each bound, and longer than the one before it.

    >>> times = Times()
    >>> times.add(0.003, 99)
    >>> times.add(0.03, 1)
    >>> quantile(times.counts, 0.99), quantile(times.counts, 1.0)
    (0.005, 0.05)
    """

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    seconds: float = 0.0

    def add(self, seconds: float, count: int = 1) -> None:
        """So many of them, each took so long."""
        self.counts[bisect_left(BOUNDS, seconds)] += count
        self.seconds += seconds * count


def quantile(counts: Sequence[int], share: float) -> float | None:
    """What this share of them does not exceed, as Prometheus would say it; None of none.

    Inside of a bucket they count as evenly spread; what is beyond the last bound counts as that.
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
