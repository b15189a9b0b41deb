"""A run writes its progress to a status file, and obeys Ctrl-C between two steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command_line import DOCUMENTS, dedup, edited, neardup, refused, write_jsonl

from neardup.pipeline import run_progress
from neardup.pipeline.run_progress import RecordedProgress, find_status
from neardup.runtime import SILENT


def test_status_of_a_finished_run(tmp_path: Path) -> None:
    dedup(write_jsonl(tmp_path / "a.jsonl", DOCUMENTS), "-o", tmp_path / "out")
    ran = neardup("status", tmp_path / "out")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "finished: 17 documents, 9 kept, 7 removed, 1 rejected\n"


def test_status_of_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    refused(neardup("status", tmp_path), 2, str(tmp_path), "holds no run")
    refused(neardup("status", tmp_path / "none"), 2, "holds no run")


@pytest.fixture
def large(tmp_path: Path) -> Path:
    rows = [{"text": edited(n, count=400)} for n in range(3_000)]
    path = write_jsonl(tmp_path / "large.jsonl", rows)
    path.write_bytes(path.read_bytes() * 20)
    return path


def test_status_of_a_running_and_of_a_stopped_run(tmp_path: Path, large: Path) -> None:
    out = tmp_path / "out"
    run = subprocess.Popen(
        [sys.executable, "-m", "neardup", "dedup", str(large), "-o", str(out), "-q"],
        stderr=subprocess.PIPE,
    )
    try:
        while not (out / ".unfinished" / run_progress.STATUS_FILE).exists():
            assert run.poll() is None, run.stderr
            time.sleep(0.01)
        shown = str(find_status(out))
        assert shown.startswith(f"running, process {run.pid}: ")
        assert " of memory, " in shown
    finally:
        run.send_signal(signal.SIGKILL)
        run.communicate()
    assert str(find_status(out)).startswith("stopped: ")
    assert str(find_status(out)).endswith("; run the same command to resume")


def test_status_file_has_stage_and_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_progress, "EVERY_SECONDS", 0.0)
    out = tmp_path / "out"
    (out / ".unfinished").mkdir(parents=True)
    progress = RecordedProgress(SILENT, out / ".unfinished")
    progress.stage("reading", 3_000_000, "bytes")
    time.sleep(0.02)
    progress.advance(1_500_000)
    written = json.loads((out / ".unfinished" / run_progress.STATUS_FILE).read_bytes())
    assert (written["stage"], written["done"], written["pid"]) == (
        "reading",
        1_500_000,
        os.getpid(),
    )
    assert written["memory"] > 10_000_000
    assert "reading 1.5 MB of 3.0 MB, " in str(find_status(out))
    (out / ".unfinished" / run_progress.STATUS_FILE).write_text("{")
    with pytest.raises(Exception, match="holds no run"):
        str(find_status(out))


def test_status_of_a_stage_without_a_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_progress, "EVERY_SECONDS", 0.0)
    out = tmp_path / "out"
    (out / ".unfinished").mkdir(parents=True)
    progress = RecordedProgress(SILENT, out / ".unfinished")
    progress.stage("deciding", None, "rounds")
    progress.advance(2)
    shown = str(find_status(out))
    assert shown.startswith("stopped: deciding 2 rounds, ")
    assert "rounds of" not in shown and "left" not in shown


def test_status_refuses_a_run_json_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"version": 1, "fingerprint": 2, "counts": 3}')
    ran = neardup("status", tmp_path)
    assert ran.code == 2 and "holds no run" in ran.err
