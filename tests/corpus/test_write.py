"""write_kept: the rows to keep, and nothing of them changed."""

from __future__ import annotations

import gzip
import json
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neardup.corpus import write
from neardup.corpus.inputs import find_inputs
from neardup.errors import InputError, OutputError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]
LINES = [b'{"text": "a"}\r\n', b" \n", b'{"text": "b"}\n', b"\n", b'  {"text": "c"}  \n', b"junk"]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_kept_lines_are_copied_byte_for_byte(
    tmp_path: Path, read: Read, rewrite: Rewrite, mark: bytes, suffix: str
) -> None:
    def unpacked(path: Path) -> bytes:
        return pa.input_stream(str(path), compression="detect").read()

    path, out = tmp_path / f"a.jsonl{suffix}", tmp_path / "deep/er" / f"a.jsonl{suffix}"
    with pa.output_stream(str(path), compression="detect") as stream:
        stream.write(mark + b"".join(LINES))
    assert unpacked(rewrite(path, [True, True, True, True], out)) == mark + b"".join(
        [LINES[0], LINES[2], LINES[4], LINES[5]]
    )
    assert unpacked(rewrite(path, [False, True, False, True], out)) == LINES[2] + LINES[5]
    assert unpacked(rewrite(path, [False] * 4, out)) == b""
    assert read(out).texts == []
    assert os.listdir(out.parent) == [out.name]


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(st.text(st.sampled_from('{} \t\r"xé\x0b\x0c'), max_size=6), max_size=20),
    keep=st.lists(st.booleans(), min_size=20, max_size=20),
    block=st.integers(1, 60),
    ending=st.sampled_from(["", "\n"]),
)
def test_kept_lines_do_not_depend_on_the_blocks(
    tmp_path: Path, lines: list[str], keep: list[bool], block: int, ending: str
) -> None:
    content = ("\n".join(lines) + ending).encode()
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    rows = [line for line in _lines(content) if line.strip()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "_BLOCK", block)
        write.write_kept(find_inputs([path])[0], np.array(keep[: len(rows)], bool), path)
    assert path.read_bytes() == b"".join(
        row for row, stays in zip(rows, keep, strict=False) if stays
    )


def _lines(content: bytes) -> Iterator[bytes]:
    *whole, last = content.split(b"\n")
    yield from (line + b"\n" for line in whole)
    yield last


def test_text_is_copied_or_left_out(tmp_path: Path, rewrite: Rewrite) -> None:
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"text" * 1000))
    out = rewrite(path, [True], tmp_path / "out/a.txt.gz")
    assert out.read_bytes() == path.read_bytes()
    assert not rewrite(path, [False], tmp_path / "out/b.txt.gz").exists()


def test_csv_header_stays(tmp_path: Path, rewrite: Rewrite) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'\xef\xbb\xbf"id",text\r\n1,"a\n\xff"\r\n\r\n2,b')
    out = tmp_path / "out.csv"
    head = b'\xef\xbb\xbf"id",text\r\n'
    assert rewrite(path, [True, True], out).read_bytes() == head + b'1,"a\n\xff"\r\n2,b'
    assert rewrite(path, [False, False], out).read_bytes() == head
    path.write_bytes(b"")
    assert rewrite(path, [], out).read_bytes() == b""


TABLE = pa.table(
    {
        "text": ["a", "b", "c", "d", "e"],
        "view": pa.array(["long enough for a buffer"] * 5, pa.string_view()),
        "views": pa.array([["x" * 20]] * 5, pa.list_(pa.string_view())),
        "kind": pa.array(["x", "y", "x", "y", "x"]).dictionary_encode(),
        "nested": [{"n": n, "tags": ["t"] * n} for n in range(5)],
    },
    schema=None,
).replace_schema_metadata({"origin": "here"})
KEEP = [True, False, False, True, True]


@pytest.mark.parametrize("codec", ["zstd", "gzip", "snappy", "brotli", "lz4", "none"])
def test_parquet_keeps_schema_codec_and_row_groups(
    tmp_path: Path, rewrite: Rewrite, codec: str
) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path, compression=codec, row_group_size=2)
    out = rewrite(path, KEEP, tmp_path / "out.parquet")
    before, after = pq.ParquetFile(path), pq.ParquetFile(out)
    assert after.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    assert after.read().to_pylist() == [TABLE.to_pylist()[row] for row in (0, 3, 4)]

    def codecs(file: pq.ParquetFile) -> list[str]:
        group = file.metadata.row_group(0)
        return [group.column(place).compression for place in range(group.num_columns)]

    assert codecs(after) == codecs(before)
    assert after.metadata.num_row_groups == 2
    empty = rewrite(path, [False] * 5, tmp_path / "empty.parquet")
    assert pq.read_table(empty).num_rows == 0
    assert pq.read_schema(empty).equals(before.schema_arrow, check_metadata=True)
    assert pq.read_table(rewrite(empty, [], out)).num_rows == 0


