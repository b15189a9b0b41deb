"""Ten thousand files, odd file names, symbolic links, and tables with a thousand columns."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.sizes import full

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, read_chunks

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from neardup.cli import main
main()
"""


@pytest.mark.parametrize("count", [1_500, full(10_000)])
def test_thousands_of_small_files_need_at_most_256_open_files(tmp_path: Path, count: int) -> None:
    (tmp_path / "in").mkdir()
    for number in range(count):
        text = f"words of number {number // 2} and of nobody else {number // 2}"
        (tmp_path / "in" / f"{number:05}.txt").write_text(text)
    ran = batch_engine.process(LIMITED, "dedup", tmp_path / "in", "-o", tmp_path / "out", "-q")
    assert ran.returncode == 0, ran.stderr
    assert batch_engine.counts(tmp_path / "out")["removed"] == count // 2
    assert len(os.listdir(tmp_path / "out" / "kept")) == count // 2


NAMES = [
    b"-o",
    b"--force",
    b"-",
    b"a b",
    b"new\nline",
    b"tab\there",
    b"not utf-8 \xff\xfe",
    b"quo'te\"s",
    b"gl*b[1]?",
    b"\\xff",
    b"~",
    b"$HOME",
    b"%s",
    b"x" * 255,
    "é".encode() * 127,
    "漢".encode() * 85,
]


def write_odd(folder: Path, suffix: bytes) -> dict[bytes, bytes]:
    """A file of each name, each with a text of its own; what is in them."""
    folder.mkdir()
    made = {}
    for number, name in enumerate(NAMES):
        path = name[: 255 - len(suffix)] + suffix
        text = " ".join(f"w{number}x{place}" for place in range(9))
        made[path] = f'{{"text": "{text}"}}\n'.encode() if suffix else text.encode()
        (folder / os.fsdecode(path)).write_bytes(made[path])
    return made


@pytest.mark.parametrize("suffix", [b"", b".jsonl"])
def test_odd_names_are_kept_as_they_are(tmp_path: Path, suffix: bytes) -> None:
    made = write_odd(tmp_path / "in", suffix)
    got = batch_engine.go([tmp_path / "in"], tmp_path / "out", shard=100, chunk=100)
    assert got.kept == made
    assert got.removed == []


def test_symbolic_links_are_read_once_and_never_followed_into_folders(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (tmp_path / "outside.txt").write_text("something outside")
    (folder / "real.txt").write_text("another text that is inside")
    (folder / "second.txt").symlink_to(folder / "real.txt")
    (folder / "to-outside.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "loop").symlink_to(folder)
    (folder / "broken.txt").symlink_to(folder / "nothing")
    got = batch_engine.go([folder], tmp_path / "out")
    assert set(got.kept) == {b"real.txt", b"to-outside.txt"}
    assert not any(path.is_symlink() for path in (tmp_path / "out" / "kept").iterdir())


def read_so_far() -> int:
    """Bytes that this process has asked the system for."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="needs Linux's counters")
def test_only_the_needed_columns_of_a_wide_table_are_read(tmp_path: Path) -> None:
    rows = 500
    chance = np.random.default_rng(1)
    columns = {f"c{n}": pa.array(chance.integers(0, 2**62, rows)) for n in range(1_000)}
    columns["text"] = pa.array(f"text of row {row}" for row in range(rows))
    path = tmp_path / "wide.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=100, compression="none")
    (file,) = find_inputs([path])
    before = read_so_far()
    found = sum(len(parse_chunk(chunk, Columns())) for chunk in read_chunks(file, Columns()))
    read = read_so_far() - before
    assert found == rows
    layout = pq.ParquetFile(path).metadata.serialized_size
    assert read - layout < 0.05 * path.stat().st_size
