"""Read the bytes of a file: decompressed, in UTF-8, in whole lines or records."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import IO

import pyarrow as pa

from neardup.corpus.documents import LONGEST
from neardup.corpus.encodings import UTF8, explain_wide, to_utf8
from neardup.corpus.format_table import COMPRESSIONS
from neardup.corpus.inputs import InputFile
from neardup.corpus.packing import unpack
from neardup.errors import InputError

AGAIN = "get it again"
SKIP = f"{AGAIN}, or leave it out with --skip-bad-files"
_STEP = 1 << 16


NO_MEMORY = 1 << 40
"""Bytes that no column has: a damaged file asks for more."""


@contextmanager
def name_read_errors(file: InputFile, cure: str = SKIP) -> Iterator[None]:
    """Turn errors while a file is read into an `InputError` with its name.

    `cure` is what the message advises for damaged data.
    """
    try:
        yield
    except InputError as error:
        error.file = error.file or file.name
        raise
    except MemoryError as error:  # Arrow's is an ArrowException too
        asked = re.search(r"size (\d+)", str(error))
        if asked and int(asked[1]) > NO_MEMORY:
            raise _corrupt(file, error, cure) from None
        raise
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter: a column's name
        raise _corrupt(file, error, cure) from None
    except UnicodeEncodeError:
        raise InputError(
            f"{file.name}: kept rows can't be written in {file.encoding} again: convert the file "
            "to UTF-8 first",
            file.name,
        ) from None
    except OSError as error:
        if error.errno is None:
            raise _corrupt(file, error, cure) from None
        why = os.strerror(error.errno)
        raise InputError(
            f"{file.name}: cannot be read ({why}): check the file and its permissions", file.name
        ) from None


def _corrupt(file: InputFile, error: Exception, cure: str) -> InputError:
    kind = file.compression or file.format
    if file.compression is not None and not _begins_as_named(file):
        return InputError(
            f"{file.name}: not {kind} data, in spite of its name: rename it, or {cure}", file.name
        )
    # Arrow's messages have many lines; the first sentence states the cause.
    why = str(error).strip().split("\n")[0].split(". ")[0][:120]
    return InputError(f"{file.name}: truncated or corrupt {kind} data ({why}): {cure}", file.name)


def _begins_as_named(file: InputFile) -> bool:
    """Return whether a file begins with the magic bytes of its compression, or a part of them."""
    magics = COMPRESSIONS[file.compression or ""].magics
    try:
        with open(file.path, "rb") as raw:
            head = raw.read(max(map(len, magics)))
    except OSError:
        return True
    return any(magic.startswith(head[: len(magic)]) for magic in magics)


def changed_error(file: InputFile) -> InputError:
    """Return the error for a file that has changed since it was read before."""
    return InputError(
        f"{file.name}: changed during the run: leave it alone and run again", file.name
    )


class Meter:
    """Counts the stored bytes of a file that have been read so far, for progress."""

    def __init__(self) -> None:
        self.at = 0


@contextmanager
def open_unbuffered(file: InputFile) -> Iterator[IO[bytes]]:
    """Open a file for its stored bytes, without a buffer."""
    with open(file.path, "rb", buffering=0) as raw:
        yield raw


def find_line_ranges(
    file: InputFile, size: int, part: tuple[int, int] | None = None
) -> Iterator[tuple[int, int]]:
    """Yield (start, length) of ranges of whole lines of an uncompressed file.

    A range ends with the first line that reaches `size` bytes. Only the bytes around the cuts are
    read, so that the workers can read the rest. A last line beyond LONGEST is truncated: it is
    still too long, and will be rejected.

    Args:
        file: The file.
        size: The least number of bytes of a range, except the last.
        part: A range of bytes: only lines that begin in it are included. By default the file.
    """
    with open_unbuffered(file) as raw:
        start, total = 0, os.fstat(raw.fileno()).st_size
        if part is not None:
            start, total = (
                _after_newline(raw.fileno(), place - 1, total) if place else 0 for place in part
            )
        while start < total:
            end = _after_newline(raw.fileno(), start + size - 1, total)
            yield start, min(end - start, size + LONGEST)
            start = end


def _after_newline(handle: int, position: int, total: int) -> int:
    """Return the position after the first newline from `position` on, `total` if there is none."""
    while position < total:
        block = os.pread(handle, _STEP, position)
        newline = block.find(b"\n")
        if newline >= 0:
            return position + newline + 1
        position += len(block) or total
    return total


def read_range(file: InputFile, start: int, length: int) -> bytes:
    """Return a range of bytes; `InputError` if the file is shorter."""
    with open_unbuffered(file) as raw:
        parts = []
        while length > 0:
            part = os.pread(raw.fileno(), min(length, LONGEST), start)
            if not part:
                raise changed_error(file)
            parts.append(part)
            start, length = start + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def read_line_blocks(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[bytes]:
    """Yield the file's contents in blocks of whole lines, of about `size` bytes each."""
    meter = meter or Meter()
    if file.is_plain:
        for start, length in find_line_ranges(file, size):
            meter.at = start + length
            block = read_range(file, start, length)
            if start == 0:
                check_utf8(file, block)
            yield block
    else:
        yield from cut_at_newlines(read_decoded(file, size, meter))


def read_decompressed(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[bytes]:
    """Yield the file's decompressed contents in pieces of at most `size` bytes."""
    meter = meter or Meter()
    with open_unbuffered(file) as raw:
        if file.compression is None:
            pieces = iter(partial(raw.read, size), b"")
        else:
            pieces = unpack(raw, file.compression, size)
        for piece in pieces:
            meter.at = raw.tell()
            yield piece


def read_decoded(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[bytes]:
    """Yield the file's contents in UTF-8, in pieces of about `size` bytes.

    Bytes that the encoding of the file does not have are invalid UTF-8 too.
    """
    pieces = read_decompressed(file, size, meter)
    if file.encoding != UTF8:
        yield from to_utf8(pieces, file.encoding)
        return
    for number, piece in enumerate(pieces):
        if number == 0:
            check_utf8(file, piece)
        yield piece


def check_utf8(file: InputFile, head: bytes) -> None:
    """Raise `InputError` if a file begins as one in UTF-16 or UTF-32 does."""
    if reason := explain_wide(head):
        raise InputError(f"{file.name}: {reason}", file.name)


def cut_at_newlines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield blocks of whole lines from pieces of any size.

    A line beyond LONGEST loses its middle: it is still too long, and will be rejected.
    """
    pending: list[bytes] = []
    length = 0
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if cut:
            yield b"".join((*pending, piece[:cut]))
            pending, length, piece = [], 0, piece[cut:]
        if length <= LONGEST:
            pending.append(piece)
            length += len(piece)
    if length:
        yield b"".join(pending)
