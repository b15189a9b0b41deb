"""An index with vectors answers as `neardup.dedup` does, whatever happens in between."""

from __future__ import annotations

import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.command_line import neardup as run
from support.redis_index import fresh_address
from support.strategies import examples
from support.vector_definition import ASKED, CORPORA, SCHEMA, VECTORS, WORDS, Row, Signals, rows_of
from support.vector_index import (
    ALSO,
    EAST,
    NORTH,
    WEST,
    add,
    in_memory,
    numbers_of,
    opened,
    stored,
)

import neardup
from neardup import Index
from neardup.corpus.documents import Documents, make_strings
from neardup.errors import Conflict, NeardupError, ParameterError
from neardup.index import removal
from neardup.index.exchange import import_index
from neardup.index.folder import STORE
from neardup.index.redis_store import removal as shared_removal
from neardup.index.redis_store.address import RedisAddress
from neardup.index.redis_store.open_servers import is_stored
from neardup.index.store import Store


@pytest.fixture(params=["folder", "Redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where an index is made."""
    return fresh_address() if request.param == "Redis" else tmp_path / "index"


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(12))
@given(documents=CORPORA, cuts=st.lists(st.integers(0, 14), max_size=3))
@example(documents=[("a b c", EAST), ("a b c", NORTH), ("d a", NORTH)], cuts=[1])
def test_answers_are_those_of_a_run(
    asked: Signals, documents: list[tuple[str, list[float]]], cuts: list[int]
) -> None:
    rows = rows_of(documents)
    wanted = in_memory(rows, asked)
    places = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    with TemporaryDirectory() as folder:
        with opened(folder, asked) as index:
            got: Row = {}
            for start, end in pairwise(places):
                part = rows[start:end]
                if part:
                    answers = add(index, part)
                    got |= {row["id"]: numbers_of(a) for row, a in zip(part, answers, strict=True)}
            assert got == wanted
            assert index.verify() == []
            index.compact()
        with opened(folder, asked) as index:
            assert stored(index, rows) == wanted
            assert all(answer.again for answer in add(index, rows))


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(12))
@given(documents=CORPORA, asking=st.tuples(WORDS, VECTORS))
def test_query_is_answered_as_the_next_document(
    asked: Signals, documents: list[tuple[str, list[float]]], asking: tuple[str, list[float]]
) -> None:
    rows, (text, vector) = rows_of(documents), asking
    with TemporaryDirectory() as folder, opened(folder, asked) as index:
        add(index, rows)
        answer = index.query(None if index.spec.of_vectors else text, vector=vector)
        (added,) = add(index, [{"id": "next", "text": text, "v": vector}])
    assert numbers_of(answer) == numbers_of(added)


@pytest.mark.parametrize("asked", ASKED, ids=str)
@settings(max_examples=examples(12))
@given(
    documents=CORPORA,
    changes=st.lists(st.tuples(st.integers(0, 13), st.none() | st.tuples(WORDS, VECTORS))),
)
@example(documents=[("a b c", EAST), ("d c b a", EAST), ("d c b a", NORTH)], changes=[(1, None)])
def test_every_copy_has_a_living_witness_after_removals_and_replacements(
    asked: Signals,
    documents: list[tuple[str, list[float]]],
    changes: list[tuple[int, tuple[str, list[float]] | None]],
) -> None:
    rows = {row["id"]: row for row in rows_of(documents)}
    with TemporaryDirectory() as folder, opened(folder, asked) as index:
        add(index, list(rows.values()))
        for at, change in changes:
            id = f"d{at}"
            if change is None:
                assert index.remove(id) == (rows.pop(id, None) is not None)
            else:
                # A document that is replaced comes last.
                row = {"id": id, "text": change[0], "v": change[1]}
                same = rows.get(id) == row
                (answer,) = add(index, [row], replace=True)
                assert answer.again or not same
                if not answer.again:
                    rows.pop(id, None)
                rows[id] = row
        assert index.verify() == []
        assert_witnessed(index, asked, rows)


