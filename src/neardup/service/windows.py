"""By how much have counters grown in the last minutes?

Time comes in as an argument. One that goes backwards counts as standing still.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Final

WINDOW: Final = 300.0
"""Seconds that are looked back."""
LOOKS: Final = 10
"""So many looks are remembered in a window, however often somebody looks."""


class RecentGrowth:
    """Of counters that are looked at again and again. Memory is bounded.

    A counter that is less than it was has begun again at 0, and so have the others.
    """

    def __init__(self, window: float = WINDOW) -> None:
        self._window = window
        self._last: Sequence[int] = ()
        self._looks: deque[tuple[float, Sequence[int]]] = deque()

    def since(self, counters: Sequence[int], now: float) -> list[int]:
        """Since about the beginning of the window, or since the counters began."""
        nothing = (0,) * len(counters)
        before = self._last or nothing
        if not self._looks or any(new < old for new, old in zip(counters, before, strict=True)):
            self._looks = deque([(-math.inf, nothing)])
        self._last = counters
        now = max(now, self._looks[-1][0])
        if now - self._looks[-1][0] >= self._window / LOOKS:
            self._looks.append((now, counters))
        while self._looks[1][0] <= now - self._window:
            self._looks.popleft()
        return [new - old for new, old in zip(counters, self._looks[0][1], strict=True)]
