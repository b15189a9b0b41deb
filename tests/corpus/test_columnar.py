"""Parquet and Arrow in: every string type, broken files, rows that are not UTF-8."""

from __future__ import annotations

import contextlib
import datetime
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from support.sizes import full

from neardup.corpus.columnar import read_batches
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.errors import ColumnError, InputError, NeardupError, UsageError

Read = Callable[..., Any]
NAMES = ["a.parquet", "a.arrow", "a.arrows", "a.feather"]
formats = pytest.mark.parametrize("name", NAMES)


def write(path: Path, table: pa.Table, rows: int = 3) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=rows)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, str(path), chunksize=rows)
    else:
        new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)
    return path


TEXTS = ["one", "", "zwei \U0001f600 " * 9, "nul \0", "five", "one", "seven"]


@formats
@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_every_string_type_is_read(
    tmp_path: Path, read: Read, name: str, kind: pa.DataType
) -> None:
    texts = pa.array(TEXTS).dictionary_encode() if "dict" in str(kind) else pa.array(TEXTS, kind)
    path = write(tmp_path / name, pa.table({"text": texts, "id": range(7), "junk": [b"\0"] * 7}))
    for size in (1, 40, 1 << 20):
        found = read(path, size=size)
        assert found.texts == TEXTS
        assert found.ids == [str(n) for n in range(7)]
        assert not found.rejected
    assert read(path, size=1).batches >= 5


@formats
def test_null_and_invalid_texts_are_rejected(tmp_path: Path, read: Read, name: str) -> None:
    bad = pa.array([b"ok", None, b"\xff", b"\xed\xa0\x80", b"fine"]).view(pa.string())
    path = write(tmp_path / name, pa.table({"text": bad, "id": bad, "l": bad}), rows=5)
    found = read(path, Columns(within="l", keep="l"))
    assert found.texts == found.ids == found.within == ["ok", None, None, None, "fine"]
    assert found.keep.to_pylist() == found.texts
    assert found.rejected == {1: "text is null", 2: "invalid UTF-8", 3: "invalid UTF-8"}


@formats
def test_file_without_rows_has_no_documents(tmp_path: Path, read: Read, name: str) -> None:
    assert read(write(tmp_path / name, pa.table({"text": pa.array([], pa.string())}))).texts == []


@formats
def test_missing_and_mistyped_columns_are_refused(tmp_path: Path, read: Read, name: str) -> None:
    path = write(tmp_path / name, pa.table({"body": ["x"], "n": [1], "b": [b"x"], "l": [[1]]}))
    with pytest.raises(ColumnError, match=r"no column 'text'; it has: body, n, b, l.*--text"):
        read(path)
    with pytest.raises(ColumnError, match=r"'when'.*--keep"):
        read(path, Columns(text="body", keep="when"))
    for wrong, kind in (("n", "int64"), ("b", "binary"), ("l", "list")):
        with pytest.raises(UsageError, match=rf"column '{wrong}' is {kind}.*--text"):
            read(path, Columns(text=wrong))
    with pytest.raises(UsageError, match=r"column 'l' is list.*--keep"):
        read(path, Columns(text="body", keep="l"))


def test_column_of_nulls_is_rejected(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"text": pa.nulls(2)}))
    assert read(path).rejected == {0: "text is null", 1: "text is null"}


def test_keep_and_ids_of_many_types(tmp_path: Path, read: Read) -> None:
    day, key = datetime.date(2024, 2, 29), uuid.UUID(int=7)
    table = pa.table(
        {
            "text": ["t"],
            "day": [day],
            "time": pa.array([1], pa.timestamp("ns", "Europe/Berlin")),
            "money": [Decimal("1.50")],
            "yes": [True],
            "big": pa.array([2**63], pa.uint64()),
            "key": pa.array([key.bytes], pa.uuid()),
            "raw": [b"\xff"],
            "half": pa.array([1.5], pa.float32()),
        }
    )
    path = write(tmp_path / "a.arrow", table)

    def value(column: str) -> tuple[str, Any]:
        keep = read(path, Columns(keep=column)).keep
        return str(keep.type), keep[0].as_py()

    assert value("day") == ("timestamp[us]", datetime.datetime(2024, 2, 29))
    assert value("time")[0] == "timestamp[ns]"
    assert value("money")[1] == Decimal("1.50")
    assert value("yes") == ("int64", 1)
    assert value("big") == ("uint64", 2**63)
    ids = {name: read(path, Columns(id=name)).ids[0] for name in table.column_names}
    assert ids["day"] == "2024-02-29"
    assert (ids["yes"], ids["half"], ids["money"]) == ("true", "1.5", "1.50")
    assert (ids["key"], ids["raw"]) == (str(key), "ff")