def assert_witnessed(index: Index, asked: Signals, rows: dict[str, Row]) -> None:
    """Each copy, or an earlier document of equal content, is similar to its kept witness."""
    alone = {id: index.get(id) for id in rows}
    order = sorted(rows, key=lambda name: alone[name].number)  # type: ignore[union-attr]
    first: dict[Any, str] = {}
    for id in order:
        row, document = rows[id], alone[id]
        assert document is not None
        vector = tuple(row["v"])
        content = vector if asked.role == "alone" else (row["text"], vector)
        leader = first.setdefault(content, id)
        found = numbers_of(document)
        if found is None:
            assert leader == id
            continue
        witness = alone[found[0]]
        assert witness is not None and witness.status == "new"
        if leader != id:
            assert found == numbers_of(alone[leader]) or (found[0], found[1]) == (leader, 1.0)
            continue
        pair = [rows[found[0]], row]
        every = dict(asked.options, limit=256) | (
            {"planes": "1x1"} if asked.role != "unless" else {}
        )
        every |= {} if asked.role == "alone" else {"bands": 12, "rows": 1}
        with TemporaryDirectory() as folder, Index.open(folder, dimension=3, **every) as other:
            again = add(other, [dict(one, id=str(n)) for n, one in enumerate(pair)])[1]
        if again.status == "duplicate":  # they meet by these tables, too
            assert numbers_of(again)[1:] == found[1:]


@pytest.mark.parametrize("role", ["alone", "also", "unless"])
def test_answers_to_bad_vectors(place: Path | str, role: str) -> None:
    asked: Row = {"alone": {"vectors": "v", "cosine": 0.9}}.get(role) or {role: "v:0.9"}
    bad = {
        "null": (None, "vector is null"),
        "nan": ([1.0, float("nan"), 0.0], "vector has a NaN or an infinity"),
        "huge": ([1e300, 0.0, 0.0], "vector has a NaN or an infinity"),
        "zeros": ([0, 0, 0], "vector is all zeros"),
        "short": ([1.0, 2.0], "vector has 2 numbers, not 3"),
        "words": (["a", "b", "c"], "vector is not a list of numbers"),
        "text": ("abc", "vector is not a list of numbers"),
    }
    with Index.open(place, dimension=3, **asked) as index:
        texts = None if role == "alone" else [f"the text of {name}" for name in bad]
        answers = index.add_batch(list(bad), texts, vectors=[v for v, _ in bad.values()])
        assert {a.id: a.reason for a in answers} == {name: why for name, (_, why) in bad.items()}
        assert {a.status for a in answers} == {"rejected"}
        (answer,) = index.query_batch(texts and texts[:1], vectors=np.ones((1, 4)))
        assert answer.reason == "vector has 4 numbers, not 3"
        assert len(index) == 0


def test_command_line_shows_an_index_with_vectors(tmp_path: Path) -> None:
    with Index.open(tmp_path, **ALSO) as index:
        index.add("1", "one two three", vector=EAST)
    shown = run("index", "stats", tmp_path).out
    assert "vectors       also if the cosine of those in 'v' is at least 0.9" in shown
    assert "no problems" in run("index", "verify", tmp_path).out
    asked = run("query", tmp_path, "a text")
    assert asked.code == 2 and "--vector" in asked.err
    assert "keeps no texts" in run("index", "reindex", tmp_path, "--shingle", "word:3").err


def test_calls_that_do_not_fit_the_index(tmp_path: Path, place: Path | str) -> None:
    with Index.open(tmp_path / "texts") as index:
        for call in (
            lambda: index.add("1", "a text", vector=EAST),
            lambda: index.query("a text", vector=EAST),
        ):
            with pytest.raises(ParameterError, match="compares texts alone"):
                call()
        with pytest.raises(ParameterError, match="give the text"):
            index.add_batch(["1"])
        assert index.query(None).reason == "text is null"  # type: ignore[arg-type]
    with Index.open(place, **ALSO) as index:
        with pytest.raises(ParameterError, match="vectors of 3 numbers: give one"):
            index.add("1", "a text")
        with pytest.raises(ParameterError, match="1 ids for 2 vectors"):
            index.add_batch(["1"], ["a text"], vectors=[EAST, WEST])
        with pytest.raises(ParameterError, match="2 vectors for 1 texts"):
            index.query_batch(["a text"], vectors=[EAST, WEST])
        assert index.add("1", vector=EAST).reason == "text is null"


