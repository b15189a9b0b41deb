"""What does an index say about the golden documents that it holds? Those of one cluster are
duplicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import InputError
from neardup.evaluation.golden import SHOWN, Golden, shown
from neardup.evaluation.judges import among_all, together

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

NOT_ALL_PAIRS: Final = (
    "an index says which documents are copies of which kept one, not all pairs: similar documents "
    "of different clusters count as missed"
)


@dataclass(frozen=True)
class Held:
    """Golden documents in an index. `cluster` of each golden id; -1 if it is not there."""

    where: str
    stated: dict[str, Any]
    cluster: Integers

    @classmethod
    def of(cls, where: str, stated: dict[str, Any], clusters: Sequence[int | None]) -> Held:
        return cls(where, stated, np.array([-1 if c is None else c for c in clusters], np.int64))

    @property
    def described(self) -> str:
        return f"{self.where}: documents of one cluster are duplicates"

    def of_those(self, asked: Golden) -> Golden:
        """The pairs of documents that are held."""
        used = asked.without("unknown ids", np.flatnonzero(self.cluster < 0))
        if not len(used):
            ids = " and ".join(map(shown, asked.ids[:SHOWN]))
            raise InputError(
                f"no labelled pair is left: {self.where} does not hold both documents of any, and "
                f"the golden set has ids as {ids}: add them, or give ids of documents that it holds"
            )
        return used

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        return together(self.cluster, a, b)

    def clusters(self) -> Integers:
        return among_all(self.cluster)
