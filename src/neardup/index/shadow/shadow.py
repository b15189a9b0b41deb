"""Another operating point beside the current one: it judges the same documents and is asked the
same questions, until it is promoted, or dropped.

    index.shadow.start(threshold=0.7)
    index.shadow.report()
    index.shadow.promote(wait=True)

It follows the store in a thread of its own, so that nobody who adds documents waits for it. To
promote it, the one who writes lets it take in the rest, stores what differs in one transaction, and
goes on with its tables.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from math import inf
from typing import Any, Final, Protocol

from neardup.errors import Busy, NeardupError, ParameterError, UsageError
from neardup.index.deciding import Arrivals
from neardup.index.settings import SPEC_NAMES, Settings, changed, stated
from neardup.index.shadow.following import Following
from neardup.index.shadow.report import Golden, Report, agreement, scores, side
from neardup.index.shadow.trial import Trial
from neardup.index.snapshot import Cold
from neardup.index.store import Store
from neardup.index.work import Calling, Point
from neardup.index.writing import Writer
from neardup.lsh.layout import TooFewSlots
from neardup.options import Options

BANDS: Final = ("bands", "rows", "tables")


class Home(Protocol):
    """The index that has the current operating point."""

    settings: Settings

    def snapshot(self) -> int: ...


class Shadow:
    """At most one other operating point. Any thread."""

    def __init__(self, index: Home, store: Store, writer: Writer, cold: Cold) -> None:
        self._index, self._store, self._writer, self._cold = index, store, writer, cold
        cold.forget_others(index.settings.options)  # of one that was there when a process ended
        self._changing = threading.Lock()
        self._following: Following | None = None

    def start(self, *, golden: Golden = (), **point: Any) -> None:
        """Judge all documents at another operating point too, beside what goes on.

        `point` is what differs: threshold, recall, bands, rows, tables, limit, verify, measure,
        hamming, blocks. Bands are chosen anew if a threshold, a recall or a measure is given, and
        no bands. `golden` are pairs of ids with whether they are duplicates.
        """
        with self._changing:
            if self._following is not None:
                raise UsageError("there is a shadow already: promote it or drop it first")
            settings, pairs = self._index.settings, _pairs(golden)
            options = _beside(settings.options, point)
            trial = Trial(self._store, self._cold, options, settings.frequencies.weights)
            self._following = Following(trial, pairs, self._writer)

    def wait(self, seconds: float = inf) -> bool:
        """Until it is in step with the index; whether it is."""
        following = self._require()
        following.wait(seconds)
        return following.state == "in step"

    def report(self) -> Report:
        """How it compares with the current one."""
        with self._changing:  # it is not closed meanwhile
            return self._report(self._require(), self._writer.point)

    def _report(self, following: Following, current: Point) -> Report:
        trial = following.trial
        with trial.lock, self._store.snapshot():
            behind = self._store.last_change() - trial.point.derived.sequence
            mine, its = scores(self._store, current, trial, following.golden)
            return Report(
                following.state,
                following.failure,
                trial.judged,
                self._writer.documents,
                behind,
                side(current, self._writer.counters, trial.current, current.derived.nbytes, mine),
                side(trial.point, trial.counters, trial.own, trial.nbytes, its),
                agreement(self._store, trial),
                replace(following.asked),
            )

    def promote(self, *, wait: bool = False) -> int:
        """Make it the current one, at once or not at all; of how many documents the answer changed.

        With `wait` it is waited for if it is not in step yet.
        """
        following = self._require()
        if wait:
            following.wait()
        work = Calling(lambda: self._cut_over(following))
        self._writer.put(work)
        moved: int = work.done.result()
        with suppress(NeardupError):  # without one, tables are made anew at the next start
            self._index.snapshot()
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
                self._cold.forget_others(self._index.settings.options)

    def ask(self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int) -> None:
        """Texts that were answered; those are copies. Never fails."""
        following = self._following
        if following is None or following.state != "in step" or not len(arrivals):
            return
        try:
            following.ask(arrivals, copies, seconds, sequence)
        except Exception as error:
            following.fail(error)

    @property
    def nbytes(self) -> int:
        following = self._following
        return 0 if following is None else following.trial.nbytes

    def _require(self) -> Following:
        if (following := self._following) is None:
            raise UsageError("there is no shadow: start one first")
        return following

    def _cut_over(self, following: Following) -> int:
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
                settings = replace(self._index.settings, options=trial.options)
                moved = trial.differing()
                with self._store.transaction():
                    # First: who follows must not enter what moved into tables that are others now.
                    self._store.note_retuned()
                    self._store.move(moved)
                    self._store.set_meta("point", settings.stored["point"])
                trial.point.derived.sequence = self._store.last_change()
                self._writer.change_point(trial.point)
                self._index.settings = settings
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
    if options.spec.narrow and wanted.tables != options.tables:
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
