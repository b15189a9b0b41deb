"""Read the members of a zip file, and copy the kept ones without unpacking them."""

from __future__ import annotations

import io
import lzma
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from neardup.corpus.archives import Member, find_unread
from neardup.corpus.documents import LONGEST, TOO_LONG
from neardup.corpus.inputs import InputFile
from neardup.corpus.rows import Rows, edit_text
from neardup.corpus.streams import (
    SKIP,
    Meter,
    changed_error,
    name_read_errors,
    open_unbuffered,
)
from neardup.errors import InputError

_LARGEST_DIRECTORY = 256 << 20
_STEP = 1 << 20
_ENCRYPTED, _SIZES_BEHIND, _UTF8_NAME = 0x01, 0x08, 0x800
_ZIP64 = 1
_LOCAL_HEADER = 30


@contextmanager
def open_zip(file: InputFile) -> Iterator[tuple[zipfile.ZipFile, IO[bytes]]]:
    """Open a zip file, and its stored bytes; an `InputError` if its directory can't be read."""
    with open_unbuffered(file) as raw:
        source = cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, raw)))
        _check_directory(source, file.name)
        try:
            archive = zipfile.ZipFile(source)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise _corrupt(file.name, str(error)[:80]) from None
        with archive:
            yield archive, source


def _corrupt(name: str, why: str) -> InputError:
    return InputError(f"{name}: truncated or corrupt zip data ({why}): {SKIP}")


def _check_directory(source: IO[bytes], name: str) -> None:
    """Raise `InputError` if the directory of members is missing, or does not fit into memory."""
    end = source.seek(0, os.SEEK_END)
    start = max(0, end - (1 << 16) - 64)
    source.seek(start)
    tail = source.read()
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < 22:
        raise _corrupt(name, "its directory is missing")
    (size,) = struct.unpack_from("<L", tail, at + 12)
    if size == 0xFFFFFFFF and at >= 20 and tail[at - 20 : at - 16] == b"PK\6\7":
        (place,) = struct.unpack_from("<Q", tail, at - 12)
        source.seek(min(place, end))
        record = source.read(56)
        size = struct.unpack_from("<Q", record, 40)[0] if len(record) == 56 else 0
    if size > _LARGEST_DIRECTORY:
        raise InputError(f"{name}: too many members for a zip file: use tar, or several zip files")


def read_members(file: InputFile, meter: Meter) -> Iterator[Member]:
    """Yield the members of a zip file, in the order of its directory."""
    with open_zip(file) as (archive, _):
        for info in archive.infolist():
            meter.at = max(meter.at, info.header_offset + info.compress_size)
            unread = _find_unread(info)
            if unread:
                yield Member(info.filename, unread=unread)
            else:
                data, refused = _read(archive, info)
                yield Member(info.filename, data, refused=refused)


def _find_unread(info: zipfile.ZipInfo) -> str:
    if info.is_dir():
        return "folder"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "link"
    return find_unread(info.filename)


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[bytes | None, str]:
    """Return the contents of a member, or None and why it is rejected."""
    if info.flag_bits & _ENCRYPTED:
        return None, "encrypted"
    if info.file_size > LONGEST:
        return None, TOO_LONG
    try:
        with archive.open(info) as stream:
            data = stream.read(LONGEST + 1)
    except NotImplementedError:
        return None, "a compression method of zip that is not read"
    except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, struct.error):
        return None, "damaged zip member"
    except OSError as error:
        if error.errno is not None:  # not of the decompressor, but of the disk
            raise
        return None, "damaged zip member"
    return data, ""


def write_zip(rows: Rows, beside: Path) -> None:
    """Write the kept members of a zip file, compressed as they are stored."""
    with (
        name_read_errors(rows.file),
        open_zip(rows.file) as (archive, stored),
        open(beside, "wb") as written,
        zipfile.ZipFile(written, "w") as target,
    ):
        target.comment = archive.comment
        members = (info for info in archive.infolist() if not _find_unread(info))
        for row, info in enumerate(members):
            if not rows.take(1)[0]:
                continue
            entry = _CopiedEntry(info)
            if rows.edit is not None and rows.edit.changed[row]:
                fresh = edit_text(archive.read(info), rows.edit, rows.file.encoding, row)
                target.writestr(entry, fresh, info.compress_type)
            else:
                entry.header_offset = written.tell()
                written.write(entry.FileHeader())
                for part in _stored_data(rows.file, stored, info):
                    written.write(part)
                target.filelist.append(entry)
                target.start_dir = written.tell()


def _stored_data(file: InputFile, stored: IO[bytes], info: zipfile.ZipInfo) -> Iterator[bytes]:
    """Yield the data of a member as it is stored."""
    stored.seek(info.header_offset)
    local = stored.read(_LOCAL_HEADER)
    if len(local) < _LOCAL_HEADER or not local.startswith(b"PK\3\4"):
        raise changed_error(file)
    stored.seek(sum(struct.unpack_from("<HH", local, 26)), os.SEEK_CUR)
    left = info.compress_size
    while left:
        part = stored.read(min(left, _STEP))
        if not part:
            raise changed_error(file)
        left -= len(part)
        yield part


class _CopiedEntry(zipfile.ZipInfo):
    """The entry of a member, with its name as it is stored, and its sizes in front of its data.

    The standard library would write a name that is not ASCII as UTF-8, whatever it was.
    """

    def __init__(self, info: zipfile.ZipInfo) -> None:
        super().__init__()
        for field in zipfile.ZipInfo.__slots__:
            if hasattr(info, field):
                setattr(self, field, getattr(info, field))
        self.flag_bits &= ~_SIZES_BEHIND
        self.extra = _without_zip64(info.extra)
        self._name_flag = info.flag_bits & _UTF8_NAME
        self._name = info.orig_filename.encode("utf-8" if self._name_flag else "cp437")

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802  # called by zipfile
        return self._name, self.flag_bits & ~_UTF8_NAME | self._name_flag


def _without_zip64(extra: bytes) -> bytes:
    """Return the extra fields of an entry without its 64-bit sizes, which are written anew."""
    kept, at = b"", 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<HH", extra, at)
        if kind != _ZIP64:
            kept += extra[at : at + 4 + size]
        at += 4 + size
    return kept
