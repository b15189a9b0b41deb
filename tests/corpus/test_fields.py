"""What options name: columns, fields inside of others, several columns, folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neardup
from neardup.corpus.column_check import check_columns
from neardup.corpus.documents import Columns
from neardup.corpus.fields import MISSING, join_columns, join_values, look_up
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import chunks_of, parse_chunk
from neardup.errors import ColumnError, InputError, ParameterError, UsageError

Read = Callable[..., Any]
ROWS: list[dict[str, Any]] = [
    {"doc": {"text": "one", "meta": {"url": "u0"}}, "title": "A", "body": "a", "score": 3},
    {"doc": {"text": "two", "meta": None}, "title": None, "body": "b", "score": 1},
    {"doc": {"text": None, "meta": {"url": "u2"}}, "title": "C", "body": "", "score": 2},
    {"doc": None, "title": None, "body": None, "score": 4},
]
TEXTS = ["one", "two", None, None]
URLS = ["u0", None, "u2", None]
JOINED = ["A\n\na", "b", "C", None]


def write_rows(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        return path
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, str(path))
    elif path.suffix == ".arrows":
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        table.to_pandas().to_csv(path, index=False)
    return path


NESTED = ["jsonl", "parquet", "feather", "arrows"]


@pytest.mark.parametrize("format", NESTED)
def test_fields_inside_of_others(tmp_path: Path, read: Read, format: str) -> None:
    path = write_rows(tmp_path / f"a.{format}")
    found = read(path, Columns("doc.text", "doc.meta.url", within="doc.meta.url"))
    assert (found.texts, found.ids, found.within) == (TEXTS, URLS, URLS)
    assert set(found.rejected) == {2, 3}
    assert read(path, Columns("doc.text", keep="score")).keep.to_pylist() == [3, 1, 2, 4]


def test_a_row_without_the_outer_object_has_no_field(tmp_path: Path, read: Read) -> None:
    path = write_rows(tmp_path / "a.jsonl", [ROWS[0], {"doc": "a string"}, {"other": 1}, ROWS[2]])
    reasons = read(path, Columns("doc.text")).rejected
    assert reasons == {1: "no field 'doc.text'", 2: "no field 'doc.text'", 3: "text is null"}


def test_only_the_leaf_is_read_of_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(tmp_path / "a.parquet")
    asked = []
    original = pq.ParquetFile.iter_batches

    def iter_batches(self: Any, *args: Any, **how: Any) -> Any:
        asked.append(how["columns"])
        return original(self, *args, **how)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", iter_batches)
    list(chunks_of(find_inputs([path]), Columns("doc.text", "doc.meta.url")))
    assert asked == [["doc.text", "doc.meta.url"]]


@pytest.mark.parametrize("format", [*NESTED, "csv"])
def test_several_columns_are_joined_by_a_blank_line(
    tmp_path: Path, read: Read, format: str
) -> None:
    rows = [{"title": r["title"], "body": r["body"], "id": str(n)} for n, r in enumerate(ROWS)]
    path = write_rows(tmp_path / f"a.{format}", rows)
    # A cell of CSV is empty, never missing.
    expected = JOINED if format != "csv" else [*JOINED[:3], ""]
    for name in ("title,body", "title, body"):
        found = read(path, Columns(name), 1)
        assert found.texts == expected
        assert found.ids == ["0", "1", "2", "3"]
    assert read(path, Columns("body,title")).texts[0] == "a\n\nA"


@pytest.mark.parametrize("format", [*NESTED, "csv"])
def test_a_column_with_such_a_name_wins(tmp_path: Path, read: Read, format: str) -> None:
    row = {"doc.text": "plain", "title,body": "both", "title": "A", "body": "a", "x.id": "i"}
    if format != "csv":
        row |= {"doc": {"text": "inner"}, "x": {"id": "j"}}  # type: ignore[dict-item]
    path = write_rows(tmp_path / f"a.{format}", [row])
    assert read(path, Columns("doc.text", "x.id")).texts == ["plain"]
    assert read(path, Columns("doc.text", "x.id")).ids == ["i"]
    assert read(path, Columns("title,body")).texts == ["both"]


def test_each_json_record_has_what_it_has(tmp_path: Path, read: Read) -> None:
    rows = [{"a.b": "flat", "id": 1}, {"a": {"b": "nested"}, "id": {"x": 1}}, {"a": {"b": 3}}]
    found = read(write_rows(tmp_path / "a.jsonl", rows), Columns("a.b"))
    assert found.texts == ["flat", "nested", None]
    assert found.rejected == {2: "text is a number, not a string"}


def test_large_numbers_inside_of_others_keep_their_digits(tmp_path: Path, read: Read) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a", "m": {"n": 123456789012345678901234567890}}\n')
    assert read(path, Columns(id="m.n")).ids == ["123456789012345678901234567890"]


def test_parts_that_are_no_text_reject_the_row(tmp_path: Path, read: Read) -> None:
    rows = [{"title": 1, "body": "b"}, {"title": "t", "body": ["x"]}, {"x": 1}, {"body": "ok"}]
    found = read(write_rows(tmp_path / "a.jsonl", rows), Columns("title,body"))
    assert found.texts == [None, None, None, "ok"]
    assert list(found.rejected.values()) == [
        "text is a number, not a string",
        "text is a list, not a string",
        "no field 'title,body'",
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"title": [1], "body": ["b"]}), path)
    with pytest.raises(
        UsageError, match=r"a\.parquet: column 'title' is int64, not text: .*--text"
    ):
        read(path, Columns("title,body"))


def test_invalid_utf_8_in_one_part_rejects_the_row(tmp_path: Path, read: Read) -> None:
    bad = pa.array([b"\xff", b"fine"]).view(pa.string())
    good = pa.array(["a", "b"])
    table = pa.table({"t": bad, "b": good, "d": pa.StructArray.from_arrays([bad], ["x"])})
    for name in ("a.parquet", "a.feather"):
        if name.endswith("feather"):
            pyarrow.feather.write_feather(table, str(tmp_path / name), compression="uncompressed")
        else:
            pq.write_table(table, tmp_path / name)
        found = read(tmp_path / name, Columns("t,b"))
        assert (found.texts, found.rejected) == ([None, "fine\n\nb"], {0: "invalid UTF-8"})
        assert read(tmp_path / name, Columns("d.x")).rejected == {0: "invalid UTF-8"}


@pytest.mark.parametrize("format", NESTED)
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (Columns("text"), r"no column 'text'; .*Did you mean 'doc\.text'\? Choose one with --text"),
        (Columns("doc.txt"), r"no column 'doc.txt'; .*Did you mean 'doc\.text'\?"),
        (Columns("titel,body"), r"no column 'titel'; .*Did you mean 'title'\?"),
        (Columns("body", "doc.meta.uri"), r"no column.*Did you mean 'doc\.meta\.url'\?.*--id"),
        (Columns("body", within="zzz"), r"no column 'zzz'; it has: doc, [^?]*\. Choose.*--within"),
    ],
)
def test_a_missing_column_names_the_nearest(
    tmp_path: Path, read: Read, format: str, columns: Columns, message: str
) -> None:
    path = write_rows(tmp_path / f"a.{format}")
    with pytest.raises(ColumnError, match=message):
        check_columns(find_inputs([path]), columns)
        read(path, columns)


@pytest.mark.parametrize("format", NESTED)
def test_one_of_several_columns_is_enough_for_a_file(
    tmp_path: Path, read: Read, format: str
) -> None:
    first = write_rows(tmp_path / f"a.{format}", [{"doc": {"title": "A title"}}])
    second = write_rows(tmp_path / f"b.{format}", [{"body": "A body"}])
    third = write_rows(tmp_path / f"c.{format}", [{"doc.title,body": "As it is"}])
    columns = Columns("doc.title,body")
    check_columns(find_inputs([first, second]), columns)
    check_columns(find_inputs([third]), columns)
    texts = [read(path, columns).texts for path in (first, second, third)]
    assert texts == [["A title"], ["A body"], ["As it is"]]


@pytest.mark.parametrize("format", NESTED)
def test_fields_inside_of_lists_are_refused(tmp_path: Path, read: Read, format: str) -> None:
    path = write_rows(tmp_path / f"a.{format}", [{"pages": [{"text": "a"}, {"text": "b"}]}])
    with pytest.raises(UsageError, match=r"'pages\.text' is inside of a list .*make a row of each"):
        read(path, Columns("pages.text"))


def test_token_ids_of_several_columns_are_refused(tmp_path: Path, read: Read) -> None:
    path = write_rows(tmp_path / "a.jsonl", [{"a": [1], "b": [2], "c": {"d": [3, 4]}}])
    assert read(path, Columns("c.d", tokens=True)).texts == [[3, 4]]
    with pytest.raises(UsageError, match="several columns can't be joined"):
        read(path, Columns("a,b", tokens=True))


@pytest.mark.parametrize("format", [*NESTED, "csv"])
def test_texts_are_shortened_only_in_one_column(tmp_path: Path, read: Read, format: str) -> None:
    path = write_rows(tmp_path / f"a.{format}", [{"t": "a", "b": "x", "d.t": "y"}])
    assert read(path, Columns("d.t", rewritten=True)).texts == ["y"]
    with pytest.raises(UsageError, match=r"can't be shortened: .*--text, or use --unit document"):
        read(path, Columns("t,b", rewritten=True))
    nested = write_rows(tmp_path / "n.jsonl", [{"d": {"t": "a"}}])
    with pytest.raises(UsageError, match="can't be shortened"):
        read(nested, Columns("d.t", rewritten=True))
    mixed = write_rows(tmp_path / "m.jsonl", [{"d.t": "a"}, {"d": {"t": "a"}}])
    assert read(mixed, Columns("d.t", rewritten=True)).rejected == {1: "no field 'd.t'"}


# -- tables of Python ---------------------------------------------------------------------------

TABLES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "dicts": lambda rows: rows,
    "Arrow": pa.Table.from_pylist,
    "pandas": pd.DataFrame,
    "pandas of Arrow": lambda rows: pa.Table.from_pylist(rows).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "Polars": pl.DataFrame,
    "lazy Polars": lambda rows: pl.DataFrame(rows).lazy(),
}


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_python(kind: str) -> None:
    data = TABLES[kind](ROWS)
    nested = neardup.dedup(data, text="doc.text", id="doc.meta.url", keep="max:score")
    assert nested.kept == ["u0", 1]
    assert [one.reason for one in nested.rejected] == ["text is null", nested.rejected[1].reason]
    for text in ("title,body", ["title", "body"]):
        joined = neardup.dedup(data, text=text)
        assert (joined.kept, len(joined.rejected)) == ([0, 1, 2], 1)
    with pytest.raises(ColumnError, match=r"Did you mean 'doc\.text'\? Choose one with text="):
        neardup.dedup(data, text="text")


def test_names_in_a_list_must_be_names() -> None:
    assert neardup.dedup([{"a,b": "x"}], text=["a,b"]).kept == [0]
    for names in ([], ["a,b", "c"]):
        with pytest.raises(ParameterError, match="text needs one or more names of columns"):
            neardup.dedup([{"a,b": "x", "c": "y"}], text=names)


@given(st.lists(st.tuples(*[st.sampled_from([None, "", "a", "é b", "\n"])] * 3), max_size=4))
def test_joined_columns_are_joined_values(rows: list[tuple[str | None, ...]]) -> None:
    columns = [pa.array([row[place] for row in rows], pa.large_string()) for place in range(3)]
    assert join_columns(columns).to_pylist() == [join_values(row) for row in rows]


def test_look_up() -> None:
    record = {"a": {"b.c": 1, "d": {"e": 2}}, "x": [{"y": 1}], "n": None}
    assert look_up(record, "a.b.c") == 1
    assert look_up(record, "a.d.e") == 2
    for name in ("a.b", "a.d.e.f", "x.y", "n.m", ".", "a.", ""):
        assert look_up(record, name) is MISSING


# -- folders ------------------------------------------------------------------------------------


def read_all(argument: Path, columns: Columns) -> dict[str, list[Any]]:
    """The values of all documents below a path."""
    found: dict[str, list[Any]] = {"texts": [], "ids": [], "keep": [], "within": []}
    for chunk in chunks_of(find_inputs([argument]), columns):
        documents = parse_chunk(chunk, columns)
        for name, values in found.items():
            column = getattr(documents, name)
            values += [] if column is None else column.to_pylist()
    return found


@pytest.mark.parametrize("format", [*NESTED, "csv", "txt"])
def test_folders_are_columns(tmp_path: Path, format: str) -> None:
    for year, lang in ((9, "de"), (10, "pt%2DBR"), (11, "__HIVE_DEFAULT_PARTITION__")):
        path = tmp_path / f"in/year={year}/lang={lang}/a.{format}"
        path.parent.mkdir(parents=True)
        if format == "txt":
            path.write_text("words")
        else:
            write_rows(path, [{"text": "words", "n": "1"}])
    columns = Columns(keep="year", within="lang")
    found = read_all(tmp_path / "in", columns)
    assert found["keep"] == [10.0, 11.0, 9.0], "in the order of the paths, as numbers"
    assert found["within"] == ["pt-BR", None, "de"]
    assert read_all(tmp_path / "in", Columns(id="lang"))["ids"] == ["pt-BR", None, "de"]
    levels = read_all(tmp_path / "in", Columns(within="folder:1"))["within"]
    assert levels == ["year=10", "year=11", "year=9"]
    assert read_all(tmp_path / "in", Columns(within="folder:3"))["within"] == [None] * 3
    inside = read_all(tmp_path / "in/year=9", columns)
    assert (inside["keep"], inside["within"]) == ([9.0], ["de"])
    (file,) = (tmp_path / "in/year=9/lang=de").iterdir()
    assert read_all(file, columns)["within"] == ["de"]
    with pytest.raises(UsageError, match=r"was given itself.*give the folder that contains it"):
        read_all(file, Columns(within="folder:1"))


@pytest.mark.parametrize("format", [*NESTED, "csv"])
def test_a_column_that_differs_from_its_folder_is_an_error(tmp_path: Path, format: str) -> None:
    same = [{"text": "a", "lang": "de", "day": "01"}, {"text": "b", "lang": None, "day": None}]
    path = write_rows(tmp_path / f"lang=de/day=01/a.{format}", same)
    columns = Columns(within="lang", keep="day")
    assert read_all(path, columns)["within"] == ["de", "de"]
    other = write_rows(tmp_path / f"lang=de/day=02/b.{format}", same)
    with pytest.raises(InputError, match=r"'day' than the folder day=02: move the file") as raised:
        read_all(other, columns)
    assert raised.value.file == str(other)
    null = write_rows(tmp_path / f"lang=__HIVE_DEFAULT_PARTITION__/c.{format}", same)
    with pytest.raises(InputError, match="'lang' than the folder lang=__HIVE_DEFAULT"):
        read_all(null, Columns(within="lang"))


@pytest.mark.parametrize("format", NESTED)
def test_numbers_and_dates_of_folders_agree_with_columns_of_their_type(
    tmp_path: Path, format: str
) -> None:
    path = write_rows(tmp_path / f"day=01/a.{format}", [{"text": "a", "day": 1}])
    assert read_all(path, Columns(keep="day"))["keep"] == [1]
    dates = read_all(
        write_rows(tmp_path / f"at=2024-01-15/b.{format}", [{"text": "a"}]),
        Columns(keep="at", dates=True),
    )
    assert [str(day) for day in dates["keep"]] == ["2024-01-15 00:00:00"]


def test_a_text_file_has_no_columns_but_those_of_its_folders(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("words")
    with pytest.raises(
        UsageError, match="mtime, path and those of its folders: leave out --within"
    ):
        read_all(tmp_path, Columns(within="lang"))
