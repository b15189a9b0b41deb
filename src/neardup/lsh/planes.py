"""Split the signs of a vector into bands; equal signs in a band make two documents candidates.

Signs are packed into the columns of a signature: columns of 64 bits, or of 32 beside the slots of
texts. The keys of bands of planes differ from those of bands of slots, whatever their numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import ParameterError
from neardup.spec import check_whole

MOST_ROWS: Final = 63
"""The most planes of a band: its signs are one number."""
MOST_PLANES: Final = 65_536

Columns = NDArray[Any]
Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Planes:
    """Bands of planes: the tables that find vectors.

    Attributes:
        bands: The number of bands.
        rows: The planes of a band, at most 63.

    >>> Planes(20, 12).bits
    240
    """

    bands: int
    rows: int

    def __post_init__(self) -> None:
        check_whole("the number of bands of planes", self.bands, 1, MOST_PLANES)
        check_whole("the number of planes of a band", self.rows, 1, MOST_ROWS)
        if self.bits > MOST_PLANES:
            raise ParameterError(
                f"{self} are {self.bits:,} planes, more than {MOST_PLANES:,}: use fewer bands"
            )

    @property
    def bits(self) -> int:
        """The number of planes, which is the number of signs."""
        return self.bands * self.rows

    @property
    def count(self) -> int:
        """The number of tables."""
        return self.bands

    @property
    def stated(self) -> list[Any]:
        """The parameters, besides the specification, that keys depend on; files state them."""
        return [[self.bands, self.rows]]

    def columns(self, table: int, width: int = 64) -> slice:
        """Return the columns of the signs that a table uses.

        Args:
            table: The number of the table.
            width: The bits of a column, 32 or 64.
        """
        first = table * self.rows
        return slice(first // width, (first + self.rows - 1) // width + 1)

    def column_keys(self, columns: Columns, table: int) -> Keys:
        """Return the documents' keys in one table.

        Args:
            columns: The columns that the table uses, of 32 or 64 bits: (columns x documents).
            table: The number of the table.
        """
        first = table * self.rows % (8 * columns.itemsize)
        keys: Keys = kernels.plane_keys(np.ascontiguousarray(columns), first, self.rows, table)
        return keys

    def keys(self, signatures: Columns) -> Keys:
        """Return the keys in all tables: (documents x tables).

        Args:
            signatures: A row of signs a document, in words of 32 or 64 bits.
        """
        width = 8 * signatures.itemsize
        columns = np.ascontiguousarray(signatures.T)
        tables = range(self.bands)
        keys = (self.column_keys(columns[self.columns(table, width)], table) for table in tables)
        return np.stack(list(keys), axis=1)

    def __str__(self) -> str:
        return f"{self.bands} bands of {self.rows} planes"
