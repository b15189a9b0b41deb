"""Rows with the same id are one document, the union of their shingles, in any file and order."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support import batch_engine
from support.command_line import Row, dedup, neardup, read_rows, refused, table, words, write_jsonl

from neardup import reference
from neardup.spec import Spec


def shingles(text: str) -> set[int]:
    return reference.shingles(reference.unit_hashes(reference.units(text, Spec()), Spec()), 5)


def corpus(seed: int) -> list[list[Row]]:
    """Documents of one to four rows, some of them copies but for a row; in two files, shuffled."""
    rng = random.Random(seed)
    rows = []
    for number in range(40):
        family = rng.randrange(8)
        parts = [" ".join(words(100 * family + part, 30)) for part in range(1 + family % 4)]
        if rng.random() < 0.5:
            place = rng.randrange(len(parts))
            parts[place] = parts[place].rsplit(" ", rng.choice([1, 2, 15]))[0]
        rows += [{"doc": f"d{number}", "text": part} for part in parts]
    rng.shuffle(rows)
    cut = rng.randrange(len(rows))
    return [rows[:cut], rows[cut:]]


def expected(rows: list[Row]) -> dict[str, tuple[str, float]]:
    """By the definition, for documents in the order of their first rows; all are candidates."""
    sets: dict[str, set[int]] = {}
    for row in rows:
        sets.setdefault(row["doc"], set()).update(shingles(row["text"]))
    kept: list[str] = []
    removed: dict[str, tuple[str, float]] = {}
    for name, mine in sets.items():
        similar = [(u, reference.jaccard(sets[u], mine)) for u in kept]
        witness = next(((u, value) for u, value in similar if value >= 0.8), None)
        if witness is None:
            kept.append(name)
        else:
            removed[name] = witness
    return removed


@pytest.mark.parametrize("seed", range(4))
def test_answer_equals_that_of_the_unions(tmp_path: Path, seed: int) -> None:
    files = corpus(seed)
    paths = [write_jsonl(tmp_path / f"{n}.jsonl", rows) for n, rows in enumerate(files)]
    record = dedup(
        *paths, "-o", tmp_path / "out", "--merge-rows", "doc", "--bands", 128, "--rows", 1
    )
    wanted = expected([*files[0], *files[1]])
    found = {
        row["id"]: (row["witness"], row["similarity"]) for row in table(tmp_path / "out", "removed")
    }
    assert found == wanted and len(found) > 5
    assert record["counts"]["documents"] == 40
    assert record["counts"]["kept"] == 40 - len(wanted)
    for path, rows in zip(paths, files, strict=True):
        assert read_rows(tmp_path / "out" / "kept" / path.name) == [
            row for row in rows if row["doc"] not in wanted
        ]


def test_documents_of_one_row_give_the_plain_answer(tmp_path: Path) -> None:
    rows = [row | {"doc": str(n)} for n, row in enumerate([*corpus(1)[0], *corpus(1)[1]])]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    for options in ([], ["--keep", "longest"], ["--verify", "estimate"]):
        dedup(source, "-o", tmp_path / "plain", "--id", "doc", "--force", *options)
        dedup(source, "-o", tmp_path / "merged", "--merge-rows", "doc", "--force", *options)
        assert table(tmp_path / "plain", "removed") == table(tmp_path / "merged", "removed")
        assert table(tmp_path / "plain", "removed")


def test_a_rejected_row_is_kept_with_its_document(tmp_path: Path) -> None:
    rows = [
        {"doc": "a", "text": " ".join(words(1, 40))},
        {"doc": "a", "text": None},
        {"doc": "b", "text": ""},
        {"doc": "b", "text": 7},
        {"doc": None, "text": "on its own"},
        {"doc": None, "text": "and another"},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    record = dedup(source, "-o", tmp_path / "out", "--merge-rows", "doc")
    assert record["counts"] | {"comparisons": 0} == {
        "documents": 4,
        "kept": 3,
        "removed": 0,
        "rejected": 1,
        "identical": 0,
        "comparisons": 0,
        "earlier": 0,
    }
    assert [row["id"] for row in table(tmp_path / "out", "rejected")] == ["b"]
    assert read_rows(tmp_path / "out" / "kept" / "a.jsonl") == [*rows[:2], *rows[4:]]


def test_the_best_keep_value_of_the_rows_counts(tmp_path: Path) -> None:
    text = " ".join(words(1, 40))
    rows = [
        {"doc": "a", "text": text, "score": 3},
        {"doc": "b", "text": text, "score": 1},
        {"doc": "b", "text": "more of it", "score": 9},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    for keep, gone in (("max:score", "a"), ("min:score", "a"), ("longest", "a"), ("first", "b")):
        dedup(source, "-o", tmp_path / "out", "--merge-rows", "doc", "--keep", keep, "--force")
        assert [row["id"] for row in table(tmp_path / "out", "removed")] == [gone], keep


def test_merge_rows_with_id_is_refused(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", [{"doc": 1, "text": "x"}])
    ran = neardup("dedup", source, "-o", tmp_path / "out", "--merge-rows", "doc", "--id", "doc")
    refused(ran, 2, "--merge-rows", "leave out --id")
    assert json.loads(source.read_text()) == {"doc": 1, "text": "x"}


@pytest.mark.parametrize("keep", ["longest", "max:score"])
def test_a_rejected_row_adds_no_shingles(tmp_path: Path, keep: str) -> None:
    text = " ".join(words(1, 40))
    rows = [
        {"doc": "a", "text": text + " and so on", "score": 2},
        {"doc": "b", "text": text, "score": 1},
        {"doc": "b", "text": " " * 900, "score": 9},
    ]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    dedup(source, "-o", tmp_path / "out", "--merge-rows", "doc", "--keep", keep)
    assert [row["id"] for row in table(tmp_path / "out", "removed")] == ["b"]


def test_the_first_row_determines_the_within_value(tmp_path: Path) -> None:
    rng = random.Random(2)
    letters = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
    rows = [
        {
            "id": f"d{rng.randrange(40)}",
            "text": " ".join(rng.choices(letters, k=6)),
            "lang": rng.choice("ab"),
        }
        for _ in range(150)
    ]
    paths = batch_engine.write(tmp_path / "in", rows)
    found = [
        batch_engine.go(
            paths,
            tmp_path / str(size),
            shard=size,
            chunk=size // 4,
            within="lang",
            others={"merge_rows": True},
        )
        for size in (400, 2_000, 1 << 20)
    ]
    assert found[0] == found[1] == found[2] and found[0].removed


def test_rows_removed_earlier_add_no_shingles(tmp_path: Path) -> None:
    one, other = " ".join(words(1, 40)), " ".join(words(2, 40))
    earlier = [{"doc": "p", "text": other}, {"doc": "k", "text": one}, {"doc": "k", "text": other}]
    dedup(
        write_jsonl(tmp_path / "e.jsonl", earlier),
        "-o",
        tmp_path / "e",
        "--id",
        "doc",
        "--save-sketches",
    )
    new = write_jsonl(tmp_path / "n.jsonl", [{"doc": "n", "text": one + " tail"}])
    for against in ("e", "e/kept"):
        dedup(
            new,
            "-o",
            tmp_path / "out",
            "--merge-rows",
            "doc",
            "--against",
            tmp_path / against,
            "--force",
        )
        found = [(row["id"], row["witness"]) for row in table(tmp_path / "out", "removed")]
        assert found == [("n", "k")], against


def test_saved_sketches_of_merged_rows_are_refused_without_merging(tmp_path: Path) -> None:
    rows = [{"book": f"b{at // 2}", "text": f"page {at} of a book with a text"} for at in range(8)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    merged = tmp_path / "merged"
    dedup(path, "-o", merged, "--merge-rows", "book", "--save-sketches")
    ran = neardup("dedup", path, "-o", tmp_path / "out", "--against", merged, "-q")
    refused(ran, 2, "with --merge-rows", "give the files themselves")


def test_slots_are_merged_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of any size: the sketches that are compared are the same."""
    rows = [{"id": row["doc"], "text": row["text"]} for rows in corpus(1) for row in rows]
    inputs = [write_jsonl(tmp_path / "a.jsonl", rows)]
    asked = {"verify": "estimate", "others": {"merge_rows": True, "pairs": True}}
    want = batch_engine.go(inputs, tmp_path / "plain", **asked)
    assert len(batch_engine.table(tmp_path / "plain", "pairs")) > 20
    monkeypatch.setattr("neardup.pipeline.merge_rows.SLOTS_AT_ONCE", 100)
    assert batch_engine.go(inputs, tmp_path / "parts", **asked) == want
    assert batch_engine.table(tmp_path / "parts", "pairs") == batch_engine.table(
        tmp_path / "plain", "pairs"
    )
