"""Decompress and compress streams of bytes: gzip, zstd, bzip2, xz.

PyArrow's CompressedInputStream raises for gzip and zstd data that is truncated at any byte or
followed by garbage, and reads concatenated members and frames (tested at every position). It
accepts zero bytes as an empty stream: this module checks that case. bzip2 and xz are read with the
standard library, a member at a time, because PyArrow has no xz and fails at an empty bzip2 member.
A file truncated exactly between two members is valid, so that can't be detected.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Final, Protocol

import pyarrow as pa

_STEP = 1 << 16
XZ_MEMORY: Final = 256 << 20
"""The most memory that an xz file may ask for; `xz -9`, its highest level, takes 65 MB."""


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def needs_input(self) -> bool: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


def unpack(raw: IO[bytes], compression: str, size: int) -> Iterator[bytes]:
    """Yield the decompressed contents of a stream in pieces of at most `size` bytes.

    Raises `OSError` without a number if the data is truncated or corrupt.

    Args:
        raw: The stored bytes; a regular file, from its beginning.
        compression: The name of a row in `format_table.COMPRESSIONS`.
        size: The most bytes of a piece, however much the data was compressed.
    """
    if os.fstat(raw.fileno()).st_size == 0:
        raise OSError("0 bytes")
    if compression in _MEMBERS:
        yield from _read_members(raw, _MEMBERS[compression], compression == "xz", size)
        return
    source = pa.CompressedInputStream(raw, compression)
    while piece := source.read(size):
        yield piece


@contextmanager
def pack(raw: IO[bytes], compression: str) -> Iterator[IO[bytes] | pa.NativeFile]:
    """Open a stream whose bytes are written to `raw` compressed; `raw` is buffered."""
    if compression == "xz":
        import lzma

        with lzma.LZMAFile(raw, "wb") as packed:
            yield packed
    elif compression == "bz2":
        import bz2

        with bz2.BZ2File(raw, "wb") as packed:
            yield packed
    else:
        with pa.CompressedOutputStream(pa.PythonFile(raw, "w"), compression) as stream:
            yield stream


def _read_members(
    raw: IO[bytes], new: Callable[[], _Decompressor], is_padded: bool, size: int
) -> Iterator[bytes]:
    """Yield what concatenated members contain.

    Args:
        raw: The stored bytes.
        new: Returns a decompressor of one member.
        is_padded: Whether zero bytes, a multiple of four, may follow a member.
        size: The most bytes of a piece.
    """
    stored = raw.read(_STEP)
    while stored:
        member = new()
        while not member.eof:
            piece = _decompress(member, stored, size)
            if piece:
                yield piece
            stored = b""
            if member.needs_input and not member.eof:
                stored = raw.read(_STEP)
                if not stored:
                    raise OSError("the end is missing")
        stored = member.unused_data or raw.read(_STEP)
        if is_padded:
            stored = _skip_padding(raw, stored)


def _decompress(member: _Decompressor, stored: bytes, size: int) -> bytes:
    from lzma import LZMAError

    try:
        return member.decompress(stored, size)
    except LZMAError as error:
        if "Memory usage limit" in str(error):
            raise OSError(
                f"{XZ_MEMORY >> 20} MB of memory do not suffice to decompress it; xz -9 needs less"
            ) from None
        raise OSError(str(error)) from None
    except (EOFError, ValueError) as error:
        raise OSError(str(error)) from None


def _skip_padding(raw: IO[bytes], stored: bytes) -> bytes:
    zeros = 0
    while stored:
        rest = stored.lstrip(b"\0")
        zeros += len(stored) - len(rest)
        stored = rest or raw.read(_STEP)
        if rest:
            break
    if zeros % 4:
        raise OSError("padding that is no multiple of four bytes")
    return stored


def _new_bzip2() -> _Decompressor:
    import bz2

    return bz2.BZ2Decompressor()


def _new_xz() -> _Decompressor:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)


_MEMBERS: Final[dict[str, Callable[[], _Decompressor]]] = {"bz2": _new_bzip2, "xz": _new_xz}
