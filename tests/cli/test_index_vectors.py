"""neardup index, query and serve with vectors: the answers are those of `neardup dedup`."""

from __future__ import annotations

import json
import random
import urllib.request
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.command_line import WRITERS, neardup, process, table, write_jsonl
from support.running import running
from support.vector_definition import ASKED, Row, Signals, rows_of

import neardup as library
from neardup.errors import ParameterError
from neardup.index.index import Index

EAST, NORTH = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
COLUMNS = ("id", "witness", "similarity", "exact", "cosine", "by")


def some_rows(count: int, seed: int = 1) -> list[Row]:
    """Documents of few words and few vectors, so that many are alike, or equal."""
    chance = random.Random(seed)
    numbers = [-1.0, 0.0, 0.5, 1.0, 1.25]
    return rows_of(
        [
            (
                " ".join(chance.choices("abcdefg", k=chance.randint(3, 6))),
                [1.0, chance.choice(numbers), chance.choice(numbers)],
            )
            for _ in range(count)
        ]
    )


def write_parquet(path: Path, rows: Sequence[Row]) -> Path:
    WRITERS["parquet"](path, rows)
    return path


def flags(asked: Signals) -> list[str]:
    return [part for name, value in asked.options.items() for part in (f"--{name}", str(value))]


def decisions(out: Path, rows: Sequence[Row]) -> dict[str, Any]:
    """Document -> what removed.parquet says; None if it is kept."""
    found = {row["id"]: tuple(map(row.get, COLUMNS)) for row in table(out, "removed")}
    return dict.fromkeys(row["id"] for row in rows) | found


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_days_give_the_answer_of_dedup_over_all_of_them(tmp_path: Path, asked: Signals) -> None:
    rows, got, index = some_rows(70), {}, tmp_path / "ix"
    same = [] if asked.role == "unless" else ["--centre", "none"]
    for day, (start, end) in enumerate(pairwise([0, 20, 45, 70])):
        given = write_parquet(tmp_path / f"{day}.parquet", rows[start:end])
        out = tmp_path / f"out{day}"
        ran = neardup("index", "add", index, given, "-o", out, "-q", *flags(asked))
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        got |= decisions(out, rows[start:end])
        kept = {row["id"] for row in rows[start:end] if got[row["id"]] is None}
        assert {row["id"] for row in table(out, f"kept/{day}")} == kept
    given = write_jsonl(tmp_path / "all.jsonl", rows)
    ran = neardup("dedup", given, "-o", tmp_path / "all", "-q", *flags(asked), *same)
    assert (ran.code, ran.err) == (0, "")
    assert got == decisions(tmp_path / "all", rows)
    assert sum(one is not None for one in got.values()) >= 3
    if asked.role != "alone":
        assert {one[-1] for one in got.values() if one is not None} & {"text", "both"}


@pytest.mark.parametrize("asked", ASKED[::2], ids=str)
def test_build_and_add_give_the_answer_of_dedup(tmp_path: Path, asked: Signals) -> None:
    rows, index = some_rows(60), tmp_path / "ix"
    first = write_jsonl(tmp_path / "first.jsonl", rows[:40])
    more = write_parquet(tmp_path / "more.parquet", rows[30:])
    built = neardup("index", "build", index, first, "--json", *flags(asked))
    assert built.code == 0, built.err
    added = neardup("index", "add", index, more, "--json", *flags(asked))
    assert json.loads(added.out)["counts"]["again"] == 10
    same = {} if asked.role == "unless" else {"centre": "none"}
    result = library.dedup(rows, **asked.options, **same)
    with Index.open(index, read_only=True) as found:
        kept = [row["id"] for row in rows if found.get(row["id"]).status == "new"]  # type: ignore[union-attr]
        assert kept == result.kept
        wanted = [(one.id, one.witness, one.cosine, one.by) for one in result.removed]
        stored = [found.get(one.id) for one in result.removed]
        assert wanted == [
            (one.id, one.duplicate_of, getattr(one, "cosine", None), getattr(one, "by", None))
            for one in stored
            if one is not None
        ]


def crowded(count: int) -> list[Row]:
    """Vectors around one direction, of which each tenth is near the one before."""
    chance = np.random.default_rng(2)
    vectors = chance.standard_normal((count, 8)) + 2
    vectors[10::10] = vectors[9:-1:10] + 0.01
    return [{"id": f"d{n}", "text": f"t{n}", "v": v} for n, v in enumerate(vectors.tolist())]