def test_numbers_of_both_signals_and_the_signal_that_decided(place: Path | str) -> None:
    with Index.open(place, **ALSO) as index:
        assert index.add("1", "one two three four", vector=EAST).by is None  # type: ignore[attr-defined]
        answers = index.add_batch(
            ["2", "3", "4", "5"],
            ["five six seven", "one two three four five", "one two three four", "eight nine"],
            vectors=[EAST, WEST, NORTH, NORTH],
        )
        got = [numbers_of(answer) for answer in answers]
        assert got[0] == ("1", 0.0, 1.0, "vector")
        assert got[1] == ("1", 0.75, -1.0, "text")
        assert got[2] == ("1", 1.0, 0.0, "text")
        assert got[3] is None
        assert numbers_of(index.query("one two three four six", vector=EAST))[2:] == (1.0, "both")
        text = index.get("2", text=True)
        assert text is not None and numbers_of(text) == got[0] and text.text is None
        assert [one.id for one in index.similar("five six", vector=NORTH)] == ["5"]


def test_document_of_the_same_text_with_another_vector(place: Path | str) -> None:
    with Index.open(place, **ALSO) as index:
        index.add("1", "one two three", vector=EAST)
        assert index.add("1", "one two three", vector=EAST).again
        with pytest.raises(Conflict):
            index.add("1", "one two three", vector=NORTH)
        assert not index.add("1", "one two three", vector=NORTH, replace=True).again
        assert index.query("something else here", vector=EAST).status == "new"
        assert index.query("something else here", vector=NORTH).duplicate_of == "1"


@pytest.mark.parametrize("size", [1, 2, 512])
def test_documents_of_one_text_have_witnesses_of_their_own(
    place: Path | str, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(removal, "SLICE_DOCUMENTS", size)
    monkeypatch.setattr(removal, "SLICE_COPIES", size)
    monkeypatch.setattr(shared_removal, "JUDGED_TOGETHER", size)
    with Index.open(place, **ALSO) as index:
        texts = ["one two three", *["four five six"] * 4, "seven eight nine"]
        index.add_batch(list("012345"), texts, vectors=[EAST, EAST, NORTH, WEST, WEST, NORTH])
        by_text = ("2", 1.0, 0.0, "text")
        assert [numbers_of(index.get(id)) for id in "12345"] == [
            ("0", 0.0, 1.0, "vector"),
            None,  # of the text of 1, but like nothing that is kept
            *[by_text] * 2,
            ("2", 0.0, 1.0, "vector"),
        ]
        assert index.remove_batch(["0"]) == [True]
        assert [numbers_of(index.get(id)) for id in "1234"] == [by_text, None, *[by_text] * 2]
        assert index.remove_batch(["2"]) == [True]
        by_text = ("1", 1.0, -1.0, "text")
        assert [numbers_of(index.get(id)) for id in "1345"] == [None, by_text, by_text, None]
        assert index.verify() == []


def test_texts_are_kept_beside_vectors(place: Path | str) -> None:
    with Index.open(place, vectors="v", cosine=0.9, dimension=3, keep_texts=True) as index:
        index.add_batch(["1", "2"], ["its text", None], vectors=[EAST, NORTH])  # type: ignore[list-item]
        assert (index.text("1"), index.text("2")) == ("its text", None)


def test_index_keeps_what_it_was_made_for(tmp_path: Path, place: Path | str) -> None:
    np.save(tmp_path / "mean.npy", [0.5, 0.0, 0.0])
    centre = str(tmp_path / "mean.npy")
    with Index.open(place, centre=centre, **ALSO) as index:
        index.add("1", "one two three", vector=EAST)
        spec = index.spec
    assert not spec.vectors.endswith(":none")
    for same in ({}, ALSO, ALSO | {"centre": centre}):
        with Index.open(place, **same) as index:
            assert index.spec == spec
    for other, message in (
        ({"dimension": 4}, "numbers, not 4"),
        ({"also": "v:0.8"}, "cosine 0.9, not 0.8"),
        ({"unless": "v:0.9"}, "role also, not unless"),
        ({"also": "w:0.9"}, "vectors v, not w"),
        ({"also": "v:0.9", "planes": "3x3"}, "not 3x3"),
        ({"also": "v:0.9", "centre": "none"}, "the centre .*, not none"),
        ({"threshold": 0.7}, "threshold 0.6, not 0.7"),
    ):
        with pytest.raises(ParameterError, match=message):
            Index.open(place, **other)
    with Index.open(tmp_path / "texts"):
        pass
    with pytest.raises(ParameterError, match="compares texts alone"):
        Index.open(tmp_path / "texts", **ALSO)


def test_centre_of_a_finished_run_gives_its_signs(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = rows_of([(f"text {n}", list(rng.normal(size=3) + 1)) for n in range(100)])
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in.parquet")
    neardup.dedup_files(tmp_path / "in.parquet", tmp_path / "out", also="v:0.99", planes="4x4")
    with Index.open(
        tmp_path / "index", also="v:0.99", planes="4x4", dimension=3, centre=str(tmp_path / "out")
    ) as index:
        assert not index.spec.vectors.endswith(":none")
        removed = {row["id"]: row for row in table(tmp_path / "out/removed.parquet")}
        for row, answer in zip(rows, add(index, rows), strict=True):
            assert answer.duplicate_of == removed.get(row["id"], {}).get("witness")
    with pytest.raises(ParameterError, match="has one of 3 numbers, vectors have 4"):
        Index.open(tmp_path / "other", also="v:0.9", dimension=4, centre=str(tmp_path / "out"))


def table(path: Path) -> list[Row]:
    import pyarrow.parquet as pq

    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"also": "v:0.9"}, "needs dimension"),
        ({"dimension": 3}, "say what these are for"),
        ({"also": "v:0.9", "dimension": 0}, "dimension must be"),
        ({"also": "v:0.2", "dimension": 3}, "higher cosine"),
        ({"vectors": "v", "dimension": 3}, "needs --cosine"),
        ({"also": "v:0.9", "dimension": 3, "bits": 8}, "not supported with --bits"),
        ({"also": "v:0.9", "dimension": 3, "centre": "missing.npy"}, "can't be read"),
    ],
)
def test_options_that_make_no_index(place: Path | str, options: Row, message: str) -> None:
    with pytest.raises(NeardupError, match=message):
        Index.open(place, **options)
    assert not (
        Path(place).exists() if isinstance(place, Path) else is_stored(RedisAddress.parse(place))
    )


