"""Background threads: switching the generation, snapshots, and the check of a golden set."""

from __future__ import annotations

import csv
import os
import resource
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.golden_set import planted
from support.running import running

import neardup
from neardup.errors import InputError
from neardup.evaluation.evaluation import evaluate
from neardup.index import generation, removal
from neardup.index.expiry import Retention
from neardup.index.index import Index
from neardup.service import background
from neardup.service.background import (
    Forgetting,
    GoldenSet,
    GoldenWatch,
    Upkeep,
    score_golden_set,
)
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


def measured(counts: Metrics) -> dict[str, float]:
    """The metrics without labels."""
    lines = counts.render().decode().splitlines()
    values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    return {name: float(value) for name, value in values.items()}


def failures(heard: Heard) -> list[dict[str, Any]]:
    return [about for name, about in heard.events if name == "upkeep_failed"]


def test_upkeep_counts_failures_and_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, counts = Heard("generation_switched"), metrics()
    monkeypatch.setattr(background, "UPKEEP_SECONDS", 0.01)
    with neardup.Index.open(tmp_path / "index") as index:
        raised = iter([OSError(24, "Too many open files"), RuntimeError("unexpected")])

        def take_over(**_: Any) -> bool:
            if (failure := next(raised, None)) is not None:
                raise failure
            return True

        monkeypatch.setattr(index, "take_over", take_over)
        upkeep = Upkeep(index, counts, heard)
        upkeep.start()
        heard.wait()
        upkeep.stop()
    failed = failures(heard)
    assert [about["error"] for about in failed] == ["OSError", "RuntimeError"]
    # The message of an error that is not expected may quote a document.
    assert "Too many open files" in failed[0]["message"]
    assert failed[1]["message"] == "RuntimeError"
    assert "neardup_upkeep_failures_total 2.0" in counts.render().decode()


