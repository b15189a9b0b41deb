"""Read the documents of a file: `read_chunks` cuts it, `parse_chunk` parses a chunk.

`read_chunks` runs in the parent process and is cheap: it finds where records end, decompresses, and
decodes columns. A Chunk is picklable; `parse_chunk` runs in a worker and does the rest. The
documents of all chunks, in order, are the rows of the file, numbered from 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neardup.corpus import archives, columnar, delimited, tar_members, warc, zip_members
from neardup.corpus.columns import (
    Source,
    add_folder_values,
    convert_table,
    decode_strings,
    resolve_columns,
    to_strings,
)
from neardup.corpus.documents import (
    LONGEST,
    TOO_LONG,
    Columns,
    Documents,
    blank_rows,
    make_strings,
)
from neardup.corpus.encodings import INVALID, UTF8, decode_document, describe_invalid
from neardup.corpus.fields import (
    MISSING,
    folder_value,
    list_table_fields,
    needed_fields,
    take_field,
)
from neardup.corpus.format_table import WHOLE_FILE
from neardup.corpus.inputs import InputFile
from neardup.corpus.json_records import read_json_blocks
from neardup.corpus.jsonl import find_line_bounds, parse_lines, select_lines
from neardup.corpus.plain_lines import parse_plain_lines
from neardup.corpus.streams import (
    Meter,
    changed_error,
    check_utf8,
    find_line_ranges,
    name_read_errors,
    read_decompressed,
    read_line_blocks,
    read_range,
)
from neardup.corpus.urls import is_url
from neardup.corpus.vector_files import RowsBeside
from neardup.errors import UsageError

# Python objects of one chunk should fit into the processor's cache: with 4 MB chunks, parsing
# JSONL ran at 520 MB/s instead of 760.
CHUNK = 1 << 20
_MAX_FILES = 512
_OF_LINES = {"jsonl", "json", "lines"}
_WITH_UNREAD = {"warc", "tar", "zip"}
# Arrow's threads may still hold Python's memory when a process ends, which aborts it.
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of one file; or text files, each of which is one row.

    Attributes:
        files: The file, or the text files.
        first: Whether the file begins with this chunk.
        data: Lines (JSON, plain), or an Arrow stream of the required columns (CSV, Parquet, Arrow).
        span: Instead of data, (start, length) of the lines of an uncompressed file.
        rejected: Rows that were rejected when the file was cut, with the reason of each.
        unread: How many records or members before or between its rows are no rows, by reason.
        stored: The number of bytes on disk that were read for it.
        beside: Where its vectors are, if they are in a file of their own.
    """

    files: tuple[InputFile, ...]
    first: bool
    data: bytes = b""
    span: tuple[int, int] | None = None
    rejected: dict[int, str] = field(default_factory=dict)
    unread: dict[str, int] = field(default_factory=dict)
    stored: int = 0
    beside: RowsBeside | None = None


Part = tuple[int, int] | None
"""A range of bytes of a file of lines, of row groups of a Parquet file; None for the whole file."""


class Cut(NamedTuple):
    """What is to be cut into chunks.

    Args:
        file: The file.
        columns: The columns that are required.
        size: The approximate number of bytes of a chunk.
        meter: Where the stored bytes that were read are counted.
        part: The part of the file.
    """

    file: InputFile
    columns: Columns
    size: int
    meter: Meter
    part: Part


def read_chunks(
    file: InputFile, columns: Columns, size: int = CHUNK, part: Part = None
) -> Iterator[Chunk]:
    """Yield the file in chunks of about `size` bytes, each of whole records.

    Of a part, only the lines that begin in that range of bytes (JSONL), or its row groups.
    """
    if not file.row.has_lists:
        _refuse_vectors(file, columns)
    if not file.row.has_columns:
        _refuse_columns(file, columns)
    meter = Meter()
    return _numbered(
        file, READERS[file.format].cut(Cut(file, columns, size, meter, part)), meter, part
    )


