"""Background threads of the service: the upkeep of the index, and the check of a golden set.

Upkeep switches to the generation that `neardup index reindex` has made, writes snapshots, so that
the service starts in seconds even after it was killed, and forgets documents that are too old. Of
services that share an index on Redis, one at a time forgets documents; there is nothing else to do.

The golden set is a list of labelled pairs. It is checked periodically, and each pair in two ways
where that is possible:

    texts   sketch and compare both texts: does the current operating point find the pair?
    index   are both documents in one cluster of the index? A document that the index does not hold
            is queried by its text; at least one of the two must be in the index.

A check adds nothing to the index.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neardup.corpus.documents import Columns
from neardup.errors import InputError, UsageError, state_reason
from neardup.evaluation.golden import LabelledPairs, no_pairs_error, read_golden
from neardup.evaluation.operating_point import GoldenDocuments, GoldenFinder, OperatingPoint, reader
from neardup.evaluation.scores import Scores
from neardup.evaluation.systems import same_cluster
from neardup.formatting import format_time
from neardup.index.expiry import ExpiryPass, Retention
from neardup.index.redis_store.address import is_redis
from neardup.keys import Key
from neardup.runtime import SILENT

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.metrics import Metrics

UPKEEP_SECONDS: Final = 1.0
"""Seconds between two looks for a generation to switch to."""
SNAPSHOT_SECONDS: Final = 300.0
REPEAT_SECONDS: Final = 60.0
"""Seconds after which the same failure of upkeep is logged again; it is counted each time."""
FORGET_PASSES: Final = 100
"""Passes that forget documents within the time that a document stays."""
MOST_FORGET_SECONDS: Final = 3600.0
"""The most seconds between two of them."""
FORGET_TURN: Final = 0.1
"""Seconds of work after which a pass pauses as long, so that requests go on."""
CLOCK_TOLERANCE: Final = 60.0
"""Seconds by which the clock may be ahead of the time that has passed since the start."""
CHECK_SECONDS: Final = 600.0
"""Seconds between two checks of the golden set."""
MAX_CPU_SHARE: Final = 0.05
"""The share of one core that checks of the golden set may use, on average."""
MOST_PAIRS: Final = 1_000_000
MOST_DOCUMENTS: Final = 50_000
TEXTS, INDEX = "texts", "index"


class BackgroundThread(ABC):
    """A thread that runs until it is stopped. A subclass pauses by waiting for `_stopped`.

    Args:
        name: the name of the thread.
    """

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait until its current work is finished."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def _run(self) -> None:
        """Work and pause until `_stopped` is set."""


class Forgetting:
    """Forgets documents that are too old, in passes that are done step by step.

    Time is that of the clock when the object is made, counted on by a clock that can't be set: if
    the clock is set forward, no document is forgotten before its time. If it is set back, documents
    are forgotten later.

    If another process does the upkeep of the index, no pass is begun, and one under way ends.

    Args:
        index: the index that has the documents.
        retention: how long they stay.
        metrics: gets the number of documents without a date.
        event: writes an event to the log.
        clock: returns the time in seconds since 1970; by default that of the index.
        monotonic: returns seconds of a clock that is never set.
    """

    def __init__(
        self,
        index: Index,
        retention: Retention,
        metrics: Metrics,
        event: Callable[..., None],
        clock: Callable[[], float] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._index, self._retention, self._metrics, self._event = index, retention, metrics, event
        self._clock, self._monotonic = clock or index.now, monotonic
        self._offset = self._clock() - monotonic()
        self._ahead = False
        self._due = monotonic()
        self._pause = max(
            min(retention.older_than / FORGET_PASSES, MOST_FORGET_SECONDS), UPKEEP_SECONDS
        )
        self._pass: ExpiryPass | None = None
        self._steps: Iterator[None] = iter(())

    def work(self, seconds: float) -> bool:
        """Work on a pass if one is due; return whether there is more to do at once.

        Args:
            seconds: the time after which no further step is begun.
        """
        begun = self._monotonic()
        if not self._index.hold_upkeep():
            self.end(complete=False)
            return False
        if self._pass is None:
            if begun < self._due:
                return False
            self._begin()
        try:
            for _ in self._steps:
                if self._monotonic() - begun >= seconds:
                    return True
        except BaseException:
            self.end(complete=False)
            raise
        self.end(complete=True)
        return False

    def end(self, *, complete: bool) -> None:
        """Log what the pass under way has forgotten; the next one is due after a pause.

        Args:
            complete: whether the pass has come to its end.
        """
        if (done := self._pass) is None:
            return
        self._pass, self._steps = None, iter(())
        self._due = self._monotonic() + self._pause
        result = done.result
        if complete:
            self._metrics.observe_undated(result.undated)
        if result.documents:
            self._event(
                "forgot",
                documents=result.documents,
                before=format_time(result.before),
                by=result.by,
                undated=result.undated,
                complete=complete,
            )

    def _begin(self) -> None:
        retention = self._retention
        self._pass = self._index.forget_in_steps(
            retention.older_than, by=retention.by, now=self._now()
        )
        self._steps = chain(self._pass.find(), self._pass.remove())

    def _now(self) -> float:
        now, passed = self._clock(), self._monotonic() + self._offset
        ahead = now > passed + CLOCK_TOLERANCE
        if ahead and not self._ahead:
            self._event(
                "clock_set_forward",
                seconds=round(now - passed),
                message="documents are forgotten by the time that has passed since the start: if "
                "the clock is right now, restart the service",
            )
        self._ahead = ahead
        return min(now, passed)


class Upkeep(BackgroundThread):
    """Switches an index to its next generation, writes snapshots, and forgets old documents.

    On Redis there are no generations and no snapshots.

    What fails is logged and counted, is tried again, and keeps nothing else from being done.

    Args:
        index: the index to look after.
        metrics: counts the failures.
        event: writes an event to the log.
        next_key: the secret key of the generation that may replace the current one.
        snapshot_seconds: seconds between two snapshots.
        retention: how long documents stay; None for ever.
    """

    def __init__(
        self,
        index: Index,
        metrics: Metrics,
        event: Callable[..., None],
        next_key: Key | None = None,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
        retention: Retention | None = None,
    ) -> None:
        self._index, self._metrics, self._event = index, metrics, event
        self._next_key, self._snapshot_seconds = next_key, snapshot_seconds
        self._last_snapshot = time.monotonic()
        self._in_folder = not is_redis(index.path)
        self._forgetting = (
            None if retention is None else Forgetting(index, retention, metrics, event)
        )
        self._logged: dict[tuple[str, str], float] = {}
        """When each failure was logged, by what failed and the reason."""
        super().__init__("upkeep")

    def _run(self) -> None:
        pause = UPKEEP_SECONDS
        self._metrics.observe_upkeep()
        while not self._stopped.wait(pause):
            if self._in_folder:
                self._attempt(self._switch)
                self._attempt(self._write_snapshot)
            busy = self._forgetting is not None and self._attempt(self._forget)
            pause = FORGET_TURN if busy else UPKEEP_SECONDS
            self._metrics.observe_upkeep()
        if self._forgetting is not None:
            self._forgetting.end(complete=False)

    def _attempt(self, work: Callable[[], bool]) -> bool:
        """Do a part of the work; return whether there is more of it."""
        try:
            return work()
        except Exception as error:  # A full disk, no file handle, a missing key: it may pass.
            self._metrics.observe_upkeep_failure()
            self._log_failure(error)
            return False

    def _log_failure(self, error: Exception) -> None:
        name, reason, now = type(error).__name__, state_reason(error), time.monotonic()
        self._logged = {
            failure: at for failure, at in self._logged.items() if now - at < REPEAT_SECONDS
        }
        if (name, reason) not in self._logged:
            self._logged[name, reason] = now
            self._event("upkeep_failed", error=name, message=reason)

    def _switch(self) -> bool:
        if self._index.take_over(key=self._next_key):
            self._event("generation_switched", fingerprint=self._index.spec.fingerprint)
        return False

    def _write_snapshot(self) -> bool:
        if time.monotonic() - self._last_snapshot >= self._snapshot_seconds:
            self._last_snapshot = time.monotonic()
            if self._index.snapshot_if_due():
                self._event("snapshot", sequence=self._index.sequence)
        return False

    def _forget(self) -> bool:
        assert self._forgetting is not None  # noqa: S101  # `_run` asks before
        return self._forgetting.work(FORGET_TURN)


@dataclass(frozen=True)
class GoldenSet:
    """Labelled pairs, and the documents with their texts; None if no texts were given."""

    pairs: LabelledPairs
    documents: GoldenDocuments | None

    @classmethod
    def read(cls, file: Path, texts: Path | None = None) -> GoldenSet:
        """Read a golden set, in the format of `neardup evaluate`.

        Args:
            file: the labelled pairs, or ids with their clusters; a column `text` may hold the
                texts.
            texts: a corpus with the texts. Without any texts, only documents that the index holds
                are judged.
        """
        pairs = read_golden(file)
        if not len(pairs):
            raise no_pairs_error(pairs)
        if len(pairs) > MOST_PAIRS or len(pairs.ids) > MOST_DOCUMENTS:
            raise InputError(
                f"{file} has {len(pairs):,} pairs of {len(pairs.ids):,} documents, too many to "
                f"check repeatedly: use at most {MOST_PAIRS:,} pairs of {MOST_DOCUMENTS:,} "
                "documents"
            )
        return cls(pairs, _read_documents(pairs, file, texts))


def _read_documents(pairs: LabelledPairs, file: Path, texts: Path | None) -> GoldenDocuments | None:
    """Read the texts of the golden documents; None if the file of pairs has no texts."""
    finder = GoldenFinder(pairs.ids)
    try:
        for _ in finder.watch(reader(str(texts or file), Columns(), {}, 1, SILENT)()):
            pass
    except UsageError:  # the labels have been read: it is a matter of columns, or of the header
        if texts is not None:
            raise
        return None
    return finder.result()


def score_golden_set(golden: GoldenSet, index: Index) -> dict[str, Scores]:
    """Return the scores by `texts` and by `index`, without those that can't be computed."""
    scores = {TEXTS: score_by_texts(golden, index), INDEX: score_by_index(golden, index)}
    return {by: score for by, score in scores.items() if score is not None}


