"""Run the command line, and documents to run it on."""

from __future__ import annotations

import bz2
import csv
import functools
import gzip
import io
import json
import lzma
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from neardup import reference
from neardup.cli import main
from neardup.spec import Spec

Row = dict[str, Any]


@dataclass
class Ran:
    code: int
    out: str
    err: str


def neardup(*arguments: object) -> Ran:
    """Run the command in this process: starting one takes most of a second."""
    out = io.StringIO()
    with redirect_stdout(out):
        ran = _run_main(arguments)
    return Ran(ran.code, out.getvalue(), ran.err)


def _run_main(arguments: Sequence[object]) -> Ran:
    err = io.StringIO()
    argv = ["neardup", *map(str, arguments)]
    terminate = signal.getsignal(signal.SIGTERM)
    with mock.patch.object(sys, "argv", argv), redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            signal.signal(signal.SIGTERM, terminate)
    return Ran(code, "", err.getvalue())


def dedup(*arguments: object) -> Row:
    """Run `neardup dedup`, which must succeed; the record that it prints."""
    ran = neardup("dedup", *arguments, "--json")
    assert ran.code == 0, ran.err
    assert ran.err == ""
    return json.loads(ran.out)


def process(*arguments: object, **others: Any) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own."""
    command = [sys.executable, "-m", "neardup", *map(str, arguments)]
    environment = os.environ | others.pop("env", {})
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, **others
    )


def unprivileged(*arguments: object) -> Ran:
    """Run as someone to whom permissions apply, even if the tests run as root."""
    drop: list[str] = []
    if os.geteuid() == 0:
        drop = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if shutil.which("setpriv") is None:
            pytest.skip("root may do everything, and can't give it up")
    command = [*drop, sys.executable, "-m", "neardup", *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def refused(ran: Ran, code: int, *parts: str) -> None:
    """The run must have failed with this code, in one line that has all the parts."""
    assert ran.code == code, ran
    assert ran.out == ""
    assert ran.err.endswith("\n") and ran.err.count("\n") == 1, ran.err
    assert ran.err.startswith("neardup: ")
    assert "Traceback" not in ran.err
    for part in parts:
        assert part in ran.err, ran.err


def table(out: Path, name: str) -> list[Row]:
    data = (out / f"{name}.parquet").read_bytes()  # PyArrow takes no name that is not UTF-8
    return pq.read_table(pa.BufferReader(data)).to_pylist()


VOCABULARY = [f"w{n}" for n in range(5_000)]


def words(seed: int, count: int = 80) -> list[str]:
    return random.Random(seed).choices(VOCABULARY, k=count)


def edited(seed: int, *places: int, count: int = 80) -> str:
    """The words of `seed`, with other ones in some places."""
    found = words(seed, count)
    for place in places:
        found[place] = f"x{place}"
    return " ".join(found)


GREEK = "Ένα μικρό βήμα για τον άνθρωπο, ένα μεγάλο άλμα για την ανθρωπότητα είπε κάποτε εκείνος"
TEXTS = [
    edited(1),
    edited(2),
    edited(1, 79),
    edited(1).upper() + "!",
    GREEK * 3,
    GREEK * 3 + " εδώ",
    "happy birthday",
    "thank you",
    " \t ",
    edited(2),
    "🎉🎉",
    edited(3) + ' "quoted", with a comma\nand a line',
    edited(1, 78, 79),
    edited(3) + ' "quoted", with a comma\r\nand a line',
    "漢字かな交じり文のテキストは単語の間に空白がありません",
    edited(4, 40),
    edited(4),
]
DOCUMENTS: list[Row] = [
    {"id": f"doc-{n}", "text": text, "score": float(n % 5), "lang": "en" if n % 2 else "el"}
    for n, text in enumerate(TEXTS)
]


def expected(
    texts: Sequence[str],
    threshold: float = 0.8,
    spec: Spec | None = None,
    bands: int = 21,
    rows: int = 6,
) -> list[tuple[int, float] | None]:
    """The answer of the slow twin: None for kept, (witness, similarity), (itself, 0) if empty."""
    return _slow_answer(tuple(texts), spec or Spec(), bands, rows, threshold)


_slow_answer = functools.cache(reference.dedup)
"""Many tests ask about the same texts."""


def kept_rows(texts: Sequence[str]) -> list[int]:
    return [row for row, verdict in enumerate(expected(texts)) if verdict is None]


def write_jsonl(path: Path, rows: Sequence[Row]) -> Path:
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return path


def _packed(path: Path, rows: Sequence[Row], codec: str) -> None:
    plain = write_jsonl(path.with_suffix(".plain"), rows).read_bytes()
    path.with_suffix(".plain").unlink()
    if codec in ("gzip", "xz", "bz2"):
        pack = {"gzip": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress}[codec]
        path.write_bytes(pack(plain))
        return
    with pa.CompressedOutputStream(str(path), codec) as sink:
        sink.write(plain)


def _json(path: Path, rows: Sequence[Row]) -> None:
    path.write_text(json.dumps(list(rows), indent=2), encoding="utf-8")


def _csv(path: Path, rows: Sequence[Row], delimiter: str) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def _arrow(path: Path, rows: Sequence[Row], new: Callable[..., Any]) -> None:
    found = pa.Table.from_pylist(list(rows))
    with pa.OSFile(str(path), "wb") as sink, new(sink, found.schema) as writer:
        writer.write_table(found, max_chunksize=5)


WRITERS: dict[str, Callable[[Path, Sequence[Row]], object]] = {
    "jsonl": write_jsonl,
    "jsonl.xz": lambda path, rows: _packed(path, rows, "xz"),
    "jsonl.bz2": lambda path, rows: _packed(path, rows, "bz2"),
    "json": _json,
    "jsonl.gz": lambda path, rows: _packed(path, rows, "gzip"),
    "jsonl.zst": lambda path, rows: _packed(path, rows, "zstd"),
    "parquet": lambda path, rows: pq.write_table(
        pa.Table.from_pylist(list(rows)), path, row_group_size=4
    ),
    "csv": lambda path, rows: _csv(path, rows, ","),
    "tsv": lambda path, rows: _csv(path, rows, "\t"),
    "arrow": lambda path, rows: _arrow(path, rows, pa.ipc.new_file),
    "arrows": lambda path, rows: _arrow(path, rows, pa.ipc.new_stream),
    "feather": lambda path, rows: pyarrow.feather.write_feather(
        pa.Table.from_pylist(list(rows)), str(path)
    ),
}


UNPACKERS = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}


def read_rows(path: Path) -> list[Row]:
    """The rows of a file of any of these formats, by other means than neardup's own."""
    name = path.name
    if ".jsonl" in name:
        data = path.read_bytes()
        for ending, unpack in UNPACKERS.items():
            data = unpack(data) if name.endswith(ending) else data
        if name.endswith(".zst"):
            data = pa.CompressedInputStream(str(path), "zstd").read()
        return [json.loads(line) for line in data.splitlines()]
    if name.endswith(".json"):
        return json.loads(path.read_text(encoding="utf-8"))
    if name.endswith(".parquet"):
        return pq.read_table(path).to_pylist()
    if name.endswith((".arrow", ".feather")):
        return pa.ipc.open_file(str(path)).read_all().to_pylist()
    if name.endswith(".arrows"):
        return pa.ipc.open_stream(path.read_bytes()).read_all().to_pylist()
    with open(path, newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter="\t" if name.endswith("tsv") else ","))
    return [row | {"score": float(row["score"])} for row in found]


def neardup_piped(data: bytes, *arguments: object) -> tuple[int, bytes, str]:
    """Run the command in this process with bytes on standard input: code, output, messages."""
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    with tempfile.TemporaryFile() as source, redirect_stdout(out):
        source.write(data)
        source.seek(0)
        with mock.patch.object(sys, "stdin", io.TextIOWrapper(source)):
            ran = _run_main(arguments)
    out.flush()
    return ran.code, out.buffer.getvalue(), ran.err
