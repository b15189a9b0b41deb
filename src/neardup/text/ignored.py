"""The frozen list of lines that are ignored when shingles are cut, also as bytes.

0        4  magic "ndl1"
4        4  number n of lines, little-endian, as everything here
8        8  number of documents that were counted
16       8n hashes of the lines, ascending
16+8n    8n in how many documents each line is
16+16n   m  the lines, cut to 200 characters, as UTF-8, with U+000A between them
16+16n+m 8  XXH3-64 of everything before
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

import numpy as np
import xxhash
from numpy.typing import NDArray

from neardup.errors import FormatError

MAGIC = b"ndl1"
HEAD, TAIL = 16, 8
SAMPLE = 200
"""Characters of a line that are kept to show it."""


@dataclass(frozen=True, eq=False)
class IgnoredLines:
    """Lines that are in too many documents. Row i of every column is line i.

    The samples are the lines as they are compared: normalised, squeezed, cut to 200 characters.
    """

    hashes: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    samples: tuple[str, ...] = ()
    documents: int = 0

    def __len__(self) -> int:
        return len(self.hashes)

    @property
    def digest(self) -> str:
        """What a specification says of the list: 32 hexadecimal digits, nothing if it is empty."""
        data = self.hashes.astype("<u8").tobytes()
        return hashlib.blake2b(data, digest_size=16).hexdigest() if data else ""

    def most_frequent(self) -> list[tuple[str, int]]:
        """The lines and in how many documents they are, most frequent first."""
        rows = zip(self.samples, self.counts.tolist(), strict=True)
        return sorted(rows, key=lambda row: (-row[1], row[0]))

    def to_bytes(self) -> bytes:
        body = b"".join(
            (
                MAGIC,
                len(self).to_bytes(4, "little"),
                self.documents.to_bytes(8, "little"),
                self.hashes.astype("<u8").tobytes(),
                self.counts.astype("<u8").tobytes(),
                "\n".join(self.samples).encode(),
            )
        )
        return body + xxhash.xxh3_64_intdigest(body).to_bytes(TAIL, "little")

    @classmethod
    def from_bytes(cls, data: bytes) -> IgnoredLines:
        """The list that `to_bytes` wrote, checked in every respect."""
        if data[:4] != MAGIC:
            raise FormatError(
                f"not a list of ignored lines: expected {MAGIC!r} first, got {data[:4]!r}"
            )
        body, tail = data[:-TAIL], data[-TAIL:]
        if len(data) < HEAD + TAIL or tail != xxhash.xxh3_64_intdigest(body).to_bytes(
            TAIL, "little"
        ):
            raise FormatError(
                "the list of ignored lines is truncated or altered: make or fetch it again"
            )
        size = int.from_bytes(body[4:8], "little")
        columns = np.frombuffer(body[HEAD : HEAD + 16 * size], "<u8")
        samples = body[HEAD + 16 * size :].decode(errors="replace").split("\n")
        if len(columns) != 2 * size or len(samples) != max(1, size):
            raise FormatError(f"the list of ignored lines does not hold {size} lines")
        return cls(
            columns[:size].astype(np.uint64),
            columns[size:].astype(np.int64),
            tuple(samples[:size]),
            int.from_bytes(body[8:HEAD], "little"),
        )
