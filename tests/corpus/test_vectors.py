"""Vectors in: every type of column and object, and every reason for which a row has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.corpus import frames
from neardup.corpus.column_check import check_columns, find_dimension
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import parse_chunk, parse_rows, read_chunks
from neardup.corpus.vectors import (
    ALL_ZEROS,
    MOST_NUMBERS,
    NO_NUMBERS,
    NOT_FINITE,
    VECTOR_IS_NULL,
    convert_column,
    convert_matrix,
    convert_values,
)
from neardup.errors import ColumnError, InputError, UsageError

ALONE = Columns(vectors="v", textless=True)
BESIDE = Columns(vectors="v", vectors_option="also")
ROWS: list[Any] = [[1.5, -2, 0], [0.25, 0, 0], None, [0, 0, 0], [1, 2], [3, None, 1], [-8, 16, 1]]
MATRIX = np.array([[1.5, -2, 0], [0.25, 0, 0], *[[0] * 3] * 4, [-8, 16, 1]], np.float32)
REASONS = {
    2: VECTOR_IS_NULL,
    3: ALL_ZEROS,
    4: "vector has 2 numbers, not 3",
    5: NO_NUMBERS,
}
EVEN = [row if row is None or len(row) == 3 else None for row in ROWS]


def joined(batches: Sequence[Documents]) -> Documents:
    """Return all documents as one batch; its texts must be null exactly where rejected."""
    rejected: dict[int, str] = {}
    start = 0
    for batch in batches:
        assert batch.vectors is not None
        assert batch.vectors.shape[0] == len(batch) == len(batch.ids)
        assert batch.vectors.dtype == np.float32
        assert batch.vectors.flags.c_contiguous
        assert batch.texts.type == pa.large_string()
        nulls = {row for row, text in enumerate(batch.texts.to_pylist()) if text is None}
        assert list(batch.rejected) == sorted(nulls)
        assert not batch.vectors[list(batch.rejected)].any()
        rejected |= {start + row: why for row, why in batch.rejected.items()}
        start += len(batch)
    texts = pa.chunked_array([batch.texts for batch in batches]).combine_chunks()
    ids = [one for batch in batches for one in batch.ids]
    matrix = np.concatenate([batch.vectors for batch in batches if batch.vectors is not None])
    return Documents(texts, ids, None, None, rejected, vectors=matrix)


def read_files(*paths: Path, columns: Columns = ALONE, size: int = 1 << 20) -> Documents:
    """Return the documents of files, read in chunks as a run does."""
    files = find_inputs(list(paths))
    check_columns(files, columns)
    columns = find_dimension(files, columns)
    chunks = [chunk for file in files for chunk in read_chunks(file, columns, size)]
    return joined([parse_chunk(chunk, columns) for chunk in chunks])


def write(path: Path, table: pa.Table) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=3)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    elif path.suffix == ".json":
        path.write_text(json.dumps(table.to_pylist(), indent=1))
    else:
        new = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with new(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=2)
    return path


KINDS = [
    outer(inner)
    for inner in (pa.float16(), pa.float32(), pa.float64())
    for outer in (pa.list_, pa.large_list, lambda kind: pa.list_(kind, 3))
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows"])
def test_lists_of_files_are_a_matrix(tmp_path: Path, kind: pa.DataType, name: str) -> None:
    is_even = pa.types.is_fixed_size_list(kind)
    path = write(tmp_path / name, pa.table({"v": pa.array(EVEN if is_even else ROWS, kind)}))
    reasons = REASONS | ({4: VECTOR_IS_NULL} if is_even else {})
    for size in (1, 1 << 20):
        found = read_files(path, size=size)
        assert found.vectors is not None
        assert np.array_equal(found.vectors, MATRIX)
        assert found.rejected == reasons
        assert found.texts.drop_null().to_pylist() == [""] * 3


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.json"])
def test_vectors_beside_texts(tmp_path: Path, name: str) -> None:
    texts = ["one", None, "three", "four", "five", "six", "seven"]
    table = pa.table({"text": texts, "v": ROWS, "id": list("abcdefg")})
    found = read_files(write(tmp_path / name, table), columns=BESIDE)
    assert found.vectors is not None
    assert found.texts.to_pylist() == ["one", *[None] * 5, "seven"]
    assert found.rejected == {1: "text is null", **REASONS}, "the reason of the text comes first"
    assert np.array_equal(found.vectors, np.where(np.arange(7)[:, None] == 1, 0, MATRIX))


def test_rows_are_picked_with_their_vectors(tmp_path: Path) -> None:
    table = pa.table({"text": list("abcdefg"), "v": ROWS})
    for name in ("a.parquet", "a.jsonl"):
        (file,) = find_inputs([write(tmp_path / name, table)])
        columns = find_dimension([file], BESIDE)
        first = next(read_chunks(file, columns))
        count = len(parse_chunk(first, columns))
        found = parse_rows(first, columns, np.array([1, 2]), count)
        assert found.vectors is not None
        assert np.array_equal(found.vectors, MATRIX[1:3])
        assert found.rejected == {1: VECTOR_IS_NULL}


def test_the_first_usable_vector_gives_the_dimension(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", pa.table({"v": [None, [], [0.0, 0, 0, 0]]}))
    write(tmp_path / "b.jsonl", pa.table({"v": [[1.0, 2]]}))
    write(tmp_path / "c.jsonl", pa.table({"v": [[1.0, 2, 3], [2, 1]]}))
    found = read_files(*(tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl")))
    assert found.vectors is not None
    assert found.vectors.tolist() == [[0, 0]] * 3 + [[1, 2], [0, 0], [2, 1]]
    assert found.rejected == {
        0: VECTOR_IS_NULL,
        1: "vector has 0 numbers, not 2",
        2: "vector has 4 numbers, not 2",
        4: "vector has 3 numbers, not 2",
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"v": "0.1, 0.2"}', NO_NUMBERS),
        ('{"v": ["0.1", 0.2]}', NO_NUMBERS),
        ('{"v": [true, 0.2]}', NO_NUMBERS),
        ('{"v": [[1, 2]]}', NO_NUMBERS),
        ('{"v": {"a": 1}}', NO_NUMBERS),
        ('{"v": 7}', NO_NUMBERS),
        ('{"v": [null, 1]}', NO_NUMBERS),
        ('{"v": [1e999, 1]}', NOT_FINITE),
        ('{"v": [1e39, 1]}', NOT_FINITE),
        ('{"v": [1e-60, 0]}', ALL_ZEROS),
        ('{"v": [1, 2, 3]}', "vector has 3 numbers, not 2"),
        ('{"v": null}', VECTOR_IS_NULL),
        ('{"w": [1, 2]}', VECTOR_IS_NULL),
        ('{"v": [1, NaN]}', "not JSON: it has no NaN"),
        ("[1, 2]", "JSON, but not an object"),
    ],
)
def test_lines_of_json_that_are_no_vectors(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"v": [1, 2]}\n' + line + "\n" + '{"v": [0.5, 18446744073709551617]}\n')
    found = read_files(path)
    assert found.rejected == {1: why}
    assert found.vectors is not None
    assert found.vectors[2].tolist() == [0.5, np.float32(2**64)]


def test_a_field_inside_of_others(tmp_path: Path) -> None:
    rows = [{"doc": {"v": row}} for row in (ROWS[0], ROWS[6])]
    for name in ("a.parquet", "a.jsonl"):
        path = write(tmp_path / name, pa.Table.from_pylist(rows))
        found = read_files(path, columns=Columns(vectors="doc.v", textless=True))
        assert found.vectors is not None
        assert np.array_equal(found.vectors, MATRIX[[0, 6]])


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_a_missing_column_is_named_with_its_option(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, pa.table({"text": ["a"], "V": [[1.0]]}))
    with pytest.raises(ColumnError, match=r"no column 'v'.*mean 'V'.*with --also"):
        read_files(path, columns=BESIDE)


@pytest.mark.parametrize("values", [["a"], [1.0], [["a"]], [[[1.0]]], [[True]]])
def test_a_column_of_another_type_is_an_error(tmp_path: Path, values: list[Any]) -> None:
    path = write(tmp_path / "a.parquet", pa.table({"v": values}))
    with pytest.raises(UsageError, match=r"'v' is .*, not lists of numbers.*--vectors"):
        read_files(path)
    path = write(tmp_path / "a.jsonl", pa.table({"v": values}))
    with pytest.raises(UsageError, match=f"no document has a vector in 'v'.*1: {NO_NUMBERS}"):
        read_files(path)


@pytest.mark.parametrize("name", ["a.csv", "a.txt", "a.tar", "a.warc"])
def test_formats_without_lists_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"text,v\na,1\n")
    kind = name.rpartition(".")[2].replace("txt", "text")
    for file in find_inputs([tmp_path / name], format=kind):
        with pytest.raises(UsageError, match=f"{name} is a {kind} file, .*Parquet"):
            find_dimension([file], BESIDE)


def test_no_documents_need_no_dimension(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    path = write(tmp_path / "a.parquet", pa.table({"v": pa.array([], pa.list_(pa.float32()))}))
    files = find_inputs([tmp_path / "a.jsonl", path])
    assert find_dimension(files, ALONE) == ALONE


GOOD = [row for row in ROWS if row is not None and len(row) == 3 and None not in row]
NUMPY = np.array(GOOD, np.float32)
HOLDERS: dict[str, Callable[[], Any]] = {
    "dicts": lambda: [{"v": row} for row in GOOD],
    "dicts of arrays": lambda: [{"v": np.array(row)} for row in GOOD],
    "dicts of half floats": lambda: [{"v": np.array(row, np.float16)} for row in GOOD],
    "generator": lambda: ({"v": tuple(row)} for row in GOOD),
    "lists": lambda: GOOD,
    "matrix": lambda: NUMPY,
    "matrix of doubles": lambda: np.array(GOOD, order="F"),
    "matrix turned": lambda: np.array(GOOD).T.copy().T,
    "pandas": lambda: pd.DataFrame({"v": GOOD}),
    "pandas of arrays": lambda: pd.DataFrame({"v": list(NUMPY)}),
    "pandas of arrow": lambda: pd.DataFrame(
        {"v": pd.Series(GOOD, dtype=pd.ArrowDtype(pa.list_(pa.float32(), 3)))}
    ),
    "pandas series": lambda: pd.Series(list(NUMPY)),
    "polars list": lambda: pl.DataFrame({"v": [[float(n) for n in row] for row in GOOD]}),
    "polars array": lambda: pl.DataFrame({"v": NUMPY}),
    "polars lazy": lambda: pl.LazyFrame({"v": NUMPY}),
    "polars series": lambda: pl.Series("v", NUMPY),
    "arrow table": lambda: pa.table({"v": GOOD}),
    "arrow reader": lambda: pa.table({"v": GOOD}).to_reader(1),
    "arrow array": lambda: pa.array(GOOD, pa.list_(pa.float16(), 3)),
    "chunked array": lambda: pa.chunked_array([GOOD[:1], [], GOOD[1:]], pa.list_(pa.float64())),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("rows", [1, 256])
def test_python_data_alone(holder: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "_FIRST_ROWS", rows)
    found = joined(list(read_data(HOLDERS[holder](), ALONE)))
    assert found.vectors is not None
    expected = MATRIX[[0, 1, 3, 6]]
    assert np.array_equal(found.vectors, expected)
    assert found.rejected == {2: ALL_ZEROS}


def test_python_data_beside_texts() -> None:
    rows = [{"text": f"t{n}", "v": row, "id": n} for n, row in enumerate(ROWS)]
    for data in (rows, pd.DataFrame(rows), pl.DataFrame(rows, strict=False)):
        found = joined(list(read_data(data, BESIDE)))
        assert found.vectors is not None
        assert np.array_equal(found.vectors, MATRIX)
        assert found.rejected == REASONS
        assert found.texts.to_pylist() == ["t0", "t1", *[None] * 4, "t6"]
        assert found.ids == list(range(7)) or [one.as_py() for one in found.ids] == list(range(7))


def test_batches_before_the_first_usable_vector_get_its_dimension(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(frames, "_FIRST_ROWS", 1)
    monkeypatch.setattr(frames, "_MAX_ROWS", 1)
    values = [None, [0, 0], [1, 2, 3], [4, 5]]
    for data in ([{"v": value} for value in values], pa.table({"v": values})):
        found = joined(list(read_data(data, ALONE)))
        assert found.vectors is not None
        assert found.vectors.tolist() == [[0] * 3, [0] * 3, [1, 2, 3], [0] * 3]
        assert found.rejected == {
            0: VECTOR_IS_NULL,
            1: ALL_ZEROS,
            3: "vector has 2 numbers, not 3",
        }


@pytest.mark.parametrize(
    "data", [[{"v": "a"}], [{"v": None}, {"v": [0.0]}], pa.table({"v": [None, None]})]
)
def test_python_data_without_any_vector_is_an_error(data: Any) -> None:
    with pytest.raises(UsageError, match=r"no document has a vector in 'v' \(of [12], [12]: "):
        list(read_data(data, ALONE))


def test_a_matrix_needs_numbers() -> None:
    with pytest.raises(UsageError, match="this ndarray has <U1, not numbers"):
        list(read_data(np.array([["a"]]), ALONE))


def test_objects_that_are_no_vectors() -> None:
    class Foreign:
        def __array__(self, *_: Any, **__: Any) -> Any:
            raise TypeError("on another device")

    values: list[Any] = [
        [1, 2],
        np.array([1, 2], np.uint8),
        np.array([1, 2], object),
        [np.float32(1), 2],
        *([True, 2], [np.True_, 2], "12", b"12", {1: 2}, np.array([[1, 2]]), Foreign()),
        *(np.array(["1", "2"]), np.array(5.0), [None, 1], np.array([1, None], object)),
        *([10**400, 1], [float("nan"), 1], [float("-inf"), 1], np.array([np.inf, 1])),
        *(float("nan"), None, [1e300, 1]),
    ]
    found = convert_values(values)
    assert found.matrix[:4].tolist() == [[1, 2]] * 4
    assert not found.matrix[4:].any()
    assert list(found.rejected.values()) == (
        [NO_NUMBERS] * 11 + [NOT_FINITE] * 4 + [VECTOR_IS_NULL] * 2 + [NOT_FINITE]
    )


def test_integers_of_every_type_and_64_bits_round_alike() -> None:
    for kind in (pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.int64()):
        found = convert_column(pa.array([[1, 127], [2, 0]], pa.list_(kind)))
        assert found is not None
        assert found.matrix.tolist() == [[1, 127], [2, 0]]
    # Between two floats by less than a double tells: rounding once from the integer differs.
    large = [(1 << 60) + (1 << 36) + 1, 2**63 - 1]
    column = convert_column(pa.array([large], pa.list_(pa.int64())))
    assert column is not None
    assert np.array_equal(column.matrix, convert_values([large]).matrix)
    assert np.array_equal(column.matrix, convert_matrix(np.array([large])).matrix)


def test_slices_and_chunks_are_the_rows_that_they_show() -> None:
    for kind in KINDS:
        rows = EVEN if pa.types.is_fixed_size_list(kind) else ROWS
        whole = pa.array([[7, 7, 7], *rows, [9, 9, 9]], kind)
        for column in (
            whole.slice(1, 7),
            pa.chunked_array([whole.slice(1, 3), whole.slice(4, 0), whole.slice(4, 4)]),
        ):
            found = convert_column(column)
            assert found is not None
            assert np.array_equal(found.matrix, MATRIX)
            assert sorted(found.rejected) == [2, 3, 4, 5]


def test_float32_of_one_size_is_not_copied() -> None:
    numbers = np.arange(1, 13, dtype=np.float32)
    for column in (
        pa.FixedSizeListArray.from_arrays(pa.array(numbers), 3),
        pa.LargeListArray.from_arrays(pa.array([0, 3, 6, 9, 12]), pa.array(numbers)),
    ):
        found = convert_column(column)
        assert found is not None
        assert np.shares_memory(found.matrix, numbers)
        assert np.array_equal(found.matrix, numbers.reshape(4, 3))


def test_longer_vectors_than_possible_are_rejected() -> None:
    values = [np.ones(MOST_NUMBERS + 1), np.ones(MOST_NUMBERS)]
    found = convert_values(values)
    assert found.matrix.shape == (2, MOST_NUMBERS)
    assert found.rejected == {0: f"vector has {MOST_NUMBERS + 1} numbers, not {MOST_NUMBERS}"}
    alone = convert_matrix(np.ones((2, MOST_NUMBERS + 1)))
    assert alone.matrix.shape == (2, 0)
    assert alone.rejected[1] == f"vector has {MOST_NUMBERS + 1} numbers, more than {MOST_NUMBERS}"


def test_tensors_are_their_numbers() -> None:
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(
        np.arange(1, 13, dtype=np.float32).reshape(3, 2, 2)
    )
    expected = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    for column in (tensors, pa.chunked_array([tensors[:1], tensors[1:]])):
        found = convert_column(column)
        assert found is not None
        assert np.array_equal(found.matrix, expected)
        batches = list(read_data(pa.table({"v": column}), ALONE))
        assert np.array_equal(joined(batches).vectors, expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.arrows"])
def test_tensors_of_files(tmp_path: Path, name: str) -> None:
    kind = pa.fixed_shape_tensor(pa.float16(), [3])
    storage = pa.array([[1, 2, 3], None, [4, 5, 6]], pa.list_(pa.float16(), 3))
    column = pa.ExtensionArray.from_storage(kind, storage)
    for size in (1, 1 << 20):
        found = read_files(write(tmp_path / name, pa.table({"v": column})), size=size)
        assert found.vectors is not None
        assert found.vectors.tolist() == [[1, 2, 3], [0, 0, 0], [4, 5, 6]]
        assert found.rejected == {1: VECTOR_IS_NULL}


def test_what_null_rows_hide_is_not_read() -> None:
    numbers = pa.array([np.inf, np.nan, 1e300, 1.0, 2.0, 3.0])
    mask = pa.array([True, False])
    for column in (
        pa.FixedSizeListArray.from_arrays(numbers, 3, mask=mask),
        pa.ListArray.from_arrays(pa.array([0, 3, 6]), numbers, mask=mask),
    ):
        found = convert_column(column)
        assert found is not None
        assert found.matrix.tolist() == [[0, 0, 0], [1, 2, 3]]
        assert found.rejected == {0: VECTOR_IS_NULL}


@given(
    rows=st.lists(
        st.none()
        | st.lists(st.none() | st.floats(width=32) | st.integers(-9, 9).map(float), max_size=4),
        max_size=8,
    ),
    cuts=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    dimension=st.none() | st.integers(1, 4),
)
def test_columns_and_objects_agree(
    rows: list[Any], cuts: tuple[int, int], dimension: int | None
) -> None:
    first, last = sorted(cuts)
    shown = convert_values(rows[first:last], dimension)
    for kind in (pa.list_(pa.float64()), pa.large_list(pa.float32())):
        whole = pa.array(rows, kind)
        pieces = pa.chunked_array([whole[:first], whole[first:]], kind)
        for column in (whole.slice(first, last - first), pieces.slice(first, last - first)):
            found = convert_column(column, dimension)
            assert found is not None
            assert np.array_equal(found.matrix, shown.matrix)
            assert found.rejected == shown.rejected


def test_offsets_outside_of_their_buffer_are_an_error(tmp_path: Path) -> None:
    sound = pa.array([[1.0] * 3, [2.0] * 3], pa.list_(pa.float32()))
    path = write(tmp_path / "a.arrows", pa.table({"v": sound}))
    data = path.read_bytes()
    old = np.array([0, 3, 6], np.int32).tobytes()
    assert data.count(old) == 1
    for offsets in ([0, 3, 1 << 20], [0, -3, 6], [0, 6, 3]):
        path.write_bytes(data.replace(old, np.array(offsets, np.int32).tobytes()))
        with pytest.raises(InputError, match=r"a\.arrows"):
            read_files(path)


def test_a_long_row_makes_no_large_matrix() -> None:
    rows: list[Any] = [np.ones(3 * MOST_NUMBERS, np.int8), *[None] * 5000, [1, 2]]
    for found in (convert_values(rows), convert_column(pa.array(rows, pa.list_(pa.float32())))):
        assert found is not None
        assert found.matrix.shape == (5002, 2)
        assert len(found.rejected) == 5001
