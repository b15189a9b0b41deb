"""from_data and take: the same documents whatever holds them, and the same type back."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from neardup.corpus import frames
from neardup.corpus.documents import Columns, Documents, concat_keep
from neardup.corpus.frames import read_data, take_rows
from neardup.errors import ColumnError, ParameterError, UsageError

TEXTS = ["one", None, "drei \U0001f600", "", "five", "one"]
IDS = [10, 20, 30, 40, 50, 60]
COLUMNS: dict[str, Any] = {
    "text": TEXTS,
    "id": IDS,
    "q": [1.5, 2, None, 3, 4, 5],
    "junk": [[1]] * 6,
}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
TABLE = pa.table(COLUMNS)


class Stream:
    """Somebody's table, known by the Arrow stream interface only."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return TABLE.__arrow_c_stream__(requested_schema)


def hugging_face() -> datasets.Dataset:
    padded = {name: [*values, values[0]] for name, values in COLUMNS.items()}
    shuffled = datasets.Dataset.from_dict({n: v[::-1] for n, v in padded.items()})
    return shuffled.select([6, 5, 4, 3, 2, 1])


TABLES: dict[str, Callable[[], Any]] = {
    "list of dicts": lambda: ROWS,
    "tuple of dicts": lambda: tuple(ROWS),
    "generator of dicts": lambda: iter(ROWS),
    "pandas": lambda: pd.DataFrame(COLUMNS, index=list("abcdef")),
    "pandas object": lambda: pd.DataFrame(COLUMNS).astype({"text": object, "id": object}),
    "pandas categorical": lambda: pd.DataFrame(COLUMNS).astype({"text": "category"}),
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars lazy": lambda: pl.LazyFrame(COLUMNS),
    "polars categorical": lambda: pl.DataFrame(COLUMNS).cast({"text": pl.Categorical}),
    "table": lambda: TABLE,
    "table of chunks": lambda: pa.concat_tables([TABLE[:2], TABLE[2:2], TABLE[2:]]),
    "record batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(2),
    "stream": Stream,
    "datasets": hugging_face,
    "iterable dataset": lambda: hugging_face().to_iterable_dataset(),
}
SEQUENCES: dict[str, Callable[[], Any]] = {
    "list": lambda: TEXTS,
    "tuple": lambda: tuple(TEXTS),
    "generator": lambda: iter(TEXTS),
    "numpy": lambda: np.array(TEXTS, object),
    "pandas series": lambda: pd.Series(TEXTS, name="x"),
    "pandas object series": lambda: pd.Series(TEXTS, dtype=object),
    "polars series": lambda: pl.Series(TEXTS),
    "array": lambda: pa.array(TEXTS),
    "view array": lambda: pa.array(TEXTS, pa.string_view()),
    "chunked array": lambda: pa.chunked_array([TEXTS[:2], TEXTS[2:]]),
}
ONE_SHOT = {"generator of dicts", "generator", "reader", "iterable dataset"}


def whole(batches: list[Documents]) -> tuple[list[Any], list[Any], dict[int, str]]:
    texts: list[Any] = []
    ids: list[Any] = []
    rejected = {}
    for batch in batches:
        rejected |= {len(texts) + row: why for row, why in batch.rejected.items()}
        texts += batch.texts.to_pylist()
        ids += batch.ids if isinstance(batch.ids, list) else batch.ids.to_pylist()
    return texts, ids, rejected


@pytest.fixture(params=[1, 1 << 24], ids=["tiny pieces", "one piece"])
def pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_BATCH_BYTES", request.param)
    monkeypatch.setattr(frames, "_FIRST_ROWS", 2 if request.param == 1 else 256)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", TABLES)
def test_tables_give_texts_and_ids(name: str) -> None:
    batches = list(read_data(TABLES[name](), Columns(keep="q", within="id")))
    assert whole(batches) == (TEXTS, IDS, {1: "text is null"})
    keeps = concat_keep([batch.keep for batch in batches]).to_pylist()
    expected = [1.5, 2, None, 3, 4, 5]
    assert [None if k is None or math.isnan(k) else k for k in keeps] == expected
    assert [w for batch in batches for w in batch.within.to_pylist()] == list(map(str, IDS))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_give_texts(name: str) -> None:
    texts, ids, rejected = whole(list(read_data(SEQUENCES[name](), Columns())))
    assert (texts, ids, rejected) == (TEXTS, [None] * 6, {1: "text is null"})


@pytest.mark.parametrize("name", sorted((TABLES | SEQUENCES).keys() - ONE_SHOT))
def test_take_rows_returns_the_type_of_the_data(name: str) -> None:
    data = (TABLES | SEQUENCES)[name]()
    taken = take_rows(data, np.array([0, 2, 5]))
    assert type(taken) is type(data) or name == "stream"
    assert whole(list(read_data(taken, Columns())))[0] == ["one", "drei \U0001f600", "one"]
    nothing = take_rows(data, np.array([], np.int64))
    assert whole(list(read_data(nothing, Columns())))[0] == []


