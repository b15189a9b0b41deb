"""CSV as people have it: other delimiters and quotes, no header; the errors name the cure."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from neardup.corpus.dialects import check_dialect
from neardup.corpus.documents import Columns, make_strings
from neardup.corpus.inputs import find_inputs
from neardup.corpus.rows import Edit
from neardup.corpus.write import write_kept
from neardup.errors import ColumnError, InputError, ParameterError, UsageError

Read = Callable[..., Any]
Rewrite = Callable[..., Path]


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (b'id;text\n1;"a;b"\n2;c, d\n', {"delimiter": ";"}),
        (b'id|text\n1|"a;b"\n2|c, d\n', {"delimiter": "|"}),
        (b'id\ttext\n1\t"a;b"\n2\tc, d\n', {"delimiter": "tab"}),
        (b'id\x01text\n1\x01"a;b"\n2\x01c, d\n', {"delimiter": "^A"}),
        (b"id,text\n1,'a;b'\n2,'c, d'\n", {"quote": "'"}),
        (b"id;text\n1;'a;b'\n2;c, d\n", {"delimiter": ";", "quote": "'"}),
        (b"id\\text\n1\\$a;b$\n2\\c, d\n", {"delimiter": "\\", "quote": "$"}),
    ],
)
def test_delimiters_and_quotes(
    tmp_path: Path, read: Read, rewrite: Rewrite, content: bytes, options: dict[str, Any]
) -> None:
    path = write(tmp_path / "a.csv", content)
    found = read(path, **options)
    assert (found.ids, found.texts) == (["1", "2"], ["a;b", "c, d"])
    kept = rewrite(path, [False, True], tmp_path / "out.csv", **options)
    first, _, last = content.splitlines(keepends=True)
    assert kept.read_bytes() == first + last


def test_quotes_that_are_text(tmp_path: Path, read: Read) -> None:
    path = write(tmp_path / "a.tsv", b'id\ttext\n1\t"Yes," she said\n2\t5" disk\n')
    with pytest.raises(InputError, match=r"line 2 is not TSV .*use --quote none"):
        read(path)
    found = read(path, quote="none")
    assert found.texts == ['"Yes," she said', '5" disk']


def test_file_without_header(tmp_path: Path, read: Read, rewrite: Rewrite) -> None:
    content = b'1,"first, text",en\n2,second,de\n3,x\n'
    path = write(tmp_path / "a.csv", content)
    found = read(path, Columns(text="2", id="1", within="3"), no_header=True)
    assert found.texts == ["first, text", "second", None]
    assert found.rejected == {2: "row has 2 fields, the first row has 3"}
    assert (found.ids[:2], found.within[:2]) == (["1", "2"], ["en", "de"])
    kept = rewrite(path, [False, True, False], tmp_path / "out.csv", no_header=True)
    assert kept.read_bytes() == b"2,second,de\n"
    with pytest.raises(ColumnError, match=r"no column 'text'; it has: 1, 2, 3\..*--text"):
        read(path, no_header=True)
    assert read(write(tmp_path / "a.csv", b"\n"), Columns(text="1"), no_header=True).texts == []


@pytest.mark.parametrize(("delimiter", "typed"), [(";", "';'"), ("\t", "tab"), ("|", r"'\|'")])
def test_other_delimiter_in_the_header_is_named(
    tmp_path: Path, read: Read, delimiter: str, typed: str
) -> None:
    content = delimiter.join(["id", '"text"']) + "\n" + delimiter.join("12") + "\n"
    path = write(tmp_path / "a.csv", content.encode())
    with pytest.raises(UsageError, match=rf"a\.csv has a column 'text' .*use --delimiter {typed}$"):
        read(path)
    path = write(tmp_path / "a.tsv", b"id,text\n1,x\n")
    with pytest.raises(UsageError, match="use --delimiter ','"):
        read(path)


def test_first_line_that_is_no_header_is_never_shown(tmp_path: Path, read: Read) -> None:
    secret = "My diary of last week, and what the doctor said to me"
    for content in (f"7,{secret}\n", f'7,"{secret}"\n', "7,x@y.z\n", f"id,{'x' * 50}\n"):
        path = write(tmp_path / "a.csv", content.encode())
        with pytest.raises(UsageError) as caught:
            read(path)
        message = str(caught.value)
        assert "has no column 'text', and its first line, of " in message
        assert "use --no-header and the number of a column, such as --text 1" in message
        assert "diary" not in message
        assert "doctor" not in message
        assert "xxx" not in message
    path = write(tmp_path / "a.csv", b"doc id,Body (html),lang\n1,x,en\n")
    with pytest.raises(ColumnError, match=r"it has: doc id, Body \(html\), lang"):
        read(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ";;"}, "--delimiter must be one ASCII character or tab"),
        ({"delimiter": ""}, "--delimiter must be one"),
        ({"delimiter": "¦"}, "--delimiter must be one"),
        ({"delimiter": "\n"}, "--delimiter must be one"),
        ({"quote": "''"}, "--quote must be one ASCII character or none"),
        ({"delimiter": "'", "quote": "'"}, 'both "\'"'),
    ],
)
def test_impossible_dialects_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        check_dialect(**options)


def test_dialect_without_a_csv_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", b'{"text": "a"}\n')
    with pytest.raises(UsageError, match=r"about CSV, and no input is a CSV file.*--format csv"):
        find_inputs([path], delimiter=";")
    other = write(tmp_path / "a.csv", b"text\na\n")
    files = find_inputs([path, other], delimiter=";")
    assert [file.dialect.delimiter for file in files] == [None, ";"]


CELLS = st.text(st.sampled_from(["a", "b", ";", ",", '"', "'", "|", "\n", "\r", "ü", " "]))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6),
    delimiter=st.sampled_from([";", "|", "\t", ","]),
    quote=st.sampled_from(['"', "'"]),
    header=st.booleans(),
)
def test_edited_texts_are_read_again_in_the_same_dialect(
    tmp_path: Path, rows: list[tuple[str, ...]], delimiter: str, quote: str, header: bool
) -> None:
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, delimiter=delimiter, quotechar=quote)
    if header:
        writer.writerow(["1", "2", "3"])
    writer.writerows(rows)
    path = write(tmp_path / "a.csv", sink.getvalue().encode())
    (file,) = find_inputs([path], delimiter=delimiter, quote=quote, no_header=not header)
    edit = Edit(
        np.arange(len(rows)) % 2 == 0,
        Columns(text="2"),
        lambda _, texts: make_strings([text[::-1] for text in texts.to_pylist()]),
    )
    write_kept(file, np.ones(len(rows), bool), tmp_path / "out.csv", edit=edit)
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as found:
        again = [tuple(row) for row in csv.reader(found, delimiter=delimiter, quotechar=quote)]
    expected = [(a, b[::-1] if number % 2 == 0 else b, c) for number, (a, b, c) in enumerate(rows)]
    assert again[header:] == expected
