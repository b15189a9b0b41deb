"""How fast WET and WARC files become documents, on one core, beside warcio.

The files are generated: WET records of about 6 KB, and HTTP answers of about 40 KB of HTML with
their requests; uncompressed, and gzip with a member a record. The rate is that of decompressed
bytes by processor time. warcio reads every record and its decoded content, and makes no columns.
"""

from __future__ import annotations

import gzip
import random
import time
from collections.abc import Iterator
from pathlib import Path

from table import Figure, Row
from warcio.archiveiterator import ArchiveIterator
from ways import InputBench

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, read_chunks

WORDS = ("the", "of", "web", "page", "archive", "crawl", "naïve", "Straße", "about", "results")


def record(kind: str, number: int, body: bytes, content: str) -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: https://example.org/{number}\r\n"
        f"WARC-Date: 2024-05-17T10:{number // 60 % 60:02}:{number % 60:02}Z\r\n"
        f"WARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{number:012}>\r\n"
        f"WARC-Identified-Content-Language: eng\r\nContent-Type: {content}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body + b"\r\n\r\n"


def wet_records(size: int) -> Iterator[bytes]:
    rng, made, number = random.Random(1), 0, 0
    while made < size:
        words = " ".join(rng.choices(WORDS, k=rng.randrange(300, 1500)))
        made, number = made + len(words), number + 1
        yield record("conversion", number, words.encode(), "text/plain")


def warc_records(size: int) -> Iterator[bytes]:
    rng, made, number = random.Random(2), 0, 0
    while made < size:
        words = " ".join(rng.choices(WORDS, k=rng.randrange(2000, 10_000)))
        made, number = made + len(words), number + 1
        asked = f"GET /{number} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode()
        yield record("request", number, asked, "application/http; msgtype=request")
        page = f'<html><head><meta charset="utf-8"></head><body>{words}</body></html>'.encode()
        answer = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\n\r\n" + page
        yield record("response", number, answer, "application/http; msgtype=response")


def by_neardup(path: Path) -> int:
    (file,) = find_inputs([path])
    columns = Columns()
    return sum(len(parse_chunk(chunk, columns)) for chunk in read_chunks(file, columns))


def by_warcio(path: Path) -> int:
    documents = 0
    with path.open("rb") as file:
        for one in ArchiveIterator(file):
            if one.rec_type in ("conversion", "response"):
                documents += len(one.content_stream().read()) > 0
    return documents


def best(path: Path) -> tuple[float, float, int]:
    """Seconds of neardup and of warcio, in turn, and documents."""
    ours, theirs, documents = [], [], 0
    for _ in range(3):
        for run, seconds in ((by_neardup, ours), (by_warcio, theirs)):
            begun = time.process_time()
            count = run(path)
            seconds.append(time.process_time() - begun)
            assert documents in (0, count)
            documents = count
    return min(ours), min(theirs), documents


def web_archives(bench: InputBench) -> Figure:
    """WET and WARC, each plain and compressed."""
    rows: list[Row] = []
    for name, records in (("wet", wet_records), ("warc", warc_records)):
        for ending in ("", ".gz"):
            path, made = bench.work / f"a.{name}{ending}", 0
            with path.open("wb") as file:
                for one in records(bench.size * 1_000_000):
                    made += len(one)
                    file.write(gzip.compress(one, 6) if ending else one)
            ours, theirs, documents = best(path)
            rows.append(
                {
                    "file": path.name,
                    "documents": documents,
                    "neardup MB/s": made / ours / 1e6,
                    "warcio MB/s": made / theirs / 1e6,
                }
            )
            path.unlink()
    return Figure(
        "Web archives",
        f"generated records, {bench.size} MB decompressed; from bytes to documents, one core; MB/s "
        "of processor time, the best of three in turn",
        rows,
        {"100 MB/s a core": all(float(row["neardup MB/s"] or 0) >= 100 for row in rows)},
    )
