"""Filter the rows of a file that is written again, and replace the texts of rows.

In JSON Lines and CSV only the bytes of the text itself are replaced, in Parquet and Arrow files
only its column.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup import kernels
from neardup.corpus.annotations import Annotate
from neardup.corpus.columns import Source, decode_strings
from neardup.corpus.delimited import delimiter_of, name_columns
from neardup.corpus.documents import PLAIN, Columns, as_plain, make_booleans, make_strings
from neardup.corpus.encodings import decode_document, encode_document
from neardup.corpus.format_table import BOM
from neardup.corpus.inputs import InputFile
from neardup.corpus.jsonl import LineBounds, parse_lines, select_lines
from neardup.corpus.plain_lines import parse_plain_lines
from neardup.corpus.streams import changed_error
from neardup.errors import UsageError
from neardup.text.arrays import view_strings as ragged

Mask = npt.NDArray[np.bool_]
Integers = npt.NDArray[np.int64]
Advance = Callable[[int], None]
"""Called with the number of rows that were written, for progress."""


@dataclass(frozen=True)
class Edit:
    """New texts for rows that are kept.

    Attributes:
        changed: Whether each row gets a new text.
        columns: The columns of the file; the text is in `columns.text`.
        rewrite: Returns the new texts of changed rows, from their ascending row numbers and their
            texts. Called from several threads.
    """

    changed: Mask
    columns: Columns
    rewrite: Callable[[Integers, pa.Array], pa.Array]


class Rows:
    """The keep list of a file, consumed from its front.

    Args:
        file: The file.
        keep: Whether each row is kept.
        advance: Called with the number of rows that were consumed.
        workers: The number of threads that parse lines.
        edit: New texts for rows, or None.
        annotate: Returns new columns for kept rows; None for none.

    `next` is the first row that has not been consumed.
    """

    def __init__(
        self,
        file: InputFile,
        keep: Mask,
        advance: Advance,
        workers: int,
        edit: Edit | None,
        annotate: Annotate | None = None,
    ) -> None:
        self.file, self.workers, self.edit, self.annotate = file, workers, edit, annotate
        self._keep, self.next, self._advance = keep, 0, advance
        self._annotated = 0

    def take(self, count: int) -> Mask:
        """Return whether each of the next `count` rows is kept."""
        mask = self._keep[self.next : self.next + count]
        self.next += count
        if len(mask) < count:
            raise changed_error(self.file)
        self._advance(count)
        return mask

    def annotations(self) -> pa.RecordBatch:
        """Return the new columns of the kept rows that were taken since the last call."""
        assert self.annotate is not None  # noqa: S101  # callers ask
        taken = np.flatnonzero(self._keep[self._annotated : self.next]) + self._annotated
        self._annotated = self.next
        return self.annotate(taken)

    def check_end(self) -> None:
        """Raise `InputError` unless all rows have been consumed."""
        if self.next != len(self._keep):
            raise changed_error(self.file)


def filter_batch(batch: pa.RecordBatch, keep: Mask) -> pa.RecordBatch:
    """Return the rows of the batch where `keep` is true."""
    columns = [filter_column(column, keep) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def filter_column(column: pa.Array, keep: Mask) -> pa.Array:
    """Return the values of a column, of any Arrow type, where `keep` is true."""
    if column.type in PLAIN:
        # PyArrow cannot filter views (apache/arrow#43010); the cast also drops the bytes
        # of removed rows.
        return filter_column(as_plain(column), keep).cast(column.type)
    try:
        return column.filter(make_booleans(keep))
    except pa.ArrowNotImplementedError:  # views inside lists, run-end encoding
        edges = np.flatnonzero(np.diff(keep, prepend=False, append=False)).tolist()
        runs = [column.slice(a, b - a) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return pa.concat_arrays(runs) if runs else column.slice(0, 0)


_JSON = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]', re.DOTALL)
_BATCH_BYTES, _BATCH_RECORDS = 4 << 20, 4096


def edit_lines(
    block: bytes, bounds: LineBounds, first: bool, start: int, edit: Edit, name: str
) -> bytes:
    """Return a block of JSON lines with the new texts.

    Args:
        block: The lines.
        bounds: Where they begin and end, and which are documents.
        first: Whether the file begins with this block.
        start: The row of the first document.
        edit: The new texts.
        name: The name of the file, for messages.
    """
    rows, begins, ends = _find_changed(bounds, start, edit)
    if not len(rows):
        return block
    texts = parse_lines(
        select_lines(block, first, rows)[0], False, edit.columns, Source(name)
    ).texts
    fresh = edit.rewrite(rows + start, texts)
    return edit_strings(block, begins, ends, edit.columns.text, fresh)


def edit_plain_lines(
    block: bytes, bounds: LineBounds, first: bool, start: int, edit: Edit
) -> bytes:
    """Return a block of lines, each of which is a text, with the new texts.

    The arguments are those of `edit_lines`.
    """
    rows, begins, ends = _find_changed(bounds, start, edit)
    if not len(rows):
        return block
    texts = parse_plain_lines(select_lines(block, first, rows)[0], False).texts
    fresh = edit.rewrite(rows + start, texts).to_pylist()
    pieces: list[bytes] = []
    done = 0
    for begin, end, text in zip(begins.tolist(), ends.tolist(), fresh, strict=True):
        line = block[begin:end]
        mark = BOM if first and not begin and line.startswith(BOM) else b""
        line_end = line[len(line.removesuffix(b"\n").removesuffix(b"\r")) :]
        pieces += (block[done:begin], mark, text.encode(), line_end)
        done = end
    return b"".join([*pieces, block[done:]])


def _find_changed(
    bounds: LineBounds, start: int, edit: Edit
) -> tuple[Integers, Integers, Integers]:
    """Return the documents of a block that get another text, and where their lines begin and end.

    The arguments are those of `edit_lines`.
    """
    starts, ends, is_document = bounds
    documents = np.flatnonzero(is_document)
    rows = np.flatnonzero(edit.changed[start : start + len(documents)])
    lines = documents[rows]
    return rows, starts[lines], ends[lines]


def edit_strings(
    block: bytes, begins: Integers, ends: Integers, field: str, texts: pa.Array
) -> bytes:
    """Return the block with these strings in a field of the lines from `begins` to `ends`."""
    letters, key, rows = bytes_of(block), bytes_of(field.encode()), ragged(texts)
    sure, result = kernels.edit_strings(letters, begins, ends, key, rows.data, rows.offsets)
    if sure:
        edited: bytes = result.tobytes()
        return edited
    pieces: list[bytes] = []
    done = 0
    for begin, end, text in zip(begins.tolist(), ends.tolist(), texts.to_pylist(), strict=True):
        pieces += (block[done:begin], edit_line(block[begin:end], field, text))
        done = end
    return b"".join([*pieces, block[done:]])


def bytes_of(data: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(data, np.uint8)


def edit_line(line: bytes, field: str, text: str) -> bytes:
    r"""Return a line of JSON with another string in a field, escaped like the rest of the line.

    >>> edit_line(b'{"a": {"text": 1}, "text" :"old\\n", "b":1e3}', "text", "new\n")
    b'{"a": {"text": 1}, "text" :"new\\n", "b":1e3}'
    """
    begin, end = _value(line, field)
    fresh = json.dumps(text, ensure_ascii=line.isascii()).encode()
    return line[:begin] + fresh + line[end:]


def _value(line: bytes, field: str) -> tuple[int, int]:
    """Return where the string of a field begins and ends; of the last one with that name."""
    depth, is_field, is_key, span = 0, False, True, (0, 0)
    plain = json.dumps(field, ensure_ascii=False).encode()
    for token in _JSON.finditer(line):
        sign = token[0][:1]
        if sign in b"{[":
            depth += 1
        elif sign in b"}]":
            depth -= 1
        elif depth == 1 and sign in b",:":
            is_key = sign == b","
        elif depth == 1 and is_key:
            is_field = token[0] == plain or (b"\\" in token[0] and json.loads(token[0]) == field)
        elif depth == 1 and is_field:
            span = token.span()
    return span


def edit_records(
    records: Iterator[list[str]], lines: list[str], edit: Edit, file: InputFile
) -> Iterator[list[str]]:
    """Yield the records, the header first, and put the lines of each into `lines`.

    The lines contain the new texts, the yielded fields are the old ones. Records are read ahead in
    batches, so that `edit.rewrite` gets many texts in a call.

    Args:
        records: The records of the file, from `delimited.split_records`.
        lines: The list that `split_records` fills with the lines of the current record.
        edit: The new texts.
        file: The file.
    """
    first = next(records, None)
    if first is None:
        return
    place, start = name_columns(file, first).index(edit.columns.text), 0
    if file.dialect.header:
        yield first
        lines.clear()
    else:
        records = chain([first], records)
    delimiter = delimiter_of(file)
    while batch := _next_batch(records, lines):
        rows = np.flatnonzero(edit.changed[start : start + len(batch)])
        texts = make_strings([batch[row][0][place].encode("latin-1") for row in rows.tolist()])
        fresh = dict(zip(rows.tolist(), edit.rewrite(rows + start, texts).to_pylist(), strict=True))
        for row, (record, own) in enumerate(batch):
            if row in fresh:
                text = fresh[row].encode().decode("latin-1")
                own = [edit_record("".join(own), place, delimiter, text, file.dialect.quote)]
            lines[:] = own
            yield record
        start += len(batch)
        lines.clear()


def _next_batch(
    records: Iterator[list[str]], lines: list[str]
) -> list[tuple[list[str], list[str]]]:
    """Return the next records with the lines of each, up to a number of records and bytes."""
    batch, size = [], 0
    for record in records:
        batch.append((record, lines.copy()))
        size += sum(map(len, lines))
        lines.clear()
        if len(batch) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            break
    return batch


def edit_record(record: str, place: int, delimiter: str, text: str, quote: str | None = '"') -> str:
    """Return a CSV record with another text in a field, quoted if it was or must be.

    >>> edit_record("1,long text,c", 1, ",", "a, b")
    '1,"a, b",c'
    """
    d, q = re.escape(delimiter), re.escape(quote or "")
    quoted = f"{q}[^{q}]*(?:{q}{q}[^{q}]*)*{q}|" if quote else ""
    fields = re.finditer(rf"({quoted}[^{d}\r\n]*)(?:{d}|\Z|[\r\n])", record)
    begin, end = next(field for number, field in enumerate(fields) if number == place).span(1)
    if quote and (record[begin:end].startswith(quote) or re.search(rf"[{q}\r\n{d}]", text)):
        text = quote + text.replace(quote, quote * 2) + quote
    return record[:begin] + text + record[end:]


def edit_text(data: bytes, edit: Edit, encoding: str, row: int = 0) -> bytes:
    """Return the content of a text file, or a member of an archive, with the new text.

    Args:
        data: The content, which is one row.
        edit: The new texts.
        encoding: The encoding of the file, or `auto`.
        row: The number of the row.
    """
    text, _ = decode_document(data, encoding)
    (fresh,) = edit.rewrite(np.array([row], np.int64), make_strings([text])).to_pylist()
    return encode_document(str(fresh), data, encoding)


def edit_batch(batch: pa.RecordBatch, start: int, edit: Edit, name: str) -> pa.RecordBatch:
    """Return a record batch with the new texts; `start` is the number of its first row."""
    rows = np.flatnonzero(edit.changed[start : start + batch.num_rows])
    if not len(rows):
        return batch
    place = batch.schema.get_field_index(edit.columns.text)
    old = batch.column(place)
    if pa.types.is_dictionary(old.type):
        raise UsageError(
            f"{name}: column {edit.columns.text!r} is a dictionary, whose texts can't be replaced: "
            "store it as plain strings"
        )
    texts = decode_strings(old)
    fresh = edit.rewrite(rows + start, texts.take(_column(rows)))
    order = np.arange(len(texts))
    order[rows] = len(texts) + np.arange(len(rows))
    mixed = pa.concat_arrays([texts, fresh]).take(_column(order)).cast(old.type)
    return batch.set_column(place, batch.schema.field(place), mixed)


def _column(numbers: Integers) -> pa.Array:
    """Return the numbers as an Arrow column, without pa.array, which imports pandas."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])
