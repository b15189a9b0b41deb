"""The members of archives as documents: which of them are read, as files of a folder would be.

Nothing is extracted: members are read one after another, and the kept file is an archive again.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from neardup.corpus.documents import make_strings
from neardup.corpus.encodings import UTF8, decode_document, explain_wide
from neardup.corpus.folders import reason_of_name
from neardup.corpus.format_table import BOM, COMPRESSION_OF_ENDING, formats_of_ending
from neardup.errors import InputError

TEXT_COLUMN: Final = "text"
UNPACK: Final = "data file or archive inside an archive, unpack it first"
_MAX_ROWS = 1 << 14


@dataclass(slots=True)
class Member:
    """A member of an archive.

    Attributes:
        name: Its path, as the archive has it.
        data: Its contents; None if they are not read.
        unread: Why it is no document, and is only counted; else empty.
        refused: Why it is rejected, or empty.
    """

    name: str
    data: bytes | None = None
    unread: str = ""
    refused: str = ""


@dataclass
class Members:
    """Consecutive members of an archive; `rejected` and `unread` as in a `Chunk`."""

    ids: list[str] = field(default_factory=list)
    texts: list[bytes | None] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)

    def table(self) -> pa.RecordBatch:
        """Return the rows as a table of texts and ids."""
        columns = {TEXT_COLUMN: make_strings(self.texts), "id": make_strings(self.ids)}
        return pa.RecordBatch.from_pydict(columns)


def group_members(
    members: Iterable[Member], size: int, name: str, encoding: str = UTF8
) -> Iterator[Members]:
    """Yield the members of an archive in groups of about `size` bytes.

    Args:
        members: All members of the archive.
        size: The least number of bytes of a group, except the last.
        name: The name of the archive, for messages.
        encoding: The encoding of its texts, or `auto`.
    """
    group, length, rows, packed = Members(), 0, 0, 0
    for member in members:
        if member.unread:
            group.unread[member.unread] += 1
            packed += member.unread == UNPACK
            continue
        text, refused = member.data, member.refused
        if text is not None and (encoding != UTF8 or explain_wide(text)):
            decoded, reason = decode_document(text, encoding)
            text = None if decoded is None else decoded.encode()
            refused = refused or reason or ""
        if refused:
            group.rejected[len(group.ids)] = refused
        text = None if text is None else text.removeprefix(BOM)
        group.ids.append(printable_id(member.name))
        group.texts.append(text)
        length, rows = length + len(text or b""), rows + 1
        if length >= size or len(group.ids) == _MAX_ROWS:
            yield group
            group, length = Members(), 0
    if packed and not rows:
        raise InputError(
            f"{name}: has no texts, only data files or archives ({packed:,}): unpack it first"
        )
    if group.ids or group.unread:
        yield group


def find_unread(name: str) -> str:
    """Return why a member of this name is no document; empty if it is one.

    >>> find_unread("a/b.txt"), find_unread("a/.git/b"), find_unread("a/b.jsonl.gz")
    ('', 'hidden folder', 'data file or archive inside an archive, unpack it first')
    """
    *folders, last = [part for part in name.split("/") if part not in ("", ".", "..")] or [""]
    for folder in folders:
        if reason := reason_of_name(folder, True):
            return reason
    if reason := reason_of_name(last, False):
        return reason
    ending = os.path.splitext(last.lower())[1]
    formats = formats_of_ending(ending)
    if ending in COMPRESSION_OF_ENDING or (formats and not formats[0].is_document):
        return UNPACK
    return ""


def printable_id(name: str) -> str:
    """Return the path of a member as an id, with escapes for bytes that are not UTF-8.

    >>> printable_id("./a/b.txt")
    'a/b.txt'
    """
    while name.startswith("./"):
        name = name[2:]
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
