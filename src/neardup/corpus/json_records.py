"""Make JSON lines of a JSON file: an array, or objects one after another, on lines or not.

The lines are read by `jsonl.py`. The file is never in memory as a whole: only nesting and strings
are followed from block to block, by a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neardup import kernels
from neardup.corpus.documents import LONGEST
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import SKIP, Meter, read_decoded
from neardup.errors import InputError
from neardup.reference.json_records import (
    DONE,
    END,
    INSIDE,
    LOOSE_COMMA,
    NO_COMMA,
    STRAY,
)

_PLACE, _IS_ARRAY = 0, 3
_ERRORS = {
    STRAY: "data after the end of the array, or a bracket too many",
    NO_COMMA: "a comma is missing between two records",
    LOOSE_COMMA: "a comma without a record on each side, or outside an array",
}

JsonBlock = tuple[bytes, bytes]
"""Stored bytes, and JSON lines of the same length."""


class JsonRecords:
    """The records of a file as JSON lines, from one piece of it to the next.

    Args:
        name: The name of the file, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name, self._done = name, 0
        self._state = np.zeros(4, np.int64)

    def read(self, piece: bytes) -> JsonBlock:
        """Return the next bytes and their lines; both with newlines between adjacent records."""
        letters = np.frombuffer(piece, np.uint8)
        lines, breaks, how, end = kernels.lines_of_json(letters, self._state)
        self._done += end
        if how != DONE:
            raise InputError(
                f"{self._name}: not JSON after {self._done:,} bytes ({_ERRORS[how]}): repair it"
            )
        if len(breaks):
            piece, lines = (
                np.insert(both, breaks, ord("\n")).tobytes() for both in (letters, lines)
            )
            return piece, lines
        return piece, lines.tobytes()

    def check_end(self) -> None:
        """Raise `InputError` if the file ends inside a record or its array."""
        place = int(self._state[_PLACE])
        if place == INSIDE or (self._state[_IS_ARRAY] and place != END):
            inside = "a record" if place == INSIDE else "the array, without its ]"
            raise InputError(f"{self._name}: truncated JSON (it ends inside {inside}): {SKIP}")


def read_json_blocks(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[JsonBlock]:
    """Yield the records of a JSON file in blocks: stored bytes, and JSON lines of the same length.

    A record beyond LONGEST loses its middle in both: it is still too long, and will be rejected.
    """
    records = JsonRecords(file.name)
    stored: list[bytes] = []
    lines: list[bytes] = []
    length = 0
    for piece in read_decoded(file, size, meter):
        raw, line = records.read(piece)
        cut = line.rfind(b"\n") + 1
        if cut:
            yield b"".join((*stored, raw[:cut])), b"".join((*lines, line[:cut]))
            stored, lines, length, raw, line = [], [], 0, raw[cut:], line[cut:]
        if length <= LONGEST:
            stored.append(raw)
            lines.append(line)
            length += len(line)
    records.check_end()
    if length:
        yield b"".join(stored), b"".join(lines)
