"""Sketch files of other sketches: many, wide or narrow slots, one permutation; saved sketches."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.command_line import dedup, edited, neardup, refused, table, write_jsonl

from neardup import dedup as in_memory
from neardup.pipeline.saved import SketchSet

OLD = [{"id": f"old-{n}", "text": edited(n % 7, 79 - n // 7)} for n in range(30)]
NEW = [{"id": f"new-{n}", "text": edited(n % 9, *range(1 + n // 9))} for n in range(40)]

KINDS = {
    "oneperm": ["--sketch", "oneperm"],
    "many slots": ["--sketch", "oneperm", "--slots", "700", "--bands", "21", "--rows", "6"],
    "wide": ["--family", "affine-m61"],
    "one bit": ["--bits", "1"],
    "wide, 16 bits": ["--family", "affine-m61", "--bits", "16"],
    "oneperm, 4 bits": ["--sketch", "oneperm", "--bits", "4", "--slots", "130"],
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def answer(out: Path) -> list[tuple[str, str, float]]:
    return [(row["id"], row["witness"], row["similarity"]) for row in table(out, "removed")]


def library_options(kind: list[str]) -> dict[str, object]:
    names = [name.removeprefix("--") for name in kind[::2]]
    return {
        name: int(value) if value.isdigit() else value
        for name, value in zip(names, kind[1::2], strict=True)
    }


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "old.jsonl", OLD)
    write_jsonl(tmp_path / "new.jsonl", NEW)
    return tmp_path


@every_kind
@pytest.mark.parametrize("verify", ["exact", "estimate", "none"])
def test_answer_equals_that_of_the_library(corpus: Path, kind: list[str], verify: str) -> None:
    dedup(corpus / "new.jsonl", "-o", corpus / "out", *kind, "--verify", verify)
    texts = [str(row["text"]) for row in NEW]
    result = in_memory(texts, verify=verify, **library_options(kind))
    assert result.removed
    assert answer(corpus / "out") == [
        (f"new-{gone.id}", f"new-{gone.witness}", gone.similarity) for gone in result.removed
    ]


@every_kind
@pytest.mark.parametrize("verify", ["exact", "estimate"])
def test_saved_sketches_give_the_answer_of_one_run(
    corpus: Path, kind: list[str], verify: str
) -> None:
    how = [*kind, "--verify", verify]
    dedup(corpus / "old.jsonl", "-o", corpus / "old", "--save-sketches", *how)
    dedup(corpus / "old" / "kept", corpus / "new.jsonl", "-o", corpus / "together", *how)
    dedup(corpus / "new.jsonl", "-o", corpus / "out", "--against", corpus / "old", *how)
    assert answer(corpus / "out") == answer(corpus / "together") != []
    neardup("merge", corpus / "old", "-o", corpus / "set")
    dedup(corpus / "new.jsonl", "-o", corpus / "again", "--against", corpus / "set", *how)
    assert answer(corpus / "again") == answer(corpus / "out")


def test_narrow_slots_take_sixteen_bytes_a_document(corpus: Path) -> None:
    dedup(corpus / "old.jsonl", "-o", corpus / "old", "--save-sketches", "--bits", "1")
    (file,) = SketchSet.open(corpus / "old" / "sketches").files
    assert file.read(0, "packed").shape == (16, len(OLD))
    assert file.read(0, "keys").shape == (21, len(OLD))
    assert file.read(0, "keys").dtype == np.uint64
    assert not file.has(0, "slots")


def test_narrow_slots_are_not_banded_again(corpus: Path) -> None:
    other = ["--bits", "1", "--bands", "20", "--rows", "6"]
    dedup(corpus / "old.jsonl", "-o", corpus / "old", "--save-sketches", "--bits", "1")
    ran = neardup(
        "dedup",
        corpus / "new.jsonl",
        "-o",
        corpus / "out",
        "--quiet",
        "--against",
        corpus / "old",
        *other,
    )
    refused(ran, 2, "made for 21 bands of 6 rows", "--bands 21 --rows 6", "--keep-full")
    dedup(
        corpus / "old.jsonl", "-o", corpus / "full", "--save-sketches", "--bits", "1", "--keep-full"
    )
    dedup(corpus / "new.jsonl", "-o", corpus / "out", "--against", corpus / "full", *other)
    dedup(corpus / "full" / "kept", corpus / "new.jsonl", "-o", corpus / "together", *other)
    assert answer(corpus / "out") == answer(corpus / "together") != []


def test_a_run_with_other_bands_sketches_again(corpus: Path) -> None:
    out = corpus / "out"
    first = ["--bits", "1", "--save-sketches", "--bands", "21", "--rows", "6"]
    dedup(corpus / "new.jsonl", "-o", out, *first)
    second = ["--bits", "1", "--save-sketches", "--bands", "32", "--rows", "4"]
    dedup(corpus / "new.jsonl", "-o", out, "--force", *second)
    dedup(corpus / "new.jsonl", "-o", corpus / "fresh", *second)
    assert answer(out) == answer(corpus / "fresh")
    (file,) = SketchSet.open(out / "sketches").files
    assert file.read(0, "keys").shape == (32, len(NEW))


def test_empty_bins_are_reported(corpus: Path) -> None:
    record = dedup(
        corpus / "new.jsonl", "-o", corpus / "out", "--sketch", "oneperm", "--slots", "9000"
    )
    # 76 shingles, 16 rounds: each slot stays empty with probability (1 - 1/9000)^(16 * 76).
    assert record["metrics"]["empty_bin_rate"] == pytest.approx(0.873, abs=0.01)
    record = dedup(
        corpus / "new.jsonl", "-o", corpus / "few", "--sketch", "oneperm", "--slots", "32"
    )
    assert record["metrics"]["empty_bin_rate"] == 0.0
    assert "empty_bin_rate" not in dedup(corpus / "new.jsonl", "-o", corpus / "usual")["metrics"]


def test_merged_rows_are_the_sketch_of_the_union(corpus: Path) -> None:
    """The same documents, whole or in two rows that overlap by a shingle, are judged the same."""
    halves = []
    for row in NEW:
        words = str(row["text"]).split()
        halves += [
            {"doc": row["id"], "text": " ".join(words[:44])},
            {"doc": row["id"], "text": " ".join(words[40:])},
        ]
    write_jsonl(corpus / "halves.jsonl", halves)
    how = ["--sketch", "oneperm", "--slots", "400", "--verify", "estimate"]
    whole = dedup(corpus / "new.jsonl", "-o", corpus / "whole", *how)
    merged = dedup(corpus / "halves.jsonl", "-o", corpus / "out", "--merge-rows", "doc", *how)
    assert answer(corpus / "out") == answer(corpus / "whole") != []
    rates = [record["metrics"]["empty_bin_rate"] for record in (whole, merged)]
    assert rates[0] == rates[1] > 0


def test_open_and_filled_sketches_are_not_mixed(corpus: Path) -> None:
    how = ["--sketch", "oneperm"]
    merging = ["--merge-rows", "id"]
    dedup(corpus / "old.jsonl", "-o", corpus / "filled", "--save-sketches", *how)
    dedup(corpus / "old.jsonl", "-o", corpus / "open", "--save-sketches", *how, *merging)
    start = ["dedup", corpus / "new.jsonl", "-o", corpus / "out", "--quiet", *how, "--against"]
    refused(neardup(*start, corpus / "open"), 2, "made with --merge-rows: run with it")
    refused(neardup(*start, corpus / "filled", *merging), 2, "without --merge-rows: run without")
    both = neardup("merge", corpus / "filled", corpus / "open", "-o", corpus / "set")
    refused(both, 2, "merge sets with the same columns")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--bits", "3"], "choose one of 1, 2, 4, 8, 16, 32"),
        (["--bits", "64"], "choose one of 1, 2, 4, 8, 16, 32"),
        (["--bits", "1", "--merge-rows", "id"], "--merge-rows is not supported with --bits"),
        (["--keep-full"], "--keep-full needs --bits"),
        (["--sketch", "oneperm", "--family", "affine32"], "choose one of rounds"),
    ],
)
def test_conflicting_options_are_refused(corpus: Path, given: list[str], message: str) -> None:
    refused(neardup("dedup", corpus / "new.jsonl", "-o", corpus / "out", *given), 2, message)
    assert not (corpus / "out").exists()


def test_run_json_states_the_sketch_settings(corpus: Path) -> None:
    dedup(corpus / "new.jsonl", "-o", corpus / "out", "--bits", "2", "--keep-full")
    record = json.loads((corpus / "out" / "run.json").read_bytes())
    assert record["spec"]["bits"] == 2
    assert record["parameters"]["keep_full"] is True
