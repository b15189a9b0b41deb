"""The kept rows of many files in one: byte for byte in the same format, else by defined rules."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neardup.corpus.inputs import find_inputs
from neardup.corpus.one_file import KeptFile, KeptRows, format_of_name, write_one_file
from neardup.errors import InputError, UsageError


def join(paths: list[Path], to: Path, keep: list[list[int]] | None = None) -> Path:
    """Write the rows of files to one; those of `keep` are 1, by default all."""
    files = find_inputs(paths)
    format, compression = format_of_name(to.name)
    target = KeptFile(to.name, format, compression)
    target.check(files)
    masks = [np.array(mask, bool) for mask in keep]
    write_one_file([KeptRows(f, m) for f, m in zip(files, masks, strict=True)], target, to)
    return to


def test_lines_are_copied_byte_for_byte_each_on_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "1.jsonl", tmp_path / "2.jsonl"
    first.write_bytes(b'\xef\xbb\xbf{"text": "a",  "x": 1e3}\r\n\n{"text":"b"}')
    second.write_bytes(b'\xef\xbb\xbf{"text":"c"}\n{"text":"\\u00e9"}')
    out = join([first, second], tmp_path / "out.jsonl", [[1, 1], [1, 1]])
    assert out.read_bytes() == (
        b'\xef\xbb\xbf{"text": "a",  "x": 1e3}\r\n{"text":"b"}\n{"text":"c"}\n{"text":"\\u00e9"}'
    )
    out = join([first, second], tmp_path / "less.jsonl", [[0, 1], [0, 1]])
    assert out.read_bytes() == b'{"text":"b"}\n{"text":"\\u00e9"}'


def test_json_arrays_are_written_as_json_lines(tmp_path: Path) -> None:
    rows = [{"text": letter, "n": n} for n, letter in enumerate("abcd")]
    (tmp_path / "1.json").write_text(json.dumps(rows[:2], indent=2))
    (tmp_path / "2.json").write_text("".join(json.dumps(row) for row in rows[2:]))
    paths, keep = [tmp_path / "1.json", tmp_path / "2.json"], [[1, 1], [0, 1]]
    lines = join(paths, tmp_path / "out.jsonl", keep).read_text().splitlines()
    assert [json.loads(line) for line in lines] == [rows[0], rows[1], rows[3]]
    assert all(line == line.strip() for line in lines)
    table = pq.ParquetFile(join(paths, tmp_path / "out.parquet", keep)).read()
    assert table.to_pylist() == [rows[0], rows[1], rows[3]]


def test_file_called_json_is_an_array(tmp_path: Path) -> None:
    rows = [{"text": letter, "n": n} for n, letter in enumerate("abcd")]
    (tmp_path / "1.json").write_text(json.dumps(rows[:2], indent=2))
    (tmp_path / "2.jsonl").write_text(
        "\ufeff" + "".join(json.dumps(row) + "\n" for row in rows[2:])
    )
    paths = [tmp_path / "1.json", tmp_path / "2.jsonl"]
    out = join(paths, tmp_path / "out.json", [[1, 0], [1, 1]])
    assert json.loads(out.read_text()) == [rows[0], rows[2], rows[3]]
    assert json.loads(join(paths, tmp_path / "no.json", [[0, 0], [0, 0]]).read_text()) == []


def test_lines_of_text_stay_lines(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_bytes(b"a\r\n\nb")
    (tmp_path / "2.txt").write_bytes(b"c\nd")
    files = find_inputs([tmp_path / "1.txt", tmp_path / "2.txt"], "lines")
    sources = [KeptRows(file, np.array([True, True])) for file in files]
    target = KeptFile("out.txt", "lines")
    target.check(files)
    write_one_file(sources, target, tmp_path / "out.txt")
    assert (tmp_path / "out.txt").read_bytes() == b"a\r\nb\nc\nd"
    write_one_file(sources, KeptFile("out.jsonl", "jsonl"), tmp_path / "out.jsonl")
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == list("abcd")


def test_records_get_one_header(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes(b'text,n\r\n"a\r\nb",1\r\nc,2')
    (tmp_path / "2.csv").write_bytes(b"")
    (tmp_path / "3.csv").write_bytes(b'\xef\xbb\xbf"text",n\nd,3\ne,4\n')
    paths = [tmp_path / f"{n}.csv" for n in (1, 2, 3)]
    out = join(paths, tmp_path / "out.csv", [[1, 1], [], [0, 1]])
    assert out.read_bytes() == b'text,n\r\n"a\r\nb",1\r\nc,2\ne,4\n'


def test_parquet_keeps_metadata_codecs_and_row_groups(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("n", pa.int32())], metadata={"mine": "1"})
    whole = pa.table({"text": list("abcdef"), "n": range(6)}, schema=schema)
    pq.write_table(whole, tmp_path / "1.parquet", compression="zstd", row_group_size=3)
    pq.write_table(whole, tmp_path / "2.parquet", row_group_size=3)
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    out = join(paths, tmp_path / "out.parquet", [[1, 1, 1, 1, 1, 0], [0, 1, 1, 1, 1, 1]])
    found = pq.ParquetFile(out)
    assert found.schema_arrow.equals(schema, check_metadata=False)
    assert found.schema_arrow.metadata[b"mine"] == b"1"
    assert found.metadata.row_group(0).column(0).compression == "ZSTD"
    assert found.read()["n"].to_pylist() == [0, 1, 2, 3, 4, 1, 2, 3, 4, 5]


def test_columns_of_different_files_are_joined(tmp_path: Path) -> None:
    pq.write_table(
        pa.table({"text": ["a"], "n": pa.array([1], pa.int32())}), tmp_path / "1.parquet"
    )
    pq.write_table(pa.table({"more": [True], "text": ["b"], "n": [2.5]}), tmp_path / "2.parquet")
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    out = join(paths, tmp_path / "out.parquet", [[1], [1]])
    assert pq.read_table(out).to_pylist() == [
        {"text": "a", "n": 1.0, "more": None},
        {"text": "b", "n": 2.5, "more": True},
    ]


def test_json_becomes_columns_over_all_blocks(tmp_path: Path) -> None:
    rows = [{"text": "x" * 3000, "n": n if n < 900 else n / 2, "tags": []} for n in range(1000)]
    rows[-1] |= {"tags": ["t"], "deep": {"a": [1]}}
    rows[0] |= {"nothing": None}
    path = tmp_path / "1.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = join([path], tmp_path / "out.parquet", [[n % 2 for n in range(999)] + [1]])
    found = pq.read_table(out)
    assert found.column("n").to_pylist() == [
        float(row["n"]) for n, row in enumerate(rows) if n % 2 or n == 999
    ]
    assert found.column("deep")[-1].as_py() == {"a": [1]}
    assert found.column("tags")[-1].as_py() == ["t"]


def test_columns_become_json_without_loss(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": pa.array(["é\n"], pa.string()),
            "big": pa.array([2**63], pa.uint64()),
            "day": pa.array([datetime.date(2020, 2, 29)]),
            "at": pa.array([datetime.datetime(2020, 2, 29, 1, 2, 3)], pa.timestamp("s")),
            "price": pa.array([decimal.Decimal("1.20")]),
            "kind": pa.array(["k"]).dictionary_encode(),
            "deep": pa.array([{"a": [1.5, None]}]),
            "none": pa.nulls(1),
        }
    )
    pq.write_table(table, tmp_path / "1.parquet")
    out = join([tmp_path / "1.parquet"], tmp_path / "out.jsonl", [[1]])
    assert json.loads(out.read_bytes()) == {
        "text": "é\n",
        "big": 2**63,
        "day": "2020-02-29",
        "at": "2020-02-29 01:02:03.000",
        "price": "1.20",
        "kind": "k",
        "deep": {"a": [1.5, None]},
        "none": None,
    }


@pytest.mark.parametrize(
    "column", [pa.array([b"\xff"]), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))]
)
def test_what_json_does_not_have_is_refused(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"text": ["a"], "odd": column}), tmp_path / "1.parquet")
    with pytest.raises(UsageError, match=r"column 'odd' is .*: write \.parquet"):
        join([tmp_path / "1.parquet"], tmp_path / "out.jsonl", [[1]])


def test_an_integer_that_a_float_column_would_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"text": "a", "n": 9007199254740993}\n')
    (tmp_path / "2.jsonl").write_text('{"text": "b", "n": 0.5}\n')
    with pytest.raises(UsageError, match=r"1\.jsonl"):
        join([tmp_path / "1.jsonl", tmp_path / "2.jsonl"], tmp_path / "out.parquet", [[1], [1]])
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    "value",
    [
        "18446744073709551616",
        "9223372036854775808",
        "-9223372036854775809",
        "1" * 5000,
        '{"a": [1%s]}' % ("0" * 30),
    ],
)
def test_an_integer_that_no_column_can_have_is_refused(tmp_path: Path, value: str) -> None:
    (tmp_path / "1.jsonl").write_text(f'{{"text": "a", "n": {value}}}\n')
    with pytest.raises(
        UsageError, match=r"1\.jsonl: .* beyond signed 64 bits.*: write \.jsonl"
    ) as error:
        join([tmp_path / "1.jsonl"], tmp_path / "out.parquet", [[1]])
    assert value not in str(error.value)
    assert not (tmp_path / "out.parquet").exists()


def test_many_digits_that_columns_can_have_are_converted(tmp_path: Path) -> None:
    rows = [
        {"text": "12345678901234567890123", "n": 2**63 - 1, "x": 1e25},
        {"text": "b", "n": -(2**63), "x": 0.12345678901234568},
    ]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = join([tmp_path / "1.jsonl"], tmp_path / "out.parquet", [[1, 1]])
    assert pq.read_table(out).to_pylist() == rows


def test_numbers_that_json_does_not_have_become_null(tmp_path: Path) -> None:
    values = [float("nan"), float("inf"), 0.5]
    pq.write_table(pa.table({"text": ["a", "b", "c"], "x": values}), tmp_path / "1.parquet")
    out = join([tmp_path / "1.parquet"], tmp_path / "out.jsonl", [[1, 1, 1]])
    assert [json.loads(line)["x"] for line in out.open()] == [None, None, 0.5]


def test_a_file_that_lost_rows_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(InputError, match="changed during the run"):
        join([tmp_path / "1.jsonl"], tmp_path / "out.jsonl", [[1, 1]])
    assert not (tmp_path / "out.jsonl").exists()