def test_what_is_not_supported_is_refused(tmp_path: Path) -> None:
    with Index.open(tmp_path / "index", **ALSO) as index:
        index.add("1", "one two three", vector=EAST)
        sketch = index.sketcher(Documents(make_strings(["a b c"]), [], None, None, {}))
        for call in (
            lambda: index.query("one two three", vector=EAST, probes=3),
            lambda: index.add_sketches(["2"], sketch),
        ):
            with pytest.raises(ParameterError, match="not supported for an index with vectors"):
                call()


KILLED = """
import os, signal, sys
import neardup

index = neardup.Index.open(sys.argv[1], also="v:0.9", dimension=3, threshold=0.6, shingle="word:2")
index.add_batch(["1", "2"], ["one two three four", "five six"], vectors=[[1, 0, 0], [1, 0.1, 0]])
index.submit(["3"], ["seven eight"], vectors=[[0, 1, 0]])
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "index")], check=False)
    assert done.returncode == -signal.SIGKILL
    with Index.open(tmp_path / "index", **ALSO) as index:
        assert numbers_of(index.get("2"))[3] == "vector"
        assert index.query("nine ten", vector=[1.0, 0.1, 0.0]).duplicate_of == "1"
        assert index.verify() == []
        with Index.open(tmp_path / "index", read_only=True) as reader:
            index.add("4", "eleven twelve", vector=WEST)
            index.remove("1")
            assert stored(reader, [{"id": "2"}, {"id": "4"}]) == {"2": None, "4": None}


def test_export_and_import(tmp_path: Path, place: Path | str) -> None:
    np.save(tmp_path / "mean.npy", [0.5, 0.0, 0.0])
    with Index.open(place, centre=str(tmp_path / "mean.npy"), **ALSO) as index:
        index.add("1", "one two three four", vector=EAST)
        index.add("2", "five six", vector=EAST)
        index.export(tmp_path / "export")
        wanted, spec = index.get("2"), index.spec
    for copy in (tmp_path / "copy", fresh_address()):
        import_index(tmp_path / "export", copy)
        with Index.open(copy) as index:
            assert (index.get("2"), index.spec, index.verify()) == (wanted, spec, [])
            assert index.query("seven", vector=EAST).duplicate_of == "1"
            assert index.remove("1") and index.get("2").status == "new"


def test_stores_of_texts_have_the_format_that_they_had(tmp_path: Path) -> None:
    with Index.open(tmp_path / "texts") as index:
        index.add("1", "a text")
        store = Store(tmp_path / "texts" / index.generation / STORE, read_only=True)
    assert store.version == 1
    with Index.open(tmp_path / "also", **ALSO) as index:
        store = Store(tmp_path / "also" / index.generation / STORE, read_only=True)
        assert store.version == 4
