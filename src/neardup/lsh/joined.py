"""Tables over signatures of two parts: the slots of texts, and behind them the signs of vectors.

The signs are words of 64 bits; where slots have 32 bits, a word is two columns, the lower half
first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.bands import Bands, Columns, Keys
from neardup.lsh.planes import Planes


def join_signatures(slots: Columns, signs: NDArray[np.uint64]) -> Columns:
    """Return signatures of both parts, a row each.

    Args:
        slots: The slots of each document.
        signs: The words of signs of each document.
    """
    return np.hstack([slots, np.ascontiguousarray(signs).view(slots.dtype)])


@dataclass(frozen=True)
class JoinedTables:
    """The tables of texts, followed by those of vectors.

    Attributes:
        bands: The bands of slots.
        planes: The bands of signs.
        slots: The number of slots of a signature.
        width: The bits of a slot, 32 or 64.
    """

    bands: Bands
    planes: Planes
    slots: int
    width: int

    @property
    def count(self) -> int:
        return self.bands.count + self.planes.count

    @property
    def stated(self) -> list[Any]:
        return [*self.bands.stated, {"planes": self.planes.stated}]

    def columns(self, table: int) -> slice:
        if table < self.bands.count:
            return self.bands.columns(table)
        signs = self.planes.columns(table - self.bands.count, self.width)
        return slice(self.slots + signs.start, self.slots + signs.stop)

    def column_keys(self, columns: Columns, table: int) -> Keys:
        if table < self.bands.count:
            return self.bands.column_keys(columns, table)
        return self.planes.column_keys(columns, table - self.bands.count)

    def keys(self, signatures: Columns) -> Keys:
        slots, signs = signatures[:, : self.slots], signatures[:, self.slots :]
        return np.hstack([self.bands.keys(slots), self.planes.keys(signs)])