def score_by_texts(golden: GoldenSet, index: Index) -> Scores | None:
    """Score the current operating point on the texts of the labelled pairs."""
    documents = golden.documents
    if documents is None:
        return None
    point = OperatingPoint.of(index.options, documents, index.sketcher, workers=1)
    used = golden.pairs.without("unknown ids", np.flatnonzero(documents.row < 0))
    used = used.without("empty documents", point.empty)
    if not len(used):
        return None
    return Scores.of(point.duplicates(used.a, used.b), used.label, weights=used.weights)


def score_by_index(golden: GoldenSet, index: Index) -> Scores | None:
    """Score the clusters of the index: a pair in one cluster counts as judged duplicate."""
    pairs, documents = golden.pairs, golden.documents
    cluster = np.full(len(pairs.ids), -1, np.int64)
    stored = np.zeros(len(pairs.ids), bool)
    for place, id in enumerate(pairs.ids):
        document = index.get(id)
        if document is not None:
            cluster[place], stored[place] = document.cluster, True
        elif documents is not None and documents.row[place] >= 0:
            answer = index.query(documents.text(place))
            cluster[place] = -1 if answer.cluster is None else answer.cluster
    judged = stored if documents is None else stored | (documents.row >= 0)
    a, b = pairs.a, pairs.b
    usable = (stored[a] | stored[b]) & judged[a] & judged[b]
    if not usable.any():
        return None
    weights = pairs.weights and pairs.weights.take(usable)
    found = same_cluster(cluster, a[usable], b[usable])
    return Scores.of(found, pairs.label[usable], weights=weights)


