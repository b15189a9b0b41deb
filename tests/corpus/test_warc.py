"""WARC and WET files: the documents of records, and records copied byte for byte."""

from __future__ import annotations

import gzip
import io
import random
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import count_unread
from neardup.corpus.rows import Edit
from neardup.corpus.warc import LONGEST_RECORD
from neardup.corpus.warc_copy import GzipMembers
from neardup.errors import ColumnError, InputError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
HTTP = "application/http; msgtype=response"


def record(kind: str, body: bytes, content: str = "text/plain", **fields: str) -> bytes:
    named = {
        "WARC-Type": kind,
        "WARC-Record-ID": f"<urn:uuid:{zlib.crc32(body)}>",
        "WARC-Target-URI": "https://example.org/",
        "WARC-Date": "2024-05-17T10:11:12Z",
        "Content-Type": content,
        "Content-Length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    lines = [f"{name}: {value}\r\n" for name, value in named.items()]
    return b"WARC/1.0\r\n" + "".join(lines).encode() + b"\r\n" + body + b"\r\n\r\n"


def text(body: str) -> bytes:
    return record("conversion", body.encode())


def answer(body: bytes, head: str = "Content-Type: text/html", status: str = "200 OK") -> bytes:
    lines = head.replace("\n", "\r\n")
    return record("response", f"HTTP/1.1 {status}\r\n{lines}\r\n\r\n".encode() + body, HTTP)


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(records))
    return path


def unread(path: Path) -> dict[str, int]:
    (file,) = find_inputs([path])
    return dict(count_unread(file, Columns()))


def write_by_warcio(path: Path, compressed: bool, pages: int = 5) -> Path:
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=compressed)
        writer.write_record(writer.create_warcinfo_record(path.name, {"software": "a crawler"}))
        for number in range(pages):
            head = StatusAndHeaders(
                "200 OK", [("Content-Type", "text/html; charset=utf-8")], protocol="HTTP/1.1"
            )
            page = io.BytesIO(f"<p>Seite {number}: größer</p>".encode())
            url = f"http://example.org/{number}"
            response = writer.create_warc_record(url, "response", payload=page, http_headers=head)
            asked = StatusAndHeaders("GET / HTTP/1.1", [("Host", "a")], is_http_request=True)
            request = writer.create_warc_record(url, "request", http_headers=asked)
            writer.write_request_response_pair(request, response)
        plain = io.BytesIO(b"plain text")
        writer.write_record(
            writer.create_warc_record(
                "http://example.org/t", "conversion", payload=plain, warc_content_type="text/plain"
            )
        )
    return path


def records_of(path: Path) -> Iterator[tuple[str, str, bytes]]:
    with path.open("rb") as file:
        for one in ArchiveIterator(file, check_digests="raise"):
            url = one.rec_headers.get_header("WARC-Target-URI")
            yield one.rec_type, url, one.content_stream().read()


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_what_warcio_writes_is_read_and_what_is_written_warcio_reads(
    tmp_path: Path, read: Read, rewrite: Rewrite, name: str
) -> None:
    path = write_by_warcio(tmp_path / name, name.endswith(".gz"))
    expected = [
        (url, body.decode())
        for kind, url, body in records_of(path)
        if kind in ("response", "conversion")
    ]
    for size in (1, 1 << 20):
        found = read(path, Columns(id="url"), size=size)
        assert list(zip(found.ids, found.texts, strict=True)) == expected
        assert not found.rejected
    assert unread(path) == {"request record": 5, "warcinfo record": 1}
    keep = [True, False, False, True, False, True]
    kept = rewrite(path, keep, tmp_path / "out" / name)
    left = [one for one in records_of(kept) if one[0] in ("response", "conversion")]
    assert [(url, body.decode()) for _, url, body in left] == [
        one for one, is_kept in zip(expected, keep, strict=True) if is_kept
    ]
    kinds = Counter(kind for kind, _, _ in records_of(kept))
    assert kinds == {"warcinfo": 1, "request": 5, "response": 2, "conversion": 1}
    everything = rewrite(path, [True] * 6, tmp_path / "all" / name)
    assert everything.read_bytes() == path.read_bytes()


