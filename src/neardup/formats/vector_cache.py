"""A cache of vectors by the digest of their text, which a killed run goes on from.

    0      8    magic "ndvecs01"
    8      4    numbers of a vector, d, little-endian
    12     4    length n of what made the vectors
    16     n    what made the vectors, UTF-8
    16+n   8    XXH3-64 of everything before
    then        records, one after the other, each of
                16 bytes  digest of the text
                4 d bytes vector, float32, little-endian
                8 bytes   XXH3-64 of the record so far

Records are appended. What a killed process wrote of its last record is cut off; a record whose
checksum is wrong counts as missing, and is appended again. Only its owner can read the file,
because vectors reveal what texts are about.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.formats.tables import write_error
from neardup.framing import CHECKSUM, checksum, seal, unseal

MAGIC: Final = b"ndvecs01"
HEAD: Final = Struct("<8sII")
DIGEST: Final = 16
_KEY: Final = np.dtype(f"S{DIGEST}")
_FEW: Final = 1 << 16


class VectorCache:
    """Vectors by the digests of their texts. One writer, which reads what it has written.

    Args:
        path: The file; a missing one is made when the first vectors are stored.
        maker: What makes the vectors: those of another are discarded.
    """

    def __init__(self, path: Path, maker: str) -> None:
        self.path, self._maker = path, maker
        self._records = self._count = 0
        self.dimension: int | None = None
        self._sorted: NDArray[Any] = np.empty(0, _KEY)
        self._places: NDArray[np.int64] = np.empty(0, np.int64)
        self._recent: dict[bytes, int] = {}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._open()
        except OSError as error:
            raise write_error(path, error) from None

    def __len__(self) -> int:
        return self._count

    def find(self, digests: Sequence[bytes]) -> dict[int, NDArray[np.float32]]:
        """Return the vectors that are known, by the place of their digest.

        Args:
            digests: The digests of texts, of 16 bytes each.
        """
        found = {}
        places = self._find_places(digests)
        for number, (digest, place) in enumerate(zip(digests, places, strict=True)):
            if place >= 0 and (vector := self._read(place, digest)) is not None:
                found[number] = vector
        return found

    def store(self, digests: Sequence[bytes], vectors: NDArray[np.float32]) -> None:
        """Append vectors; they are in the file when this returns, also if the process is killed.

        Args:
            digests: The digests of their texts.
            vectors: A row for each; those of another dimension than before replace them all.
        """
        if self.dimension != vectors.shape[1]:
            self._begin(vectors.shape[1])
        rows = vectors.astype("<f4", copy=False)
        records = b"".join(
            seal(digest + row.tobytes()) for digest, row in zip(digests, rows, strict=True)
        )
        self._write(records, self._records + self._count * self._size)
        self._recent |= {digest: self._count + row for row, digest in enumerate(digests)}
        self._count += len(digests)
        if len(self._recent) > max(_FEW, len(self._sorted) // 4):
            self._sort()

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _size(self) -> int:
        """The bytes of a record."""
        return DIGEST + 4 * (self.dimension or 0) + CHECKSUM.size

    def _open(self) -> None:
        """Read the header and the digests; what can't be used is cut off."""
        size = os.fstat(self._file).st_size
        with suppress(FormatError):
            self.dimension = self._read_header()
            self._count = (size - self._records) // self._size
        os.ftruncate(self._file, self._records + self._count * self._size if self._count else 0)
        if not self._count:
            self.dimension, self._records = None, 0
            return
        shape, strides = (self._count,), (self._size,)
        with open(self._file, "rb", closefd=False) as file:
            records = np.memmap(file, np.uint8, "r", self._records)
        digests: NDArray[Any] = np.ndarray(shape, _KEY, records, 0, strides)
        self._set_sorted(digests.copy(), np.arange(self._count))

    def _read_header(self) -> int:
        """Return the dimension; raise `FormatError` without a header of this maker's vectors."""
        head = os.pread(self._file, HEAD.size, 0)
        made = self._maker.encode()
        self._records = HEAD.size + len(made) + CHECKSUM.size
        whole = os.pread(self._file, self._records, 0)
        if unseal(whole, MAGIC, "a cache of vectors", HEAD.size)[HEAD.size :] != made:
            raise FormatError(f"{self.path} has vectors of something else")
        return int(HEAD.unpack(head)[1])

    def _begin(self, dimension: int) -> None:
        """Write the header; vectors of another dimension are discarded."""
        made = self._maker.encode()
        header = seal(HEAD.pack(MAGIC, dimension, len(made)) + made)
        try:
            os.ftruncate(self._file, 0)
        except OSError as error:
            raise write_error(self.path, error) from None
        self._write(header, 0)
        self.dimension, self._records, self._count = dimension, len(header), 0
        self._recent.clear()
        self._sorted, self._places = self._sorted[:0], self._places[:0]

    def _find_places(self, digests: Sequence[bytes]) -> list[int]:
        """Return the record of each digest, -1 without one."""
        wanted = np.array(digests, _KEY)
        at = np.searchsorted(self._sorted, wanted)
        inside = at < len(self._sorted)
        at[~inside] = 0
        places = np.full(len(wanted), -1)
        if len(self._sorted):
            known = inside & (self._sorted[at] == wanted)
            places[known] = self._places[at[known]]
        stored: list[int] = places.tolist()
        return [
            self._recent.get(digest, place) for digest, place in zip(digests, stored, strict=True)
        ]

    def _sort(self) -> None:
        """Move the recent digests to the sorted ones, which take a quarter of the memory."""
        recent = np.array(list(self._recent), _KEY)
        places = np.fromiter(self._recent.values(), np.int64, len(recent))
        self._recent.clear()
        self._set_sorted(
            np.concatenate([self._sorted, recent]), np.concatenate([self._places, places])
        )

    def _set_sorted(self, digests: NDArray[Any], places: NDArray[np.int64]) -> None:
        """Set the sorted digests; of equal ones the last record counts."""
        order = np.lexsort((places, digests))
        digests, places = digests[order], places[order]
        last = np.append(digests[1:] != digests[:-1], True)
        self._sorted, self._places = digests[last], places[last]

    def _read(self, place: int, digest: bytes) -> NDArray[np.float32] | None:
        """Return the vector of a record, None if it is damaged."""
        record = os.pread(self._file, self._size, self._records + place * self._size)
        content = record[: -CHECKSUM.size]
        if not record.startswith(digest) or record != content + CHECKSUM.pack(checksum(content)):
            return None
        return np.frombuffer(content, "<f4", offset=DIGEST)

    def _write(self, data: bytes, at: int) -> None:
        rest = memoryview(data)
        try:
            while rest:
                done = os.pwrite(self._file, rest, at)
                rest, at = rest[done:], at + done
        except OSError as error:
            raise write_error(self.path, error) from None