def chunks_of(files: Iterable[InputFile], columns: Columns, size: int = CHUNK) -> Iterator[Chunk]:
    """Yield the chunks of many files, in order; consecutive text files share a chunk."""
    texts: list[InputFile] = []
    length = 0
    for file in files:
        is_text = file.row.is_document
        if texts and (not is_text or length >= size or len(texts) == _MAX_FILES):
            yield Chunk(tuple(texts), True, stored=length)
            texts, length = [], 0
        if is_text:
            _refuse_vectors(file, columns)
            _refuse_columns(file, columns)
            texts.append(file)
            length += _stored_size(file)
        else:
            yield from read_chunks(file, columns, size)
    if texts:
        yield Chunk(tuple(texts), True, stored=length)


def _refuse_vectors(file: InputFile, columns: Columns) -> None:
    """Raise `UsageError` if a column of vectors is asked for in a file that can't have one."""
    if columns.vector_column is not None:
        raise UsageError(
            f"{file.name} is a {file.format} file, which has no lists of numbers: put the vectors "
            "into an .npy file with a row for each document, or all into Parquet or JSON Lines"
        )


def _refuse_columns(file: InputFile, columns: Columns) -> None:
    """Raise `UsageError` if an option asks for a column of a file that has none."""
    asked = [
        option
        for option, name in columns.asked().items()
        if option != "text" and folder_value(file, name) is MISSING
    ]
    if asked or columns.tokens:
        option = asked[0].partition(":")[0] if asked else "tokens"
        own = "mtime, path and " if file.row.is_document and not is_url(file.name) else ""
        raise UsageError(
            f"{file.name} is a {file.format} file and has no columns but {own}those of its "
            f"folders: leave out --{option}"
        )


def _stored_size(file: InputFile) -> int:
    with name_read_errors(file):
        return file.path.stat().st_size


def _numbered(
    file: InputFile, pieces: Iterator[Chunk], meter: Meter, part: Part
) -> Iterator[Chunk]:
    before = 0
    begins = part is None or part[0] == 0
    with name_read_errors(file):
        for number, piece in enumerate(pieces):
            yield replace(piece, first=begins and number == 0, stored=meter.at - before)
            before = meter.at


def _cut_text(cut: Cut) -> Iterator[Chunk]:
    cut.meter.at = _stored_size(cut.file)
    yield Chunk((cut.file,), True)


def _cut_lines(cut: Cut) -> Iterator[Chunk]:
    if cut.file.is_plain:
        for span in find_line_ranges(cut.file, cut.size, cut.part):
            cut.meter.at += span[1]
            yield Chunk((cut.file,), False, span=span)
    else:
        for block in read_line_blocks(cut.file, cut.size, cut.meter):
            yield Chunk((cut.file,), False, block)


def _cut_json(cut: Cut) -> Iterator[Chunk]:
    for _, lines in read_json_blocks(cut.file, cut.size, cut.meter):
        yield Chunk((cut.file,), False, lines)


def _cut_records(cut: Cut) -> Iterator[Chunk]:
    records = delimited.parse_records(cut.file, cut.columns, cut.size, cut.meter)
    for table, rejected in records:
        yield Chunk((cut.file,), False, _packed(table, table.schema.names), rejected=rejected)


def _cut_tables(cut: Cut) -> Iterator[Chunk]:
    needed: list[str] = []

    def choose(schema: pa.Schema) -> list[str]:
        names = list_table_fields(schema, cut.columns)
        resolved = resolve_columns(cut.columns, names, Source.of(cut.file))
        needed[:] = needed_fields(resolved, names)
        return needed

    for table in columnar.read_batches(cut.file, cut.size, choose, cut.meter, cut.part):
        yield Chunk((cut.file,), False, _packed(table, needed))


def _cut_web(cut: Cut) -> Iterator[Chunk]:
    resolved = resolve_columns(cut.columns, warc.COLUMNS, Source.of(cut.file))
    names = needed_fields(resolved, warc.COLUMNS)
    for group in warc.read_records(cut.file, cut.size, cut.meter):
        data = _packed(group.table(names), names)
        yield Chunk((cut.file,), False, data, rejected=group.rejected, unread=dict(group.unread))


def _cut_tar(cut: Cut) -> Iterator[Chunk]:
    return _cut_members(cut, tar_members.read_members(cut.file, cut.meter))


