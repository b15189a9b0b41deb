"""Background threads of the service: the upkeep of the index, and the check of a golden set.

Upkeep switches to the generation that `neardup index reindex` has made, and writes snapshots, so
that the service starts in seconds even after it was killed.

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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neardup.corpus.documents import Columns
from neardup.errors import InputError, UsageError, state_reason
from neardup.evaluation.golden import LabelledPairs, no_pairs_error, read_golden
from neardup.evaluation.operating_point import GoldenDocuments, GoldenFinder, OperatingPoint, reader
from neardup.evaluation.scores import Scores
from neardup.evaluation.systems import same_cluster
from neardup.keys import Key
from neardup.runtime import SILENT

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.metrics import Metrics

UPKEEP_SECONDS: Final = 1.0
"""Seconds between two looks for a generation to switch to."""
SNAPSHOT_SECONDS: Final = 300.0
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


class Upkeep(BackgroundThread):
    """Switches an index to its next generation and writes snapshots.

    A failure is logged and counted, and the work is tried again.

    Args:
        index: the index to look after.
        metrics: counts the failures.
        event: writes an event to the log.
        next_key: the secret key of the generation that may replace the current one.
        snapshot_seconds: seconds between two snapshots.
    """

    def __init__(
        self,
        index: Index,
        metrics: Metrics,
        event: Callable[..., None],
        next_key: Key | None = None,
        snapshot_seconds: float = SNAPSHOT_SECONDS,
    ) -> None:
        self._index, self._metrics, self._event = index, metrics, event
        self._next_key, self._snapshot_seconds = next_key, snapshot_seconds
        super().__init__("upkeep")

    def _run(self) -> None:
        last_snapshot = time.monotonic()
        while not self._stopped.wait(UPKEEP_SECONDS):
            try:
                if self._index.take_over(key=self._next_key):
                    self._event("generation_switched", fingerprint=self._index.spec.fingerprint)
                if time.monotonic() - last_snapshot >= self._snapshot_seconds:
                    last_snapshot = time.monotonic()
                    if self._index.snapshot_if_due():
                        self._event("snapshot", sequence=self._index.sequence)
            except Exception as error:  # A full disk, no file handle, a missing key: it may pass.
                self._metrics.observe_upkeep_failure()
                reason = state_reason(error)
                self._event("upkeep_failed", error=type(error).__name__, message=reason)


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
    return Scores.of(point.duplicates(used.a, used.b), used.label) if len(used) else None


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
    return Scores.of(same_cluster(cluster, a[usable], b[usable]), pairs.label[usable])


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