@pytest.mark.parametrize("given", [(), ("--planes", "20x12"), ("--centre", "none")], ids=str)
def test_centre_and_planes_of_a_new_index_are_those_of_its_files(
    tmp_path: Path, given: tuple[str, ...]
) -> None:
    rows, asked = crowded(300), ("--vectors", "v", "--cosine", "0.99")
    path = write_parquet(tmp_path / "in.parquet", rows)
    ran = neardup("index", "build", tmp_path / "ix", path, *asked, *given)
    assert ran.code == 0, ran.err
    assert neardup("dedup", path, "-o", tmp_path / "out", "-q", *asked, *given).code == 0
    with Index.open(tmp_path / "ix") as index:
        run = json.loads((tmp_path / "out" / "run.json").read_text())
        assert f"{index.options.vectors.planes}" in ran.out
        digest = index.spec.vectors.partition(":")[2]
        assert digest == run["spec"]["vectors"].partition(":")[2]
        assert (digest == "none") == ("none" in given)
        found = {one.id for one in map(index.get, (row["id"] for row in rows)) if one.duplicate_of}
        assert found == {row["id"] for row in table(tmp_path / "out", "removed")}
        assert len(found) >= 29
        few = index.options.vectors.planes
    if not given:
        # Of an index that grows: not the planes of a run over so few documents.
        assert few.bits > 100


def also(tmp_path: Path) -> tuple[Path, list[Row]]:
    """An index of texts and vectors of a few documents."""
    rows = [
        {"id": "a", "text": "one two three four", "v": EAST},
        {"id": "b", "text": "five six seven", "v": NORTH},
        {"id": "c", "text": "eight nine", "v": [1.0, 0.1, 0.0]},
        {"id": "d", "text": "ten eleven", "v": [0, 0, 0]},
    ]
    given = write_jsonl(tmp_path / "few.jsonl", rows)
    asked = ("--also", "v:0.9", "--shingle", "word:2", "--threshold", "0.6")
    ran = neardup("index", "build", tmp_path / "ix", given, *asked, "--max-rejected", "0.5")
    assert ran.code == 0 and "also if the cosine" in ran.out, ran
    assert "vector is all zeros" in ran.out and "3 vectors" in ran.err
    return tmp_path / "ix", rows


def test_queries_with_vectors(tmp_path: Path) -> None:
    index, rows = also(tmp_path)
    assert neardup("query", index, "ten", "--vector", "[1, 0.2, 0]").out == (
        "duplicate of a, 0.0000 similar, cosine 0.9806, by vector, cluster 1\n"
    )
    assert "by text" in neardup("query", index, "five six seven", "--vector", "[0, 0, 1]").out
    listed = neardup("query", index, "x", "--vector", "[1, 0, 0]", "--similar", 3).out
    assert listed.endswith(" a\n") and listed.count("\n") == 1
    assert "a (0.0000 similar, cosine 0.9950, by vector)" in neardup("index", "get", index, "c").out
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    answers = process("query", index, input=lines, check=True)
    got = [json.loads(line) for line in answers.stdout.splitlines()]
    assert [one["duplicate_of"] for one in got] == ["a", "b", "a", None]
    assert [one["by"] for one in got] == ["copy", "copy", "vector", None]
    assert got[3]["reason"] == "vector is all zeros"


def test_query_of_vectors_alone_needs_no_text(tmp_path: Path) -> None:
    rows = [{"id": "a", "v": EAST}, {"id": "b", "v": NORTH}]
    given, index = write_jsonl(tmp_path / "in.jsonl", rows), tmp_path / "ix"
    assert neardup("index", "build", index, given, "--vectors", "v", "--cosine", "0.9").code == 0
    assert "is no list of numbers" in neardup("query", index, "--vector", "[" * 20_000).err
    out = neardup("query", index, "--vector", "[0.1, 1, 0]").out
    assert out == "duplicate of b, cosine 0.9950, cluster 2\n"
    assert "lower --cosine" in neardup("query", index, "--vector", "[0, 0, 1]", "--similar", 1).out


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("query", "IX", "a text"), ["vectors of 3 numbers", "--vector"]),
        (("query", "IX", "a text", "--vector", "1,2"), ["--vector is no list"]),
        (("query", "IX", "--vector", "[1,2]", "--id", "a", "--explain"), ["leave out the text"]),
        (("index", "add", "IX", "IN", "--also", "v:0.8"), ["cosine 0.9, not 0.8"]),
        (("index", "add", "IX", "IN", "--also", "w:0.9"), ["vectors v, not w"]),
        (("index", "add", "IX", "BARE"), ["no column 'v'", "--also"]),
        (("index", "convert", "IX", "--bits", "8"), ["index convert is not supported"]),
        (("index", "build", "NEW", "BARE", "--also", "w:0.9"), ["no column 'w'"]),
        (("index", "build", "NEW", "IN", "--also", "text:0.9"), ["no document has a vector"]),
        (("index", "build", "NEW", "IN", "--cosine", "0.9"), ["--vectors"]),
        (("index", "build", "NEW", "IN", "--unless", "v:0.9", "--planes", "2x2"), ["--planes"]),
        (("index", "build", "NEW", "IN", "--also", "v:0.9", "--centre", "no.npy"), ["no.npy"]),
        (("index", "add", "NEW", "-", "-o", "OUT", "--also", "v:0.9"), ["only once"]),
        (("serve", "--data", "NEW", "--also", "v:0.9"), ["needs dimension"]),
        (("serve", "--data", "IX", "--also", "v:0.9", "--dimension", "4"), ["3 numbers, not 4"]),
    ],
    ids=str,
)
def test_wrong_vectors(tmp_path: Path, arguments: tuple[str, ...], parts: list[str]) -> None:
    also(tmp_path)
    write_jsonl(tmp_path / "bare.jsonl", [{"text": "a b c"}])
    names = {"IX": "ix", "IN": "few.jsonl", "BARE": "bare.jsonl", "NEW": "new", "OUT": "out"}
    given = [tmp_path / names[each] if each in names else each for each in arguments]
    ran = neardup(*given)
    assert ran.code == 2 and all(part in ran.err.splitlines()[-1] for part in parts), ran
    assert not (tmp_path / "new").exists()


