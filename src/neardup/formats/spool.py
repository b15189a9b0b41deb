"""Store shingles in a temporary file while reading, and read back those of candidates.

The file contains little-endian 64-bit values. It has no name, so that a crash does not leave it
behind and no other process can open it. Up to 32 MB stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from itertools import pairwise
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, OutputError

IN_MEMORY = 32 << 20


class Spool:
    """Rows of 64-bit values, appended in order and read by number. Not thread-safe.

    Args:
        folder: Where the file is created; by default the folder for temporary files.
    """

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._pending: list[NDArray[np.uint64]] = []
        self._pending_bytes = 0
        self._sizes: list[NDArray[np.int64]] = []

    def append(self, values: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        """Add the rows values[offsets[i] : offsets[i + 1]]."""
        self._sizes.append(np.diff(offsets))
        self._pending.append(values)
        self._pending_bytes += values.nbytes
        if self._file is not None or self._pending_bytes > IN_MEMORY:
            self._flush()

    def _flush(self) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(  # noqa: SIM115  # lives as long as the spool
                    prefix="neardup-", dir=self._folder, buffering=0
                )
            for values in self._pending:
                rest = values.data.cast("B")
                while rest:
                    rest = rest[self._file.write(rest) :]
        except OSError as error:
            where = self._folder or tempfile.gettempdir()
            cure = "choose another output" if self._folder else "set TMPDIR to a larger disk"
            raise OutputError(
                f"no room for the shingles in {where} ({error.strerror}): free some space or {cure}"
            ) from None
        self._pending, self._pending_bytes = [], 0

    def sorted_sets(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the values of these rows, each sorted and with repetitions, and their offsets."""
        out, offsets = self.rows(rows)
        for begin, end in pairwise(offsets.tolist()):
            out[begin:end].sort()
        return out, offsets

    def rows(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """Return the values of these rows as they were added, and their offsets."""
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, np.int64)
        starts = np.cumsum(sizes) - sizes
        offsets = np.concatenate([[0], np.cumsum(sizes[rows])]).astype(np.int64)
        out = np.empty(offsets[-1], np.uint64)
        pending = np.concatenate(self._pending) if self._pending else out[:0]
        for place, row in enumerate(rows.tolist()):
            values = out[offsets[place] : offsets[place + 1]]
            if self._file is None:
                values[:] = pending[starts[row] : starts[row] + sizes[row]]
            else:
                _read(self._file.fileno(), values.data.cast("B"), int(starts[row]) * 8)
        return out, offsets

    def close(self) -> None:
        """Drop all rows; the file is deleted."""
        if self._file is not None:
            self._file.close()
        self._file, self._pending = None, []


def _read(file: int, into: memoryview, at: int) -> None:
    while into:
        got = os.preadv(file, [into], at)
        if got == 0:
            raise FormatError(
                "the file of spooled shingles is shorter than what was written: run again"
            )
        into, at = into[got:], at + got
