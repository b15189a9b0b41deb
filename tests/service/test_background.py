"""Background threads: switching the generation, snapshots, and the check of a golden set."""

from __future__ import annotations

import csv
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from support.golden_set import planted

import neardup
from neardup.errors import InputError
from neardup.evaluation.evaluation import evaluate
from neardup.index import generation
from neardup.index.index import Index
from neardup.service import background
from neardup.service.background import GoldenSet, GoldenWatch, Upkeep, score_golden_set
from neardup.service.metrics import Metrics


def metrics() -> Metrics:
    return Metrics(lambda: None)


TEXT = "a text that is long enough to have some shingles of three words and of five"


class Heard:
    """Events, and a wait for one of them."""

    def __init__(self, awaited: str) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []
        self._awaited, self._there = awaited, threading.Event()

    def __call__(self, name: str, **about: Any) -> None:
        self.events.append((name, about))
        if name == self._awaited:
            self._there.set()

    def wait(self) -> None:
        assert self._there.wait(60), self.events


def test_upkeep_switches_to_a_rebuilt_generation(tmp_path: Path) -> None:
    heard = Heard("generation_switched")
    with neardup.Index.open(tmp_path / "index", keep_texts=True) as index:
        index.add("a", TEXT)
        before = index.spec.fingerprint
        upkeep = Upkeep(index, metrics(), heard)
        upkeep.start()
        command = [sys.executable, "-m", "neardup", "index", "reindex", str(tmp_path / "index")]
        subprocess.run([*command, "--shingle", "word:3", "--quiet"], check=True, timeout=120)
        heard.wait()
        upkeep.stop()
        assert index.spec.fingerprint != before
        assert index.spec.shingle == "word:3"
        assert index.query(TEXT).duplicate_of == "a"


def test_snapshot_is_written_when_it_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation, "FEW_CHANGES", 3)
    heard = Heard("snapshot")
    with neardup.Index.open(tmp_path / "index") as index:
        index.add("a", TEXT)
        assert not index.snapshot_if_due()
        index.add_batch(list("bcde"), [TEXT] * 4)
        upkeep = Upkeep(index, metrics(), heard, snapshot_seconds=0.0)
        upkeep.start()
        heard.wait()
        upkeep.stop()
        assert index.stats().snapshot_sequence == index.sequence


def test_upkeep_failure_is_logged_and_retried(tmp_path: Path) -> None:
    heard = Heard("upkeep_failed")
    with neardup.Index.open(tmp_path / "index") as index:
        (tmp_path / "index" / "next.json").write_text("nonsense")
        upkeep = Upkeep(index, metrics(), heard)
        upkeep.start()
        heard.wait()
        upkeep.stop()
        assert index.add("a", TEXT).status == "new"


def test_upkeep_counts_failures_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, counts = Heard("snapshot"), metrics()
    monkeypatch.setattr(background, "UPKEEP_SECONDS", 0.01)
    with neardup.Index.open(tmp_path / "index") as index:
        failures = iter([OSError(24, "Too many open files"), RuntimeError("unexpected")])

        def take_over(**_: Any) -> bool:
            if (failure := next(failures, None)) is not None:
                raise failure
            return False

        monkeypatch.setattr(index, "take_over", take_over)
        monkeypatch.setattr(index, "snapshot_if_due", lambda: True)
        upkeep = Upkeep(index, counts, heard, snapshot_seconds=0.0)
        upkeep.start()
        heard.wait()
        upkeep.stop()
    failed = [about for name, about in heard.events if name == "upkeep_failed"]
    assert [about["error"] for about in failed] == ["OSError", "RuntimeError"]
    # The message of an error that is not expected may quote a document.
    assert "Too many open files" in failed[0]["message"]
    assert failed[1]["message"] == "RuntimeError"
    assert "neardup_upkeep_failures_total 2.0" in counts.render().decode()


SET = planted(count=30)
TEXT_OF = {row["id"]: row["text"] for row in SET.rows}
FIRST = [row for row in SET.rows if row["id"].startswith("a")]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "golden.tsv").write_text(SET.tsv)
    with open(tmp_path / "texts.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text"])
        writer.writeheader()
        writer.writerows(SET.rows)
    return tmp_path


@pytest.fixture
def index(folder):
    with Index.open(folder / "index") as opened:
        yield opened


@pytest.fixture
def golden(folder):
    return GoldenSet.read(folder / "golden.tsv", folder / "texts.csv")


def add(index, rows):
    index.add_batch([row["id"] for row in rows], [row["text"] for row in rows])


def test_scores_by_texts_equal_those_of_evaluate(golden, index):
    want = evaluate(SET.golden, corpus=SET.rows).labels
    assert 0.1 < want.recall.value < 0.95
    assert score_golden_set(golden, index) == {"texts": want}
    assert len(index) == 0, "nothing is added"


