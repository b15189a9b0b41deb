"""Copy the kept records of a WARC file, byte for byte unless they get another text.

A gzip file of which every record is a member of its own, as the format recommends, stays one: the
stored bytes of kept members are copied. A record that shares its member with others becomes a
member of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from neardup.corpus.encodings import UTF8
from neardup.corpus.rows import Rows, edit_text
from neardup.corpus.streams import read_decompressed
from neardup.corpus.warc import (
    LONGEST_RECORD,
    RecordReader,
    find_page,
    read_text,
    replace_text,
)

_PIECE = 1 << 20


def copy_records(rows: Rows) -> Iterator[bytes]:
    """Yield the kept records, and those that are no rows, decompressed."""
    pieces = read_decompressed(rows.file, _PIECE)
    return (part.data for part in _kept_parts(rows, pieces))


def copy_members(rows: Rows, stored: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the kept records of a gzip file, and those that are no rows, as gzip members.

    Args:
        rows: The keep list.
        stored: The bytes of the file as they are stored.
    """
    members = GzipMembers(stored)
    packer = None
    for part in _kept_parts(rows, members, members.forget):
        if not part.is_rest:
            if packer is not None:
                yield packer.flush()
            packer = None
            member = None if part.is_new else members.take(part.start, len(part.data))
            if member is not None:
                yield member
                continue
            packer = zlib.compressobj(wbits=31)
        if packer is not None:
            yield packer.compress(part.data)
    if packer is not None:
        yield packer.flush()


class _Part(NamedTuple):
    """Bytes to write.

    Args:
        start: Where the record begins in the decompressed file.
        data: The record, or a part of a long one.
        is_rest: Whether they belong to the record before.
        is_new: Whether the record has another text than in the file.
    """

    start: int
    data: bytes
    is_rest: bool
    is_new: bool = False


def _kept_parts(
    rows: Rows, pieces: Iterable[bytes], pass_by: Callable[[int], None] = lambda _: None
) -> Iterator[_Part]:
    """Yield the kept records, with their new texts, and those that are no rows.

    Args:
        rows: The keep list.
        pieces: The decompressed file.
        pass_by: Called with a place before which nothing will be yielded any more.
    """
    is_kept, at = True, 0
    for record in RecordReader(pieces, rows.file.name):
        at = at + len(record.data) if record.is_rest else record.start
        pass_by(at)
        if record.is_rest:
            if is_kept:
                yield _Part(record.start, record.data, True)
            continue
        page, row = find_page(record), rows.next
        is_kept = bool(rows.take(1)[0]) if page.is_row else True
        if is_kept and page.is_row and rows.edit is not None and rows.edit.changed[row]:
            text, _ = read_text(record, page)
            fresh = replace_text(record, page, edit_text(text or b"", rows.edit, UTF8, row))
            yield _Part(record.start, fresh, False, is_new=True)
        elif is_kept:
            yield _Part(record.start, record.data, False)


class GzipMembers:
    """The decompressed pieces of a gzip file, and the stored bytes of members that were read.

    Args:
        blocks: The stored bytes of the file.
    """

    def __init__(self, blocks: Iterable[bytes]) -> None:
        self._blocks = blocks
        self._members: dict[int, tuple[int, bytes]] = {}
        self._machine, self._stored = zlib.decompressobj(wbits=31), list[bytes]()
        self._at = self._begin = 0

    def forget(self, start: int) -> None:
        """Forget the members that begin before a place of the decompressed file."""
        for before in [begin for begin in self._members if begin < start]:
            del self._members[before]

    def take(self, start: int, length: int) -> bytes | None:
        """Return the stored bytes of the member with exactly these contents, if there is one."""
        end, stored = self._members.pop(start, (-1, b""))
        return stored if end == start + length else None

    def __iter__(self) -> Iterator[bytes]:
        try:
            for block in self._blocks:
                yield from self._feed(block)
            while piece := self._machine.decompress(b"", _PIECE):
                self._at += len(piece)
                yield piece
        except zlib.error as error:
            raise OSError(str(error)) from None
        if self._at > self._begin and not self._machine.eof:
            raise OSError("a gzip member is truncated")

    def _feed(self, block: bytes) -> Iterator[bytes]:
        while block:
            piece = self._machine.decompress(block, _PIECE)
            rest = self._machine.unused_data or self._machine.unconsumed_tail
            if self._at - self._begin <= LONGEST_RECORD:
                self._stored.append(block[: len(block) - len(rest)])
            self._at, block = self._at + len(piece), rest
            if self._machine.eof:
                held = self._at - self._begin <= LONGEST_RECORD
                self._members[self._begin] = (self._at if held else -1, b"".join(self._stored))
                self._machine, self._stored = zlib.decompressobj(wbits=31), []
                self._begin = self._at
            if piece:
                yield piece
