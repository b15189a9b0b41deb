"""Every option of dedup does what its help says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.command_line import (
    DOCUMENTS,
    TEXTS,
    WRITERS,
    Row,
    dedup,
    edited,
    expected,
    neardup,
    refused,
    table,
    words,
    write_jsonl,
)

from neardup import reference
from neardup.lsh.curve import Curve
from neardup.spec import Spec

A, B = edited(1), edited(1, 79)


def removed_rows(out: Path) -> list[tuple[int, int]]:
    return [(r["row"], r["witness_row"]) for r in table(out, "removed")]


def decided(folder: Path, rows: list[Row], *options: object) -> list[tuple[int, int]]:
    """(removed row, witness row) of a run over these rows."""
    dedup(write_jsonl(folder / "a.jsonl", rows), "-o", folder / "out", *options)
    return removed_rows(folder / "out")


def test_keep_longest_counts_raw_bytes(tmp_path: Path) -> None:
    texts = [A, A + " !!", A.upper(), A + " …"]  # the last is longest: three bytes a character
    rows = [{"text": text} for text in texts]
    assert decided(tmp_path, rows, "--keep", "longest") == [(0, 3), (1, 3), (2, 3)]


@pytest.mark.parametrize(
    ("policy", "values", "kept"),
    [
        ("max", [1, 3, 2], 1),
        ("min", [2, 3, 1], 2),
        ("max", [1, 3, 3], 1),  # ties by input order
        ("min", [1, 1, 3], 0),
        ("max", [None, -1, -2], 1),  # null is last in both directions
        ("min", [None, 5, 4], 2),
        ("max", [1, 2.5, 2], 1),  # whole numbers and others mix
        ("max", ["a", "b", "ab"], 1),  # strings by their bytes
        ("max", [False, True, None], 1),
        ("max", [None, None, None], 0),
        ("max", [2**62, 2**62 + 1, 0], 1),  # beyond what a double can tell apart
        ("max", [[9], 1, 2], 2),  # a list has no rank
    ],
)
def test_keep_max_and_min_of_a_column(
    tmp_path: Path, policy: str, values: list[Any], kept: int
) -> None:
    rows = [{"text": A if n else B, "v": value} for n, value in enumerate(values)]
    found = decided(tmp_path, rows, "--keep", f"{policy}:v")
    assert found == [(row, kept) for row in range(3) if row != kept]


@pytest.mark.parametrize("policy", ["max", "min"])
@pytest.mark.parametrize("extension", ["parquet", "csv"])
def test_keep_by_column_ranks_nan_last(tmp_path: Path, policy: str, extension: str) -> None:
    rows = [{"text": A, "v": float("nan")}, {"text": A, "v": None}, {"text": A, "v": 1.0}]
    source = tmp_path / f"a.{extension}"
    WRITERS[extension](source, rows)
    dedup(source, "-o", tmp_path / "out", "--keep", f"{policy}:v")
    assert removed_rows(tmp_path / "out") == [(0, 2), (1, 2)]


@pytest.mark.parametrize("extension", sorted(WRITERS))
def test_the_best_score_wins_in_every_format(tmp_path: Path, extension: str) -> None:
    source = tmp_path / f"a.{extension}"
    WRITERS[extension](source, DOCUMENTS)
    dedup(source, "-o", tmp_path / "out", "--keep", "max:score")
    order = sorted(range(len(TEXTS)), key=lambda n: (-(n % 5), n))
    answer = expected([TEXTS[n] for n in order])
    wanted = sorted((order[place], order[v[0]]) for place, v in enumerate(answer) if v and v[1])
    assert removed_rows(tmp_path / "out") == wanted


def test_empty_file_with_a_keep_column_is_accepted(tmp_path: Path) -> None:
    assert decided(tmp_path, [], "--keep", "max:v") == []


def test_within_compares_only_equal_values(tmp_path: Path) -> None:
    langs = ["en", "de", "en", None, None, 1, "1", "de"]
    rows = [{"text": A if n % 2 else B, "lang": lang} for n, lang in enumerate(langs)]
    # Missing values are a group of their own; 1 and "1" are written alike.
    assert decided(tmp_path, rows, "--within", "lang") == [(2, 0), (4, 3), (6, 5), (7, 1)]


@pytest.mark.parametrize("verify", ["exact", "estimate", "none"])
def test_verify_exact_estimate_and_none(tmp_path: Path, verify: str) -> None:
    texts = [A, edited(1, 20, 60), A.upper(), edited(1, 10, 30, 50)]
    rows = [{"text": text} for text in texts]
    found = decided(tmp_path, rows, "--verify", verify, "--threshold", 0.8)
    hashes = [reference.unit_hashes(reference.units(text, Spec()), Spec()) for text in texts]
    sets = [reference.shingles(each, 5) for each in hashes]
    slots = [reference.signature(each, Spec()) for each in sets]
    keys = [set(enumerate(reference.band_keys(each, 21, 6))) for each in slots]
    exact = [reference.jaccard(sets[0], each) for each in sets]
    estimate = [reference.estimate(slots[0], each) for each in slots]
    assert exact[3] < 0.8 and keys[3] & keys[0], "verification makes the difference"
    measure = exact if verify == "exact" else estimate
    wanted = [(row, 0) for row in (1, 2, 3) if verify == "none" or measure[row] >= 0.8]
    assert found == wanted
    for row in table(tmp_path / "out", "removed"):
        assert row["similarity"] == measure[row["row"]]
        assert row["exact"] is (verify == "exact" or row["row"] == 2)


def test_components_follow_chains_and_stars_do_not(tmp_path: Path) -> None:
    rows = [{"text": edited(1, *range(10, 10 + 6 * n, 6))} for n in range(8)]
    stars = decided(tmp_path, rows, "--threshold", 0.7)
    assert {witness for _, witness in stars} > {0}
    out = tmp_path / "merged"
    dedup(tmp_path / "a.jsonl", "-o", out, "--threshold", 0.7, "--cluster", "components")
    assert removed_rows(out) == [(row, 0) for row in range(1, 8)]
    assert min(r["similarity"] for r in table(out, "removed")) < 0.7


@pytest.mark.parametrize(
    ("preset", "shingle", "bands", "rows"),
    [("fineweb", "word:5", 14, 8), ("nemo", "char:24", 20, 13)],
)
def test_presets_set_their_options(
    tmp_path: Path, preset: str, shingle: str, bands: int, rows: int
) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    record = dedup(source, "-o", tmp_path / "out", "--preset", preset)
    spec = Spec.of(shingle, slots=bands * rows)
    assert record["fingerprint"] == spec.fingerprint
    assert (record["parameters"]["bands"], record["parameters"]["rows"]) == (bands, rows)
    assert record["predicted"]["recall_at_threshold"] == Curve(bands, rows).probability(0.8)
    wanted = [
        (n, v[0]) for n, v in enumerate(expected(TEXTS, 0.8, spec, bands, rows)) if v and v[1]
    ]
    assert removed_rows(tmp_path / "out") == wanted


@pytest.mark.parametrize("shingle", ["word:1", "word:3", "char:5", "line:1"])
def test_shingles_of_every_unit(tmp_path: Path, shingle: str) -> None:
    lined = ["\n".join(words(1, 30)), "\n".join([*words(1, 30), "more"])]
    texts = TEXTS + lined
    rows = [{"text": text} for text in texts]
    found = decided(tmp_path, rows, "--shingle", shingle, "--threshold", 0.7)
    curve = dedup(
        tmp_path / "a.jsonl", "-o", tmp_path / "again", "--shingle", shingle, "--threshold", 0.7
    )["parameters"]
    answer = expected(texts, 0.7, Spec.of(shingle), curve["bands"], curve["rows"])
    assert found == [(n, v[0]) for n, v in enumerate(answer) if v and v[1]]
    assert found[-1] == (len(texts) - 1, len(texts) - 2)


@pytest.mark.parametrize("extension", ["jsonl", "jsonl.gz", "parquet", "arrow", "feather"])
def test_token_column_gives_the_answer_of_the_tokens(tmp_path: Path, extension: str) -> None:
    tokens = list(range(100, 200))
    rows = [{"ids": tokens}, {"ids": [*tokens, 7]}, {"ids": tokens[::-1]}, {"ids": []}]
    source = tmp_path / f"a.{extension}"
    WRITERS[extension](source, rows)
    dedup(source, "-o", tmp_path / "out", "--shingle", "token:5", "--text", "ids")
    assert removed_rows(tmp_path / "out") == [(1, 0)]
    assert [r["reason"] for r in table(tmp_path / "out", "rejected")] == ["empty"]


@pytest.mark.parametrize(
    ("profile", "removed"),
    [
        ("conservative", []),
        ("standard", [1]),
        ("plain", [1, 4]),
        ("aggressive", [1, 2, 3]),
        ("look-alikes", [1, 2, 3, 4, 5]),
    ],
)
def test_text_profiles_decide_what_is_equal(
    tmp_path: Path, profile: str, removed: list[int]
) -> None:
    texts = [
        "a café in 1999 on the corner",
        "A CAFÉ IN 1999 ON THE CORNER",
        "a cafe in 2024 on the corner",
        "ａ ｃａｆｅ in 1234 on the corner",
        "a ca\u200bfé in 1999 on t\u202dhe cor\u2069ner",
        "а сᴀfе іn 1999 оn thе соrnеr",
    ]
    rows = [{"text": text} for text in texts]
    found = decided(tmp_path, rows, "--text-profile", profile)
    assert [row for row, _ in found] == removed


def test_bands_rows_and_slots_are_used(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    options = ("--bands", 10, "--rows", 4, "--slots", 48, "--seed", 5, "--threshold", 0.6)
    record = dedup(source, "-o", tmp_path / "out", *options)
    spec = Spec(slots=48, seed=5)
    assert record["spec"]["slots"] == 48
    assert record["fingerprint"] == spec.fingerprint
    answer = expected(TEXTS, 0.6, spec, 10, 4)
    assert removed_rows(tmp_path / "out") == [(n, v[0]) for n, v in enumerate(answer) if v and v[1]]


def test_several_tables_are_used(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    options = ("--tables", "10x4,5x3", "--slots", 60, "--threshold", 0.6)
    record = dedup(source, "-o", tmp_path / "out", *options)
    stated = {"tables": "10x4,5x3", "bands": None, "rows": None}
    assert stated.items() <= record["parameters"].items()
    missed = (1 - Curve(10, 4).probability(0.6)) * (1 - Curve(5, 3).probability(0.6))
    assert record["predicted"]["recall_at_threshold"] == pytest.approx(1 - missed)
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "10 bands of 4 and 5 of 3" in page
    assert f"{1 - missed:.4f}" in page


def test_containment_removes_what_is_inside(tmp_path: Path) -> None:
    part, whole = " ".join(words(3, 40)), " ".join([*words(3, 40), *words(4, 20)])
    rows = [{"text": part}, {"text": whole}, {"text": A}]
    options = ("--measure", "containment", "--slots", 256)
    assert decided(tmp_path, rows) == []
    out = tmp_path / "inside"
    record = dedup(tmp_path / "a.jsonl", "-o", out, *options, "--keep", "longest", "--pairs")
    assert removed_rows(out) == [(0, 1)]
    assert [row["similarity"] for row in table(out, "removed")] == [1.0]
    assert [row["similarity"] for row in table(out, "pairs")] == [1.0]
    assert record["parameters"]["measure"] == "containment"
    curve = Curve(record["parameters"]["bands"], record["parameters"]["rows"])
    assert record["predicted"]["recall_at_threshold"] == curve.probability(0.8 / 1.2)
    page = (out / "report.html").read_text("utf-8")
    assert "predicted recall at the threshold for documents of equal size" in page
    assert "exact containment of word:5 shingles" in page
    # The whole is not inside its part.
    ran = neardup("dedup", tmp_path / "a.jsonl", "-o", tmp_path / "first", *options)
    assert removed_rows(tmp_path / "first") == []
    assert "exact containment >= 0.80 of word:5 shingles" in ran.out
    assert "predicted recall at the threshold for documents of equal size 0.99" in ran.out


def test_recall_chooses_the_bands(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    low = dedup(source, "-o", tmp_path / "1", "--recall", 0.5)
    high = dedup(source, "-o", tmp_path / "2", "--recall", 0.9999)
    assert 0.5 <= low["predicted"]["recall_at_threshold"] < 0.9999
    assert high["predicted"]["recall_at_threshold"] >= 0.9999
    assert low["parameters"]["rows"] > high["parameters"]["rows"]


def test_threshold_one_removes_equal_sets_only(tmp_path: Path) -> None:
    rows = [{"text": A}, {"text": B}, {"text": A.upper()}]
    assert decided(tmp_path, rows, "--threshold", 1) == [(2, 0)]


def test_dry_run_shows_what_would_be_read_and_writes_nothing(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    ran = neardup("dedup", file, "-o", tmp_path / "out", "--dry-run", "--threshold", "0.7")
    assert ran.code == 0, ran.err
    assert "1 file (jsonl)" in ran.out
    assert f"about {len(DOCUMENTS)} documents" in ran.out
    assert "Jaccard >= 0.70" in ran.out
    assert f"writes     {tmp_path}/out/kept" in ran.out
    assert not (tmp_path / "out").exists()


def test_dry_run_fails_where_the_run_would(tmp_path: Path) -> None:
    file = write_jsonl(tmp_path / "a.jsonl", DOCUMENTS)
    refused(
        neardup("dedup", file, "-o", tmp_path / "out", "--dry-run", "--text", "body"), 2, "body"
    )
    dedup(file, "-o", tmp_path / "out")
    refused(neardup("dedup", file, "-o", tmp_path / "out", "--dry-run"), 2, "finished run")