class GoldenWatch(BackgroundThread):
    """Checks a golden set in one background thread, until it is stopped.

    A check that took long is followed by a longer pause, so that the checks use at most
    `MAX_CPU_SHARE` of a core.

    Args:
        golden: the labelled pairs.
        index: returns the index to check.
        metrics: gets the scores, and the interval between checks.
        event: writes an event to the log.
        every: seconds between two checks.
    """

    def __init__(
        self,
        golden: GoldenSet,
        index: Callable[[], Index],
        metrics: Metrics,
        event: Callable[..., None],
        every: float = CHECK_SECONDS,
    ) -> None:
        self._golden, self._index, self._metrics, self._event = golden, index, metrics, event
        self._every = every
        self._last_recall: dict[str, float] = {}
        super().__init__("golden")
        metrics.expect_golden(every)

    def check(self) -> None:
        """Check the golden set once; update the metrics and log the scores."""
        scores = score_golden_set(self._golden, self._index())
        self._metrics.observe_golden(scores)
        for by, score in scores.items():
            self._log_score(by, score)

    def _log_score(self, by: str, score: Scores) -> None:
        recall = score.recall.value
        details: dict[str, Any] = {"by": by, "recall": recall, "precision": score.precision.value}
        before = self._last_recall.get(by)
        if recall is not None:
            self._last_recall[by] = recall
        if before is not None and recall is not None and recall < before:
            self._event("golden_drop", before=before, **details)
        else:
            self._event("golden", **details)

    def _run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            started = time.thread_time()
            try:
                self.check()
            except Exception as error:  # The next check may succeed; until then the age grows.
                reason = state_reason(error)
                self._event("golden_failed", error=type(error).__name__, message=reason)
            spent = time.thread_time() - started
            pause = max(self._every, spent / MAX_CPU_SHARE)
            self._metrics.expect_golden(pause)