def test_a_folder_called_next_json_keeps_nothing_else_from_being_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the thread; then it kept snapshots from being written."""
    monkeypatch.setattr(background, "UPKEEP_SECONDS", 0.01)
    monkeypatch.setattr(generation, "FEW_CHANGES", 0)
    heard, counts = Heard("forgot"), metrics()
    offer = tmp_path / "index" / "next.json"
    with neardup.Index.open(tmp_path / "index", keep_texts=True) as index:
        index.add("a", TEXT)
        offer.mkdir()
        upkeep = Upkeep(index, counts, heard, snapshot_seconds=0.0, retention=Retention(1.5))
        upkeep.start()
        heard.wait()
        assert len(index) == 0
        snapshots = sum(name == "snapshot" for name, _ in heard.events)
        assert snapshots >= 1
        assert len(failures(heard)) == 1, "logged once a minute"
        offer.rmdir()
        (tmp_path / "index" / "next.json").write_text("nonsense")
        again = Heard("upkeep_failed")
        upkeep._event = again
        again.wait()
        upkeep.stop()
        assert "next.json is damaged" in again.events[0][1]["message"]
    values = measured(counts)
    assert values["neardup_upkeep_failures_total"] > 10
    assert values["neardup_upkeep_age_seconds"] < 60


def test_upkeep_survives_idle_connections_that_use_up_all_files(tmp_path: Path) -> None:
    """2,000 idle connections at `ulimit -n 1024` ended the thread for good."""
    with running(tmp_path / "data", "--keep-texts") as service:
        service.event("ready")
        httpx.post(f"{service.url}/v1/documents", json={"id": "a", "text": TEXT})
        files = len(os.listdir(f"/proc/{service.process.pid}/fd"))
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (files + 20, 4096))
        held = [socket.create_connection(service.address, timeout=10) for _ in range(80)]
        try:
            said = service.event("upkeep_failed")
        finally:
            for each in held:
                each.close()
            resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (1024, 4096))
        assert said["error"] in ("OSError", "OutputError") and "open files" in said["message"]
        command = [sys.executable, "-m", "neardup", "index", "reindex", str(service.data)]
        subprocess.run([*command, "--shingle", "word:3", "--quiet"], check=True, timeout=120)
        service.event("generation_switched")
        lines = httpx.get(f"{service.url}/metrics", timeout=60).text.splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        assert float(values["neardup_upkeep_failures_total"]) >= 1
        assert float(values["neardup_upkeep_age_seconds"]) < 30
        assert service.stop() == 0


class Time:
    """Two clocks that tests set: the time of day, and seconds that only grow."""

    def __init__(self) -> None:
        self.day, self.passed = 2e9, 100.0

    def go_on(self, seconds: float) -> None:
        self.day += seconds
        self.passed += seconds


def forgetting(index: Index, time: Time, heard: Heard, counts: Metrics, **given: Any) -> Forgetting:
    retention = Retention(**{"older_than": 1_000.0} | given)
    return Forgetting(index, retention, counts, heard, lambda: time.day, lambda: time.passed)


def test_documents_are_forgotten_on_a_schedule(tmp_path: Path) -> None:
    time, heard, counts = Time(), Heard("forgot"), metrics()
    with neardup.Index.open(tmp_path, clock=lambda: time.day) as index:
        index.add_batch(["a", "b"], [TEXT, TEXT + " more"])
        work = forgetting(index, time, heard, counts)
        assert not work.work(1.0) and len(index) == 2
        time.go_on(900)
        index.add("c", TEXT)
        assert not work.work(1.0) and len(index) == 3
        time.go_on(5)
        assert not work.work(1.0), "not due"
        time.go_on(200)
        assert not work.work(1.0) and len(index) == 1
        assert index.get("c").status == "new" and index.verify() == []
        assert heard.events == [
            (
                "forgot",
                {
                    "documents": 2,
                    "before": "2033-05-18T03:35:05Z",
                    "by": None,
                    "undated": 0,
                    "complete": True,
                },
            )
        ]
        assert "neardup_forgotten_total 2.0" in Metrics(index.stats).render().decode()


def test_a_clock_that_is_set_forward_forgets_nothing(tmp_path: Path) -> None:
    time, heard, counts = Time(), Heard("clock_set_forward"), metrics()
    with neardup.Index.open(tmp_path, clock=lambda: time.day) as index:
        index.add("a", TEXT)
        work = forgetting(index, time, heard, counts)
        time.day += 10 * 365 * 86_400
        for _ in range(3):
            work.work(1.0)
            time.go_on(100)
        assert len(index) == 1
        assert [name for name, _ in heard.events] == ["clock_set_forward"]
        time.day -= 20 * 365 * 86_400
        work.work(1.0)
        assert len(index) == 1
        time.day += 10 * 365 * 86_400
        time.go_on(1_000)
        work.work(1.0)
        assert len(index) == 0


def test_documents_without_a_date_are_counted(tmp_path: Path) -> None:
    time, heard, counts = Time(), Heard("forgot"), metrics()
    with neardup.Index.open(tmp_path) as index:
        metadata = [{"seen": "2020-01-01"}, {"seen": "soon"}, None]
        index.add_batch(list("abc"), [TEXT] * 3, metadata=metadata)
        forgetting(index, time, heard, counts, by="seen").work(1.0)
        assert index.get("a") is None and len(index) == 2
        assert heard.events[0][1]["undated"] == 2
        assert "neardup_forget_undated 2.0" in counts.render().decode()


def test_a_pass_that_fails_is_logged_and_begun_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    time, heard, counts = Time(), Heard("forgot"), metrics()
    monkeypatch.setattr(removal, "SLICE_DOCUMENTS", 2)
    with neardup.Index.open(tmp_path, clock=lambda: time.day - 5_000) as index:
        texts = [" ".join(f"w{at}x{n}" for n in range(20)) for at in range(10)]
        index.add_batch(list("abcdefghij"), texts)
        work = forgetting(index, time, heard, counts)
        time.passed += 1.0
        for _ in range(3):
            assert work.work(0.0)
        assert 0 < len(index) < 10
        store = index._opened.generation.store
        guard, store.guard = store.guard, lambda: (_ for _ in ()).throw(OSError(5, "broken"))
        with pytest.raises(OSError, match="broken"):
            work.work(1.0)
        assert [about["complete"] for _, about in heard.events] == [False]
        store.guard = guard
        time.go_on(100)
        assert not work.work(10.0)
        assert len(index) == 0
        assert sum(about["documents"] for _, about in heard.events) == 10


def test_adds_go_on_while_many_documents_are_forgotten(tmp_path: Path) -> None:
    """The first pass of a service may find that most of an index is too old."""
    with neardup.Index.open(tmp_path / "data", clock=lambda: 1e9) as index:
        texts = [" ".join(f"w{at}x{n}" for n in range(20)) for at in range(2_000)]
        index.add_batch([str(at) for at in range(2_000)], texts)
    heard = Heard("forgot")
    with neardup.Index.open(tmp_path / "data") as index:
        upkeep = Upkeep(index, metrics(), heard, retention=Retention(86_400.0))
        upkeep.start()
        number = 0
        while not heard.events:
            index.add(f"new-{number}", f"a document of today with its own words n{number}")
            number += 1
        upkeep.stop()
        assert len(index) == number and number > 10
        assert index.verify() == []


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


def test_pairs_that_stand_for_others_are_weighed(folder, index):
    """Half of the duplicates stand for nine pairs each: recall is that of all pairs."""
    add(index, SET.rows)
    plain = score_golden_set(GoldenSet.read(folder / "golden.tsv"), index)["index"]
    found = {True: [], False: []}
    for a, b, label in SET.golden:
        found[index.get(a).cluster == index.get(b).cluster].append((a, b, label))
    rows = [(*pair, 9 if same else 1) for same, pairs in found.items() for pair in pairs]
    with open(folder / "weighted.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id1", "id2", "label", "weight"), *rows])
    weighted = score_golden_set(GoldenSet.read(folder / "weighted.csv"), index)["index"]
    assert weighted.tp == plain.tp and weighted.fn == plain.fn > 0
    assert weighted.recall.value == pytest.approx(9 * plain.tp / (9 * plain.tp + plain.fn))


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
