"""A shadow: another operating point beside the current one. It judges the same documents and
answers the same queries, until it is promoted or dropped.

    index.shadow.start(threshold=0.7)
    index.shadow.report()
    index.shadow.promote(wait=True)

It follows the store in a thread of its own, so that no caller waits for it, or fails because of it.
To promote it, the writer thread lets it take in the rest, stores the decisions that differ in one
transaction, and goes on with its tables.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Final, Protocol

from neardup.errors import Busy, NeardupError, ParameterError, UsageError
from neardup.index.arrivals import Arrivals
from neardup.index.planner import CallRequest
from neardup.index.settings import SPEC_NAMES, IndexSettings, changed, stated
from neardup.index.shadow_report import (
    Golden,
    QueryAgreement,
    ShadowReport,
    agreement,
    scores,
    side,
)
from neardup.index.shadow_trial import Trial
from neardup.index.snapshot import SpillFolders
from neardup.index.store import Store
from neardup.index.view import TablesBehind, View
from neardup.index.writer import IndexWriter
from neardup.lsh.curve import TooFewSlots
from neardup.options import Options

LOOK_AGAIN: Final = 0.02
"""Seconds between two looks at the store, when there was nothing new."""
PAUSE: Final = 0.001
"""Seconds between two steps, so that others get the lock."""
SHARE: Final = 0.1
"""So much of the time is spent on queries at most."""


class ShadowThread:
    """A trial with its thread, which works half of the time if there are documents to add."""

    def __init__(self, trial: Trial, golden: Golden, writer: IndexWriter) -> None:
        self.trial, self.golden, self.agreement, self._writer = (
            trial,
            golden,
            QueryAgreement(),
            writer,
        )
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
        """Take in everything; holding the trial's lock, while nothing is written."""
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

    def observe_query(
        self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int
    ) -> None:
        """Answer texts that the index has answered as of the change `sequence`, and compare."""
        trial, spent = self.trial, self.agreement.shadow_seconds
        view, begun = trial.view, time.perf_counter()
        if spent > SHARE * (time.monotonic() - self._begun) or view.tables.sequence != sequence:
            return
        if not trial.options.spec.narrow:
            arrivals = arrivals.with_keys(view.codec.lsh.keys(arrivals.compared))
        try:
            found = view.find_copies(arrivals, trial.counters)
        except TablesBehind:
            return
        took = time.perf_counter() - begun
        if view.tables.sequence != sequence:
            return
        with self._counting:
            self.agreement.count(set(copies), set(found), len(arrivals))
            self.agreement.current_seconds += seconds
            self.agreement.shadow_seconds += took


BANDS: Final = ("bands", "rows", "tables")


class ShadowedGeneration(Protocol):
    """The generation that has the current operating point."""

    settings: IndexSettings

    def snapshot(self) -> int: ...


