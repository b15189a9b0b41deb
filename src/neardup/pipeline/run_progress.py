"""The progress of a running job: its status file, and where Ctrl-C takes effect.

The status file is for `neardup status` in another terminal. Ctrl-C and SIGTERM are delayed until a
step of the job is complete: Numba does not expect a Python exception while it hands over a kernel's
result, and a signal that arrives then ends in a SystemError, or in a crash.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from neardup import runtime
from neardup.errors import UsageError
from neardup.formatting import format_amount, format_bytes, format_count
from neardup.pipeline.budget import resident_memory
from neardup.pipeline.output import RUN_FILE, WORK_FOLDER, is_locked, is_run, work_folder
from neardup.runtime import Progress

STATUS_FILE = "status.json"
EVERY_SECONDS = 1.0

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class RunStatus:
    """The current stage, and how much of it is done. Times are seconds since the epoch.

    `total` is None if it is not known in advance.
    """

    stage: str
    unit: str
    total: int | None
    done: int
    began: float
    stage_began: float
    written: float
    memory: int
    pid: int

    def line(self) -> str:
        """Return the status as a line of text."""
        seconds = max(self.written - self.stage_began, 1e-3)
        rate = self.done / seconds
        of_total = remaining = ""
        if self.total is not None:
            of_total = f" of {format_amount(self.total, self.unit)}"
            if self.done:
                remaining = f", {max(self.total - self.done, 0) / rate:.0f} s left"
        return (
            f"{self.stage} {format_amount(self.done, self.unit)}{of_total}, "
            f"{format_amount(rate, self.unit)}/s{remaining}, "
            f"{format_bytes(self.memory)} of memory, "
            f"{self.written - self.began:.0f} s since the start"
        )


class RecordedProgress:
    """Progress that is also written to the status file, about once a second."""

    def __init__(self, progress: Progress, folder: Path) -> None:
        self._progress, self._path = progress, folder / STATUS_FILE
        now = time.time()
        self._began, self._compiled_before = now, runtime.compiling_seconds
        self._status = RunStatus("reading", "bytes", None, 0, now, now, now, 0, os.getpid())
        self._write(now)

    def stage(self, name: str, total: int | None, unit: str) -> None:
        now, status = time.time(), self._status
        status.stage, status.total, status.unit, status.done = name, total, unit, 0
        self._began, self._compiled_before = now, runtime.compiling_seconds
        self._write(now)
        self._progress.stage(name, total, unit)

    def advance(self, done: int) -> None:
        self._status.done += done
        now = time.time()
        if now - self._status.written >= EVERY_SECONDS:
            self._write(now)
        self._progress.advance(done)

    def say(self, message: str) -> None:
        self._progress.say(message)

    def _write(self, now: float) -> None:
        # Kernels that are compiled meanwhile say nothing about the time that is left.
        compiling = runtime.compiling_seconds - self._compiled_before
        self._status.stage_began = min(self._began + compiling, now)
        self._status.written, self._status.memory = now, resident_memory()
        beside = self._path.with_suffix(".tmp")
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(self._status), file)
            beside.replace(self._path)
        except OSError:
            pass  # a full disk is reported by the stage that writes data


@dataclass(frozen=True)
class FoundRun:
    """The run in OUT: `state` is running, stopped or finished."""

    state: str
    status: RunStatus | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.status is None:
            counts = self.counts
            return (
                f"finished: {format_count(counts['documents'], 'document')}, "
                f"{counts['kept']:,} kept, {counts['removed']:,} removed, "
                f"{counts['rejected']:,} rejected"
            )
        if self.state == "running":
            return f"running, process {self.status.pid}: {self.status.line()}"
        return f"stopped: {self.status.line()}; run the same command to resume"

    def as_dict(self) -> dict[str, Any]:
        """Return the state with the status of a run under way, or the counts of a finished one."""
        if self.status is None:
            return {"state": self.state, "counts": self.counts}
        return {"state": self.state, **asdict(self.status)}


def find_status(out: Path) -> FoundRun:
    """Return whether the run in OUT is running, stopped or finished, and how far it is."""
    work, locked = out / WORK_FOLDER, out
    if not out.is_dir():
        work = locked = work_folder(out)
    status = _read_status(work / STATUS_FILE)
    if status is not None:
        return FoundRun("running" if is_locked(locked) else "stopped", status)
    if is_run(out):
        return FoundRun("finished", counts=json.loads((out / RUN_FILE).read_bytes())["counts"])
    raise UsageError(f"{out} holds no run: give the output folder (-o) of a run")


def no_run_error(out: Path) -> UsageError:
    """Return the error about a folder without a finished run: there is one under way, or none."""
    with suppress(UsageError, OSError):
        found = find_status(out)
        if found.state == "running":
            return UsageError(
                f"the run in {out} is not finished yet: wait for it; neardup status shows how far "
                "it is"
            )
        if found.state == "stopped":
            return UsageError(
                f"the run in {out} was stopped and is not finished: run the same command again, "
                "which goes on from there"
            )
    return UsageError(f"{out} holds no finished run: give the folder that neardup dedup -o wrote")


def _read_status(path: Path) -> RunStatus | None:
    try:
        return RunStatus(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


@contextmanager
def hold_signals(
    stop: Callable[[], None] = lambda: None,
) -> Iterator[Callable[[], None]]:
    """Delay signals: one that has arrived takes effect where the yielded function is called.

    A second signal takes effect at once.

    Args:
        stop: Called when a signal arrives, to make the block end soon.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # signals arrive in the main thread only
        return
    # Only signals with a Python handler: one that ends the process, or is ignored, may do so.
    handlers = {n: now for n in SIGNALS if callable(now := signal.getsignal(n))}
    pending: list[int] = []

    def obey() -> None:
        if pending:
            handlers[signal.Signals(pending[0])](pending[0], None)

    def note(number: int, _: FrameType | None) -> None:
        pending.append(number)
        stop()
        if len(pending) > 1:
            obey()

    for number in handlers:
        signal.signal(number, note)
    try:
        yield obey
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    obey()


class InterruptibleProgress:
    """Progress that calls `obey` at every step, so that pending signals take effect there."""

    def __init__(self, progress: Progress, obey: Callable[[], None]) -> None:
        self._progress, self._obey = progress, obey

    def stage(self, name: str, total: int | None, unit: str) -> None:
        self._obey()
        self._progress.stage(name, total, unit)

    def advance(self, amount: int) -> None:
        self._obey()
        self._progress.advance(amount)

    def say(self, message: str) -> None:
        self._progress.say(message)
