"""Runs trials in a process of their own, which is killed when one takes too long.

The worker process reads the documents once, from files in a private folder. For each trial it
receives a line of JSON and sends two: one when the clock starts, one with the outcome.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

import neardup
from neardup import runtime
from neardup.corpus.documents import Documents
from neardup.errors import state_reason
from neardup.evaluation.lab import unnamed_documents
from neardup.planner.trial_runner import TrialReference, TrialRunner
from neardup.planner.tuning import FAILED, TIMEOUT, TrialOutcome, TrialPoint
from neardup.text.arrays import view_strings

TEXTS, OFFSETS, TASK = "texts.npy", "offsets.npy", "task.json"
BEGUN = {"begun": True}
START = """
import sys
sys.path.insert(0, sys.argv[1])
import neardup
del sys.path[0]
from neardup.planner.trial_worker import serve
serve(sys.argv[2])
"""
"""Imports the same neardup, and nothing from the current folder."""
PATIENCE = 5.0
"""Seconds that a process gets to end after it has closed its pipe: its exit code tells why."""


def write_task(
    folder: Path,
    documents: Documents,
    reference: TrialPoint,
    true_pairs: int,
    floor: float,
    shared: Mapping[str, Any],
) -> None:
    """Write the files that the worker process reads when it starts.

    Args:
        folder: A private folder.
        documents: The documents of the sample.
        reference: The point whose shingle and threshold define a true pair.
        true_pairs: The number of true pairs.
        floor: The similarity down to which the truth has all pairs.
        shared: Options that all points share.
    """
    texts = view_strings(documents.texts)
    np.save(folder / TEXTS, texts.data[texts.offsets[0] : texts.offsets[-1]])
    np.save(folder / OFFSETS, texts.offsets - texts.offsets[0])
    task = {
        "reference": reference.stated,
        "true_pairs": true_pairs,
        "floor": floor,
        "shared": dict(shared),
        "quiet": runtime.quiet,
    }
    (folder / TASK).write_text(json.dumps(task), "utf-8")


class TrialWorker:
    """The caller's side: starts the worker process when needed, and again if it has ended.

    `limit` is the time limit of a trial, in seconds.
    """

    def __init__(self, folder: Path, limit: float) -> None:
        self._folder, self._limit = folder, limit
        self._process: subprocess.Popen[bytes] | None = None
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: object, at: object) -> None:
        self._end()

    def run(self, point: TrialPoint) -> TrialOutcome:
        """Run a trial and return its outcome, also if the process ends or takes too long."""
        try:
            self._send(point)
            answer = self._receive(None)
            if answer == BEGUN:
                answer = self._receive(time.monotonic() + self._limit)
            return TrialOutcome.from_json(answer)
        except TimeoutError:
            self._end()
            return TrialOutcome(point, TIMEOUT, error=f"took more than {self._limit:g} s")
        except (EOFError, BrokenPipeError):
            return TrialOutcome(point, FAILED, error=self._why_it_ended())

    def _send(self, point: TrialPoint) -> None:
        if self._process is None:
            self._process = self._started()
        assert self._process.stdin is not None  # noqa: S101  # it is a pipe
        self._process.stdin.write(json.dumps(point.stated).encode() + b"\n")
        self._process.stdin.flush()

    def _started(self) -> subprocess.Popen[bytes]:
        self._unread = b""
        home, folder = str(Path(neardup.__file__).parents[1]), str(self._folder)
        return subprocess.Popen(  # noqa: S603  # our own code
            [sys.executable, "-P", "-c", START, home, folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C goes to the caller alone, which ends this process
        )

    def _receive(self, until: float | None) -> dict[str, Any]:
        """Return the next answer; TimeoutError if it is late, EOFError if the process has ended."""
        assert self._process is not None and self._process.stdout is not None  # noqa: S101
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            remaining = None if until is None else max(until - time.monotonic(), 0.0)
            if not select.select([pipe], [], [], remaining)[0]:
                raise TimeoutError
            if not (data := os.read(pipe, 1 << 16)):
                raise EOFError
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _why_it_ended(self) -> str:
        """Return the reason why the process has ended, from its exit code."""
        code = self._end(patience=PATIENCE)
        if code >= 0:
            return f"its process ended with exit code {code}"
        why = " (out of memory, most likely)" if -code == signal.SIGKILL else ""
        return f"its process was ended by {signal.Signals(-code).name}{why}"

    def _end(self, patience: float = 0.0) -> int:
        """Wait for the process, kill it after `patience` seconds, and return its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
        with suppress(BrokenPipeError):
            process.communicate()
        return process.returncode


def serve(folder: str) -> None:
    """The worker process: read points and write outcomes until the input ends."""
    # Standard output becomes standard error, so that no library prints into the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(answer: Mapping[str, Any]) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    runner = open_task(Path(folder))
    for line in sys.stdin.buffer:
        point = TrialPoint(**json.loads(line))
        try:
            runner.warm_up(point)
            send(BEGUN)
            outcome = runner.measure(point)
        except MemoryError:
            outcome = TrialOutcome(point, FAILED, error="out of memory")
        except Exception as error:
            # A trial that fails is an outcome, not the end of the sweep.
            outcome = TrialOutcome(point, FAILED, error=state_reason(error))
        send(outcome.to_json())


def open_task(folder: Path) -> TrialRunner:
    """Read the files of `write_task` and return the runner of trials."""
    task = json.loads((folder / TASK).read_bytes())
    runtime.quiet = task["quiet"]
    data, offsets = np.load(folder / TEXTS), np.load(folder / OFFSETS)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)
    documents, point = unnamed_documents(texts), TrialPoint(**task["reference"])
    spec = point.options(**task["shared"]).spec
    reference = TrialReference.of(
        documents, spec, point.threshold, task["true_pairs"], task["floor"]
    )
    return TrialRunner(documents, reference, task["shared"])
