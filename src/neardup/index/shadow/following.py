"""The thread in which another operating point follows the store, and is asked what others ask.

Nobody who adds documents or asks waits for it, or fails because of it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from math import inf
from typing import Final

from neardup.errors import NeardupError
from neardup.index.asking import copies_of
from neardup.index.deciding import Arrivals
from neardup.index.known import Behind
from neardup.index.shadow.report import Asked, Golden
from neardup.index.shadow.trial import Trial
from neardup.index.writing import Writer

LOOK_AGAIN: Final = 0.02
"""Seconds between two looks at the store, when there was nothing new."""
PAUSE: Final = 0.001
"""Seconds between two steps, so that others get the lock."""
SHARE: Final = 0.1
"""So much of the time is spent on queries at most."""


class Following:
    """A trial with its thread, which works half of the time if there are documents to add."""

    def __init__(self, trial: Trial, golden: Golden, writer: Writer) -> None:
        self.trial, self.golden, self.asked, self._writer = trial, golden, Asked(), writer
        self.failure: str | None = None
        self._stopped, self._counting = threading.Event(), threading.Lock()
        self._begun = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="neardup-shadow", daemon=True)
        self._thread.start()

    @property
    def state(self) -> str:
        if self.failure is not None:
            return "failed"
        return "in step" if self.trial.complete else "building"

    def wait(self, seconds: float = inf) -> None:
        """Until it is in step, or there is no more to wait for."""
        until = time.monotonic() + seconds
        while self.state == "building" and time.monotonic() < until:
            if self._stopped.wait(LOOK_AGAIN):
                return

    def stop(self) -> None:
        """Go no further; for who holds the trial's lock, or joins."""
        self._stopped.set()

    def join(self) -> None:
        self.stop()
        self._thread.join()

    def catch_up(self) -> None:
        """Take in everything; for who holds the trial's lock while nobody writes."""
        try:
            while self.trial.step():
                pass
        except Exception as error:
            self.fail(error)
            raise

    def fail(self, error: Exception) -> None:
        """Whatever it is, it is not the trouble of those who add and ask."""
        ours = isinstance(error, NeardupError)  # others may quote what they were given
        self.failure = str(error) if ours else type(error).__name__
        self.stop()

    def _run(self) -> None:
        pause = PAUSE
        while not self._stopped.wait(pause):
            with self.trial.lock:
                if self._stopped.is_set():
                    return
                begun = time.perf_counter()
                try:
                    more = self.trial.step()
                except Exception as error:
                    self.fail(error)
                    return
            took = time.perf_counter() - begun
            pause = max(PAUSE if more else LOOK_AGAIN, took if self._writer.waiting else 0.0)

    def ask(self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int) -> None:
        """What would it say of texts that the current one has answered, as of that change?"""
        trial, spent = self.trial, self.asked.shadow_seconds
        point, begun = trial.point, time.perf_counter()
        if spent > SHARE * (time.monotonic() - self._begun) or point.derived.sequence != sequence:
            return
        if not trial.options.spec.narrow:
            arrivals = arrivals.with_keys(point.signing.tables.keys(arrivals.compared))
        try:
            found = copies_of(trial.stored, point, arrivals, trial.counters)
        except Behind:
            return
        took = time.perf_counter() - begun
        if point.derived.sequence != sequence:
            return
        with self._counting:
            self.asked.count(set(copies), set(found), len(arrivals))
            self.asked.current_seconds += seconds
            self.asked.shadow_seconds += took