class Shadow:
    """At most one other operating point. Any thread."""

    def __init__(
        self, generation: ShadowedGeneration, store: Store, writer: IndexWriter, cold: SpillFolders
    ) -> None:
        self._generation, self._store, self._writer, self._cold = generation, store, writer, cold
        cold.forget_others(
            generation.settings.options
        )  # of one that was there when a process ended
        self._changing = threading.Lock()
        self._following: ShadowThread | None = None

    def start(self, *, golden: Golden = (), **point: Any) -> None:
        """Judge all documents at another operating point too, beside what goes on.

        `point` is what differs: threshold, recall, bands, rows, tables, limit, verify, measure,
        hamming, blocks. Bands are chosen again if a threshold, a recall or a measure is given, and
        no bands. `golden` are pairs of ids with whether they are duplicates.
        """
        with self._changing:
            if self._following is not None:
                raise UsageError("there is a shadow already: promote it or drop it first")
            settings, pairs = self._generation.settings, _pairs(golden)
            options = _beside(settings.options, point)
            trial = Trial(self._store, self._cold, options, settings.frequencies.weights)
            self._following = ShadowThread(trial, pairs, self._writer)

    def wait(self, seconds: float = inf) -> bool:
        """Until it is in step with the index; whether it is."""
        following = self._require()
        following.wait(seconds)
        return following.state == "in step"

    def report(self) -> ShadowReport:
        """How it compares with the current one."""
        with self._changing:  # it is not closed meanwhile
            return self._report(self._require(), self._writer.view)

    def _report(self, following: ShadowThread, current: View) -> ShadowReport:
        trial = following.trial
        with trial.lock, self._store.snapshot():
            behind = self._store.last_change() - trial.view.tables.sequence
            mine, its = scores(current, trial, following.golden)
            return ShadowReport(
                following.state,
                following.failure,
                trial.judged,
                self._writer.documents,
                behind,
                side(current, self._writer.counters, trial.current, current.tables.nbytes, mine),
                side(trial.view, trial.counters, trial.own, trial.nbytes, its),
                agreement(current, trial),
                replace(following.agreement),
            )

    def promote(self, *, wait: bool = False) -> int:
        """Make it the current one, at once or not at all; of how many documents the answer changed.

        With `wait` it is waited for if it is not in step yet.
        """
        following = self._require()
        if wait:
            following.wait()
        work = CallRequest(lambda: self._cut_over(following))
        self._writer.put(work)
        moved: int = work.done.result()
        with suppress(NeardupError):  # without one, tables are built again at the next start
            self._generation.snapshot()
        return moved

    def drop(self) -> None:
        """Forget it."""
        self._require()
        self.close()

    def close(self) -> None:
        """Forget it, if there is one."""
        with self._changing:
            if self._following is not None:
                self._following.join()
                self._following = None
                self._cold.forget_others(self._generation.settings.options)

    def observe_query(
        self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int
    ) -> None:
        """Ask it what was asked of the index, which found these copies. Never fails."""
        following = self._following
        if following is None or following.state != "in step" or not len(arrivals):
            return
        try:
            following.observe_query(arrivals, copies, seconds, sequence)
        except Exception as error:
            following.fail(error)

    @property
    def nbytes(self) -> int:
        following = self._following
        return 0 if following is None else following.trial.nbytes

    def _require(self) -> ShadowThread:
        if (following := self._following) is None:
            raise UsageError("there is no shadow: start one first")
        return following

    def _cut_over(self, following: ShadowThread) -> int:
        """For the thread that writes."""
        with self._changing:
            if self._following is not following:
                raise UsageError("the shadow was promoted or dropped meanwhile: start another")
            if following.failure is not None:
                raise UsageError(
                    f"the shadow has failed ({following.failure}): drop it and start another"
                )
            trial = following.trial
            if following.state == "building":
                raise Busy(
                    f"the shadow has judged {trial.judged:,} of {self._writer.documents:,} "
                    "documents: wait for it (wait=True), or try again later"
                )
            with trial.lock:
                following.catch_up()
                settings = replace(self._generation.settings, options=trial.options)
                moved = trial.differing()
                with self._store.transaction():
                    # First: who follows must not enter what moved into tables that are others now.
                    self._store.note_retuned()
                    self._store.move(moved)
                    self._store.set_meta("point", settings.stored["point"])
                trial.view.tables.sequence = self._store.last_change()
                # The decisions are stored now: the overlay would hide documents that come later.
                self._writer.change_view(replace(trial.view, store=self._store))
                self._generation.settings = settings
                following.stop()
            self._following = None
            self._cold.forget_others(trial.options)
            return len(moved)


def _beside(options: Options, given: dict[str, Any]) -> Options:
    """The other operating point."""
    given = {name: value for name, value in given.items() if value is not None}
    for name in SPEC_NAMES:
        if name in given:
            raise ParameterError(
                f"{name} belongs to the specification, which documents are stored by: index them "
                "anew (neardup index reindex)"
            )
    if options.spec.narrow and not given.keys() & set(BANDS):
        given["tables"] = stated(options)["tables"]
    try:
        wanted = changed(options, given)
    except TooFewSlots as error:
        cure = f"neardup index reindex --slots {error.curve.slots}"
        raise TooFewSlots(error.curve, error.slots, cure) from None
    if stated(wanted) == stated(options):
        raise ParameterError("this is the operating point of the index already: say what differs")
    if options.spec.narrow and wanted.hash_tables != options.hash_tables:
        raise ParameterError(
            f"slots of {options.spec.bits} bits have lost what bands are made of: leave out bands, "
            "rows and tables, or index the documents anew (neardup index reindex)"
        )
    return wanted


def _pairs(golden: Golden) -> Golden:
    try:
        return tuple((str(a), str(b), bool(same)) for a, b, same in golden)
    except (TypeError, ValueError):
        raise ParameterError(
            "golden pairs are two ids and whether these are duplicates: (id, id, True)"
        ) from None
