"""The table of formats and the table of compressions: endings, first bytes, and what each can do.

Finding, reading, cutting and writing files ask a row; readers and writers are in tables by the
name of a format (`read.READERS`, `write.WRITERS`). To add a format, add a row here, its reader and
its writer there. To add a compression, add a row here and its streams in `packing.py`.

Importing this module imports neither NumPy nor PyArrow: `neardup --help` needs it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

BYTE_RANGES: Final = "bytes"
ROW_GROUPS: Final = "row groups"
WHOLE_FILE: Final = "file"
EACH_DOCUMENT: Final = "document"
BOM: Final = b"\xef\xbb\xbf"
JSON: Final = frozenset({"jsonl", "json"})
"""The formats whose records are objects of JSON."""
ARCHIVES: Final = frozenset({"tar", "zip"})
"""The formats whose records are members that would be files of a folder."""
HEAD: Final = 1 << 16
"""The first bytes of a file, decompressed, by which its format is recognised."""


def _unknown(_: bytes) -> bool:
    return False


class FileFormat(NamedTuple):
    """A row of the table of formats.

    Args:
        name: Its name, as `--format` takes it.
        endings: How the names of its files end. Rows may share one: the content tells, and if it
            does not, the first row.
        is_content: Whether a file that begins with these bytes (HEAD of them, unless it is
            shorter) has this format.
        is_packed: Whether it has a compression of its own: another one around it is refused.
        cut_by: What a large uncompressed file is cut into: BYTE_RANGES if every record is a line,
            ROW_GROUPS; empty if it can be read only from the beginning.
        has_columns: Whether a record has named values.
        is_document: Whether a file is one document; such files share a chunk.
        is_certain: Instead of `is_content`, for a file whose name tells nothing.
        variant_of: The format as which `--format` takes it: the content tells which of them it is.
        encoded: What has a text encoding of its own, which `--encoding` names: WHOLE_FILE,
            EACH_DOCUMENT; empty if the format states it.
        has_lists: Whether a value can be a list of numbers.
    """

    name: str
    endings: tuple[str, ...] = ()
    is_content: Callable[[bytes], bool] = _unknown
    is_packed: bool = False
    cut_by: str = ""
    has_columns: bool = True
    is_document: bool = False
    is_certain: Callable[[bytes], bool] | None = None
    variant_of: str = ""
    encoded: str = WHOLE_FILE
    has_lists: bool = False


class Compression(NamedTuple):
    """A row of the table of compressions.

    Args:
        name: Its name, in messages and run.json.
        endings: How the names of its files end, after the ending of the format.
        magics: What its files begin with, one of these.
    """

    name: str
    endings: tuple[str, ...]
    magics: tuple[bytes, ...]


def begins_with(*magics: bytes, at: int = 0) -> Callable[[bytes], bool]:
    """Return a function that tells whether bytes have one of these at a position."""
    return lambda head: any(head[at:].startswith(magic) for magic in magics)


def may_be_json(head: bytes) -> bool:
    """Return whether the first bytes begin an object or an array."""
    return head.removeprefix(BOM).lstrip().startswith((b"{", b"["))


def is_json_lines(head: bytes, least: int = 1) -> bool:
    """Return whether the first lines are JSON objects.

    Args:
        head: The beginning of a file.
        least: The number of lines.

    >>> is_json_lines(b'{"text": "a"}\\n'), is_json_lines(b'{\\n  "text": "a"\\n}\\n')
    (True, False)
    """
    if not may_be_json(head):
        return False
    lines = head.removeprefix(BOM).split(b"\n")
    if len(head) >= HEAD and _begins_object(lines[-1]):
        lines[-1] = b"{}"  # the end of a long line is not known
    found = [line for line in lines if line.strip()][:least]
    return len(found) == least and all(map(_is_object, found))


def _begins_object(line: bytes) -> bool:
    return line.startswith(b"{") and line[1:].lstrip().startswith(b'"')


def is_json(head: bytes) -> bool:
    """Return whether a file that is not JSON Lines is an array, or objects that take many lines.

    >>> is_json(b'[\\n{"text": "a"}'), is_json(b'{\\n  "text": "a"\\n}\\n'), is_json(b"[1] See.")
    (True, True, False)
    """
    head = head.removeprefix(BOM).lstrip()
    if head.startswith(b"["):
        return _begins_array(head[1:].decode("utf-8", "replace").lstrip())
    lines = [line for line in head.split(b"\n", 8)[:8] if line.strip()]
    begins_object = head.startswith(b"{") and head[1:].lstrip()[:1] in b'"}'
    # Lines of which only the first is damaged are JSON Lines.
    return begins_object and not any(_is_object(line) for line in lines[1:2])


def is_json_array(head: bytes) -> bool:
    """Return whether a file begins with an array of objects."""
    head = head.removeprefix(BOM).lstrip()
    return head.startswith(b"[") and head[1:].lstrip().startswith(b"{") and is_json(head)


def is_json_certainly(head: bytes) -> bool:
    """Return whether a file begins with an array of objects, or with several objects in a row.

    >>> is_json_certainly(b'{"a": 1}{"a": 2}'), is_json_certainly(b'{"a": 1}')
    (True, False)
    """
    if is_json_array(head):
        return True
    text = head.decode("utf-8-sig", "replace").lstrip()
    try:
        first, end = json.JSONDecoder().raw_decode(text) if text[:1] == "{" else (None, 0)
    except (ValueError, RecursionError):
        return False
    return bool(first) and _begins_object(text[end:].lstrip().encode())


def _begins_array(text: str) -> bool:
    """Return whether this can be an array of JSON, from after its bracket."""
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        # Truncated, longer than what is known, or the array is empty.
        return text[:1] in ("", "{", "[", '"') or text.rstrip() == "]"
    after = text[end:].lstrip()
    return after[:1] in ("", ",") or (after[0] == "]" and not after[1:].strip())


def _is_object(line: bytes) -> bool:
    if not line.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


_ARROW: Final = (".arrow", ".feather", ".ipc", ".arrows")
_ROWS: Final = (
    FileFormat(
        "jsonl",
        (".jsonl", ".ndjson", ".jl", ".json"),
        is_json_lines,
        cut_by=BYTE_RANGES,
        has_lists=True,
    ),
    # Settings and notebooks are objects on many lines, too.
    FileFormat("json", (".json",), is_json, is_certain=is_json_certainly, has_lists=True),
    FileFormat(
        "parquet",
        (".parquet", ".pq"),
        begins_with(b"PAR1"),
        is_packed=True,
        cut_by=ROW_GROUPS,
        encoded="",
        has_lists=True,
    ),
    FileFormat("lines", cut_by=BYTE_RANGES, has_columns=False),
    FileFormat("csv", (".csv",)),
    FileFormat("tsv", (".tsv",)),
    FileFormat(
        "arrow-stream",
        _ARROW,
        begins_with(b"\xff\xff\xff\xff"),
        is_packed=True,
        variant_of="arrow",
        encoded="",
        has_lists=True,
    ),
    FileFormat("arrow", _ARROW, begins_with(b"ARROW1"), is_packed=True, encoded="", has_lists=True),
    FileFormat("warc", (".warc", ".wet", ".wat"), begins_with(b"WARC/1.", b"WARC/0."), encoded=""),
    FileFormat(
        "tar",
        (".tar",),
        begins_with(b"ustar", at=257),
        has_columns=False,
        encoded=EACH_DOCUMENT,
    ),
    FileFormat(
        "zip",
        (".zip",),
        begins_with(b"PK\3\4", b"PK\5\6"),
        is_packed=True,
        has_columns=False,
        encoded=EACH_DOCUMENT,
    ),
    FileFormat(
        "text",
        (".txt", ".text", ".md", ".markdown", ".rst", ".html", ".htm", ".xhtml", ".xml", ".tex"),
        has_columns=False,
        is_document=True,
        encoded=EACH_DOCUMENT,
    ),
)
FORMATS: Final = {row.name: row for row in _ROWS}
"""Name -> row, in the order in which contents are recognised."""
CHOICES: Final = ("auto", *(row.name for row in _ROWS if not row.variant_of))
"""What `--format` takes."""

# "BZh" alone begins texts, too: a level and the mark of a block, or of the end, follow.
_BZ2_MAGICS: Final = tuple(
    b"BZh%d%b" % (level, mark)
    for level in range(1, 10)
    for mark in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90")
)
_COMPRESSIONS: Final = (
    Compression("gzip", (".gz",), (b"\x1f\x8b",)),
    Compression("zstd", (".zst", ".zstd"), (b"\x28\xb5\x2f\xfd",)),
    Compression("bz2", (".bz2",), _BZ2_MAGICS),
    Compression("xz", (".xz",), (b"\xfd7zXZ\0",)),
)
COMPRESSIONS: Final = {row.name: row for row in _COMPRESSIONS}
"""Name -> row."""
COMPRESSION_OF_ENDING: Final = {ending: row.name for row in _COMPRESSIONS for ending in row.endings}
UNREAD_ENDINGS: Final = frozenset({".lz4", ".br", ".7z"})
"""Endings of compressions and archives that are not read: such a file is refused."""


PACKAGES: Final = frozenset(
    {".docx", ".xlsx", ".pptx", ".odt", ".ods", ".odp", ".epub", ".jar", ".whl", ".apk", ".npz"}
)
"""Endings of files that are zip archives inside, and no archives of documents."""
SHORT_ENDINGS: Final = {
    ".tgz": ".tar.gz",
    ".tbz2": ".tar.bz2",
    ".tbz": ".tar.bz2",
    ".txz": ".tar.xz",
    ".tzst": ".tar.zst",
}
"""One ending for a format and its compression -> both."""
_BY_ENDING: Final = {
    ending: tuple(row for row in _ROWS if ending in row.endings)
    for ending in {ending for row in _ROWS for ending in row.endings}
}


def formats_of_ending(ending: str) -> tuple[FileFormat, ...]:
    """Return the formats of files whose names end so, in the order of the table.

    >>> [row.name for row in formats_of_ending(".ndjson")]
    ['jsonl']
    """
    return _BY_ENDING.get(ending, ())


def format_of_content(head: bytes) -> FileFormat | None:
    """Return the format of a file whose name tells nothing, by its first bytes.

    >>> format_of_content(b"PAR1").name, format_of_content(b"a text")
    ('parquet', None)
    """
    return next((row for row in _ROWS if (row.is_certain or row.is_content)(head)), None)


def formats_of_choice(name: str) -> tuple[FileFormat, ...]:
    """Return the formats that `--format` takes by this name, in the order of the table.

    >>> [row.name for row in formats_of_choice("arrow")]
    ['arrow-stream', 'arrow']
    """
    return tuple(row for row in _ROWS if name in (row.name, row.variant_of))
