"""Copy the kept records of a WARC file, byte for byte.

A gzip file of which every record is a member of its own, as the format recommends, stays one: the
stored bytes of kept members are copied. A record that shares its member with others becomes a
member of its own.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from neardup.corpus.rows import Rows
from neardup.corpus.streams import read_decompressed
from neardup.corpus.warc import LONGEST_RECORD, RecordReader, find_page
from neardup.errors import UsageError

_PIECE = 1 << 20


def copy_records(rows: Rows) -> Iterator[bytes]:
    """Yield the kept records, and those that are no rows, decompressed."""
    pieces = read_decompressed(rows.file, _PIECE)
    return (part for _, part, _ in _kept_parts(rows, pieces))


def copy_members(rows: Rows, stored: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the kept records of a gzip file, and those that are no rows, as gzip members.

    Args:
        rows: The keep list.
        stored: The bytes of the file as they are stored.
    """
    members = GzipMembers(stored)
    packer = None
    for start, part, is_rest in _kept_parts(rows, members):
        if not is_rest:
            if packer is not None:
                yield packer.flush()
            packer = None
            member = members.take(start, len(part))
            if member is not None:
                yield member
                continue
            packer = zlib.compressobj(wbits=31)
        if packer is not None:
            yield packer.compress(part)
    if packer is not None:
        yield packer.flush()


def _kept_parts(rows: Rows, pieces: Iterable[bytes]) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (start, bytes, whether a long record goes on) of the records to write."""
    if rows.edit is not None and rows.edit.changed.any():
        raise UsageError(
            f"{rows.file.name}: texts inside WARC records can't be replaced: convert the file to "
            "JSONL first"
        )
    is_kept = True
    for record in RecordReader(pieces, rows.file.name):
        if not record.is_rest:
            is_kept = bool(rows.take(1)[0]) if find_page(record).is_row else True
        if is_kept:
            yield record.start, record.data, record.is_rest


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

    def take(self, start: int, length: int) -> bytes | None:
        """Return the stored bytes of the member with exactly these contents, None if there is none.

        Members before it are forgotten.
        """
        for before in [begin for begin in self._members if begin < start]:
            del self._members[before]
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
