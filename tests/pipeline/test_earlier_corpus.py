"""New documents against an earlier corpus, which ranks first and is never written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import batch_engine
from support.command_line import Row, dedup, edited, neardup, refused, table, write_jsonl

OLD = [{"id": f"old-{n}", "text": edited(n % 7, 79 - n // 7)} for n in range(30)]
NEW = [{"id": f"new-{n}", "text": edited(n % 9, *range(1 + n // 9))} for n in range(40)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("against")
    write_jsonl(folder / "old.jsonl", OLD)
    write_jsonl(folder / "new.jsonl", NEW)
    dedup(folder / "old.jsonl", "-o", folder / "old", "--save-sketches")
    return folder


def answer(out: Path) -> list[tuple[str, str, float]]:
    return [(row["id"], row["witness"], row["similarity"]) for row in table(out, "removed")]


def contents(folder: Path) -> dict[Path, tuple[bytes, int]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


@pytest.fixture(scope="module")
def together(corpus: Path) -> list[tuple[str, str, float]]:
    """What one run over the earlier kept documents and the new ones removes."""
    dedup(corpus / "old" / "kept", corpus / "new.jsonl", "-o", corpus / "together")
    found = answer(corpus / "together")
    assert {name[:3] for name, _, _ in found} == {"new"}
    assert {witness[:3] for _, witness, _ in found} == {"old", "new"}
    return found


@pytest.mark.parametrize("earlier", ["old", "old/sketches", "old/kept"])
def test_answer_equals_that_of_one_run_over_both(
    tmp_path: Path, corpus: Path, together: list[tuple[str, str, float]], earlier: str
) -> None:
    before = contents(corpus / "old")
    record = dedup(corpus / "new.jsonl", "-o", tmp_path / "out", "--against", corpus / earlier)
    assert answer(tmp_path / "out") == together
    assert record["counts"]["documents"] == len(NEW)
    assert record["counts"]["removed"] == len(together)
    by_earlier = [witness for _, witness, _ in together if witness.startswith("old")]
    assert 0 < record["counts"]["removed_by_earlier"] == len(by_earlier) < len(together)
    assert os.listdir(tmp_path / "out" / "kept") == ["new.jsonl"]
    assert contents(corpus / "old") == before


def test_decontamination_says_what_was_in_the_validation_set(tmp_path: Path) -> None:
    train = [{"text": edited(1)}, {"text": edited(2)}, {"text": edited(2, 3)}, {"text": edited(3)}]
    write_jsonl(tmp_path / "train.jsonl", train)
    write_jsonl(tmp_path / "validation.jsonl", [{"text": edited(1, 5)}])
    asked = ("dedup", tmp_path / "train.jsonl", "-o", tmp_path / "clean")
    ran = neardup(*asked, "--against", tmp_path / "validation.jsonl")
    assert ran.out.startswith("4 documents   2 kept   2 removed (0 identical)")
    line = "1 because of the earlier corpus, 1 within the new documents"
    assert f"\nremoved             {line}\n" in ran.out
    assert f"Of the removed, {line}." in (tmp_path / "clean" / "report.html").read_text()
    ran = neardup(*asked, "--force")
    assert "earlier corpus" not in ran.out + (tmp_path / "clean" / "report.html").read_text()


def test_documents_removed_earlier_are_no_witnesses(tmp_path: Path) -> None:
    # b is similar to a, c to b alone: with b gone, c stays.
    a, b, c = edited(1), edited(1, 0), edited(1, 0, 79)
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "a", "text": a}, {"id": "b", "text": b}])
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "c", "text": c}])
    dedup(old, "-o", tmp_path / "old", "--save-sketches", "--threshold", 0.95)
    assert [row["id"] for row in table(tmp_path / "old", "removed")] == ["b"]
    for earlier, removed in (("old", []), ("old.jsonl", ["c"])):
        dedup(
            new,
            "-o",
            tmp_path / f"new-{earlier}.run",
            "--against",
            tmp_path / earlier,
            "--threshold",
            0.95,
        )
        found = [row["id"] for row in table(tmp_path / f"new-{earlier}.run", "removed")]
        assert found == removed, earlier


@pytest.mark.parametrize("keep", ["longest", "max:score", "min:score"])
def test_earlier_documents_rank_first_whatever_the_policy(tmp_path: Path, keep: str) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": "old", "text": edited(1, 3)}])
    rows = [{"id": n, "text": edited(1) + " more" * n, "score": n} for n in range(3)]
    new = write_jsonl(tmp_path / "new.jsonl", rows)
    dedup(new, "-o", tmp_path / "out", "--against", old, "--keep", keep)
    assert answer(tmp_path / "out") and {w for _, w, _ in answer(tmp_path / "out")} == {"old"}
    assert len(answer(tmp_path / "out")) == 3


def test_copies_in_the_earlier_corpus_are_not_removed(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", [{"id": n, "text": edited(1)} for n in range(4)])
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "n", "text": edited(1, 2)}])
    for cluster in ("stars", "components"):
        record = dedup(new, "-o", tmp_path / cluster, "--against", old, "--cluster", cluster)
        assert record["counts"]["identical"] == 0
        assert [(name, witness) for name, witness, _ in answer(tmp_path / cluster)] == [("n", "0")]


def test_merged_sets_serve_as_earlier_corpus(tmp_path: Path, corpus: Path) -> None:
    new, old = corpus / "new.jsonl", corpus / "old"
    dedup(new, "-o", tmp_path / "second", "--against", old, "--save-sketches")
    ran = neardup("merge", old, tmp_path / "second", "-o", tmp_path / "both")
    assert ran.code == 0, ran.err
    kept = sum(
        json.loads((run / "run.json").read_bytes())["counts"]["kept"]
        for run in (old, tmp_path / "second")
    )
    assert ran.out == f"{len(OLD) + len(NEW)} documents, {kept} of them kept; {tmp_path}/both\n"
    everything = write_jsonl(tmp_path / "all.jsonl", [*OLD, *NEW, {"text": "something new"}])
    dedup(everything, "-o", tmp_path / "third", "--against", tmp_path / "both")
    assert [row["id"] for row in table(tmp_path / "third", "removed")] == [
        row["id"] for row in [*OLD, *NEW]
    ]
    refused(neardup("merge", old, "-o", tmp_path / "both"), 2, "exists", "another output")


def test_saved_sketches_are_used_again_for_another_threshold(tmp_path: Path) -> None:
    source = write_jsonl(tmp_path / "new.jsonl", NEW)
    dedup(source, "-o", tmp_path / "out", "--save-sketches")
    (tmp_path / "out" / "sketches").chmod(0o700)
    inodes = {path.name: path.stat().st_ino for path in (tmp_path / "out" / "sketches").iterdir()}
    dedup(source, "-o", tmp_path / "out", "--save-sketches", "--force", "--threshold", 0.95)
    again = {path.name: path.stat().st_ino for path in (tmp_path / "out" / "sketches").iterdir()}
    (shard,) = set(inodes) - {"set.json", "kept"}
    assert again[shard] == inodes[shard]
    dedup(source, "-o", tmp_path / "fresh", "--threshold", 0.95)
    assert answer(tmp_path / "out") == answer(tmp_path / "fresh")


def test_another_specification_is_refused(tmp_path: Path, corpus: Path) -> None:
    for earlier in ("old", "old/sketches"):
        ran = neardup(
            "dedup",
            corpus / "new.jsonl",
            "-o",
            tmp_path / "out",
            "-q",
            "--against",
            corpus / earlier,
            "--shingle",
            "word:3",
        )
        refused(ran, 1, "size", str(corpus / "old"))


def test_saved_sketches_without_texts_need_verify_estimate(tmp_path: Path) -> None:
    old = write_jsonl(tmp_path / "old.jsonl", OLD)
    new = write_jsonl(tmp_path / "new.jsonl", NEW)
    dedup(old, "-o", tmp_path / "old", "--save-sketches")
    old.unlink()
    ran = neardup("dedup", new, "-o", tmp_path / "out", "-q", "--against", tmp_path / "old")
    refused(ran, 1, str(old), "--verify estimate")
    record = dedup(
        new, "-o", tmp_path / "out", "--against", tmp_path / "old", "--verify", "estimate"
    )
    assert record["counts"]["removed"] > 0


@pytest.mark.parametrize("damage", ["set.json", "kept", "shard"])
def test_a_damaged_set_is_refused(tmp_path: Path, damage: str) -> None:
    new = write_jsonl(tmp_path / "new.jsonl", NEW)
    dedup(write_jsonl(tmp_path / "old.jsonl", OLD), "-o", tmp_path / "old", "--save-sketches")
    folder = tmp_path / "old" / "sketches"
    (shard,) = {path.name for path in folder.iterdir()} - {"set.json", "kept"}
    path = folder / (shard if damage == "shard" else damage)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.write_bytes(data)
    ran = neardup("dedup", new, "-o", tmp_path / "out", "-q", "--against", tmp_path / "old")
    assert ran.code == 1 and str(folder) in ran.err, ran.err


def test_a_run_without_texts_and_sketches_is_refused(tmp_path: Path) -> None:
    source: Row = write_jsonl(tmp_path / "old.jsonl", OLD)
    dedup(source, "-o", tmp_path / "old", "--no-kept")
    ran = neardup("dedup", source, "-o", tmp_path / "out", "-q", "--against", tmp_path / "old")
    refused(ran, 2, str(tmp_path / "old"), "--save-sketches")


def test_preferred_inputs_keep_their_copies(tmp_path: Path) -> None:
    first = write_jsonl(tmp_path / "crawl.jsonl", [{"id": "c", "text": edited(1) + " and more"}])
    second = write_jsonl(tmp_path / "books.jsonl", [{"id": "b", "text": edited(1)}])
    for keep in ("first", "longest"):
        dedup(first, second, "-o", tmp_path / keep, "--prefer", "books*", "--keep", keep)
        assert [(name, witness) for name, witness, _ in answer(tmp_path / keep)] == [("c", "b")]
    ran = neardup("dedup", first, "-o", tmp_path / "out", "-q", "--prefer", "none*")
    refused(ran, 2, "none*", "matches none")


def test_ignored_lines_of_the_earlier_corpus_are_reused(tmp_path: Path) -> None:
    banner = "we use cookies to make this page better for you and our partners please accept\n"
    pages = [{"id": n, "text": banner + edited(n, count=6)} for n in range(20)]
    old = write_jsonl(tmp_path / "old.jsonl", pages)
    record = dedup(old, "-o", tmp_path / "old", "--strip", "lines:50%", "--save-sketches")
    assert record["counts"]["removed"] == 0
    new = write_jsonl(tmp_path / "new.jsonl", [{"id": "n", "text": edited(3, count=6)}])
    for earlier in ("old", "old/sketches"):
        dedup(new, "-o", tmp_path / "out", "--against", tmp_path / earlier, "--force")
        assert answer(tmp_path / "out") == [("n", "3", 1.0)], earlier


@pytest.mark.parametrize("place", ["old", "old/sub", "."])
def test_the_earlier_corpus_is_never_written(tmp_path: Path, corpus: Path, place: str) -> None:
    before = contents(corpus / "old")
    ran = neardup(
        "dedup", corpus / "new.jsonl", "-o", corpus / place, "--force", "--against", corpus / "old"
    )
    refused(ran, 2, "--against", "choose another output")
    assert contents(corpus / "old") == before


@pytest.mark.parametrize("against", ["old.jsonl", "old*.jsonl"])
@pytest.mark.parametrize(
    "given",
    [
        ["-o", "old.jsonl"],
        ["-o", "out.jsonl", "--removed", "old.jsonl"],
        ["-o", "out.jsonl", "--report", "old.jsonl"],
        ["-o", "old.jsonl", "--dry-run"],
    ],
)
def test_one_file_as_output_never_replaces_the_earlier_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: list[str], against: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "old.jsonl", OLD[:2])
    write_jsonl(tmp_path / "new.jsonl", NEW[:2])
    before = contents(tmp_path)
    ran = neardup("dedup", "new.jsonl", *given, "--against", against, "--force")
    refused(ran, 2, "old.jsonl", "--against", "choose another output")
    assert contents(tmp_path) == before


def test_files_of_the_earlier_corpus_have_the_format_of_the_new_ones(tmp_path: Path) -> None:
    texts = [edited(n) for n in range(3)]
    (tmp_path / "old.txt").write_text("\n".join(texts))
    (tmp_path / "new.txt").write_text("\n".join([texts[1], edited(8)]))
    pq.write_table(pa.table({"text": texts}), tmp_path / "old.parquet")
    for old in ("old.txt", "old.parquet"):
        out = tmp_path / f"against-{old.partition('.')[2]}"
        record = dedup(
            tmp_path / "new.txt", "-o", out, "--format", "lines", "--against", tmp_path / old
        )
        assert (record["counts"]["earlier"], record["counts"]["kept"]) == (3, 1), old


def test_every_kept_file_of_a_run_is_read_as_its_input_was(tmp_path: Path) -> None:
    rows = [{"id": str(n), "text": edited(n)} for n in range(4)]
    write_jsonl(tmp_path / "a.jsonl", rows[:1])
    (tmp_path / "state.json").write_text(json.dumps(rows[1:2]))  # in a folder, a companion
    (tmp_path / "note.txt").write_text(rows[2]["text"])
    (tmp_path / "copy.txt").write_text(rows[2]["text"])  # of which nothing is kept
    names = ("a.jsonl", "state.json", "note.txt", "copy.txt")
    dedup(*(tmp_path / name for name in names), "-o", tmp_path / "old")
    assert not (tmp_path / "old" / "kept" / "copy.txt").exists()
    new = write_jsonl(tmp_path / "new.jsonl", rows)
    record = dedup(new, "-o", tmp_path / "out", "--against", tmp_path / "old")
    assert record["counts"]["earlier"] == 3
    assert [name for name, _, _ in answer(tmp_path / "out")] == ["0", "1", "2"]
    (tmp_path / "old" / "kept" / "a.jsonl").unlink()
    ran = neardup("dedup", new, "-o", tmp_path / "2", "--against", tmp_path / "old", "-q")
    refused(ran, 1, "a.jsonl", "is missing")


def test_kept_files_of_a_run_that_lists_no_inputs_are_found(tmp_path: Path, corpus: Path) -> None:
    (old := tmp_path / "old").mkdir()
    (old / "kept").symlink_to(corpus / "old" / "kept")
    record = json.loads((corpus / "old" / "run.json").read_bytes())
    (old / "run.json").write_text(json.dumps(record | {"inputs": []}))
    for earlier in (old, corpus / "old"):
        dedup(corpus / "new.jsonl", "-o", tmp_path / "out", "--against", earlier, "--force")
        assert len(answer(tmp_path / "out")) > 3


@pytest.mark.parametrize("saved", [True, False])
def test_within_on_one_side_only_is_refused(tmp_path: Path, saved: bool) -> None:
    rows = [{"id": "a", "text": edited(1), "lang": "en"}]
    source = write_jsonl(tmp_path / "a.jsonl", rows)
    within = ["--within", "lang"]
    first, second = (within, []) if saved else ([], within)
    dedup(source, "-o", tmp_path / "old", "--save-sketches", *first)
    ran = neardup(
        "dedup", source, "-o", tmp_path / "out", "--against", tmp_path / "old", "-q", *second
    )
    refused(ran, 2, "--within")


def test_a_file_may_be_input_and_earlier_corpus(tmp_path: Path) -> None:
    documents = batch_engine.rows(3, 200)
    (a, b) = batch_engine.write(tmp_path / "in", documents, files=2)
    both = batch_engine.go([a, b], tmp_path / "both", others={"against": (a,)})
    only = batch_engine.go([b], tmp_path / "only", others={"against": (a,)})
    new = {row["id"] for row in documents[50:]}
    assert [row["id"] for row in both.removed if row["id"] in new] == [
        row["id"] for row in only.removed
    ]
