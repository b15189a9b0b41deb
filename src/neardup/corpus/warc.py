"""Read the records of web archives: WARC files as crawlers write them, and WET files, their texts.

Documents are `conversion` records (WET), `response` records with an HTTP answer of status 2xx and a
text type, and `resource` records of a text type. All other records are no rows: they are counted by
reason, and copied to the kept file. A damaged record is a rejected row if the next record can be
found, else an error of the file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import numpy as np
import pyarrow as pa

from neardup.corpus.byte_window import ByteWindow
from neardup.corpus.documents import make_strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.streams import SKIP, Meter, read_decompressed
from neardup.corpus.web_text import decode_body, is_text_type, split_content_type
from neardup.errors import InputError

COLUMNS: Final = ("text", "id", "url", "date", "type")
LONGEST_RECORD: Final = 64 << 20
"""A longer record is not held in memory: it is skipped, or copied, and can be no document."""
TOO_LONG: Final = "longer than 64 MiB"

_PIECE = 1 << 20
_LONGEST_HEAD = 1 << 16
_MAX_ROWS = 1 << 14
_MOST_NEWLINES = 1 << 16
_MAGIC = b"WARC/"
_USUAL_END = b"\r\n\r\nWARC/"
_HEAD_END = re.compile(rb"\n\r?\n")
_NEWLINES = re.compile(rb"[\r\n]*")
_BEGINNING = re.compile(rb"WARC/[0-9]\.[0-9]{1,2}\r?\n[A-Za-z]")
_LONGEST_BEGINNING = 12
_DIGESTS = (b"warc-block-digest", b"warc-payload-digest")
_STATUS = re.compile(rb"HTTP/[0-9.]+ +([0-9]{3})\b")
_NO_DOCUMENTS = {
    kind.encode(): f"{kind} record"
    for kind in ("warcinfo", "request", "metadata", "revisit", "continuation")
}


def _named(name: bytes) -> re.Pattern[bytes]:
    """Return a pattern for a field of a head. One search is faster than to split a head."""
    return re.compile(rb"\n" + name + rb"[ \t]*:[ \t]*([^\r\n]*)", re.IGNORECASE)


_LENGTH = _named(b"content-length")
_CONTENT_TYPE = _named(b"content-type")
_TRANSFER_ENCODING = _named(b"transfer-encoding")
_CONTENT_ENCODING = _named(b"content-encoding")
_TYPE = _named(b"warc-type")
_ID = _named(b"warc-record-id")
_URL = _named(b"warc-target-uri")
_DATE = _named(b"warc-date")


def _value(name: re.Pattern[bytes], data: bytes, start: int, end: int) -> bytes:
    found = name.search(data, start, end)
    return found[1].rstrip() if found else b""


@dataclass(slots=True)
class WebRecord:
    """A record of a WARC file.

    Attributes:
        start: Where it begins in the decompressed file.
        data: Its bytes, with the blank lines after it; of a long one only the first.
        body: Where its block begins in `data`, after its head.
        length: The length of its block.
        damage: Why it can't be read, or empty.
        is_rest: Whether these are further bytes of the long record before.
    """

    start: int
    data: bytes
    body: int = 0
    length: int = 0
    damage: str = ""
    is_rest: bool = False

    @property
    def is_long(self) -> bool:
        """Whether it is too long to be held."""
        return self.length > LONGEST_RECORD

    def value(self, name: re.Pattern[bytes]) -> bytes:
        """Return the value of a field in its head; empty if it has none."""
        return _value(name, self.data, 0, self.body)


@dataclass(slots=True)
class Page:
    """What a record contains: a text, or why it is no document.

    Attributes:
        is_row: Whether the record is a row of the file.
        reason: Why it is rejected, or else why it is no row; empty for a document.
        start: Where the body of the document begins.
        content_type, transfer_encoding, content_encoding: How it is encoded.
    """

    is_row: bool
    reason: str = ""
    start: int = 0
    content_type: bytes = b""
    transfer_encoding: bytes = b""
    content_encoding: bytes = b""


def find_page(record: WebRecord) -> Page:
    """Return what a record contains."""
    if record.damage:
        return Page(True, record.damage)
    kind, content = record.value(_TYPE).lower(), record.value(_CONTENT_TYPE)
    if kind == b"response":
        page = _find_answer(record, content)
    elif kind in (b"conversion", b"resource"):
        is_text = is_text_type(split_content_type(content)[0])
        reason = "" if is_text else f"{kind.decode()} record that is not text"
        page = Page(is_text, reason, record.body, content)
    else:
        page = Page(False, _NO_DOCUMENTS.get(kind, "record of another type"))
    if page.is_row and record.is_long:
        page.reason = TOO_LONG
    return page


def _find_answer(record: WebRecord, content: bytes) -> Page:
    """Return the answer of HTTP in a response record."""
    if not content.lower().startswith(b"application/http"):
        return Page(False, "response that is not HTTP")
    data, start = record.data, record.body
    end = min(len(data), start + record.length, start + _LONGEST_HEAD)
    status = _STATUS.match(data, start, end)
    found = _HEAD_END.search(data, start, end)
    if status is None or (found is None and end == start + _LONGEST_HEAD):
        return Page(False, "response with a broken head")
    if not status[1].startswith(b"2"):
        return Page(False, f"response with HTTP status {status[1][:1].decode()}xx")
    stop = found.end() if found else end
    kind = _value(_CONTENT_TYPE, data, start, stop)
    if not is_text_type(split_content_type(kind)[0]):
        return Page(False, "response that is not text")
    encodings = (
        _value(name, data, start, stop) for name in (_TRANSFER_ENCODING, _CONTENT_ENCODING)
    )
    return Page(True, "", stop, kind, *encodings)


class RecordReader(ByteWindow):
    """The records of a decompressed file, in order.

    Args:
        pieces: The contents of the file.
        name: Its name, for messages.
    """

    def __init__(self, pieces: Iterable[bytes], name: str) -> None:
        super().__init__(pieces)
        self._name = name

    def __iter__(self) -> Iterator[WebRecord]:
        while self.has(1):
            if self.has(len(_MAGIC)) and self.data.startswith(_MAGIC, self.at):
                record = self._next_record()
                yield record
                if record.is_long:
                    yield from self._rest_of(record)
            elif self.before + self.at == 0 and self.data[:1] in (b"\r", b"\n"):
                self.at = self._after_newlines(0)  # before the first record: they belong to none
            else:
                yield self._damaged("bytes that are no WARC record", 0)

    def _next_record(self) -> WebRecord:
        head = self._find_head()
        if head < 0:
            return self._damaged("a WARC record with a broken head", len(_MAGIC))
        value = _value(_LENGTH, self.data, self.at, self.at + head)
        if not value.isdigit() or len(value) > 18:
            return self._damaged("a WARC record without a Content-Length", head - 1)
        length, start = int(value), self.before + self.at
        if length > LONGEST_RECORD:
            data = self.take(head + _LONGEST_HEAD)
            return WebRecord(start, data, head, length)
        end = head + length
        if self.data.startswith(_USUAL_END, self.at + end):
            end += 4
        else:
            end = self._after_newlines(end) if self.has(end) else -1
            blank = self.data[self.at + head + length : self.at + end].count(b"\n") >= 2
            if end < 0 or not (blank or self._is_boundary(end)):
                return self._damaged("a WARC record with a wrong Content-Length", head - 1)
        data = self.data[self.at : self.at + end]
        self.at += end
        return WebRecord(start, data, head, length)

    def _find_head(self) -> int:
        """Return the length of the next record's head with its blank line, -1 if it has no end."""
        for most in (1 << 12, _LONGEST_HEAD):
            complete = self.has(most)
            found = _HEAD_END.search(self.data, self.at, self.at + most)
            if found:
                return found.end() - self.at
            if not complete:
                break
        return -1

    def _after_newlines(self, at: int) -> int:
        """Return where the newlines end that begin `at` bytes from here; not more than a few."""
        most = at + _MOST_NEWLINES
        while True:
            self.has(at + 64)
            found = _NEWLINES.match(self.data, self.at + at)
            end = found.end() - self.at if found else at
            if self.at + end < len(self.data) or end >= most or not self.has(end + 1):
                return end
            at = end

    def _is_boundary(self, at: int) -> bool:
        """Return whether the file ends, or a record begins, `at` bytes from here."""
        if not self.has(at + len(_MAGIC)):
            return not self.has(at + 1)
        return self.data.startswith(_MAGIC, self.at + at)

    def _damaged(self, damage: str, skip: int) -> WebRecord:
        """Go to the next record that can be found; an error if there is none."""
        start = self.before + self.at
        self.at += skip
        while (found := _BEGINNING.search(self.data, self.at)) is None:
            self.at = max(self.at, len(self.data) - _LONGEST_BEGINNING)
            if not self.has(len(self.data) - self.at + 1):
                raise self._corrupt(f"{damage} at byte {start:,}, and no record after it")
        self.at = found.start()
        return WebRecord(start, b"", damage=damage)

    def _rest_of(self, record: WebRecord) -> Iterator[WebRecord]:
        """Yield the rest of a long record, with the blank lines after it, in pieces."""
        left = record.body + record.length - len(record.data)
        while left:
            if not self.has(1):
                where = f"the record at byte {record.start:,}"
                raise self._corrupt(f"{where} is shorter than its Content-Length")
            part = self.data[self.at : self.at + left]
            self.at, left = self.at + len(part), left - len(part)
            yield WebRecord(record.start, part, is_rest=True)
        end = self._after_newlines(0)
        if not self._is_boundary(end):
            where = f"the one at byte {record.start:,}"
            raise self._corrupt(f"no record begins where {where} should end")
        yield WebRecord(record.start, self.take(end), is_rest=True)

    def _corrupt(self, why: str) -> InputError:
        return InputError(f"{self._name}: truncated or corrupt WARC data ({why}): {SKIP}")


