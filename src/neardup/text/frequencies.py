"""Document frequencies: count in how many documents each shingle is, in a table of fixed size.

The table has 2^22 cells; a shingle's cell is the top 22 bits of its hash. A cell counts the
documents that have a shingle in it, so that a frequency is never too low, and too high by the
shingles that share the cell. Counts do not depend on the order of documents, on threads or batches.

As bytes, little-endian:

    0    8  magic "ndf1" and four zeros
    8    8  number of documents that have a shingle
    16   n  the cells, four bytes each, as a zlib stream
    16+n 8  XXH3-64 of everything before
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.errors import FormatError, SpecMismatch
from neardup.framing import seal, unseal
from neardup.spec import Spec
from neardup.text.arrays import Ragged

MAGIC = b"ndf1" + bytes(4)
HEAD = 16
CELLS = 1 << 22


@dataclass(frozen=True, eq=False)
class Frequencies:
    """The document frequencies of a corpus; without documents, all shingles weigh the same."""

    documents: int = 0
    cells: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    def __bool__(self) -> bool:
        return self.documents > 0

    @property
    def stated(self) -> str:
        """Their digest, as a specification states it; empty if there are none."""
        if not self:
            return ""
        counted = self.documents.to_bytes(8, "little") + self.cells.astype("<u4").tobytes()
        return f"tf-idf:{hashlib.blake2b(counted, digest_size=16).hexdigest()}"

    @cached_property
    def weights(self) -> NDArray[np.uint32] | None:
        """The weight of a shingle of each cell, in 2^-16: 1 + log2((1 + N) / (1 + count))."""
        if not self:
            return None
        weights: NDArray[np.uint32] = kernels.cell_weights(self.cells, np.uint64(self.documents))
        return weights

    def to_bytes(self) -> bytes:
        """Return the bytes that `from_bytes` reads."""
        head = MAGIC + self.documents.to_bytes(8, "little")
        return seal(head + zlib.compress(self.cells.astype("<u4").tobytes(), 1))

    @classmethod
    def from_bytes(cls, data: bytes) -> Frequencies:
        """Return the counts of bytes that `to_bytes` made; raise `FormatError` for others."""
        body = unseal(data, MAGIC, "document frequencies", HEAD)
        try:
            stream = zlib.decompressobj()
            inflated = stream.decompress(body[HEAD:], 4 * CELLS + 1)
            if len(inflated) != 4 * CELLS or not stream.eof or stream.unused_data:
                raise ValueError
            cells = np.frombuffer(inflated, "<u4").astype(np.uint32)
            documents = int.from_bytes(body[8:HEAD], "little")
            if not cells.max() <= documents < 1 << 32:
                raise ValueError
        except (ValueError, zlib.error):
            raise FormatError(
                "the bytes of document frequencies are truncated or altered: make them again, or "
                "fetch them again"
            ) from None
        return cls(documents, cells)


@dataclass
class _Table:
    """The counts of one thread.

    Attributes:
        cells: The documents of each cell.
        last: The number, from 1 on, of the last document that was counted in each cell.
        rows: The number of documents that were added since `last` was cleared.
        documents: The number of documents that have a shingle.
    """

    cells: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(CELLS, np.uint32))
    last: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(CELLS, np.uint32))
    rows: int = 0
    documents: int = 0

    def add(self, shingles: Ragged) -> None:
        count = len(shingles.offsets) - 1
        if self.rows + count >= 1 << 32:
            self.last[:], self.rows = 0, 0
        kernels.count_cells(
            shingles.data, shingles.offsets, self.cells, self.last, np.uint32(self.rows + 1)
        )
        self.rows += count
        self.documents += int(np.count_nonzero(shingles.sizes))


class FrequencyCounts:
    """Counts batches of documents, on any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: list[_Table] = []
        self._free: list[_Table] = []

    def add(self, shingles: Ragged) -> None:
        """Count a batch of documents, a row of shingles each."""
        with self._lock:
            if not self._free:
                self._free.append(_Table())
                self._all.append(self._free[-1])
            table = self._free.pop()
        table.add(shingles)
        with self._lock:
            self._free.append(table)

    def merge(self, other: FrequencyCounts) -> None:
        """Add the counts of other documents."""
        with self._lock:
            self._all += other._all

    def __reduce__(self) -> tuple[Callable[[Frequencies], FrequencyCounts], tuple[Frequencies]]:
        return FrequencyCounts._of, (self.freeze(),)

    @classmethod
    def _of(cls, frequencies: Frequencies) -> FrequencyCounts:
        counts = cls()
        counts._all.append(_Table(frequencies.cells, documents=frequencies.documents))
        return counts

    def freeze(self) -> Frequencies:
        """Return the counts of all batches so far."""
        cells = sum((table.cells for table in self._all), np.zeros(CELLS, np.uint32))
        return Frequencies(sum(table.documents for table in self._all), cells)


def require_frequencies(spec: Spec, frequencies: Frequencies) -> None:
    """Raise `SpecMismatch` if the document frequencies are not those of the specification."""
    if spec.weights != frequencies.stated:
        raise SpecMismatch(
            f"the specification weighs by {spec.weights or 'no frequencies'}, the frequencies are "
            f"{frequencies.stated or 'missing'}: pass the frequencies that it was made with"
        )
