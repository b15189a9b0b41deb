"""Is the index still as good as people expect? A golden set, checked again and again.

A labelled pair is judged in two ways, as far as that is possible:

    texts   does the operating point of now find it? Both texts are sketched and compared.
    index   has the index both in one cluster? A document that it does not hold is asked about by
            its text; at least one of the two has to be there.

Nothing is added to the index.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from neardup.corpus.documents import Columns
from neardup.errors import ColumnError, InputError
from neardup.evaluation.golden import LabelledPairs, no_pairs_error, read_golden
from neardup.evaluation.operating_point import GoldenDocuments, GoldenFinder, OperatingPoint, reader
from neardup.evaluation.scores import Scores
from neardup.evaluation.systems import same_cluster
from neardup.runtime import SILENT
from neardup.service.background import BackgroundThread

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.metrics import Metrics

CHECK_EVERY: Final = 600.0
"""Seconds between checks."""
MOST_SHARE: Final = 0.05
"""Of one core, on average."""
MOST_PAIRS: Final = 1_000_000
MOST_DOCUMENTS: Final = 50_000
TEXTS, INDEX = "texts", "index"


@dataclass(frozen=True)
class GoldenSet:
    """Labelled pairs, and the texts of their documents where they are known."""

    pairs: LabelledPairs
    found: GoldenDocuments | None

    @classmethod
    def read(cls, file: Path, texts: Path | None = None) -> GoldenSet:
        """As `neardup evaluate` reads it. Texts are in a corpus, or in a column `text` of the file.

        Without either, only documents that the index holds can be judged.
        """
        pairs = read_golden(file)
        if not len(pairs):
            raise no_pairs_error(pairs)
        if len(pairs) > MOST_PAIRS or len(pairs.ids) > MOST_DOCUMENTS:
            raise InputError(
                f"{file} has {len(pairs):,} pairs of {len(pairs.ids):,} documents, too many to be "
                f"checked again and again: give {MOST_PAIRS:,} of {MOST_DOCUMENTS:,} at most"
            )
        return cls(pairs, _texts(pairs, file, texts))


def _texts(pairs: LabelledPairs, file: Path, texts: Path | None) -> GoldenDocuments | None:
    finder = GoldenFinder(pairs.ids)
    try:
        for _ in finder.watch(reader(str(texts or file), Columns(), "auto", 1, SILENT)()):
            pass
    except ColumnError:
        if texts is not None:
            raise
        return None
    return finder.result()


def score_golden_set(golden: GoldenSet, index: Index) -> dict[str, Scores]:
    """Scores by what was asked; without those that can't be had."""
    found = {TEXTS: score_by_texts(golden, index), INDEX: score_by_index(golden, index)}
    return {by: scores for by, scores in found.items() if scores is not None}


def score_by_texts(golden: GoldenSet, index: Index) -> Scores | None:
    """Does the operating point of now find the labelled duplicates?"""
    if golden.found is None:
        return None
    point = OperatingPoint.of(index.options, golden.found, index.sketcher, workers=1)
    used = golden.pairs.without("unknown ids", np.flatnonzero(golden.found.row < 0))
    used = used.without("empty documents", point.empty)
    return Scores.of(point.duplicates(used.a, used.b), used.label) if len(used) else None


def score_by_index(golden: GoldenSet, index: Index) -> Scores | None:
    """Has the index them in one cluster?"""
    pairs = golden.pairs
    cluster = np.full(len(pairs.ids), -1, np.int64)
    held = np.zeros(len(pairs.ids), bool)
    for place, id in enumerate(pairs.ids):
        document = index.get(id)
        if document is not None:
            cluster[place], held[place] = document.cluster, True
        elif golden.found is not None and golden.found.row[place] >= 0:
            answer = index.query(golden.found.text(place))
            cluster[place] = -1 if answer.cluster is None else answer.cluster
    known = held if golden.found is None else held | (golden.found.row >= 0)
    a, b = pairs.a, pairs.b
    usable = (held[a] | held[b]) & known[a] & known[b]
    if not usable.any():
        return None
    return Scores.of(same_cluster(cluster, a[usable], b[usable]), pairs.label[usable])


class GoldenWatch(BackgroundThread):
    """Checks in the background, one thread, until it is stopped.

    A check that took long is followed by a longer rest, so that the share of a core stays small.
    `event` writes to the log.
    """

    def __init__(
        self,
        golden: GoldenSet,
        index: Callable[[], Index],
        metrics: Metrics,
        event: Callable[..., None],
        every: float = CHECK_EVERY,
    ) -> None:
        self._golden, self._index, self._metrics, self._event = golden, index, metrics, event
        self._every = every
        self._before: dict[str, float] = {}
        super().__init__("golden")
        metrics.expect_golden(every)

    def check(self) -> None:
        """Check once, and tell."""
        scores = score_golden_set(self._golden, self._index())
        self._metrics.observe_golden(scores)
        for by, found in scores.items():
            self._tell(by, found)

    def _tell(self, by: str, found: Scores) -> None:
        recall = found.recall.value
        told: dict[str, Any] = {"by": by, "recall": recall, "precision": found.precision.value}
        before = self._before.get(by)
        if recall is not None:
            self._before[by] = recall
        if before is not None and recall is not None and recall < before:
            self._event("golden_drop", before=before, **told)
        else:
            self._event("golden", **told)

    def _run(self) -> None:
        rest = 0.0
        while not self._stopped.wait(rest):
            begun = time.thread_time()
            try:
                self.check()
            except Exception as error:  # the next one may work, and its age tells until then
                self._event("golden_failed", error=type(error).__name__)
            spent = time.thread_time() - begun
            rest = max(self._every, spent / MOST_SHARE)
            self._metrics.expect_golden(rest)