@pytest.mark.parametrize("name", ["a.arrow", "a.arrows", "a.feather"])
def test_arrow_keeps_schema_and_format(tmp_path: Path, rewrite: Rewrite, name: str) -> None:
    path = tmp_path / name
    if name == "a.feather":
        pyarrow.feather.write_feather(TABLE, str(path), chunksize=2)
    else:
        new = pa.ipc.new_file if name == "a.arrow" else pa.ipc.new_stream
        with new(str(path), TABLE.schema) as writer:
            writer.write_table(TABLE, max_chunksize=2)

    def load(path: Path) -> pa.Table:
        opened = pa.ipc.open_stream if name == "a.arrows" else pa.ipc.open_file
        return opened(path.read_bytes()).read_all()

    out = load(rewrite(path, KEEP, tmp_path / "out" / name))
    assert out.schema.equals(TABLE.schema, check_metadata=True)
    assert out.to_pylist() == [TABLE.to_pylist()[row] for row in (0, 3, 4)]
    assert load(rewrite(path, [False] * 5, tmp_path / "out" / name)).num_rows == 0


def test_files_of_pandas_and_polars_can_be_read_by_them(tmp_path: Path, rewrite: Rewrite) -> None:
    pandas = pd.DataFrame({"text": ["a", "b", "c"], "n": [1, 2, 3]})
    pandas.to_parquet(tmp_path / "a.parquet")
    out = rewrite(tmp_path / "a.parquet", [True, False, True], tmp_path / "out.parquet")
    assert pd.read_parquet(out).to_dict("list") == {"text": ["a", "c"], "n": [1, 3]}
    polars = pl.DataFrame({"text": ["a", "b" * 30, "c"], "n": [1, 2, 3]})
    polars.write_ipc(tmp_path / "a.arrow", compression="zstd")
    out = rewrite(tmp_path / "a.arrow", [True, True, False], tmp_path / "out.arrow")
    assert pl.read_ipc(out).equals(polars[:2])


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.parquet", "a.arrows"])
@pytest.mark.parametrize("rows", [2, 4])
def test_file_that_changed_is_an_error(
    tmp_path: Path, rewrite: Rewrite, name: str, rows: int
) -> None:
    frame = pl.DataFrame({"text": ["a", "b", "c"]})
    path = tmp_path / name
    {
        "a.jsonl": frame.write_ndjson,
        "a.csv": frame.write_csv,
        "a.parquet": frame.write_parquet,
        "a.arrows": frame.write_ipc_stream,
    }[name](path)
    with pytest.raises(InputError, match="changed during the run"):
        rewrite(path, [True] * rows, tmp_path / "out" / name)
    assert os.listdir(tmp_path / "out") == []


@pytest.fixture
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.zst", "a.csv", "a.parquet", "a.arrow", "a.txt"]
)
def test_full_disk_leaves_no_file(
    tmp_path: Path, name: str, request: pytest.FixtureRequest
) -> None:
    texts = [os.urandom(500).hex() for _ in range(100)]
    path = tmp_path / name
    frame = pl.DataFrame({"text": texts})
    if name == "a.jsonl.zst":
        with pa.output_stream(str(path), compression="zstd") as stream:
            stream.write("".join(json.dumps({"text": text}) + "\n" for text in texts).encode())
    elif name == "a.txt":
        path.write_text("".join(texts))
    else:
        {
            "a.jsonl": frame.write_ndjson,
            "a.csv": frame.write_csv,
            "a.parquet": frame.write_parquet,
            "a.arrow": frame.write_ipc,
        }[name](path)
    request.getfixturevalue("full_disk")
    keep = np.ones(1 if name == "a.txt" else 100, bool)
    with pytest.raises(OutputError, match=rf"out/{name}: cannot be written \(.*make room"):
        write.write_kept(find_inputs([path])[0], keep, tmp_path / "out" / name)
    assert os.listdir(tmp_path / "out") == []


def test_damaged_source_is_an_input_error(tmp_path: Path, rewrite: Rewrite) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "a"}\n')[:-3])
    with pytest.raises(InputError, match="truncated"):
        rewrite(path, [True], tmp_path / "out.gz")


def test_folder_that_cannot_be_created_is_an_output_error(tmp_path: Path, rewrite: Rewrite) -> None:
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(OutputError, match="cannot be written"):
        rewrite(tmp_path / "a.txt", [True], tmp_path / "a.txt" / "b.txt")
