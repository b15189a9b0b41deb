"""CSV and TSV: records as the csv module reads them, bytes as they are in the file."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neardup.corpus.documents import Columns
from neardup.errors import ColumnError, InputError, ParameterError, UsageError

Read = Callable[..., Any]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_quotes_newlines_and_blank_lines(tmp_path: Path, read: Read) -> None:
    content = b'id,text\r\n1,"a ""b"", c"\r\n\r\n2,"x\ny\r\nz"\n3,5" disk\n4,"nul \0"'
    path = write(tmp_path / "a.csv", content)
    for size in (1, 1 << 20):
        found = read(path, size=size)
        assert found.texts == ['a "b", c', "x\ny\r\nz", '5" disk', "nul \0"]
        assert found.ids == ["1", "2", "3", "4"]


def test_tsv_with_bom_and_gzip(tmp_path: Path, read: Read) -> None:
    content = '\ufeff"text"\tid\né, x\t7\n'.encode()
    path = write(tmp_path / "a.tsv.gz", gzip.compress(content))
    assert (read(path).texts, read(path).ids) == (["é, x"], ["7"])


@pytest.mark.parametrize("content", [b"", b"\n\n", b"text\n", b"id,text"])
def test_file_without_records_has_no_documents(tmp_path: Path, read: Read, content: bytes) -> None:
    assert read(write(tmp_path / "a.csv", content)).texts == []


def test_rows_with_a_wrong_number_of_fields_or_invalid_utf8_are_rejected(
    tmp_path: Path, read: Read
) -> None:
    content = b"id,text,url\n1,a,u\n2,b\n3,\xff,u\n\xff,d,\xff\n5,e,u,v\n6,,u\n"
    found = read(write(tmp_path / "a.csv", content))
    assert found.texts == ["a", None, None, "d", None, ""]
    assert found.rejected == {
        1: "row has 2 fields, the header has 3",
        2: "invalid UTF-8",
        4: "row has 4 fields, the header has 3",
    }
    assert found.ids[:4] == ["1", None, "3", None]


def test_missing_column(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.csv", b"id,body\n1,x\n")
    with pytest.raises(ColumnError, match=r"a\.csv has no column 'text'; it has: id, body.*--text"):
        read(path)
    with pytest.raises(ColumnError, match=r"'lang'.*--within"):
        read(path, Columns(text="body", within="lang"))


@pytest.mark.parametrize(
    ("content", "line"),
    [(b'text\nok\n"never\nclosed\n', 3), (b'text\n"a\nb"\n"x"y\nz\n', 4), (b'te"xt\n"', 2)],
)
def test_misplaced_quote_is_an_error_with_its_line(
    tmp_path: Path, read: Read, content: bytes, line: int
) -> None:
    path = write(tmp_path / "a.csv", content)
    with pytest.raises(InputError, match=rf"a\.csv: the record that begins in line {line} "):
        read(path, Columns(text='te"xt' if b'te"xt' in content else "text"))


def test_huge_field_is_read(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.csv", b'text\n"' + b"line\n" * 500_000 + b'"\n')
    assert read(path, size=1000).texts == ["line\n" * 500_000]


def test_two_columns_of_one_name_are_refused(tmp_path: Path, read: Read) -> None:
    with pytest.raises(UsageError, match="two columns 'text'"):
        read(write(tmp_path / "a.csv", b"text,text\na,b\n"))


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_keep_values_are_numbers_if_all_are(tmp_path: Path, read: Read, size: int) -> None:
    path = write(tmp_path / "a.csv", b"text,n,d,m\na,1,2024-01-01,1\nb,,2024-02-01,x\nc,2.5,,2\n")
    assert read(path, Columns(keep="n"), size).keep == pa.array([1, None, 2.5])
    dates = pa.array(["2024-01-01", "2024-02-01", None], pa.large_string())
    assert read(path, Columns(keep="d"), size).keep == dates
    with pytest.raises(ParameterError, match="no common order"):
        read(path, Columns(keep="m"), size)
    both = read(path, Columns(keep="n", within="n", id="n"), size)
    assert both.within == both.ids == ["1", None, "2.5"]


CELLS = st.text(st.sampled_from('a"é,\n\r\t \U0001f600'), max_size=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(CELLS, CELLS), max_size=12),
    size=st.integers(1, 60),
    keep=st.lists(st.booleans(), min_size=12, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_cells_are_read_and_kept_records_copied_byte_for_byte(
    tmp_path: Path,
    read: Read,
    rewrite: Callable[..., Path],
    rows: list[tuple[str, str]],
    size: int,
    keep: list[bool],
    end: str,
) -> None:
    def line(*cells: str) -> bytes:
        sink = io.StringIO(newline="")
        # Python 3.11's writer does not quote a carriage return unless it is the line's end.
        quoting = csv.QUOTE_ALL if "\r" in "".join(cells) else csv.QUOTE_MINIMAL
        csv.writer(sink, lineterminator=end, quoting=quoting).writerow(cells)
        return sink.getvalue().encode()

    path = tmp_path / "a.csv"
    path.write_bytes(line("id", "text") + b"".join(line(*row) for row in rows))
    assert read(path, size=size).texts == [text for _, text in rows]
    kept = [line(*row) for row, stays in zip(rows, keep, strict=False) if stays]
    out = rewrite(path, keep[: len(rows)], tmp_path / "out.csv")
    assert out.read_bytes() == line("id", "text") + b"".join(kept)
