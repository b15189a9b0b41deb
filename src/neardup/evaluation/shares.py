"""A share with its interval, such as a recall."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

Z: Final = 1.959963984540054
"""95 % of a normal distribution are within this many standard deviations."""


@dataclass(frozen=True)
class Share:
    """A share with its 95 % interval.

    Attributes:
        value: The share; None if the whole is empty.
        low: The lower end of the Wilson interval; None as above.
        high: The upper end.

    >>> Share.of(20, 20)
    Share(value=1.0, low=0.8388748419471806, high=1.0)
    >>> Share.of(0, 0)
    Share(value=None, low=None, high=None)
    """

    value: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, part: int, whole: int, independent: float | None = None) -> Share:
        """Return part / whole with its interval.

        Args:
            part: What is counted.
            whole: Of how many.
            independent: As many independent ones would tell as much; by default all of them.
        """
        if not whole:
            return cls(None, None, None)
        size = independent or whole
        share, spread = part / whole, Z * Z / size
        middle = (share + spread / 2) / (1 + spread)
        half = Z * math.sqrt(share * (1 - share) / size + spread / (4 * size)) / (1 + spread)
        low = 0.0 if part == 0 else middle - half
        high = 1.0 if part == whole else middle + half
        return cls(share, low, high)

    def __str__(self) -> str:
        if self.value is None:
            return "undefined"
        return f"{self.value:.4f} ({self.low:.3f} to {self.high:.3f})"
