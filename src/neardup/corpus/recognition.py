"""Recognise the formats of files: by their names and, where these don't tell, by their contents.

The ending of a name decides the format; if it is unknown, or may be one of several, the first bytes
of the content do. Imports no PyArrow, unless a file is compressed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from neardup.corpus.dialects import DELIMITERS, find_delimiter, show_delimiter
from neardup.corpus.encodings import AUTO, find_encoding, to_utf8
from neardup.corpus.folders import printable
from neardup.corpus.format_table import (
    COMPRESSION_OF_ENDING,
    COMPRESSIONS,
    FORMATS,
    HEAD,
    PACKAGES,
    SHORT_ENDINGS,
    UNREAD_ENDINGS,
    FileFormat,
    format_of_content,
    formats_of_choice,
    formats_of_ending,
    is_json_lines,
    may_be_json,
)
from neardup.errors import InputError, UsageError

FEW_BYTES = 64
SOME_BYTES = 512
"""Enough to recognise a format that is not JSON."""
MANY_LINES = 10


class Recognised(NamedTuple):
    """The names of a file's format and of its compression, rows of `format_table`."""

    format: str
    compression: str | None


def recognise(path: str, choice: str) -> Recognised:
    """Return the format and the compression of a file.

    Args:
        path: The path of the file.
        choice: The format that the user has chosen, or `auto`.
    """
    possible, compression = _by_name(path)
    if not possible and compression is None:
        head = read_head(path, None, FEW_BYTES)
        packed = (row.name for row in COMPRESSIONS.values() if head.startswith(row.magics))
        compression = next(packed, None)
    if choice != AUTO:
        possible = formats_of_choice(choice)
    format = possible[0].name if len(possible) == 1 else _by_content(path, compression, possible)
    if compression and FORMATS[format].is_packed:
        raise InputError(f"{printable(path)}: {format} inside {compression}: unpack it first")
    return Recognised(format, compression)


def recognise_decoded(path: str, known: Recognised, encoding: str) -> tuple[str, str]:
    """Return the format that the decoded content tells, if the name does not; and the encoding.

    Args:
        path: The path of the file.
        known: What was recognised in its bytes.
        encoding: The name of an encoding, or `auto` for that of the byte order mark.
    """
    head = read_head(path, known.compression)
    encoding = find_encoding(encoding, head)
    possible, _ = _by_name(path)
    if len(possible) == 1:
        return known.format, encoding
    row = _matching_row(b"".join(to_utf8([head], encoding)), possible)
    return known.format if row is None else row.name, encoding


def _by_name(path: str) -> tuple[tuple[FileFormat, ...], str | None]:
    """Return the formats and the compression that a name implies."""
    stem, last = os.path.splitext(os.path.basename(path).lower())
    if last in SHORT_ENDINGS:
        stem, last = os.path.splitext(stem + SHORT_ENDINGS[last])
    if last in COMPRESSION_OF_ENDING:
        return formats_of_ending(os.path.splitext(stem)[1]), COMPRESSION_OF_ENDING[last]
    if last in UNREAD_ENDINGS and _is_data(formats_of_ending(os.path.splitext(stem)[1])):
        raise InputError(f"{printable(path)}: {last} is not read: unpack it, or use .gz or .zst")
    return formats_of_ending(last), None


def _is_data(possible: tuple[FileFormat, ...]) -> bool:
    """Return whether files of these formats have records, and are not documents themselves."""
    return bool(possible) and not possible[0].is_document


def _by_content(path: str, compression: str | None, possible: Sequence[FileFormat]) -> str:
    """Return the format that the content of a file tells: a possible one, or any."""
    head = read_head(path, compression, SOME_BYTES)
    if may_be_json(head):
        head = read_head(path, compression)
    row = _matching_row(head, possible)
    if row is None or ending_of(path) in PACKAGES:
        return possible[0].name if possible else "text"
    return row.name


def _matching_row(head: bytes, possible: Sequence[FileFormat]) -> FileFormat | None:
    if possible:
        return next((row for row in possible if row.is_content(head)), None)
    return format_of_content(head)


def ending_of(path: str) -> str:
    """Return the ending of a file's name, before that of a compression."""
    stem, last = os.path.splitext(os.path.basename(path).lower())
    return os.path.splitext(stem)[1] if last in COMPRESSION_OF_ENDING else last


def refuse_hidden_lines(path: str, known: Recognised) -> None:
    """Raise `UsageError` if a text, by its name one document, consists of JSON lines."""
    if (
        FORMATS[known.format].is_document
        and may_be_json(read_head(path, known.compression, FEW_BYTES))
        and is_json_lines(read_head(path, known.compression), least=2)
    ):
        raise UsageError(
            f"{printable(path)}: a text by its name, which is one document, but its lines are JSON "
            "objects: use --format jsonl, or --format text if it is one document"
        )


def hints_of_one_text(name: str, path: str, compression: str | None) -> Iterator[str]:
    """Yield a sentence if the only input, a text, may be several documents: a table, or lines.

    A table whose name does not say what it is, as in a pipe, is refused: it is hardly a text.

    Args:
        name: What the file is called in messages.
        path: Its path.
        compression: Its compression.
    """
    head = read_head(path, compression)
    delimiter = find_delimiter(head.decode("utf-8-sig", "replace"), len(head) < HEAD)
    if delimiter is not None:
        shown = show_delimiter(delimiter)
        found = (
            f"{name} looks like a table, with columns that are separated by {shown}, and would be "
            "one document"
        )
        cure = "--format tsv" if delimiter == "\t" else "--format csv"
        cure += "" if delimiter in DELIMITERS.values() else f" --delimiter {shown}"
        if not formats_of_ending(ending_of(path)):
            raise UsageError(f"{found}: use {cure}, or --format text if it is one")
        yield f"{found}; if it is a table, use {cure}"
    elif head.count(b"\n") >= MANY_LINES:
        yield f"{name} is one document; if every line of it is one, use --format lines"


def read_head(path: str, compression: str | None, size: int = HEAD) -> bytes:
    """Return the first bytes of a file, decompressed; none if it can't be read."""
    try:
        if compression is not None:
            return _read_unpacked(path, compression, size)
        # Not by `open`, which takes twice as long: a folder may have a million texts.
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(handle, size)
        finally:
            os.close(handle)
    except OSError:
        return b""


def _read_unpacked(path: str, compression: str, size: int) -> bytes:
    import pyarrow as pa

    from neardup.corpus.packing import unpack

    head = b""
    with suppress(InputError, OSError, pa.ArrowException), open(path, "rb", buffering=0) as raw:
        for piece in unpack(raw, compression, size):
            head += piece
            if len(head) >= size:
                break
    return head
