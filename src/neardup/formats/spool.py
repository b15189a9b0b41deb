"""Shingles set aside: written once while reading, a few rows read back after grouping.

Raw little-endian 64-bit values in a temporary file that has no name any more, so that no
crash leaves it behind and nobody else can open it. Small ones stay in memory.
"""

from __future__ import annotations

import os
import tempfile
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, OutputError

IN_MEMORY = 32 << 20


class Spool:
    """Rows of 64-bit values, appended in order and read by number. One thread at a time."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        self._file: BinaryIO | None = None
        self._pending: list[NDArray[np.uint64]] = []
        self._waiting = 0
        self._sizes: list[NDArray[np.int64]] = []

    def append(self, values: NDArray[np.uint64], offsets: NDArray[np.int64]) -> None:
        """Add the rows values[offsets[i] : offsets[i + 1]]."""
        self._sizes.append(np.diff(offsets))
        self._pending.append(values)
        self._waiting += values.nbytes
        if self._file is not None or self._waiting > IN_MEMORY:
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
        self._pending, self._waiting = [], 0

    def sorted_sets(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The chosen rows one after the other, each sorted; repeats are still in it."""
        sizes = np.concatenate(self._sizes) if self._sizes else np.empty(0, np.int64)
        starts = np.cumsum(sizes) - sizes
        offsets = np.concatenate([[0], np.cumsum(sizes[rows])]).astype(np.int64)
        out = np.empty(offsets[-1], np.uint64)
        waiting = np.concatenate(self._pending) if self._pending else out[:0]
        for place, row in enumerate(rows.tolist()):
            here = out[offsets[place] : offsets[place + 1]]
            if self._file is None:
                here[:] = waiting[starts[row] : starts[row] + sizes[row]]
            else:
                _read(self._file.fileno(), here.data.cast("B"), int(starts[row]) * 8)
            here.sort()
        return out, offsets

    def close(self) -> None:
        """Forget everything; the file goes with its last handle."""
        if self._file is not None:
            self._file.close()
        self._file, self._pending = None, []


def _read(file: int, into: memoryview, at: int) -> None:
    while into:
        got = os.preadv(file, [into], at)
        if got == 0:
            raise FormatError("the spooled shingles are shorter than what was written: run again")
        into, at = into[got:], at + got
