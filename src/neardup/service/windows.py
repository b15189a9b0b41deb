"""What happened in the last minutes? Bounded memory, whatever the traffic.

Time comes in as an argument. One that goes backwards counts as standing still.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import Final

WINDOW: Final = 300.0
"""Seconds that are looked back."""
SLICES: Final = 10
STEP: Final = math.log(1.1)
"""Values are told apart if one is a tenth more than the other."""
LEAST: Final = 1e-9


class RecentQuantile:
    """A quantile of the values of the last minutes, at most a tenth too high.

    Values are counted by their logarithm, in slices of the window; the oldest slice goes as a
    whole.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._each = window / SLICES
        self._slices: deque[tuple[int, Counter[int]]] = deque()

    def add(self, value: float, count: int, now: float) -> None:
        """The same value, so many times."""
        if count <= 0:
            return
        place = math.ceil(math.log(max(value, LEAST)) / STEP)
        self._current(now)[place] += count

    def quantile(self, share: float, now: float) -> float | None:
        """The least value that at least this share of the values does not exceed; None of none."""
        self._current(now)
        counted: Counter[int] = Counter()
        for _, counts in self._slices:
            counted.update(counts)
        wanted, seen = share * counted.total(), 0
        for place in sorted(counted):
            seen += counted[place]
            if seen >= wanted:
                return math.exp(place * STEP)
        return None

    def _current(self, now: float) -> Counter[int]:
        """The counts of this slice; those that are too old are dropped."""
        number = int(now // self._each)
        if not self._slices or number > self._slices[-1][0]:
            self._slices.append((number, Counter()))
        newest, counts = self._slices[-1]
        while self._slices[0][0] <= newest - SLICES:
            self._slices.popleft()
        return counts


class RecentGrowth:
    """By how much counters have grown in the last minutes, asked again and again.

    A counter that is less than it was has begun again at 0, and so have the others.
    """

    def __init__(self, counters: int, window: float = WINDOW) -> None:
        self._window = window
        self._last = (0,) * counters
        self._looks = deque([(-math.inf, self._last)])

    def since(self, counters: tuple[int, ...], now: float) -> tuple[int, ...]:
        """Since about the beginning of the window, or since the counters began."""
        now = max(now, self._looks[-1][0])
        if any(new < old for new, old in zip(counters, self._last, strict=True)):
            self._looks = deque([(-math.inf, (0,) * len(counters))])
        self._last = counters
        if now - self._looks[-1][0] >= self._window / SLICES:
            self._looks.append((now, counters))
        while self._looks[1][0] <= now - self._window:
            self._looks.popleft()
        before = self._looks[0][1]
        return tuple(new - old for new, old in zip(counters, before, strict=True))