def _cut_zip(cut: Cut) -> Iterator[Chunk]:
    return _cut_members(cut, zip_members.read_members(cut.file, cut.meter))


def _cut_members(cut: Cut, members: Iterable[archives.Member]) -> Iterator[Chunk]:
    for group in archives.group_members(members, cut.size, cut.file.name, cut.file.encoding):
        table = group.table()
        data = _packed(table, table.schema.names)
        yield Chunk((cut.file,), False, data, rejected=group.rejected, unread=dict(group.unread))


def count_rows(chunk: Chunk) -> int:
    """Return the number of documents of a chunk, also of those that will be rejected.

    Args:
        chunk: A chunk that `read_chunks` made.
    """
    if chunk.files[0].format in _OF_LINES:
        data = stored_bytes(chunk)
        _, _, is_document = find_line_bounds(data, chunk.first)
        return int(np.count_nonzero(is_document))
    if READERS[chunk.files[0].format].parse is _parse_texts:
        return len(chunk.files)
    return len(_read_packed(chunk))


def count_unread(file: InputFile, columns: Columns) -> Counter[str]:
    """Return how many records or members of a file are no documents, by reason."""
    counted: Counter[str] = Counter()
    if file.format in _WITH_UNREAD:
        for chunk in read_chunks(file, columns):
            counted.update(chunk.unread)
    return counted


def _packed(table: pa.RecordBatch, fields: Sequence[str]) -> bytes:
    # Decoded first: a slice of a dictionary or of string views would drag all its values along.
    columns = {name: decode_strings(take_field(table, name)) for name in fields}
    table = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_batch(table)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _read_packed(chunk: Chunk) -> pa.RecordBatch:
    return pa.ipc.open_stream(chunk.data, options=_ONE_THREAD).read_next_batch()


def stored_bytes(chunk: Chunk) -> bytes:
    """Return the lines of a chunk: of JSON, also if the file has no lines, or of plain text."""
    if chunk.span is None:
        return chunk.data
    data = read_range(chunk.files[0], *chunk.span)
    if chunk.first:
        check_utf8(chunk.files[0], data)
    return data


def parse_chunk(chunk: Chunk, columns: Columns) -> Documents:
    """Return the documents of a chunk; `columns` are those that `read_chunks` was called with."""
    file = chunk.files[0]
    with name_read_errors(file):
        documents = _name_encoding(file, READERS[file.format].parse(chunk, columns))
    return documents if chunk.beside is None else chunk.beside.attach(documents, columns)


def parse_rows(chunk: Chunk, columns: Columns, rows: npt.NDArray[np.int64], size: int) -> Documents:
    """Return the documents in these rows of a chunk.

    Raises `InputError` if the chunk does not have `size` documents: the file has changed.
    """
    file = chunk.files[0]
    with name_read_errors(file):
        picked = READERS[file.format].pick(chunk, columns, rows, size)
        documents = _name_encoding(file, picked)
    return documents if chunk.beside is None else chunk.beside.attach(documents, columns, rows)


def _name_encoding(file: InputFile, documents: Documents) -> Documents:
    """Return the documents; the reason of those with invalid bytes names the file's encoding."""
    if file.encoding != UTF8 and file.row.encoded == WHOLE_FILE:
        reason = describe_invalid(file.encoding)
        for row, other in documents.rejected.items():
            documents.rejected[row] = reason if other == INVALID else other
    return documents


def _parse_json_lines(chunk: Chunk, columns: Columns) -> Documents:
    return parse_lines(stored_bytes(chunk), chunk.first, columns, Source.of(chunk.files[0]))


def _pick_json_lines(
    chunk: Chunk, columns: Columns, rows: npt.NDArray[np.int64], size: int
) -> Documents:
    lines, count = select_lines(stored_bytes(chunk), chunk.first, rows)
    if count != size:
        raise changed_error(chunk.files[0])
    return parse_lines(lines, False, columns, Source.of(chunk.files[0]))


def _parse_plain_lines(chunk: Chunk, columns: Columns) -> Documents:
    documents = parse_plain_lines(stored_bytes(chunk), chunk.first)
    return add_folder_values(documents, chunk.files, columns)


