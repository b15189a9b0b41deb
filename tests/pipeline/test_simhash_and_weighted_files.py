"""SimHash and weighted MinHash over files: the library's answer; document frequencies reused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from support import batch_engine
from support.command_line import dedup, edited, neardup, refused, table, write_jsonl
from support.sizes import each_once

import neardup as package
from neardup.corpus.shards import cut_shards
from neardup.errors import FormatError
from neardup.pipeline import stage_files
from neardup.pipeline.saved import read_frequencies
from neardup.pipeline.stages.sketch import count_document_frequencies
from neardup.text.frequencies import Frequencies

SIMHASH = {"sketch": "simhash", "slots": 64, "bands": None, "rows": None, "threshold": None}
WEIGHTED = {"sketch": "weighted"}
ASKED: list[dict[str, Any]] = [
    SIMHASH | {"hamming": 12},
    SIMHASH | {"hamming": 12, "limit": 2, "keep": "longest"},
    SIMHASH | {"hamming": 10, "slots": 128},
    SIMHASH | {"hamming": 12, "weights": "tf-idf"},
    SIMHASH | {"hamming": 12, "blocks": 13},
    SIMHASH | {"verify": "exact", "threshold": 0.4, "hamming": 14},
    SIMHASH | {"verify": "none", "hamming": 6},
    SIMHASH | {"cluster": "components", "hamming": 10},
    WEIGHTED,
    WEIGHTED | {"weights": "tf-idf"},
    WEIGHTED | {"weights": "tf-idf", "verify": "estimate"},
    WEIGHTED | {"verify": "estimate", "limit": 2, "keep": "longest"},
    WEIGHTED | {"weights": "tf-idf", "cluster": "components"},
    WEIGHTED | {"verify": "none"},
]


SIZES: list[dict[str, Any]] = [
    {"shard": 1 << 20, "chunk": 1 << 20},
    {"workers": 3, "shard": 900, "chunk": 300},
    {"budget": batch_engine.Little(1 << 12), "shard": 500},
]


@pytest.mark.parametrize(("asked", "sizes"), each_once(ASKED, SIZES), ids=str)
def test_every_shard_size_gives_the_answer_of_the_library(
    tmp_path: Path, asked: Any, sizes: Any
) -> None:
    documents = batch_engine.rows(3, 150, words=30)
    paths = batch_engine.write(tmp_path / "in", documents)
    found = package.dedup([row["text"] for row in documents], **{**batch_engine.SMALL, **asked})
    want = [
        (documents[r.id]["id"], documents[r.witness]["id"], r.similarity, r.exact)
        for r in found.removed
    ]
    assert len(want) > 20
    out = tmp_path / "out"
    got = batch_engine.go(paths, out, **{**asked, **sizes})
    assert [(r["id"], r["witness"], r["similarity"], r["exact"]) for r in got.removed] == want
    record = json.loads((out / "run.json").read_bytes())
    assert record["fingerprint"] == found.options.spec.fingerprint


PAGES = [{"id": f"{n}", "text": edited(n % 20, *range(n // 20), count=200)} for n in range(60)]


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "pages.jsonl", PAGES)


def test_simhash_command_prints_hamming_distance_and_blocks(tmp_path: Path, pages: Path) -> None:
    ran = neardup("dedup", pages, "-o", tmp_path / "out", "--sketch", "simhash", "--hamming", 6)
    assert ran.code == 0
    assert (
        "Hamming distance <= 6 of 64-bit SimHash of word:5 shingles, 84 tables of 9 blocks: all "
        "pairs within it meet" in ran.out
    )
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert record["parameters"]["hamming"] == 6
    assert record["parameters"]["blocks"] == 9
    assert record["parameters"]["threshold"] == 1 - 6 / 64
    assert record["predicted"]["recall_at_threshold"] == 1.0
    assert (record["spec"]["sketch"], record["spec"]["slots"]) == ("simhash", 64)
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "6 or fewer of 64 bits differ, SimHash of word:5 shingles" in report
    assert "84 tables of 9 blocks" in report


def test_frequencies_are_counted_once(
    tmp_path: Path, pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["dedup", pages, "-o", tmp_path / "out", "--sketch", "simhash", "--weights", "tf-idf"]
    with monkeypatch.context() as stopping:
        stopping.setattr("neardup.pipeline.run.rank_and_collapse", lambda *_: 1 / 0)
        assert neardup(*command, "-q").code == 1
    going_on = neardup(*command)
    assert going_on.code == 0
    assert "counting shingles" not in going_on.err
    assert "resuming: " in going_on.err
    plain = dedup(pages, "-o", tmp_path / "plain", "--sketch", "simhash", "--weights", "tf-idf")
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert record["fingerprint"] == plain["fingerprint"]
    assert table(tmp_path / "out", "removed") == table(tmp_path / "plain", "removed")
    stored = read_frequencies(tmp_path / "out")
    assert stored.stated == record["spec"]["weights"]
    assert stored.documents == len(PAGES)


@pytest.mark.parametrize("earlier", ["old", "old/sketches"])
def test_frequencies_of_the_earlier_corpus_are_reused(tmp_path: Path, earlier: str) -> None:
    old, new = PAGES[:30], PAGES[30:]
    write_jsonl(tmp_path / "old.jsonl", old)
    write_jsonl(tmp_path / "new.jsonl", new)
    asked = ["--sketch", "simhash", "--hamming", "8", "--weights", "tf-idf"]
    before = dedup(tmp_path / "old.jsonl", "-o", tmp_path / "old", "--save-sketches", *asked)
    record = dedup(
        tmp_path / "new.jsonl", "-o", tmp_path / "out", "--against", tmp_path / earlier, *asked
    )
    assert record["spec"]["weights"] == before["spec"]["weights"] != ""
    gone = table(tmp_path / "out", "removed")
    assert any(int(row["witness"]) < 30 for row in gone)
    assert read_frequencies(tmp_path / "out").documents == 30


def test_against_without_document_frequencies_is_refused(tmp_path: Path, pages: Path) -> None:
    dedup(pages, "-o", tmp_path / "old", "--save-sketches", "--sketch", "simhash")
    command = ("dedup", pages, "-o", tmp_path / "out", "-q", "--against", tmp_path / "old")
    refused(neardup(*command, "--sketch", "simhash", "--weights", "tf-idf"), 1, "--weights")
    refused(neardup(*command), 1, "sketch")


def test_kept_files_of_a_tf_idf_run_serve_as_earlier_corpus(tmp_path: Path, pages: Path) -> None:
    asked = ["--sketch", "simhash", "--weights", "tf-idf"]
    dedup(pages, "-o", tmp_path / "old", *asked)
    record = dedup(pages, "-o", tmp_path / "out", "--against", tmp_path / "old", *asked)
    assert record["counts"]["kept"] == 0


def test_damaged_frequencies_are_refused(tmp_path: Path, pages: Path) -> None:
    asked = ["--sketch", "simhash", "--weights", "tf-idf"]
    dedup(pages, "-o", tmp_path / "old", "--save-sketches", *asked)
    path = tmp_path / "old" / "sketches" / "document-frequencies"
    data = path.read_bytes()
    for at in (0, 9, 40, len(data) // 2, len(data) - 1):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            Frequencies.from_bytes(bytes(changed))
        with pytest.raises(FormatError):
            Frequencies.from_bytes(data[:at])
    path.write_bytes(data[:-3])
    command = ("dedup", pages, "-o", tmp_path / "out", "-q", "--against", tmp_path / "old")
    refused(neardup(*command, *asked), 1, "frequencies")
    path.unlink()
    refused(neardup(*command, *asked), 1, "don't belong together")


def test_merge_rows_with_simhash_is_refused(tmp_path: Path, pages: Path) -> None:
    command = ("dedup", pages, "-o", tmp_path / "out", "-q", "--merge-rows", "id")
    refused(neardup(*command, "--sketch", "simhash"), 2, "fingerprints can't be joined")


def test_frequencies_of_other_inputs_are_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is killed after it has replaced the file of frequencies, before its key is written."""
    work = tmp_path / "work"
    work.mkdir()

    def counted(seed: int) -> str:
        paths = batch_engine.write(tmp_path / f"in{seed}", batch_engine.rows(seed, 40, words=30))
        job = batch_engine.job(paths, tmp_path / "out", **SIMHASH, hamming=3, weights="tf-idf")
        shards = cut_shards(job.ordered_inputs(), job.reading)
        return count_document_frequencies(job, work, shards, batch_engine.Silent()).stated

    first = counted(1)
    with monkeypatch.context() as patched:
        patched.setattr(stage_files, "write_text", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            counted(2)
    assert counted(1) == first


def test_weighted_command_prints_weighted_jaccard(tmp_path: Path, pages: Path) -> None:
    command = ["dedup", pages, "-o", tmp_path / "out", "--sketch", "weighted"]
    ran = neardup(*command, "--weights", "tf-idf")
    assert ran.code == 0
    assert "exact weighted Jaccard >= 0.80 of word:5 shingles, 21 bands of 6" in ran.out
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert record["parameters"]["weights"] == "tf-idf"
    assert (record["spec"]["sketch"], record["spec"]["family"]) == ("weighted", "darts")
    assert record["spec"]["weights"].startswith("tf-idf:")
    report = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "exact weighted Jaccard of word:5 shingles" in report


@pytest.mark.parametrize("weights", ["tf", "tf-idf"])
def test_weighted_run_against_an_earlier_corpus_has_its_fingerprint(
    tmp_path: Path, pages: Path, weights: str
) -> None:
    asked = ["--sketch", "weighted", "--weights", weights]
    dedup(pages, "-o", tmp_path / "first", "--save-sketches", *asked)
    more = write_jsonl(tmp_path / "more.jsonl", [{"id": "new", "text": PAGES[0]["text"] + " end"}])
    against = tmp_path / "first"
    record = dedup(more, "-o", tmp_path / "second", "--against", against, *asked)
    first = json.loads((tmp_path / "first" / "run.json").read_bytes())
    assert record["fingerprint"] == first["fingerprint"]
    (removed,) = table(tmp_path / "second", "removed")
    assert (removed["id"], removed["witness"]) == ("new", "0")
    assert 0.8 < removed["similarity"] < 1.0
    command = ["dedup", more, "-o", tmp_path / "third", "--against", against, "-q"]
    refused(neardup(*command), 1, "sketch")
    other = "tf" if weights == "tf-idf" else "tf-idf"
    refused(neardup(*command, "--sketch", "weighted", "--weights", other), 1, "--weights")


def test_merge_rows_with_weighted_minhash_is_refused(tmp_path: Path, pages: Path) -> None:
    command = ["dedup", pages, "-o", tmp_path / "out", "--sketch", "weighted"]
    refused(neardup(*command, "--merge-rows", "id"), 2, "bags can't be joined")
