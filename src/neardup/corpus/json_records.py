"""JSON files, read and written: an array, or objects one after another, on lines or not.

With `--records`, an array inside of an object (`json_wrapping.py`).

The records become JSON lines, which `jsonl.py` reads. The file is never in memory as a whole: only
nesting and strings are followed from block to block, by a kernel. Kept records are copied byte for
byte with the white space before them; an array stays an array, with what is before its first record
and after its last one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neardup import kernels
from neardup.corpus.annotations import annotate_objects
from neardup.corpus.columns import Source
from neardup.corpus.documents import LONGEST
from neardup.corpus.format_table import BOM
from neardup.corpus.inputs import InputFile
from neardup.corpus.json_wrapping import Wrapping, find_list
from neardup.corpus.jsonl import find_line_bounds, parse_lines, select_lines
from neardup.corpus.rows import Integers, Rows, edit_strings
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
        records: The field of the file's only object that has the records, in a list; "" if they are
            in the file itself.
    """

    def __init__(self, name: str, records: str = "") -> None:
        self._name, self._done = name, 0
        self._state = np.zeros(4, np.int64)
        self._wrapping = Wrapping(name, records) if records else None
        self._is_found = not records

    def read(self, piece: bytes) -> JsonBlock:
        """Return the next bytes and their lines; both with newlines between adjacent records.

        What is around a list of records becomes spaces, and is held back until the list is found.
        """
        if self._wrapping is None:
            return self._read(piece)
        if not self._is_found:
            found = self._wrapping.find(piece)
            if found is None:
                return b"", b""
            head, piece = found
            self._is_found, self._done = True, len(head)
            stored, lines = self._read_list(piece, self._wrapping)
            return head + stored, b" " * len(head) + lines
        return self._read_list(piece, self._wrapping)

    def _read_list(self, piece: bytes, wrapping: Wrapping) -> JsonBlock:
        """Return the next bytes and their lines; spaces for what follows the end of the list."""
        end = self._find_end(piece)
        wrapping.add_tail(piece[end:])
        stored, lines = self._read(piece[:end])
        return stored + piece[end:], lines + b" " * (len(piece) - end)

    def _find_end(self, piece: bytes) -> int:
        """Return where the list ends in a piece; its length if the list goes on."""
        if self._state[_PLACE] == END:
            return 0
        state = self._state.copy()
        _, _, how, end = kernels.lines_of_json(np.frombuffer(piece, np.uint8), state)
        return int(end) if how != DONE and state[_PLACE] == END else len(piece)

    def _read(self, piece: bytes) -> JsonBlock:
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
        if self._wrapping is not None and (not self._is_found or place == END):
            self._wrapping.check(self._is_found)
        if place == INSIDE or (self._state[_IS_ARRAY] and place != END):
            inside = "a record" if place == INSIDE else "the array, without its ]"
            raise InputError(f"{self._name}: truncated JSON (it ends inside {inside}): {SKIP}")


def read_json_blocks(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[JsonBlock]:
    """Yield the records of a JSON file in blocks: stored bytes, and JSON lines of the same length.

    A record beyond LONGEST loses its middle in both: it is still too long, and will be rejected.
    """
    records = JsonRecords(file.name, file.records)
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


_BLOCK = 1 << 20

Spans = tuple[Integers, Integers]
"""Where the records of a block begin and end."""


def kept_json(rows: Rows) -> Iterator[bytes]:
    """Yield the kept records of the file in blocks, as they are stored but for edited texts."""
    is_array, is_empty, rest = False, True, b""
    for number, block in enumerate(read_json_blocks(rows.file, _BLOCK)):
        stored, first, begin = block[0], number == 0, 0
        if first:
            opens = _find_bracket(stored, rows.file.records)
            is_array, begin = opens is not None, 0 if opens is None else opens + 1
            yield stored[:begin]
        starts, ends = spans = _find_records(block[1], first, begin, is_array)
        if rows.edit is not None:
            block = _edit_block(block, spans, first, rows)
            stored, (starts, ends) = block[0], _find_records(block[1], first, begin, is_array)
        chosen = rows.take(len(starts))
        pairs = zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True)
        kept = [stored[start:end] for start, end in pairs]
        if rows.annotate is not None:
            kept = annotate_objects(rows.file, kept, rows.annotations())
        if is_array:
            rest = stored[ends[-1] if len(ends) else begin :]
            yield b"," * (bool(kept) and not is_empty) + b",".join(kept)
        else:
            yield b"".join(kept)
        is_empty = is_empty and not kept
    yield rest.lstrip() if is_empty else rest


def _find_bracket(stored: bytes, records: str) -> int | None:
    """Return where the array opens, in the beginning of a file; None if there is none."""
    if records:
        return find_list(stored, records)
    is_array = stored.removeprefix(BOM).lstrip().startswith(b"[")
    return stored.index(b"[") if is_array else None


def _find_records(lines: bytes, first: bool, begin: int, is_array: bool) -> Spans:
    """Return the spans of the records; those of an array without white space behind them.

    Args:
        lines: The records as JSON lines.
        first: Whether the file begins with this block.
        begin: The place after the bracket that opens the array.
        is_array: Whether the file is an array.
    """
    starts, ends, is_document = find_line_bounds(lines, first)
    starts, ends = np.maximum(starts[is_document], begin), ends[is_document]
    if is_array:
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        lengths = [len(lines[start:end].rstrip()) for start, end in pairs]
        ends = starts + np.array(lengths, np.int64)
    return starts, ends


def _edit_block(block: JsonBlock, spans: Spans, first: bool, rows: Rows) -> JsonBlock:
    """Return the block with the new texts of its rows, both in the stored bytes and in the lines.

    Args:
        block: The block.
        spans: Its records.
        first: Whether the file begins with this block.
        rows: The rows of the file; the next is the first one of the block.
    """
    edit = rows.edit
    if edit is None:
        return block
    changed = np.flatnonzero(edit.changed[rows.next : rows.next + len(spans[0])])
    if not len(changed):
        return block
    stored, lines = block
    old, _ = select_lines(lines, first, changed)
    texts = parse_lines(old, False, edit.columns, Source(rows.file.name)).texts
    fresh = edit.rewrite(changed + rows.next, texts)
    where = spans[0][changed], spans[1][changed]
    field = edit.columns.text
    return edit_strings(stored, *where, field, fresh), edit_strings(lines, *where, field, fresh)
