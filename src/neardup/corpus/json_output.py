"""Write the kept records of a JSON file: an array stays an array, a sequence of objects stays one.

Records are copied byte for byte with the white space before them; what is before the first record
of an array and after the last one is copied too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from neardup.corpus.columns import Source
from neardup.corpus.format_table import BOM
from neardup.corpus.json_records import JsonBlock, read_json_blocks
from neardup.corpus.jsonl import find_line_bounds, parse_lines, select_lines
from neardup.corpus.rows import Integers, Rows, edit_strings

_BLOCK = 1 << 20

Spans = tuple[Integers, Integers]
"""Where the records of a block begin and end."""


def kept_json(rows: Rows) -> Iterator[bytes]:
    """Yield the kept records of the file in blocks, as they are stored but for edited texts."""
    is_array, is_empty, rest = False, True, b""
    for number, block in enumerate(read_json_blocks(rows.file, _BLOCK)):
        stored, first, begin = block[0], number == 0, 0
        if first:
            is_array = stored.removeprefix(BOM).lstrip().startswith(b"[")
            begin = stored.index(b"[") + 1 if is_array else 0
            yield stored[:begin]
        starts, ends = spans = _find_records(block[1], first, begin, is_array)
        if rows.edit is not None:
            block = _edit_block(block, spans, first, rows)
            stored, (starts, ends) = block[0], _find_records(block[1], first, begin, is_array)
        chosen = rows.take(len(starts))
        pairs = zip(starts[chosen].tolist(), ends[chosen].tolist(), strict=True)
        kept = [stored[start:end] for start, end in pairs]
        if is_array:
            rest = stored[ends[-1] if len(ends) else begin :]
            yield b"," * (bool(kept) and not is_empty) + b",".join(kept)
        else:
            yield b"".join(kept)
        is_empty = is_empty and not kept
    yield rest.lstrip() if is_empty else rest


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
