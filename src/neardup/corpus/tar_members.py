"""Read the members of a tar file from its decompressed bytes, and copy the kept ones byte for byte.

The standard library parses single headers. Its own reader is not used: it takes a damaged header in
the middle of a file for the end of the archive, and keeps no headers as they were.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from neardup.corpus.archives import Member, find_unread
from neardup.corpus.byte_window import ByteWindow
from neardup.corpus.documents import LONGEST, TOO_LONG
from neardup.corpus.inputs import InputFile
from neardup.corpus.rows import Rows, edit_text
from neardup.corpus.streams import SKIP, Meter, read_decompressed
from neardup.errors import InputError

_BLOCK = tarfile.BLOCKSIZE
_PIECE = 1 << 20
_LONGEST_EXTENSION = 1 << 20
_MOST_DIGITS = 18
_LONG_NAME, _LONG_LINK, _SPARSE = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.GNUTYPE_SPARSE,
)
_GLOBAL = tarfile.XGLTYPE
_EXTENSIONS = (_LONG_NAME, _LONG_LINK, _GLOBAL, tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)
_WITHOUT_DATA = {
    tarfile.DIRTYPE: "folder",
    tarfile.SYMTYPE: "link",
    tarfile.LNKTYPE: "link",
    tarfile.CHRTYPE: "device or pipe",
    tarfile.BLKTYPE: "device or pipe",
    tarfile.FIFOTYPE: "device or pipe",
}


@dataclass(slots=True)
class TarMember(Member):
    """A member of a tar file.

    Attributes:
        header: Its header blocks.
        padding: The bytes between its data and the next block.
        is_global: Whether it is a header for all members after it, and no member.
    """

    header: bytes = b""
    padding: bytes = b""
    is_global: bool = False


class TarReader(ByteWindow):
    """The members of a tar file, in order.

    Args:
        pieces: The decompressed contents of the file.
        name: Its name, for messages.
    """

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        super().__init__(pieces)
        self._name = name
        self._defaults: dict[str, str] = {}

    def __iter__(self) -> Iterator[TarMember]:
        header, extended = b"", dict(self._defaults)
        while (info := self._next_header()) is not None:
            block, kind = self.take(_BLOCK), info.type
            if kind in _EXTENSIONS:
                data, padding = self._read_extension(info.size)
                whole = block + data + padding
                if kind == _GLOBAL:
                    self._defaults |= _split_pax(data)
                    extended = self._defaults | extended
                    yield TarMember("", header=whole, is_global=True)
                else:
                    header += whole
                    extended |= _read_extended(kind, data)
                continue
            yield self._member(info, header + block, extended)
            header, extended = b"", dict(self._defaults)
        if header:
            raise self._corrupt("it ends after a header")
        self._check_end()

    def _next_header(self) -> tarfile.TarInfo | None:
        """Return the next header, None at the mark of the end."""
        if not self.has(_BLOCK):
            raise self._corrupt("it has no mark of its end")
        block = self.data[self.at : self.at + _BLOCK]
        if not block.strip(b"\0"):
            return None
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError, IndexError):
            raise self._corrupt(f"a damaged header at byte {self.before + self.at:,}") from None
        if info.size < 0:
            raise self._corrupt(f"a negative size at byte {self.before + self.at:,}")
        return info

    def _read_extension(self, size: int) -> tuple[bytes, bytes]:
        if size > _LONGEST_EXTENSION:
            raise self._corrupt(f"a header of {size:,} bytes")
        data, padding = self.take(size), self.take(-size % _BLOCK)
        if len(data) + len(padding) != size + -size % _BLOCK:
            raise self._corrupt("it ends inside a header")
        return data, padding

    def _member(self, info: tarfile.TarInfo, header: bytes, extended: dict[str, str]) -> TarMember:
        name, size = extended.get("path", info.name), info.size
        stated = extended.get("size", "")
        if stated.isdecimal() and len(stated) <= _MOST_DIGITS:
            size = int(stated)
        if info.type == _SPARSE and header[-_BLOCK:][482]:
            self._pass_sparse_map()
        unread = _WITHOUT_DATA.get(info.type, "")
        if unread:
            return TarMember(name, unread=unread)
        if info.type == _SPARSE or any(key.startswith("GNU.sparse.") for key in extended):
            unread = "sparse file"
        elif info.type not in tarfile.REGULAR_TYPES and info.type in tarfile.SUPPORTED_TYPES:
            unread = "member of another type"
        unread = unread or find_unread(name)
        if unread or size > LONGEST:
            if not self.skip(size + -size % _BLOCK):
                raise self._corrupt("it ends inside a member")
            return TarMember(name, unread=unread, refused="" if unread else TOO_LONG)
        data, padding = self.take(size), self.take(-size % _BLOCK)
        if len(data) < size or len(padding) < -size % _BLOCK:
            raise self._corrupt("it ends inside a member")
        return TarMember(name, data, header=header, padding=padding)

    def _pass_sparse_map(self) -> None:
        """Pass over the blocks between the header of a GNU sparse file and its data."""
        goes_on = True
        while goes_on:
            block = self.take(_BLOCK)
            if len(block) < _BLOCK:
                raise self._corrupt("it ends inside a header")
            goes_on = bool(block[504])

    def _check_end(self) -> None:
        """Raise `InputError` if there are other members after the mark of the end."""
        while self.has(1):
            if self.data[self.at :].strip(b"\0"):
                raise InputError(
                    f"{self._name}: data after the end of the archive: archives that were joined "
                    "are not read, unpack it first"
                )
            self.at = len(self.data)

    def _corrupt(self, why: str) -> InputError:
        return InputError(f"{self._name}: truncated or corrupt tar data ({why}): {SKIP}")


def _read_extended(kind: bytes, data: bytes) -> dict[str, str]:
    """Return what an extension states of the next member."""
    if kind == _LONG_NAME:
        return {"path": data.rstrip(b"\0").decode("utf-8", "surrogateescape")}
    return {} if kind == _LONG_LINK else _split_pax(data)


def _split_pax(data: bytes) -> dict[str, str]:
    """Return the records of a pax header: "LENGTH KEY=VALUE\\n".

    >>> _split_pax(b"14 path=a.txt\\n")
    {'path': 'a.txt'}
    """
    found: dict[str, str] = {}
    at = 0
    while at < len(data):
        space = data.find(b" ", at, at + 9)
        digits = data[at:space] if space > at else b""
        end = at + int(digits) if digits.isdigit() else 0
        if end <= space + 1:
            break
        key, _, value = data[space + 1 : end - 1].partition(b"=")
        found[key.decode("utf-8", "replace")] = value.decode("utf-8", "surrogateescape")
        at = end
    return found


def read_members(file: InputFile, meter: Meter) -> Iterator[TarMember]:
    """Yield the members of a tar file, in order."""
    members = TarReader(read_decompressed(file, _PIECE, meter), file.name)
    return (member for member in members if not member.is_global)


def copy_members(rows: Rows) -> Iterator[bytes]:
    """Yield the kept members of a tar file, with their headers, and the end of an archive."""
    written = 0
    row = 0
    for member in TarReader(read_decompressed(rows.file, _PIECE), rows.file.name):
        if member.is_global:
            yield member.header
            written += len(member.header)
        if member.is_global or member.unread:
            continue
        if rows.take(1)[0] and member.data is not None:
            header, data, padding = member.header, member.data, member.padding
            if rows.edit is not None and rows.edit.changed[row]:
                data = edit_text(data, rows.edit, rows.file.encoding, row)
                header, padding = _resize(header, len(data)), bytes(-len(data) % _BLOCK)
            yield from (header, data, padding)
            written += len(header) + len(data) + len(padding)
        row += 1
    end = 2 * _BLOCK
    yield bytes(end + -(written + end) % tarfile.RECORDSIZE)


def _resize(header: bytes, size: int) -> bytes:
    """Return the header blocks of a member for another size."""
    before, block = header[:-_BLOCK], header[-_BLOCK:]
    block = block[:124] + b"%011o\0" % size + block[136:148] + b" " * 8 + block[156:]
    return before + block[:148] + b"%06o\0 " % sum(block) + block[156:]
