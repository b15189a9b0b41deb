"""Beside the requests: going over to what was indexed anew, and snapshots."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import neardup
from neardup.index import generation
from neardup.service import background
from neardup.service.background import Upkeep
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


def test_snapshots_when_there_is_something_to_write(
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


def test_upkeep_goes_on_after_an_error_of_the_system(
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
    failed = [about["error"] for name, about in heard.events if name == "upkeep_failed"]
    assert failed == ["OSError", "RuntimeError"]
    assert "neardup_upkeep_failures_total 2.0" in counts.render().decode()