def test_document_missing_in_the_index_is_queried_by_its_text(golden, index):
    add(index, FIRST)
    found = score_golden_set(golden, index)
    expected = {}
    for a, b, label in SET.golden:
        answer = index.query(TEXT_OF[b])
        same = answer.cluster is not None and answer.cluster == index.get(a).cluster
        expected.setdefault((bool(label), same), []).append((a, b))
    scores = found["index"]
    assert scores.tp == len(expected[True, True]) > 5
    assert scores.fn == len(expected[True, False]) > 5
    assert scores.fp == 0 and scores.tn == 30 and len(index) == 30


def test_golden_set_without_texts_is_scored_by_the_index_alone(folder, index):
    golden = GoldenSet.read(folder / "golden.tsv")
    assert golden.documents is None and score_golden_set(golden, index) == {}
    add(index, SET.rows)
    found = score_golden_set(golden, index)
    assert set(found) == {"index"}
    assert found["index"].tp == sum(
        index.get(a).cluster == index.get(b).cluster for a, b, label in SET.golden if label
    )
    assert found["index"].tn == 30
    index.remove("a0")
    assert score_golden_set(golden, index)["index"].tn == 29, "what is not there can't be judged"


def test_golden_texts_can_be_a_column_of_the_labels(tmp_path, index):
    rows = [(id, f"c{id[1:]}", TEXT_OF[id]) for id in ("a0", "b0", "a1", "b1", "a2")]
    with open(tmp_path / "golden.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "cluster", "text"), *rows])
    found = score_golden_set(GoldenSet.read(tmp_path / "golden.csv"), index)["texts"]
    assert found.tp + found.fn == 2 and found.fp + found.tn == 8


def test_scores_follow_the_operating_point_of_the_index(golden, folder):
    with Index.open(folder / "strict", threshold=0.95) as strict:
        few = score_golden_set(golden, strict)["texts"]
    with Index.open(folder / "loose", threshold=0.5) as loose:
        many = score_golden_set(golden, loose)["texts"]
    assert few.tp < many.tp / 3 and few.fp == many.fp == 0


def test_golden_set_is_sketched_with_the_key_of_the_index(golden, folder):
    with Index.open(folder / "keyed", hash="siphash", key=bytes(range(16))) as keyed:
        assert score_golden_set(golden, keyed)["texts"].precision.value == 1.0


def test_oversized_or_empty_golden_set_is_refused(tmp_path):
    rows = "".join(f"d{n}\tc{n}\n" for n in range(2_000))
    (tmp_path / "large.tsv").write_text("id\tcluster\n" + rows)
    with pytest.raises(InputError, match="1,999,000 pairs of 2,000 documents, too many"):
        GoldenSet.read(tmp_path / "large.tsv")
    (tmp_path / "none.tsv").write_text("id1\tid2\n")
    with pytest.raises(InputError, match="no pair that can be used"):
        GoldenSet.read(tmp_path / "none.tsv")


class Watched:
    """A watch whose events are kept; some can be waited for."""

    def __init__(self, golden, index, every=600.0):
        self.events, self.told = [], threading.Condition()
        self.metrics = Metrics(lambda: None)
        self.watch = GoldenWatch(golden, index, self.metrics, self.event, every)

    def event(self, name, **more):
        with self.told:
            self.events.append((name, more))
            self.told.notify_all()

    def wait_for(self, count):
        with self.told:
            assert self.told.wait_for(lambda: len(self.events) >= count, timeout=120)


def test_recall_drop_is_logged(golden, folder):
    with (
        Index.open(folder / "loose", threshold=0.5) as loose,
        Index.open(folder / "strict", threshold=0.95) as strict,
    ):
        answers = iter([loose, strict, strict])
        watched = Watched(golden, lambda: next(answers))
        for _ in range(3):
            watched.watch.check()
    assert [name for name, _ in watched.events] == ["golden", "golden_drop", "golden"]
    drop = watched.events[1][1]
    assert drop["by"] == "texts" and drop["recall"] < drop["before"]
    said = watched.metrics.render().decode()
    assert f'recall_on_labeled_set{{by="texts"}} {drop["recall"]}' in said


def test_golden_watch_continues_after_a_failure_and_stops(golden, index):
    answers = iter([None, index, index])
    watched = Watched(golden, lambda: next(answers, index), every=0.01)
    watched.watch.start()
    watched.wait_for(3)
    watched.watch.stop()
    assert [name for name, _ in watched.events[:3]] == ["golden_failed", "golden", "golden"]
    assert watched.events[0][1] == {"error": "AttributeError", "message": "AttributeError"}
    assert not watched.watch._thread.is_alive()
    GoldenWatch(golden, lambda: index, watched.metrics, watched.event).stop()