@formats
def test_token_lists(tmp_path: Path, read: Read, name: str) -> None:
    rows = [[1, 2], [], None, [3, None], [4]]
    path = write(tmp_path / name, pa.table({"text": pa.array(rows, pa.list_(pa.uint16()))}))
    found = read(path, Columns(tokens=True))
    assert found.texts == [[1, 2], [], None, None, [4]]
    assert found.rejected == {2: "text is null", 3: "a token id is null"}
    with pytest.raises(UsageError, match=r"list.*not text"):
        read(path)


def test_dotted_column_name_is_not_a_nested_field(tmp_path: Path, read: Read) -> None:
    table = pa.table({"a.b": ["x"], "a": [{"b": "y"}], "text": ["z"]})
    path = write(tmp_path / "a.parquet", table)
    assert read(path, Columns(text="a.b")).texts == ["x"]
    assert read(path).texts == ["z"]


def test_a_long_dictionary_does_not_make_giant_batches(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"text": ["word " * 500] * 20_000}), rows=20_000)
    assert path.stat().st_size < 100_000
    found = read(path)
    assert found.batches >= 4
    assert len(found.texts) == 20_000


def test_polars_files(tmp_path: Path, read: Read) -> None:
    frame = pl.DataFrame({"text": TEXTS})
    frame.write_parquet(tmp_path / "a.parquet")
    frame.write_ipc(tmp_path / "b.arrow")
    frame.write_ipc_stream(tmp_path / "c.arrows")
    for name in ("a.parquet", "b.arrow", "c.arrows"):
        assert read(tmp_path / name, size=50).texts == TEXTS


@pytest.mark.parametrize("step", [7, full(1)])
@formats
def test_file_truncated_at_any_byte_is_an_error(
    tmp_path: Path, read: Read, name: str, step: int
) -> None:
    whole = write(tmp_path / name, pa.table({"text": TEXTS})).read_bytes()
    for cut in {*range(0, len(whole), step), *range(len(whole) - 20, len(whole))}:
        (tmp_path / name).write_bytes(whole[:cut])
        with pytest.raises(InputError, match=name):
            read(tmp_path / name)


@formats
def test_garbage_after_the_data_is_an_error(tmp_path: Path, read: Read, name: str) -> None:
    path = write(tmp_path / name, pa.table({"text": TEXTS}))
    path.write_bytes(path.read_bytes() + b"garbage!")
    with pytest.raises(InputError, match=name):
        read(path)


@pytest.mark.parametrize("flips", [100, full(300)])
@formats
def test_flipped_bits_never_crash(tmp_path: Path, read: Read, name: str, flips: int) -> None:
    whole = write(tmp_path / name, pa.table({"text": TEXTS, "id": range(7)})).read_bytes()
    chance = random.Random(7)
    for _ in range(flips):
        broken = bytearray(whole)
        broken[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        (tmp_path / name).write_bytes(broken)
        with contextlib.suppress(NeardupError):
            read(tmp_path / name)


def test_a_large_parquet_file_is_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    numbers = random.Random(1).randbytes(1 << 24)
    pieces = pa.array([numbers[n : n + 1024] for n in range(0, len(numbers), 1024)])
    pq.write_table(pa.table({"text": pieces}), path, row_group_size=1024, use_dictionary=False)
    (file,) = find_inputs([path])
    pool = pa.default_memory_pool()
    before, most = pool.bytes_allocated(), 0
    for _ in read_batches(file, 1 << 16):
        most = max(most, pool.bytes_allocated() - before)
    assert 0 < most < path.stat().st_size / 3
