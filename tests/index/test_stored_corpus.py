"""An index as the earlier corpus of a run: the answer is that of its kept documents in a file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import DOCUMENTS, dedup, edited, neardup, refused, table, write_jsonl
from support.definition import POINT, Row
from support.redis_index import fresh_address
from support.vector_definition import ASKED, SCHEMA, Signals, many_documents
from support.vector_index import add, opened

import neardup as library
from neardup.errors import SpecMismatch, UsageError
from neardup.index.index import Index
from neardup.index.stored_corpus import IndexCorpus, open_indexes
from neardup.pipeline.run import run_job

POINTS: dict[str, Row] = {
    "the usual": {},
    "limit 1": {"limit": 1, "threshold": 0.3},
    "estimate": {"verify": "estimate"},
    "narrow slots": {"bits": 8},
    "bags": {"sketch": "weighted"},
    "simhash": {
        "sketch": "simhash",
        **dict.fromkeys(("threshold", "bands", "rows")),
        "slots": 64,
        "hamming": 6,
    },
}


def outcome(out: Path) -> object:
    """Everything that a run decides, but for the places of witnesses of the earlier corpus."""
    got = batch_engine.outcome(out)
    removed = [(row["id"], row["witness"], row["similarity"], row["exact"]) for row in got.removed]
    return removed, got.kept, got.rejected, got.counts


@pytest.mark.parametrize("point", POINTS)
def test_an_index_is_the_file_of_its_kept_documents(tmp_path: Path, point: str) -> None:
    rows = batch_engine.rows(3, 90, words=6)
    options = POINT | {"threshold": 0.5} | POINTS[point]
    given = {name: value for name, value in options.items() if value is not None}
    with Index.open(tmp_path / "ix", **given) as index:
        answers = index.add_batch(
            [row["id"] for row in rows[:40]], [row["text"] for row in rows[:40]]
        )
    kept = [row for row, answer in zip(rows, answers, strict=False) if answer.status == "new"]
    assert 3 < len(kept) < 40
    batch_engine.write(tmp_path / "kept", kept, files=1)
    paths = batch_engine.write(tmp_path / "in", rows[40:])
    named = dict.fromkeys(batch_engine.SMALL) | options | {"keep": "max:score"}
    with open_indexes([tmp_path / "ix"]) as stored:
        by_index = {"against": (tmp_path / "ix",), "stored": stored}
        run_job(batch_engine.job(paths, tmp_path / "a", others=by_index, **named), quiet())
    by_file = {"against": (tmp_path / "kept" / "0.jsonl",)}
    run_job(batch_engine.job(paths, tmp_path / "b", others=by_file, **named), quiet())
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")
    assert {row["witness_file"] for row in table(tmp_path / "a", "removed")} >= {
        str(tmp_path / "ix")
    }


def quiet() -> batch_engine.Silent:
    return batch_engine.Silent()


def without_clusters(out: Path) -> list[Row]:
    """The removed documents without the numbers of clusters, which are those of each run."""
    return [row | {"cluster": None} for row in table(out, "removed")]


def make_index(tmp_path: Path, *options: object) -> Path:
    given = write_jsonl(tmp_path / "first.jsonl", DOCUMENTS[:10])
    ran = neardup("index", "build", tmp_path / "ix", given, "-q", *options)
    assert ran.code == 0, ran
    return tmp_path / "ix"


def test_dedup_against_an_index_leaves_it_as_it_is(tmp_path: Path) -> None:
    """By the command and from Python, also while a process writes to the index."""
    folder = make_index(tmp_path, "--keep-texts")
    given = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[10:])
    with Index.open(folder) as index:
        before = index.sequence, len(index)
        record = dedup(given, "-o", tmp_path / "out", "--against", folder)
        with library.dedup_files(given, tmp_path / "python", against=folder) as result:
            assert result.counts == record["counts"]
        assert (index.sequence, len(index)) == before
    neardup("index", "add", folder, given, "-o", tmp_path / "added", "-q")
    for other in ("python", "added"):
        assert without_clusters(tmp_path / "out") == without_clusters(tmp_path / other)
    assert record["parameters"]["against"] == [str(folder)]
    assert record["counts"]["earlier"] == 5
    samples = {row["id"]: row["text"] for row in table(tmp_path / "out", "samples")}
    assert samples["doc-0"] == DOCUMENTS[0]["text"], "the index keeps texts"
    ran = neardup("why", tmp_path / "out", "doc-12")
    assert ran.code == 0 and "doc-0" in ran.out


def test_a_run_against_an_index_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_index(tmp_path)
    given = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[10:])
    monkeypatch.setattr("neardup.pipeline.run.write_tables", lambda *_: 1 / 0)
    assert neardup("dedup", given, "-o", tmp_path / "out", "--against", folder, "-q").code == 1
    monkeypatch.undo()
    written: list[object] = []
    monkeypatch.setattr(
        "neardup.index.stored_corpus.IndexCorpus._sketched", lambda *_: written.append(1)
    )
    dedup(given, "-o", tmp_path / "out", "--against", folder)
    assert not written, "the sketches of the index are there"


def test_another_index_than_the_run_needs_is_refused(tmp_path: Path) -> None:
    folder = make_index(tmp_path)
    given = write_jsonl(tmp_path / "new.jsonl", [{"id": "1", "text": edited(9), "lang": "en"}])

    def wrong(*options: object, against: Path = folder) -> object:
        return neardup("dedup", given, "-o", tmp_path / "out", "--against", against, "-q", *options)

    refused(wrong("--threshold", 0.9), 2, "has threshold 0.8, this run 0.9: give --threshold 0.8")
    refused(wrong("--tables", "18x7"), 2, "tables 21x6, this run 18x7")
    refused(wrong("--shingle", "word:3"), 1, "size 3 against 5", "--shingle")
    refused(wrong("--within", "lang"), 2, "without --within")
    refused(wrong("--distinguish", "numbers"), 2, "without --distinguish")
    ran = neardup("dedup", given, "-o", folder / "out", "--against", folder, "-q")
    refused(ran, 2, "contain one another")
    (folder / "index.json").write_text("{")
    refused(wrong(), 1, "index.json is damaged")
    assert not (tmp_path / "out").exists()


def test_an_index_of_sketches_can_be_compared_by_signatures(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "first.jsonl", DOCUMENTS[:10])
    dedup(first, "-o", tmp_path / "run", "--save-sketches")
    folder = tmp_path / "ix"
    assert neardup("index", "build", folder, "--from", tmp_path / "run", "-q").code == 0
    given = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[10:])
    ran = neardup("dedup", given, "-o", tmp_path / "out", "--against", folder, "-q")
    refused(ran, 2, "without shingles", "--verify estimate")
    dedup(given, "-o", tmp_path / "out", "--against", folder, "--verify", "estimate")
    assert {row["witness"] for row in table(tmp_path / "out", "removed")} >= {"doc-0"}


def test_a_folder_of_data_with_a_file_index_json_is_no_index(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "index.json").write_text(json.dumps([DOCUMENTS[0]]))
    given = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[2:4])
    assert dedup(given, "-o", tmp_path / "out", "--against", data)["counts"]["removed"] == 2


@pytest.mark.parametrize("point", ["the usual", "estimate", "narrow slots"])
def test_an_index_on_redis_is_one_in_a_folder(tmp_path: Path, point: str) -> None:
    """Runs against both decide alike, after documents were removed, too."""
    rows = batch_engine.rows(3, 90, words=6)
    options = POINT | {"threshold": 0.5} | POINTS[point]
    places = [tmp_path / "ix", fresh_address()]
    for place in places:
        with Index.open(place, **options) as index:
            for row in rows[:40]:
                index.add(row["id"], row["text"])
            index.remove(rows[0]["id"])
    paths = batch_engine.write(tmp_path / "in", rows[40:])
    named, found = dict.fromkeys(batch_engine.SMALL) | options, []
    for place, out in zip(places, (tmp_path / "a", tmp_path / "b"), strict=True):
        with open_indexes([place]) as stored:
            others = {"against": tuple(one.path for one in stored), "stored": stored}
            run_job(batch_engine.job(paths, out, others=others, **named), quiet())
        found.append(outcome(out))
    assert found[0] == found[1]
    assert len(table(tmp_path / "b", "removed")) > 3


def test_dedup_against_an_index_on_redis(tmp_path: Path) -> None:
    place = fresh_address()
    first = write_jsonl(tmp_path / "first.jsonl", DOCUMENTS[:10])
    assert neardup("index", "build", place, first, "-q", "--keep-texts").code == 0
    given = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[10:])
    login = place.replace("redis://", "redis://default:geheim@")
    record = dedup(given, "-o", tmp_path / "out", "--against", place)
    with library.dedup_files(given, tmp_path / "python", against=place) as result:
        assert result.counts == record["counts"]
    folder = make_index(tmp_path)
    assert without_clusters(tmp_path / "out") != [] and record["counts"]["earlier"] == 5
    dedup(given, "-o", tmp_path / "folder", "--against", folder)
    renamed = [row | {"witness_file": place} for row in without_clusters(tmp_path / "folder")]
    shown = [row | {"witness_file": place} for row in without_clusters(tmp_path / "out")]
    assert shown == renamed
    assert record["parameters"]["against"] == [place]
    samples = {row["id"]: row["text"] for row in table(tmp_path / "out", "samples")}
    assert samples["doc-0"] == DOCUMENTS[0]["text"]
    ran = neardup("why", tmp_path / "out", "doc-12")
    assert ran.code == 0 and "doc-0" in ran.out, ran
    again = dedup(given, "-o", tmp_path / "login", "--against", login)
    assert again["parameters"]["against"] == [place]
    written = [path for path in (tmp_path / "login").rglob("*") if path.is_file()]
    assert not any(b"geheim" in path.read_bytes() for path in written)
    missing = f"{place}-missing"
    refused(neardup("dedup", given, "-o", tmp_path / "x", "--against", missing), 2, "no index")


def test_a_run_against_an_index_on_redis_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = fresh_address()
    first = write_jsonl(tmp_path / "first.jsonl", DOCUMENTS[:10])
    assert neardup("index", "build", place, first, "-q").code == 0
    given, out = write_jsonl(tmp_path / "new.jsonl", DOCUMENTS[10:]), tmp_path / "out"
    monkeypatch.setattr("neardup.pipeline.run.write_tables", lambda *_: 1 / 0)
    assert neardup("dedup", given, "-o", out, "--against", place, "-q").code == 1
    monkeypatch.undo()
    written: list[object] = []
    sketched = IndexCorpus._sketched
    monkeypatch.setattr(
        IndexCorpus, "_sketched", lambda *given: written.append(1) or sketched(*given)
    )
    monkeypatch.setattr("neardup.pipeline.run.write_tables", lambda *_: 1 / 0)
    assert neardup("dedup", given, "-o", out, "--against", place, "-q").code == 1
    assert not written, "the sketches of the index are there"
    monkeypatch.undo()
    with Index.open(place) as index:
        index.remove("doc-0")
    dedup(given, "-o", out, "--against", place)
    assert "doc-0" not in {row["witness"] for row in table(out, "removed")}


def write_vectors(path: Path, rows: list[Row]) -> Path:
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path)
    return path


@pytest.mark.parametrize("asked", ASKED, ids=str)
@pytest.mark.parametrize("store", ["folder", "Redis"])
def test_an_index_with_vectors_is_the_file_of_its_kept_documents(
    tmp_path: Path, store: str, asked: Signals
) -> None:
    place = str(tmp_path / "ix") if store == "folder" else fresh_address()
    rows = many_documents(60)[::-1]
    old, new = rows[:30], rows[20:]  # some are identical to earlier ones
    with opened(place, asked) as index:
        answers = add(index, old)
    kept = [row for row, answer in zip(old, answers, strict=True) if answer.status == "new"]
    assert len(kept) > 3
    given = write_vectors(tmp_path / "new.parquet", new)
    file, found = write_vectors(tmp_path / "kept.parquet", kept), []
    centre = {} if asked.role == "unless" else {"centre": "none"}
    for name, against, options in (
        ("a", place, asked.options),
        ("b", file, asked.options | centre),
    ):
        library.dedup_files(given, tmp_path / name, against=against, **options).close()
        tables = [
            [
                {column: row[column] for column in row if column not in PLACES}
                for row in table(tmp_path / name, one)
            ]
            for one in ("removed", "vetoed")
            if (tmp_path / name / f"{one}.parquet").exists()
        ]
        kept_ids = [row["id"] for row in pq.read_table(tmp_path / name / "kept").to_pylist()]
        found.append((tables, kept_ids))
    assert found[0] == found[1]
    assert all(found[0][0]) and len(found[0][0]) == 1 + (asked.role == "unless")


PLACES = ("cluster", "witness_file", "witness_row")
"""Columns that tell of a witness of an index something else than of one in a file."""


def test_a_run_with_other_vectors_than_those_of_the_index_is_refused(tmp_path: Path) -> None:
    place, asked = tmp_path / "ix", ASKED[2]
    with opened(place, asked) as index:
        add(index, many_documents(5))
    given = write_vectors(tmp_path / "new.parquet", many_documents(9))

    def run(**options: object) -> None:
        library.dedup_files(given, tmp_path / "out", against=place, **options)

    wrong = asked.options
    with pytest.raises(UsageError, match=r"role also with cosine 0\.9, this run"):
        run(**wrong | {"also": "v:0.8"})
    with pytest.raises(SpecMismatch, match="differ in vectors"):
        run(**{name: wrong[name] for name in wrong if name not in ("also", "planes")})
    with pytest.raises(UsageError, match="more than the 64 planes"):
        run(**wrong | {"planes": "13x5"})
    assert not (tmp_path / "out").exists()
