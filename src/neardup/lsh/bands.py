"""Signatures to keys: documents with an equal key in one of several tables are candidates.

A table looks at some columns of a signature and makes one 64-bit key a document of them. `Bands`
takes a band of consecutive slots for each table.

`probe_keys` gives a query more keys. A near-duplicate misses a band where one slot differs. Often
that is because the query has an element that the other lacks; then the other's minimum there is the
query's second least value. So a probe is a band's key with one slot's value replaced by the second
least. Probes are ordered by how likely they hit: the other has the same values in a band if it has
those elements and nothing of its own below them, and the chance of the latter falls with the sum of
the band's values, whatever the other set is. The least sum goes first.
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


def probe_keys(
    slots: NDArray[Any], seconds: NDArray[Any], bands: Bands, most: int
) -> list[tuple[int, int]]:
    """Up to `most` probes, the likeliest first: the number of a table, and a key to look up there.

    A slot whose second value is the largest possible has none: the set is too small.
    """
    table = np.repeat(np.arange(bands.count), bands.rows)
    has = seconds[: bands.slots] != np.iinfo(seconds.dtype).max
    values = slots[: bands.slots].astype(np.float64)
    sums = np.bincount(table, values)[table] + (seconds[: bands.slots] - values)
    order = np.argsort(sums, kind="stable")
    chosen = order[has[order]][:most]
    copies = np.tile(slots, (len(chosen), 1))
    probe = np.arange(len(chosen))
    copies[probe, chosen] = seconds[chosen]
    keys = bands.keys(copies)[probe, table[chosen]]
    return list(zip(table[chosen].tolist(), keys.tolist(), strict=True))
