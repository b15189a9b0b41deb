"""Which documents meet? Those with an equal key in one of several tables.

A table looks at some columns of a signature and makes one 64-bit key a document of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.lsh.curve import Curve

Columns = NDArray[Any]
Keys = NDArray[np.uint64]


class Tables(Protocol):
    """What engines need to know: nothing else depends on how candidates are found."""

    @property
    def count(self) -> int:
        """How many tables there are."""

    @property
    def stated(self) -> list[Any]:
        """What keys depend on, besides the specification."""

    def columns(self, table: int) -> slice:
        """The columns of a signature that a table looks at."""

    def column_keys(self, columns: Columns, table: int) -> Keys:
        """The documents' keys in one table, from these columns alone: (columns x documents)."""

    def keys(self, signatures: Columns) -> Keys:
        """The keys in all tables: (documents x tables)."""


@dataclass(frozen=True)
class Bands:
    """A band of consecutive slots a table; curves are laid over the slots one after the other."""

    curves: tuple[Curve, ...]

    @property
    def count(self) -> int:
        return sum(curve.bands for curve in self.curves)

    @property
    def slots(self) -> int:
        """How many slots of a signature the bands use."""
        return sum(curve.slots for curve in self.curves)

    @property
    def stated(self) -> list[Any]:
        return [[curve.bands, curve.rows] for curve in self.curves]

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """How many slots each band has."""
        return np.repeat([curve.rows for curve in self.curves], [c.bands for c in self.curves])

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first slot of each band."""
        return np.cumsum(self.rows) - self.rows

    def columns(self, table: int) -> slice:
        start = int(self.starts[table])
        return slice(start, start + int(self.rows[table]))

    def column_keys(self, columns: Columns, table: int) -> Keys:
        keys: Keys = kernels.column_keys(np.ascontiguousarray(columns), table)
        return keys

    def keys(self, signatures: Columns) -> Keys:
        slots, each = signatures.shape[1], signatures.itemsize
        if self.slots > slots:
            raise ParameterError(
                f"the bands need {self.slots} slots, there are {slots}: use fewer bands or rows, "
                f"or at least {self.slots} slots"
            )
        flat = np.ascontiguousarray(signatures).reshape(-1).view(np.uint8)
        keys: Keys = kernels.band_keys(flat, slots * each, self.starts * each, self.rows * each)
        return keys
