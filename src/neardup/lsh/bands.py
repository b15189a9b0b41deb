"""Split a signature into bands of consecutive slots; equal bands make two documents candidates.

A table makes one 64-bit key a document from its columns of the signature: for `Bands`, the slots
of one band.

`probe_keys` makes further keys for a query. A band that a near-duplicate misses often differs in
one slot, because the query has an element that the other document lacks; the other's minimum there
is then the query's second least value. So a probe is a band's key with the value of one slot
replaced by its second least. The likeliest probes come first: the other document has the same
values if it has those elements and none of its own below them, and the probability of the latter
falls with the sum of the band's values. The least sum goes first.
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
    """How candidates are found: the interface of `Bands` and `Blocks` that engines use."""

    @property
    def count(self) -> int:
        """The number of tables."""

    @property
    def stated(self) -> list[Any]:
        """The parameters, besides the specification, that keys depend on; files state them."""

    def columns(self, table: int) -> slice:
        """Return the columns of a signature that a table uses."""

    def column_keys(self, columns: Columns, table: int) -> Keys:
        """Return the documents' keys in one table, from its columns: (columns x documents)."""

    def keys(self, signatures: Columns) -> Keys:
        """Return the keys in all tables: (documents x tables)."""


@dataclass(frozen=True)
class Bands:
    """A table for each band of consecutive slots; the curves use the slots one after the other."""

    curves: tuple[Curve, ...]

    @property
    def count(self) -> int:
        return sum(curve.bands for curve in self.curves)

    @property
    def slots(self) -> int:
        """The number of slots of a signature that the bands use."""
        return sum(curve.slots for curve in self.curves)

    @property
    def stated(self) -> list[Any]:
        return [[curve.bands, curve.rows] for curve in self.curves]

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """The number of slots of each band."""
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
    """Return up to `most` probes, the likeliest first, each a table and a key to look up there.

    Args:
        slots: The query's signature.
        seconds: The second least value of each slot; the greatest possible one if it is unknown or
            the set has none.
        bands: The bands that the keys are made of.
        most: The most probes to return.
    """
    table = np.repeat(np.arange(bands.count), bands.rows)
    known = seconds[: bands.slots] != np.iinfo(seconds.dtype).max
    values = slots[: bands.slots].astype(np.float64)
    sums = np.bincount(table, values)[table] + (seconds[: bands.slots] - values)
    order = np.argsort(sums, kind="stable")
    chosen = order[known[order]][:most]
    copies = np.tile(slots, (len(chosen), 1))
    probe = np.arange(len(chosen))
    copies[probe, chosen] = seconds[chosen]
    keys = bands.keys(copies)[probe, table[chosen]]
    return list(zip(table[chosen].tolist(), keys.tolist(), strict=True))