def test_files_are_added_from_python(tmp_path: Path) -> None:
    rows = some_rows(20)
    given = write_jsonl(tmp_path / "in.jsonl", rows)
    result = library.add_files(tmp_path / "ix", given, tmp_path / "out", also="v:0.9")
    assert result.counts["documents"] == 20
    with Index.open(tmp_path / "ix") as index:
        again = library.add_files(index, given, tmp_path / "again", also="v:0.9")
        assert again.counts["removed"] == 20
        with pytest.raises(ParameterError, match=r"cosine 0.9, not 0.8"):
            library.add_files(index, given, tmp_path / "other", also="v:0.8")


def test_service_makes_an_index_with_vectors(tmp_path: Path) -> None:
    asked = ("--vectors", "v", "--cosine", "0.9", "--dimension", "3", "--centre", "none")
    with running(tmp_path / "ix", *asked) as service:
        service.event("ready")
        answers = []
        for id, vector in (("a", EAST), ("b", [1.0, 0.1, 0.0])):
            body = json.dumps({"id": id, "vector": vector}).encode()
            request = urllib.request.Request(
                f"{service.url}/v1/documents", body, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request) as answer:
                answers.append(json.load(answer)["duplicate_of"])
    assert answers == [None, "a"]


@pytest.mark.parametrize("asked", [ASKED[0], ASKED[2], ASKED[4]], ids=str)
def test_vectors_in_a_file_beside_are_those_of_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, answers = some_rows(60), list[Any]()
    rows[7]["text"] = ""
    matrix = np.array([row["v"] for row in rows], np.float32)
    for kind in ("column", "beside"):
        for day, (start, end) in enumerate(pairwise([0, 30, 45, 60])):
            own, place = rows[start:end], "v"
            if kind == "beside":
                own = [{name: row[name] for name in ("id", "text")} for row in own]
                place = f"day{day}.npy"
                np.save(place, matrix[start:end])
            given = write_jsonl(tmp_path / f"day{day}.jsonl", own)
            out = ["-o", f"{kind}{day}"] if day < 2 else []
            ran = neardup("index", "add", kind, given, *out, "-q", *placed(asked, place))
            assert (ran.code, ran.err) == (0, ""), ran
        with Index.open(kind, read_only=True) as index:
            stored = [index.get(row["id"]) for row in rows]
        answers.append([one and (one.status, one.duplicate_of) for one in stored])
        answers.append([decisions(Path(f"{kind}{day}"), rows) for day in (0, 1)])
    assert answers[:2] == answers[2:]
    ran = neardup("index", "add", "beside", given, "-q", *placed(asked, "day0.npy"))
    assert ran.code == 1 and "30 vectors for 15 documents" in ran.err


def placed(asked: Signals, place: str) -> list[str]:
    """The flags of options whose vectors are in another place."""
    return [flag.replace("v:", f"{place}:") if flag != "v" else place for flag in flags(asked)]


def test_an_index_is_built_with_vectors_beside(tmp_path: Path) -> None:
    rows = crowded(300)
    matrix = np.array([row["v"] for row in rows], np.float32)
    np.save(tmp_path / "v.npy", matrix)
    for row, vector in zip(rows, matrix.tolist(), strict=True):
        row["v"] = vector
    bare = write_jsonl(tmp_path / "in.jsonl", [{"id": row["id"]} for row in rows])
    whole = write_parquet(tmp_path / "in.parquet", rows)
    for name, given, place in (("ix", bare, tmp_path / "v.npy"), ("column", whole, "v")):
        asked = ("--vectors", place, "--cosine", "0.99", "-q")
        assert neardup("index", "build", tmp_path / name, given, *asked).code == 0
    with Index.open(tmp_path / "ix") as one, Index.open(tmp_path / "column") as other:
        assert one.spec == other.spec and not one.spec.vectors.endswith(":none")
        for row in rows:
            stored, same = one.get(row["id"]), other.get(row["id"])
            assert stored is not None and same is not None and stored.status == same.status
    asked = ("query", tmp_path / "ix", "--vector", str(matrix[3].tolist()))
    assert neardup(*asked).out.startswith("duplicate of d3")
