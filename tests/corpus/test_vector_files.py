"""An .npy file beside: its rows belong to the documents of all inputs, or it is refused."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from neardup.corpus import frames, vector_files
from neardup.corpus.column_check import find_dimension
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import find_inputs
from neardup.corpus.read import chunks_of, count_rows, parse_chunk, parse_rows
from neardup.corpus.shards import Reading, cut_shards, place_shards
from neardup.corpus.vector_files import VectorFile, VectorWriter, attach_all, attach_rows
from neardup.corpus.vectors import ALL_ZEROS, MOST_NUMBERS, NOT_FINITE
from neardup.errors import InputError, UsageError

MATRIX = np.arange(1, 25, dtype=np.float32).reshape(8, 3)
TEXTS = ["one", "two", None, "four", "five", "six", "seven", "eight"]


def save(path: Path, matrix: Any = MATRIX) -> Path:
    np.save(path, matrix)
    return path


def matrix_of(batches: list[Documents]) -> Any:
    return np.concatenate([batch.vectors for batch in batches if batch.vectors is not None])


def test_rows_are_read_by_ranges_and_by_numbers(tmp_path: Path) -> None:
    for kind in ("<f2", "<f4", "<f8", ">f4", "<i8", "|u1"):
        file = pickle.loads(
            pickle.dumps(VectorFile.open(save(tmp_path / "v.npy", MATRIX.astype(kind))))
        )
        assert (len(file), file.shape) == (8, (8, 3))
        assert np.array_equal(file[2:5], MATRIX[2:5]), kind
        assert np.array_equal(file[6:99], MATRIX[6:])
        assert file[8:8].shape == (0, 3)
        numbers = np.array([1, 4, 7])
        assert np.array_equal(file[numbers], MATRIX[numbers])
        assert file[numbers[:0]].shape == (0, 3)


def test_numbers_of_other_byte_order_round_as_others_do(tmp_path: Path) -> None:
    large = np.array([[(1 << 60) + (1 << 36) + 1, 5]])
    bare = Columns(vectors="v.npy", textless=True)
    for kind in ("<i8", ">i8"):
        file = VectorFile.open(save(tmp_path / "v.npy", large.astype(kind)))
        (batch,) = read_data(["a"], bare, file)
        assert batch.vectors is not None
        assert np.array_equal(batch.vectors, large.astype(np.float64).astype(np.float32))


@pytest.mark.parametrize(
    ("matrix", "why"),
    [
        (np.ones(3), r"float64 of shape \(3,\)"),
        (np.ones((2, 2, 2)), "of shape"),
        (np.ones((2, 0)), "rows without numbers"),
        (np.array([["a"]]), "<U1 of shape"),
        (np.ones((2, 2), bool), "bool of shape"),
        (np.ones((2, 2), complex), "complex128 of shape"),
        (np.ones((2, 2), np.longdouble), "of shape"),
        (np.asfortranarray(np.ones((3, 2))), "stored by columns"),
        (np.ones((1, MOST_NUMBERS + 1), np.int8), "more than 65,536 numbers"),
    ],
)
def test_other_arrays_are_refused(tmp_path: Path, matrix: Any, why: str) -> None:
    with pytest.raises(InputError, match=rf"v\.npy: not a matrix.*{why}.*numpy\.save"):
        VectorFile.open(save(tmp_path / "v.npy", matrix))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    whole = save(tmp_path / "v.npy").read_bytes()
    path = tmp_path / "w.npy"
    cuts = [whole[:n] for n in range(0, len(whole), 9)]
    for data in [*cuts, whole + b"x", b"text", b"PK\3\4" + whole, b"\x93NUMPY\x09\0" + whole]:
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"w\.npy: not a matrix of numbers"):
            VectorFile.open(path)
    for shape in ("(True, 2)", "(10**30, 8)", "(2**62, 2**62)", "(-1, 8)", "(" * 200 + ")" * 200):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(509).encode()
        path.write_bytes(b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + b"x" * 64)
        with pytest.raises(InputError, match="not a matrix of numbers"):
            VectorFile.open(path)
    np.save(path, np.array([[{}]], object), allow_pickle=True)
    with pytest.raises(InputError, match="not a matrix of numbers"):
        VectorFile.open(path)
    np.savez(tmp_path / "w", MATRIX)
    (tmp_path / "w.npz").replace(path)
    with pytest.raises(InputError, match="an archive of arrays"):
        VectorFile.open(path)
    with pytest.raises(InputError, match="No such file"):
        VectorFile.open(tmp_path / "none.npy")


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    file = VectorFile.open(save(tmp_path / "v.npy"))
    save(tmp_path / "v.npy", MATRIX[:4])
    with pytest.raises(InputError, match="changed during the run"):
        file[0:2]
    (tmp_path / "v.npy").unlink()
    with pytest.raises(InputError, match="No such file"):
        file[0:2]


@pytest.mark.parametrize("rows", [slice(0, 8), np.array([0, 1, 7])], ids=["range", "numbers"])
def test_a_file_that_is_cut_off_while_it_is_read_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: Any
) -> None:
    """It was mapped: reading behind its new end killed the process (SIGBUS)."""
    file = VectorFile.open(save(tmp_path / "v.npy"))
    read = os.preadv

    def cut_off(handle: int, room: list[memoryview], at: int) -> int:
        found = read(handle, room, at)
        os.truncate(file.path, file.offset + 4)
        return found

    monkeypatch.setattr(vector_files, "_AT_ONCE", 12)
    monkeypatch.setattr("os.preadv", cut_off)
    with pytest.raises(InputError, match=r"v\.npy has changed during the run: run it again"):
        file[rows]


def test_far_rows_are_read_without_those_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = VectorFile.open(save(tmp_path / "v.npy", np.arange(30_000.0).reshape(-1, 3)))
    lengths, read = list[int](), os.preadv

    def noting(handle: int, room: list[memoryview], at: int) -> int:
        lengths.append(len(room[0]))
        return read(handle, room, at)

    monkeypatch.setattr("os.preadv", noting)
    numbers = np.array([3, 5, 4_000, 9_999])
    assert np.array_equal(file[numbers], np.arange(30_000.0).reshape(-1, 3)[numbers])
    assert sorted(lengths) == [24, 24, 72]


def write_all(folder: Path) -> list[Path]:
    """Write files of several formats, with 8 documents together, of which some are rejected."""
    (folder / "a.jsonl").write_text(json.dumps({"text": "one"}) + "\n\nno JSON\n")
    pq.write_table(pa.table({"text": ["x", None, "y"]}), folder / "b.parquet", row_group_size=2)
    (folder / "c.csv").write_text("text,q\nseven,1\n")
    (folder / "d.txt").write_text("eight")
    (folder / "e.json").write_text('[\n{"text":\n "nine"}]')
    return [folder / name for name in ("a.jsonl", "b.parquet", "c.csv", "d.txt", "e.json")]


@pytest.mark.parametrize("textless", [False, True])
def test_rows_belong_to_the_documents_of_all_inputs(tmp_path: Path, textless: bool) -> None:
    files = find_inputs(write_all(tmp_path))
    columns = Columns(vectors=str(save(tmp_path / "v.npy")), textless=textless)
    columns = find_dimension(files, columns)
    assert columns.dimension == 3
    chunks = list(chunks_of(files, columns, 1))
    rows = VectorFile.open(columns.vectors or "")
    assert sum(map(count_rows, chunks)) == len(rows)
    batches, start = [], 0
    for chunk in chunks:
        end = start + count_rows(chunk)
        documents = parse_chunk(chunk, columns)
        batches.append(attach_rows(documents, rows[start:end], columns))
        start = end
    no_vector = [1] if textless else [1, 3]
    expected = MATRIX.copy()
    expected[no_vector] = 0
    assert np.array_equal(matrix_of(batches), expected)
    texts = [text for batch in batches for text in batch.texts.to_pylist()]
    assert [row for row, text in enumerate(texts) if text is None] == no_vector
    if textless:
        assert set(texts) == {"", None}


def test_chunks_are_counted_as_they_are_parsed(tmp_path: Path) -> None:
    (tmp_path / "bom.jsonl").write_bytes(b'\xef\xbb\xbf  \n{"text": "a"}\n \t\n\n{"text": 1}')
    (tmp_path / "lines.txt").write_text("a\n\nb\n  \nc")
    for name, kind in (("bom.jsonl", "jsonl"), ("lines.txt", "lines"), ("lines.txt", "text")):
        for chunk in chunks_of(find_inputs([tmp_path / name], format=kind), Columns(), 4):
            assert count_rows(chunk) == len(parse_chunk(chunk, Columns()))


HOLDERS: dict[str, Callable[[], Any]] = {
    "strings": lambda: TEXTS,
    "dicts": lambda: [{"text": text} for text in TEXTS],
    "pandas": lambda: pd.DataFrame({"text": TEXTS}),
    "polars": lambda: pl.DataFrame({"text": TEXTS}),
    "polars lazy": lambda: pl.LazyFrame({"text": TEXTS}),
    "arrow": lambda: pa.table({"text": TEXTS}),
    "reader": lambda: pa.table({"text": TEXTS}).to_reader(3),
    "array": lambda: pa.array(TEXTS),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("textless", [False, True])
def test_a_matrix_beside_python_data(
    tmp_path: Path, holder: str, textless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "_FIRST_ROWS", 2)
    path = save(tmp_path / "v.npy")
    columns = Columns(vectors=str(path), textless=textless)
    expected = MATRIX.copy()
    expected[[] if textless else [2]] = 0
    for rows in (MATRIX, VectorFile.open(path), None):
        batches = list(read_data(HOLDERS[holder](), columns, rows))
        assert np.array_equal(matrix_of(batches), expected)
        texts = [text for batch in batches for text in batch.texts.to_pylist()]
        assert texts == ([""] * 8 if textless else TEXTS)


@pytest.mark.parametrize("count", [7, 9, 0])
def test_the_counts_must_agree(tmp_path: Path, count: int) -> None:
    columns = Columns(vectors="v.npy")
    texts = ["a text"] * count
    with pytest.raises(UsageError, match=f"8 vectors for {count} documents"):
        list(read_data(texts, columns, MATRIX))
    file = VectorFile.open(save(tmp_path / "v.npy"))
    with pytest.raises(InputError, match=rf"v\.npy has 8 vectors for {count} documents"):
        list(attach_all(read_data(texts, Columns()), file, columns))


def test_unusable_rows_are_rejected(tmp_path: Path) -> None:
    matrix = MATRIX.copy()
    matrix[1], matrix[5, 2] = 0, np.nan
    file = VectorFile.open(save(tmp_path / "v.npy", matrix))
    (batch,) = read_data(list("abcdefgh"), Columns(vectors="v.npy"), file)
    assert batch.rejected == {1: ALL_ZEROS, 5: NOT_FINITE}
    assert batch.texts.null_count == 2


@pytest.mark.parametrize("parts", [[3, 3], [0, 3], [0, 0, 3, 0], [3], [0], []])
def test_a_file_is_written_row_by_row(tmp_path: Path, parts: list[int]) -> None:
    path = tmp_path / "v.npy"
    writer = VectorWriter(path)
    expected = []
    for place, width in enumerate(parts):
        rows = np.full((2, width), place + 1, np.float32)
        writer.add(rows)
        expected.append(rows if width else np.zeros((2, 3), np.float32))
    assert not path.exists()
    writer.close()
    file = VectorFile.open(path)
    assert file.shape == (2 * len(parts), 3 if any(parts) else 1)
    if any(parts):
        assert np.array_equal(file[:], np.concatenate(expected))
    assert not file[:].any() or any(parts)


def test_shards_find_the_vectors_of_their_documents(tmp_path: Path) -> None:
    files = find_inputs(write_all(tmp_path))
    path = save(tmp_path / "v.npy")
    columns = find_dimension(files, Columns(vectors=str(path)))
    shards = cut_shards(files, Reading(columns, chunk=8, shard=16))
    counts = [shard.count() for shard in shards]
    assert len(shards) > 4 and sum(counts) == 8
    placed = place_shards(shards, counts, VectorFile.open(path))
    chunks = [chunk for shard in placed for chunk in shard.chunks()]
    batches = [parse_chunk(chunk, columns) for chunk in chunks]
    expected = np.where(np.isin(np.arange(8), [1, 3])[:, None], 0, MATRIX)
    assert np.array_equal(matrix_of(batches), expected)
    for chunk, batch in zip(chunks, batches, strict=True):
        last = np.array([len(batch) - 1])
        (vector,) = matrix_of([parse_rows(chunk, columns, last, len(batch))])
        assert np.array_equal(vector, matrix_of([batch])[-1])
    assert placed[0].rest_from(0).beside is None