def test_gzip_members_are_copied_as_they_are_stored(tmp_path: Path, rewrite: Rewrite) -> None:
    members = [gzip.compress(text(f"page {n} " * 50), n) for n in range(1, 10)]
    path = write(tmp_path / "a.warc.wet.gz", *members)
    kept = rewrite(path, [n % 3 == 0 for n in range(9)], tmp_path / "out.gz")
    assert kept.read_bytes() == b"".join(members[::3])


def watch_members(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of members that are held at each record."""
    held: list[int] = []

    class Watched(GzipMembers):
        def forget(self, start: int) -> None:
            super().forget(start)
            held.append(len(self._members))

    monkeypatch.setattr("neardup.corpus.warc_copy.GzipMembers", Watched)
    return held


def test_gzip_members_of_removed_records_are_not_held(
    tmp_path: Path, rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = watch_members(monkeypatch)
    members = [gzip.compress(text(f"page {n} " * 50), 1) for n in range(500)]
    path = write(tmp_path / "a.warc.wet.gz", *members)
    kept = rewrite(path, [False] * 499 + [True], tmp_path / "out.gz")
    assert kept.read_bytes() == members[-1]
    assert len(held) == 500 and max(held) < 50


def test_gzip_members_of_a_long_record_are_not_held(
    tmp_path: Path, rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("warc", "warc_copy"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST_RECORD", 1 << 16)
    held = watch_members(monkeypatch)
    page = record("conversion", b"p" * 3_000_000)
    parts = [gzip.compress(page[at : at + 10_000], 1) for at in range(0, len(page), 10_000)]
    path = write(tmp_path / "a.warc.wet.gz", *parts, gzip.compress(text("b"), 1))
    kept = rewrite(path, [False, True], tmp_path / "out.gz")
    assert gzip.decompress(kept.read_bytes()) == text("b")
    assert max(held) < 50


def test_records_that_share_a_gzip_member_get_their_own(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    records = [text(f"page {n} " * 5000) for n in range(5)]
    path = write(tmp_path / "a.warc.gz", gzip.compress(b"".join(records)))
    assert len(read(path).texts) == 5
    kept = rewrite(path, [True, False, True, True, False], tmp_path / "out.gz")
    data, found = kept.read_bytes(), []
    while data:
        machine = zlib.decompressobj(31)
        found.append(machine.decompress(data))
        data = machine.unused_data
    assert found == [records[0], records[2], records[3]]


def test_columns_of_a_record(tmp_path: Path, read: Read) -> None:
    first = record("conversion", b"a", WARC_Date="2024-05-17T10:11:12.5Z")
    other = record("conversion", b"b", WARC_Date="2024", WARC_Target_URI="<https://x.org/b>")
    path = write(tmp_path / "a.wet", first, other)
    found = read(path, Columns(keep="date", within="url"))
    assert found.ids == [f"urn:uuid:{zlib.crc32(body)}" for body in (b"a", b"b")]
    assert found.within == ["https://example.org/", "https://x.org/b"]
    assert found.keep.to_pylist() == [datetime(2024, 5, 17, 10, 11, 12, 500_000), None]
    assert read(path, Columns(within="type")).within == ["conversion"] * 2
    with pytest.raises(ColumnError, match="'body'; it has: text, id, url, date, type"):
        read(path, Columns(text="body"))
    with pytest.raises(UsageError, match="not lists of token ids"):
        read(path, Columns(tokens=True))


def test_records_that_are_no_documents_are_counted_and_kept(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    others = [
        record("warcinfo", b"software: x", "application/warc-fields"),
        record("request", b"GET / HTTP/1.1\r\n\r\n", "application/http; msgtype=request"),
        record("metadata", b"a: b", "application/warc-fields"),
        record("revisit", b"HTTP/1.1 200 OK\r\n\r\n", HTTP),
        record("resource", b"\x89PNG", "image/png"),
        record("response", b"example.org A", "text/dns"),
        record("strange", b"x"),
        answer(b"moved", status="301 Moved"),
        answer(b"", status="404 Not Found"),
        answer(b"\x89PNG", "Content-Type: image/png"),
        answer(b"no type", "Server: x"),
        record("response", b"not HTTP at all", HTTP),
    ]
    path = write(tmp_path / "a.warc", *others[:6], text("a document"), *others[6:])
    assert read(path).texts == ["a document"]
    assert unread(path) == {
        "warcinfo record": 1,
        "request record": 1,
        "metadata record": 1,
        "revisit record": 1,
        "resource record that is not text": 1,
        "response that is not HTTP": 1,
        "record of another type": 1,
        "response with HTTP status 3xx": 1,
        "response with HTTP status 4xx": 1,
        "response that is not text": 2,
        "response with a broken head": 1,
    }
    kept = rewrite(path, [False], tmp_path / "out.warc")
    assert kept.read_bytes() == b"".join(others)
    only = write(tmp_path / "b.warc", others[0])
    assert (read(only).texts, unread(only)) == ([], {"warcinfo record": 1})


def chunked(body: bytes, size: int = 7) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def brotli(body: bytes) -> bytes:
    return bytes(pa.compress(body, "brotli", asbytes=True))


ENCODED = {
    "plain": (b"Gr\xc3\xb6\xc3\x9fe", "Content-Type: text/plain"),
    "mark": (b"\xef\xbb\xbfGr\xc3\xb6\xc3\x9fe", "Content-Type: text/html; charset=latin1"),
    "latin": ("Größe".encode("latin-1"), "content-type: text/html; charset=ISO-8859-1"),
    "quoted": ("Größe".encode("cp1252"), 'Content-Type: text/html; charset="windows-1252"'),
    "utf-16": ("Größe".encode("utf-16"), "Content-Type: text/plain"),
    "utf8": ("Größe".encode(), "Content-Type: text/plain;charset=UTF8"),
    "chunked": (chunked("Größe".encode()), "Content-Type: text/html\nTransfer-Encoding: Chunked"),
    "stored decoded": (
        "Größe".encode(),
        "Content-Type: text/html\nTransfer-Encoding: chunked\nContent-Encoding: gzip",
    ),
    "gzip": (gzip.compress("Größe".encode()), "Content-Type: text/html\nContent-Encoding: gzip"),
    "deflate": (
        zlib.compress("Größe".encode()),
        "Content-Type: text/html\nContent-Encoding: deflate",
    ),
    "raw deflate": (
        zlib.compress("Größe".encode())[2:-4],
        "Content-Type: text/html\nContent-Encoding: deflate",
    ),
    "brotli": (brotli("Größe".encode()), "Content-Type: text/html\nContent-Encoding: br"),
    "both": (
        chunked(gzip.compress("Größe".encode("cp1252"))),
        "Content-Type: text/html;charset=l1\nTransfer-Encoding: chunked\nContent-Encoding: gzip",
    ),
    "twice": (
        gzip.compress(zlib.compress("Größe".encode())),
        "Content-Type: text/html\nContent-Encoding: deflate, gzip",
    ),
}


@pytest.mark.parametrize("name", ENCODED)
def test_encodings_of_a_page_are_decoded(tmp_path: Path, read: Read, name: str) -> None:
    assert read(write(tmp_path / "a.warc", answer(*ENCODED[name]))).texts == ["Größe"]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<meta charset="shift_jis"><p>日本</p>'.encode("cp932"), "日本"),
        (b"<META http-equiv=x content='text/html; charset=koi8-r'>\xd0\xd2", "пр"),
        ('<?xml version="1.0" encoding="gb2312"?><p>中文</p>'.encode("gb18030"), "中文"),
        ('<meta charset="utf-16"><p>größer</p>'.encode(), "größer"),
    ],
)
def test_charset_that_a_page_declares(
    tmp_path: Path, read: Read, page: bytes, expected: str
) -> None:
    path = write(tmp_path / "a.warc", answer(page), answer(page, "Content-Type: text/html"))
    assert all(expected in found for found in read(path).texts)


BAD_PAGES = {
    "invalid UTF-8": (b"\xff\xfa", "Content-Type: text/html"),
    "a charset that is not known": (b"x", "Content-Type: text/html; charset=punycode"),
    "bytes that its charset does not have": (b"\x81", "Content-Type: text/html;charset=sjis"),
    "a chunk of the transfer encoding is damaged": (
        b"ff\r\nshort",
        "Content-Type: text/html\nTransfer-Encoding: chunked",
    ),
    "the content encoding is damaged": (
        b"\x1f\x8bno gzip",
        "Content-Type: text/html\nContent-Encoding: gzip",
    ),
    "the content encoding is truncated": (
        gzip.compress(random.Random(1).randbytes(900))[:500],
        "Content-Type: text/html\nContent-Encoding: gzip",
    ),
    "a content encoding that is not known": (
        b"x",
        "Content-Type: text/html\nContent-Encoding: compress",
    ),
    "longer than 64 MiB when its content encoding is decoded": (
        gzip.compress(bytes(LONGEST_RECORD + 1), 1),
        "Content-Type: text/html\nContent-Encoding: gzip",
    ),
}


@pytest.mark.parametrize("reason", BAD_PAGES)
def test_page_that_cannot_be_decoded_is_rejected(tmp_path: Path, read: Read, reason: str) -> None:
    path = write(tmp_path / "a.warc", text("before"), answer(*BAD_PAGES[reason]), text("after"))
    found = read(path)
    assert found.texts == ["before", None, "after"]
    assert found.rejected == {1: reason}


DAMAGED = {
    "a WARC record with a wrong Content-Length": [
        record("conversion", b"the length is too small", Content_Length="3"),
        record("conversion", b"the length is too large", Content_Length="40"),
        record("conversion", b"the length is beyond the file", Content_Length="100000"),
    ],
    "a WARC record without a Content-Length": [
        record("conversion", b"no length", Content_Length="many"),
        record("conversion", b"no length", Content_Length="-5"),
        record("conversion", b"no length", Content_Length="9" * 30),
    ],
    "a WARC record with a broken head": [
        b"WARC/1.0\r\nWARC-Type: conversion\r\n" + b"a" * 70_000,
    ],
    "bytes that are no WARC record": [b"garbage between records", b"\0" * 3_000_000],
}


@pytest.mark.parametrize("reason", DAMAGED)
def test_damaged_record_is_rejected_and_the_next_one_is_found(
    tmp_path: Path, read: Read, rewrite: Rewrite, reason: str
) -> None:
    for damaged in DAMAGED[reason]:
        path = write(tmp_path / "a.warc", text("before"), damaged, text("after"), text("last"))
        found = read(path)
        assert found.texts == ["before", None, "after", "last"]
        assert found.rejected == {1: reason}
        kept = rewrite(path, [True, False, True, False], tmp_path / "out.warc")
        assert kept.read_bytes() == text("before") + text("after")


def test_missing_and_other_blank_lines_are_accepted(
    tmp_path: Path, read: Read, rewrite: Rewrite
) -> None:
    records = [
        text("none").rstrip(b"\r\n"),
        text("one").rstrip(b"\r\n") + b"\n",
        text("more") + b"\r\n" * 100,
        text("line feeds").replace(b"\r\n", b"\n"),
        text("at the end").rstrip(b"\r\n"),
    ]
    path = write(tmp_path / "a.warc", b"\r\n", *records)
    assert read(path).texts == ["none", "one", "more", "line feeds", "at the end"]
    kept = rewrite(path, [True] * 5, tmp_path / "out.warc")
    assert kept.read_bytes() == b"".join(records)


def test_truncated_file_is_an_error_wherever_it_ends(tmp_path: Path, read: Read) -> None:
    whole = text("first") + text("the last record")
    start, end = len(text("first")), len(whole) - 4
    for cut in range(start + 1, end):
        with pytest.raises(InputError, match=r"a\.warc: truncated or corrupt WARC data .*at byte"):
            read(write(tmp_path / "a.warc", whole[:cut]))
    for cut in range(end, len(whole)):
        assert len(read(write(tmp_path / "a.warc", whole[:cut])).texts) == 2
    assert read(write(tmp_path / "a.warc", b"")).texts == []


def test_long_record_is_not_held_but_counted_and_copied(
    tmp_path: Path, read: Read, rewrite: Rewrite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("warc", "warc_copy"):
        monkeypatch.setattr(f"neardup.corpus.{module}.LONGEST_RECORD", 1 << 20)
    size = 3_000_000
    video = answer(b"v" * size, "Content-Type: video/mp4")
    page = record("conversion", b"p" * size)
    path = write(tmp_path / "a.warc", text("a"), video, page, text("b"))
    found = read(path)
    assert (found.texts, found.rejected) == (["a", None, "b"], {1: "longer than 64 MiB"})
    assert unread(path) == {"response that is not text": 1}
    kept = rewrite(path, [False, False, True], tmp_path / "out.warc")
    assert kept.read_bytes() == video + text("b")
    packed = write(tmp_path / "b.warc.gz", *(gzip.compress(one, 1) for one in (video, text("b"))))
    again = rewrite(packed, [True], tmp_path / "out.gz")
    assert gzip.decompress(again.read_bytes()) == video + text("b")
    with pytest.raises(InputError, match="shorter than its Content-Length"):
        read(write(tmp_path / "c.warc", video[:-100]))
    with pytest.raises(InputError, match="no record begins where"):
        read(write(tmp_path / "c.warc", video, b"garbage", text("b")))


def test_hostile_heads_take_linear_time_and_little_memory(tmp_path: Path, read: Read) -> None:
    spaces = " " * 60_000
    path = write(
        tmp_path / "a.warc",
        answer(b"x", f"Content-Type: text/html; charset={spaces}!"),
        answer(b"x", f"Content-Type: text/html; {'charset ' * 7000}"),
        answer(b"<meta " * 200 + b"charset" + b" " * 500, "Content-Type: text/html"),
        text("a") + b"\n" * 3_000_000,
        text("b"),
    )
    begun = time.process_time()
    found = read(path)
    assert time.process_time() - begun < 2
    assert found.texts[:2] == ["x", "x"]
    assert found.texts[3:] == ["a", None, "b"]
    assert found.rejected == {4: "bytes that are no WARC record"}


def test_wat_file_is_refused_with_the_reason(tmp_path: Path, read: Read) -> None:
    content = gzip.compress(record("metadata", b"{}", "application/json"))
    path = write(tmp_path / "a.warc.wat.gz", content)
    with pytest.raises(InputError, match=r"a\.warc\.wat\.gz: a WAT file .*no texts: pass the WARC"):
        read(path)


@pytest.mark.parametrize("name", ["a.warc", "a.warc.gz"])
def test_texts_in_records_are_replaced(
    tmp_path: Path, read: Read, rewrite: Rewrite, name: str
) -> None:
    written = write_by_warcio(tmp_path / name, name.endswith(".gz"), pages=2)
    page = answer(
        chunked(gzip.compress("Größe".encode("cp1252"))),
        "content-type: text/html;charset=l1\nTransfer-Encoding: chunked\nContent-Encoding: gzip",
    )
    pages = gzip.compress(page) if name.endswith(".gz") else page
    path = write(tmp_path / name, written.read_bytes(), pages)
    edit = Edit(
        np.array([True, False, True, True]),
        Columns(),
        lambda rows, texts: make_strings(
            [f"{row} {text}" for row, text in zip(rows, texts.to_pylist(), strict=True)]
        ),
    )
    kept = rewrite(path, [True] * 4, tmp_path / "out" / name, edit=edit)
    expected = ["0 <p>Seite 0: größer</p>", "<p>Seite 1: größer</p>", "2 plain text", "3 Größe"]
    assert read(kept).texts == expected
    found = [
        body.decode() for kind, _, body in records_of(kept) if kind in ("response", "conversion")
    ]
    assert found == expected
    assert read(kept).ids == read(path).ids
    members = path.read_bytes().split(b"\x1f\x8b") if name.endswith(".gz") else []
    assert all(member in kept.read_bytes() for member in members[1:2])