def _pick_plain_lines(
    chunk: Chunk, columns: Columns, rows: npt.NDArray[np.int64], size: int
) -> Documents:
    lines, count = select_lines(stored_bytes(chunk), chunk.first, rows)
    if count != size:
        raise changed_error(chunk.files[0])
    return add_folder_values(parse_plain_lines(lines, False), chunk.files, columns)


def _parse_texts(chunk: Chunk, columns: Columns) -> Documents:
    return _text_files(chunk.files, columns)


def _pick_texts(
    chunk: Chunk, columns: Columns, rows: npt.NDArray[np.int64], size: int
) -> Documents:
    if len(chunk.files) != size:
        raise changed_error(chunk.files[0])
    return _text_files(tuple(chunk.files[row] for row in rows.tolist()), columns)


def _pick_from_all(
    chunk: Chunk, columns: Columns, rows: npt.NDArray[np.int64], size: int
) -> Documents:
    documents = READERS[chunk.files[0].format].parse(chunk, columns)
    if len(documents) != size:
        raise changed_error(chunk.files[0])
    return documents.take(rows)


def _unpacked(chunk: Chunk, columns: Columns) -> Documents:
    file = chunk.files[0]
    source = Source.of(file)
    if not file.row.has_columns:  # --text is about the files that have columns
        columns = replace(columns, text=archives.TEXT_COLUMN)
    table = _read_packed(chunk)
    documents = convert_table(table, resolve_columns(columns, table.schema.names, source), source)
    documents.ids = to_strings(documents.ids)
    documents.texts = blank_rows(documents.texts, set(chunk.rejected))
    documents.rejected = dict(sorted((documents.rejected | chunk.rejected).items()))
    return documents


def _parse_records(chunk: Chunk, columns: Columns) -> Documents:
    return delimited.infer_types(_unpacked(chunk, columns))


def _text_files(files: tuple[InputFile, ...], columns: Columns) -> Documents:
    texts: list[str | None] = []
    rejected: dict[int, str] = {}
    for row, file in enumerate(files):
        with name_read_errors(file):
            text, reason = _text_file(file)
        texts.append(text)
        if reason:
            rejected[row] = reason
    ids = [file.kept_name.encode("utf-8", "backslashreplace").decode() for file in files]
    documents = Documents(make_strings(texts), make_strings(ids), None, None, rejected)
    return add_folder_values(documents, files, columns)


def _text_file(file: InputFile) -> tuple[str | None, str | None]:
    pieces, length = [], 0
    for piece in read_decompressed(file, CHUNK):
        length += len(piece)
        if length > LONGEST:
            return None, TOO_LONG
        pieces.append(piece)
    return decode_document(b"".join(pieces), file.encoding)


class Reader(NamedTuple):
    """How a format is read.

    Args:
        cut: Yields a file in chunks; their `first` and `stored` are filled in by `read_chunks`.
        parse: Returns the documents of a chunk.
        pick: Returns the documents in these rows of a chunk, which has a known number of them.
    """

    cut: Callable[[Cut], Iterator[Chunk]]
    parse: Callable[[Chunk, Columns], Documents]
    pick: Callable[[Chunk, Columns, npt.NDArray[np.int64], int], Documents] = _pick_from_all


_TABLES = Reader(_cut_tables, _unpacked)
_RECORDS = Reader(_cut_records, _parse_records)
READERS: Final[dict[str, Reader]] = {
    "jsonl": Reader(_cut_lines, _parse_json_lines, _pick_json_lines),
    "json": Reader(_cut_json, _parse_json_lines, _pick_json_lines),
    "lines": Reader(_cut_lines, _parse_plain_lines, _pick_plain_lines),
    "csv": _RECORDS,
    "tsv": _RECORDS,
    "parquet": _TABLES,
    "arrow": _TABLES,
    "arrow-stream": _TABLES,
    "warc": Reader(_cut_web, _unpacked),
    "tar": Reader(_cut_tar, _unpacked),
    "zip": Reader(_cut_zip, _unpacked),
    "text": Reader(_cut_text, _parse_texts, _pick_texts),
}
"""Format -> how it is read."""
