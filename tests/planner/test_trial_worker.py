"""Trials in a process of their own: one that takes too long or crashes is a row, the next runs."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

import pytest

from neardup.evaluation.lab import as_documents
from neardup.options import Options
from neardup.planner.trial_worker import TrialWorker, write_task
from neardup.planner.tuning import TrialPoint

POINT = TrialPoint.of(Options.of(threshold=0.5, shingle="word:2"))
SLOW = replace(POINT, buckets=1, slots=2_000, bands=1_000, rows=2)
"""All pairs of all documents meet, and share none of the first 999 bands."""


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    folder = tmp_path_factory.mktemp("task")
    texts = [" ".join(f"w{number}x{place}" for place in range(9)) for number in range(3_000)]
    write_task(folder, as_documents([*texts, texts[0] + " more"]), POINT, 1, 0.4, {})
    return folder


def test_timeout_ends_a_trial_and_the_next_one_runs(task):
    with TrialWorker(task, limit=0.3) as worker:
        late = worker.run(replace(SLOW, verify="estimate"))
        assert (late.status, late.error) == ("timeout", "took more than 0.3 s")
        assert late.recall is None
    with TrialWorker(task, limit=60) as worker:
        assert worker.run(POINT).recall == 1.0


def test_crash_is_a_failed_outcome_and_the_next_trial_runs(task):
    with TrialWorker(task, limit=60) as worker:
        assert worker.run(POINT).done
        os.kill(worker._process.pid, signal.SIGKILL)
        lost = worker.run(POINT)
        assert lost.status == "failed"
        assert "SIGKILL" in lost.error
        assert worker.run(POINT).done


def test_invalid_point_fails_without_ending_the_process(task):
    with TrialWorker(task, limit=60) as worker:
        assert worker.run(POINT).done
        process = worker._process
        failed = worker.run(replace(POINT, slots=4, bands=5, rows=1))
        assert failed.status == "failed"
        assert "need 5 slots" in failed.error
        assert worker.run(POINT).done
        assert worker._process is process


def test_worker_process_ends_with_its_owner(task):
    with TrialWorker(task, limit=60) as worker:
        worker.run(POINT)
        process = worker._process
    assert process.poll() is not None


def test_worker_imports_nothing_from_the_current_folder(task, tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    with TrialWorker(task, limit=60) as worker:
        assert worker.run(POINT).done