@dataclass
class WebRecords:
    """Consecutive rows of a WARC file.

    Attributes:
        texts: Their texts, in UTF-8 that is not validated; None where rejected.
        heads: Their heads.
        rejected: Rows that are rejected, with the reasons.
        unread: How many records between them are no rows, by reason.
    """

    texts: list[bytes | None] = field(default_factory=list)
    heads: list[bytes] = field(default_factory=list)
    rejected: dict[int, str] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)

    def table(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return these columns of the rows."""
        made = {name: _COLUMNS[name](self.heads) for name in names if name != "text"}
        if "text" in names:
            made["text"] = make_strings(self.texts)
        return pa.RecordBatch.from_pydict(made)


def read_records(file: InputFile, size: int, meter: Meter | None = None) -> Iterator[WebRecords]:
    """Yield the rows of a file in groups of about `size` bytes."""
    if ".wat" in file.path.suffixes[-2:]:
        raise InputError(
            f"{file.name}: a WAT file describes pages and has no texts: pass the WARC or WET file"
        )
    group, length = WebRecords(), 0
    for record in RecordReader(read_decompressed(file, _PIECE, meter), file.name):
        if record.is_rest:
            continue
        page = find_page(record)
        if not page.is_row:
            group.unread[page.reason] += 1
            continue
        text, reason = None, page.reason
        if not reason:
            text, reason = read_text(record, page)
        if reason:
            group.rejected[len(group.texts)] = reason
        group.texts.append(text)
        group.heads.append(record.data[: record.body])
        length += len(text or b"")
        if length >= size or len(group.texts) == _MAX_ROWS:
            yield group
            group, length = WebRecords(), 0
    if group.texts or group.unread:
        yield group


def read_text(record: WebRecord, page: Page) -> tuple[bytes | None, str]:
    """Return the text of a page, in UTF-8 that is not validated; or None and why it has none."""
    return decode_body(
        record.data[page.start : record.body + record.length],
        page.content_type,
        page.transfer_encoding,
        page.content_encoding,
        LONGEST_RECORD,
    )


def replace_text(record: WebRecord, page: Page, text: bytes) -> bytes:
    """Return a record with another text, in UTF-8, and without the digests of the old one."""
    http = record.data[record.body : page.start]
    if http:
        kind = split_content_type(page.content_type)[0]
        stated = {b"content-type": kind + b"; charset=utf-8", b"content-length": b"%d" % len(text)}
        http = _restate(http, stated, (b"transfer-encoding", b"content-encoding"))
    stated = {b"content-length": b"%d" % (len(http) + len(text))}
    head = _restate(record.data[: record.body], stated, _DIGESTS)
    return head + http + text + b"\r\n\r\n"


def _restate(head: bytes, stated: dict[bytes, bytes], without: tuple[bytes, ...]) -> bytes:
    """Return a head with other values of some fields, and without others.

    >>> _restate(b"HTTP/1.1 200 OK\\r\\nA: b\\r\\nC: d\\r\\n\\r\\n", {b"a": b"x"}, (b"c",))
    b'HTTP/1.1 200 OK\\r\\nA: x\\r\\n\\r\\n'
    """
    lines = head.splitlines()
    kept = [lines[0]]
    for line in lines[1:]:
        name = line.partition(b":")[0].strip()
        if name.lower() in stated:
            kept.append(name + b": " + stated[name.lower()])
        elif name and name.lower() not in without:
            kept.append(line)
    return b"\r\n".join([*kept, b"", b""])


def _strings(name: re.Pattern[bytes]) -> Callable[[list[bytes]], pa.Array]:
    def column(heads: list[bytes]) -> pa.Array:
        # Ids are in brackets; so are the URLs that wget wrote for years.
        values = (_value(name, head, 0, len(head)).strip(b"<>") for head in heads)
        return make_strings([value or None for value in values])

    return column


def _dates(heads: list[bytes]) -> pa.Array:
    """Return the times of records; null where one has none, or not that of a clock."""
    stamps = np.zeros(len(heads), np.int64)
    valid = np.zeros(len(heads), bool)
    for row, head in enumerate(heads):
        try:
            moment = datetime.fromisoformat(_value(_DATE, head, 0, len(head)).decode("ascii"))
        except ValueError:
            continue
        moment = moment.replace(tzinfo=moment.tzinfo or UTC)
        stamps[row] = round(moment.timestamp() * 1e6)
        valid[row] = True
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    kind = pa.timestamp("us", "UTC")
    return pa.Array.from_buffers(kind, len(heads), [bits, pa.py_buffer(stamps)])


_COLUMNS: Final[dict[str, Callable[[list[bytes]], pa.Array]]] = {
    "id": _strings(_ID),
    "url": _strings(_URL),
    "date": _dates,
    "type": _strings(_TYPE),
}