@pytest.mark.parametrize("name", sorted(ONE_SHOT))
def test_take_rows_of_an_exhausted_iterator_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be read again"):
        take_rows((TABLES | SEQUENCES)[name](), np.array([0]))


def test_take_keeps_index_and_all_columns() -> None:
    frame = pd.DataFrame(COLUMNS, index=list("abcdef"))
    assert list(take_rows(frame, np.array([1, 3])).index) == ["b", "d"]
    assert take_rows(TABLE, np.array([1, 3])) == TABLE.take([1, 3])


@pytest.mark.parametrize("wrap", [list, lambda rows: pd.Series(rows, dtype=object)])
def test_elements_that_are_not_texts_are_rejected(wrap: Callable[[list[Any]], Any]) -> None:
    rows = ["ok", 3, 2.5, float("nan"), b"bytes", ["list"], {"a": 1}, "\ud800", object(), True]
    texts, _, rejected = whole(list(read_data(wrap(rows), Columns())))
    assert texts == ["ok"] + [None] * 9
    assert list(rejected.values()) == [
        "text is a number, not a string",
        "text is a number, not a string",
        "text is null",
        "text is binary, not a string",
        "text is a list, not a string",
        "text is an object, not a string",
        "a lone surrogate escape",
        "text is a object, not a string",
        "text is a boolean, not a string",
    ]


def test_dicts_without_the_text_field_are_rejected() -> None:
    rows = [{"text": "a", "id": 1}, "loose", {"id": "two"}, {"text": 3}, {"text": "b", "id": None}]
    texts, ids, rejected = whole(list(read_data(rows, Columns())))
    assert texts == ["a", None, None, None, "b"]
    assert rejected == {
        1: "not a dict, as others are",
        2: "no field 'text'",
        3: "text is a number, not a string",
    }
    assert ids == [1, None, "two", None, None]
    with pytest.raises(ParameterError, match="no common order"):
        list(read_data([{"text": "a", "k": 1}, {"text": "b", "k": "x"}], Columns(keep="k")))


@pytest.mark.parametrize(
    "data",
    [
        [[1, 2], [], None, [3, None], [1.5]],
        pd.Series([[1, 2], [], None, [3, None], [1.5]]),
        [np.array([1, 2], np.uint16), np.array([], np.int64), None, "x", 5],
    ],
    ids=["list", "series", "arrays"],
)
def test_token_lists(data: Any) -> None:
    texts, _, rejected = whole(list(read_data(data, Columns(tokens=True))))
    assert texts == [[1, 2], [], None, None, None]
    assert set(rejected) == {2, 3, 4}


def test_token_columns() -> None:
    for table in (pl.DataFrame({"text": [[1, 2], [3]]}), pa.table({"text": [[1, 2], [3]]})):
        assert whole(list(read_data(table, Columns(tokens=True))))[0] == [[1, 2], [3]]


@pytest.mark.parametrize("empty", [[], (), pd.DataFrame({"text": []}), pl.DataFrame({"text": []})])
def test_empty_data_has_no_documents(empty: Any) -> None:
    assert whole(list(read_data(empty, Columns()))) == ([], [], {})


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a text", "pass a list of texts.*dedup_files"),
        (b"bytes", "pass a list of texts"),
        ({"a", "b"}, "no order"),
        ({"text": ["a"]}, "a dict is not"),
        (
            datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})}),
            "one of them",
        ),
        (42, "int holds no documents"),
        (None, "NoneType holds no documents"),
    ],
)
def test_objects_without_documents_are_refused(data: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read_data(data, Columns())


@pytest.mark.parametrize("name", TABLES)
def test_missing_columns_name_the_python_option(name: str) -> None:
    data = TABLES[name]()
    with pytest.raises(ColumnError, match=r"no column 'body'; it has: text, id, q, junk.*text="):
        list(read_data(data, Columns(text="body")))


def test_a_single_column_has_no_id() -> None:
    with pytest.raises(ColumnError, match=r"'key'.*id="):
        list(read_data(["a"], Columns(id="key")))


def test_text_column_of_another_type_is_refused() -> None:
    with pytest.raises(UsageError, match=r"column 'id' is int64, not text.*text="):
        list(read_data(TABLE, Columns(text="id")))


def test_batches_follow_the_size_of_the_texts() -> None:
    data = ["x" * 100_000] * 600
    sizes = [len(batch) for batch in read_data(data, Columns())]
    assert sum(sizes) == 600
    assert max(sizes[1:]) <= 168
    assert len(list(read_data(["x"] * 200_000, Columns()))) < 12


def test_no_dataframe_library_is_imported(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("text\na\n")
    code = f"""
import sys, numpy
from neardup.corpus.inputs import find_inputs
assert "pyarrow" not in sys.modules
from neardup.corpus.documents import Columns
from neardup.corpus.frames import read_data, take_rows
from neardup.corpus.read import read_chunks, parse_chunk
list(read_data(["a"], Columns()))
list(read_data([{{"text": "a"}}], Columns()))
take_rows(["a"], numpy.array([0]))
for chunk in read_chunks(find_inputs([{str(tmp_path)!r}])[0], Columns()):
    parse_chunk(chunk, Columns())
print({{"pandas", "polars", "datasets"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
