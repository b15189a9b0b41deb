"""Is an evaluation as good as it was asked to be?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from neardup.evaluation.outcome import Evaluation

LABELS: Final = "labels"


@dataclass(frozen=True)
class Gate:
    """A figure and the least that it may be. What is undefined is not met.

    name   recall, precision or f1
    by     whose figure it is: that by labels, or by similarity
    """

    name: str
    by: str
    least: float
    value: float | None

    @property
    def met(self) -> bool:
        return self.value is not None and self.value >= self.least

    def __str__(self) -> str:
        """
        >>> print(Gate("recall", "labels", 0.95, 0.9))
        recall by labels 0.9000 misses --min-recall 0.95 by 0.0500
        """
        figure, option = f"{self.name} by {self.by}", f"--min-{self.name} {self.least:g}"
        if self.value is None:
            cure = "label pairs" if self.by == LABELS else "give pairs, or an operating point,"
            return f"{figure} is undefined, which misses {option}: {cure} that say something of it"
        if self.met:
            return f"{figure} {self.value:.4f} meets {option}"
        return f"{figure} {self.value:.4f} misses {option} by {self.least - self.value:.4f}"


def gates_of(found: Evaluation, by: str, least: Mapping[str, float | None]) -> list[Gate]:
    """One for each figure of which something is asked."""
    scores = found.labels if by == LABELS else found.similarity
    return [
        Gate(name, by, x, None if scores is None else getattr(scores, name).value)
        for name, x in least.items()
        if x is not None
    ]
