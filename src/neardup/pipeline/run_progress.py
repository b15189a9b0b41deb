"""The progress of a running job: its status file, and where Ctrl-C takes effect.

The status file is for `neardup status` in another terminal. Ctrl-C and SIGTERM are delayed until a
step of the job is complete: Numba does not expect a Python exception while it hands over a kernel's
result, and a signal that arrives then ends in a SystemError, or in a crash.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from neardup.errors import UsageError
from neardup.formatting import format_amount, format_bytes
from neardup.pipeline.budget import resident_memory
from neardup.pipeline.output import RUN_FILE, WORK_FOLDER, is_locked, is_run
from neardup.runtime import Progress

STATUS_FILE = "status.json"
EVERY_SECONDS = 1.0

SIGNALS = (signal.SIGINT, signal.SIGTERM)
SIGNAL_OF: dict[type[BaseException], signal.Signals] = {
    KeyboardInterrupt: signal.SIGINT,
    SystemExit: signal.SIGTERM,
}
REPEAT_SECONDS = 0.1


@dataclass
class RunStatus:
    """A stage, and how much of it is done. Times are those of the clock on the wall."""

    stage: str
    unit: str
    total: int
    done: int
    began: float
    stage_began: float
    written: float
    memory: int
    pid: int

    def line(self) -> str:
        """As a person reads it."""
        spent = max(self.written - self.stage_began, 1e-3)
        rate = self.done / spent
        left = f", {max(self.total - self.done, 0) / rate:.0f} s left" if self.done else ""
        return (
            f"{self.stage} {format_amount(self.done, self.unit)} of "
            f"{format_amount(self.total, self.unit)}, "
            f"{format_amount(rate, self.unit)}/s{left}, {format_bytes(self.memory)} of memory, "
            f"{self.written - self.began:.0f} s since the start"
        )


class RecordedProgress:
    """Progress that is also written to a file, about once a second."""

    def __init__(self, progress: Progress, folder: Path) -> None:
        self._progress, self._path = progress, folder / STATUS_FILE
        now = time.time()
        self._status = RunStatus("starting", "", 0, 0, now, now, now, 0, os.getpid())

    def stage(self, name: str, total: int, unit: str) -> None:
        now, status = time.time(), self._status
        status.stage, status.total, status.unit, status.done = name, total, unit, 0
        status.stage_began = now
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
        self._status.written, self._status.memory = now, resident_memory()
        beside = self._path.with_suffix(".tmp")
        try:
            handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(self._status), file)
            beside.replace(self._path)
        except OSError:
            pass  # a full disk is noticed, and said, by those who need the room


def describe_status(out: Path) -> str:
    """What there is to say about a run in OUT: going on, stopped, or finished."""
    status = _read_status(out / WORK_FOLDER / STATUS_FILE)
    if status is not None:
        if is_locked(out):
            return f"running, process {status.pid}: {status.line()}"
        return f"stopped: {status.line()}; run the same command to resume"
    if is_run(out):
        counts = json.loads((out / RUN_FILE).read_bytes())["counts"]
        return (
            f"finished: {counts['documents']:,} documents, {counts['kept']:,} kept, "
            f"{counts['removed']:,} removed, {counts['rejected']:,} rejected"
        )
    raise UsageError(f"{out} holds no run: give the output folder (-o) of a run")


def _read_status(path: Path) -> RunStatus | None:
    try:
        return RunStatus(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return None


@contextmanager
def hold_signals() -> Iterator[Callable[[], None]]:
    """Hold signals back; where the function that this gives is called, they take effect.

    Who asks a second time is obeyed at once.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None  # signals don't arrive here
        return
    # Only those that would raise: what ends the process at once, or is ignored, may do so.
    handlers = {n: now for n in SIGNALS if callable(now := signal.getsignal(n))}
    came: list[int] = []

    def obey() -> None:
        if came:
            handlers[signal.Signals(came[0])](came[0], None)

    def note(number: int, _: FrameType | None) -> None:
        came.append(number)
        if len(came) > 1:
            obey()

    for number in handlers:
        signal.signal(number, note)
    try:
        yield obey
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    obey()


@contextmanager
def interrupt_at_once() -> Iterator[Callable[[], None]]:
    """Hold nothing back: for work in which no compiled function of ours runs here.

    Python drops what a signal raises while an object is cleared away: that signal comes again.
    """
    before, main = sys.unraisablehook, threading.main_thread().ident

    def dropped(what: sys.UnraisableHookArgs) -> None:
        number = SIGNAL_OF.get(what.exc_type)
        if number is None or main is None:
            before(what)
        else:
            threading.Timer(REPEAT_SECONDS, signal.pthread_kill, (main, number)).start()

    sys.unraisablehook = dropped
    try:
        yield lambda: None
    finally:
        sys.unraisablehook = before


class InterruptibleProgress:
    """Progress whose every step is a place to interrupt."""

    def __init__(self, progress: Progress, obey: Callable[[], None]) -> None:
        self._progress, self._obey = progress, obey

    def stage(self, name: str, total: int, unit: str) -> None:
        self._obey()
        self._progress.stage(name, total, unit)

    def advance(self, amount: int) -> None:
        self._obey()
        self._progress.advance(amount)

    def say(self, message: str) -> None:
        self._progress.say(message)
