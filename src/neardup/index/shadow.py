"""A shadow: another operating point that judges the same documents and queries as the index.

    index.shadow.start(threshold=0.7)
    index.shadow.report()
    index.shadow.promote(wait=True)

It runs beside the current operating point until it is promoted or dropped. It follows the store in
a thread of its own (`shadow_trial.py`), so that no caller waits for it or fails because of it. To
promote it, the writer thread lets it follow the last changes, stores the decisions that differ in
one transaction, and goes on with its tables.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Final, Protocol

import numpy as np

from neardup.errors import Busy, NeardupError, ParameterError, UsageError
from neardup.index.arrivals import Arrivals
from neardup.index.planner import CallRequest
from neardup.index.settings import SPEC_NAMES, IndexSettings, changed, stated
from neardup.index.shadow_trial import (
    ABSENT,
    KEPT,
    DecisionTable,
    Golden,
    QueryAgreement,
    ShadowThread,
    Trial,
)
from neardup.index.snapshot import SpillFolders
from neardup.index.stats import BucketSizes, Counters
from neardup.index.store import Store
from neardup.index.view import View
from neardup.index.writer import IndexWriter
from neardup.lsh.curve import TooFewSlots
from neardup.option_table import LAYOUT
from neardup.options import Options

EXAMPLES: Final = 10
"""The most documents of a kind that a report names."""


@dataclass(frozen=True)
class Example:
    """A document that only one of the two operating points removes."""

    id: str
    duplicate_of: str
    similarity: float


@dataclass(frozen=True)
class Agreement:
    """How far both operating points decide alike about the same documents."""

    both_kept: int
    both_removed: int
    only_current: int
    """Documents that only the current operating point removes."""
    only_shadow: int
    """Documents that only the shadow removes."""
    another_witness: int
    """Documents that both remove, as copies of different witnesses."""
    only_current_examples: tuple[Example, ...]
    only_shadow_examples: tuple[Example, ...]


@dataclass(frozen=True)
class Score:
    """The result on labelled pairs: a pair is found if both documents are in one cluster."""

    pairs: int
    missing: int
    """Pairs of which a document is not in the index; they are not in `pairs`."""
    duplicates: int
    """Pairs that are labelled as duplicates."""
    found: int
    """Pairs in one cluster."""
    right: int
    """Pairs in one cluster that are labelled as duplicates."""

    @property
    def recall(self) -> float | None:
        """The share of the duplicates that are found; None if there are none."""
        return self.right / self.duplicates if self.duplicates else None

    @property
    def precision(self) -> float | None:
        """The share of what is found that are duplicates; None if nothing is."""
        return self.right / self.found if self.found else None


@dataclass(frozen=True)
class Side:
    """One of the two operating points. Counts of the current one are since the index was opened."""

    point: dict[str, Any]
    kept: int
    removed: int
    predicted_recall: float
    """The predicted recall of pairs whose similarity is exactly the threshold."""
    judged: int
    """Documents and queries that are not identical to a stored document."""
    candidates_per_document: float
    compared: int
    seconds_per_document: float
    """The time to judge a document, without its sketch and its commit."""
    buckets: BucketSizes
    memory_bytes: int
    score: Score | None


@dataclass(frozen=True)
class ShadowReport:
    """A comparison of the current operating point and the shadow."""

    state: str
    """`building`, `in step`, or `failed`."""
    reason: str | None
    """Why it failed."""
    judged: int
    """Documents that the shadow has judged."""
    documents: int
    """All documents of the index."""
    behind: int
    """Changes that the shadow has not followed yet."""
    current: Side
    shadow: Side
    agreement: Agreement
    asked: QueryAgreement

    @property
    def as_dict(self) -> dict[str, Any]:
        """All fields, for JSON, with recall and precision of the scores."""
        fields = asdict(self)
        for name, side in (("current", self.current), ("shadow", self.shadow)):
            if side.score is not None:
                fields[name]["score"] |= {
                    "recall": side.score.recall,
                    "precision": side.score.precision,
                }
        return fields


def side(
    view: View, counters: Counters, decisions: DecisionTable, nbytes: int, score: Score | None
) -> Side:
    """Make the report about one of the two operating points."""
    options = view.decider.options
    judged = max(counters.judged, 1)
    witnesses = decisions.witness[decisions.witness != ABSENT]
    kept = int(np.count_nonzero(witnesses == KEPT))
    return Side(
        stated(options),
        kept,
        len(witnesses) - kept,
        options.meeting.probability(options.threshold),
        counters.judged,
        counters.candidates / judged,
        counters.compared,
        counters.judge_seconds / judged,
        BucketSizes.of(view.tables, options.limit),
        nbytes,
        score,
    )


def agreement(view: View, trial: Trial) -> Agreement:
    """Compare the decisions of both, document by document."""
    current, shadow = trial.current.witness, trial.own.witness
    kept, kept_too = current == KEPT, shadow == KEPT
    both_removed = ~kept & ~kept_too & (current != ABSENT)
    only_current, only_shadow = ~kept & kept_too, kept & ~kept_too
    return Agreement(
        int(np.count_nonzero(kept & kept_too)),
        int(np.count_nonzero(both_removed)),
        int(np.count_nonzero(only_current)),
        int(np.count_nonzero(only_shadow)),
        int(np.count_nonzero(both_removed & (current != shadow))),
        _examples(view, trial.current, np.flatnonzero(only_current)[:EXAMPLES].tolist()),
        _examples(view, trial.own, np.flatnonzero(only_shadow)[:EXAMPLES].tolist()),
    )


def _examples(view: View, decisions: DecisionTable, numbers: list[int]) -> tuple[Example, ...]:
    rows = [decisions.judged(row) for _, row in sorted(view.store.rows(numbers).items())]
    ids = view.witness_ids(rows, {})
    return tuple(
        Example(row.id, ids[row.witness], row.similarity or 0.0)
        for row in rows
        if row.witness in ids
    )


def scores(view: View, trial: Trial, golden: Golden) -> tuple[Score, Score] | tuple[None, None]:
    """Score the current operating point and the trial, if there are labelled pairs."""
    if not golden:
        return None, None
    rows = view.rows_by_id([id for pair in golden for id in pair[:2]])
    numbers = {id: row.number for id, row in rows.items() if trial.own.has(row.number)}
    pairs = [
        (numbers[a], numbers[b], same) for a, b, same in golden if a in numbers and b in numbers
    ]
    return (_score(trial.current, pairs, len(golden)), _score(trial.own, pairs, len(golden)))


def _score(decisions: DecisionTable, pairs: list[tuple[int, int, bool]], golden: int) -> Score:
    """Score decisions on the pairs whose documents are in the index, of `golden` pairs."""
    labels = [same for _, _, same in pairs]
    clusters_of_a = decisions.clusters([a for a, _, _ in pairs])
    clusters_of_b = decisions.clusters([b for _, b, _ in pairs])
    found = [a == b for a, b in zip(clusters_of_a, clusters_of_b, strict=True)]
    right = sum(one and same for one, same in zip(found, labels, strict=True))
    return Score(len(pairs), golden - len(pairs), sum(labels), sum(found), right)


class ShadowedGeneration(Protocol):
    """The generation that a shadow belongs to."""

    settings: IndexSettings

    def snapshot(self) -> int: ...


class Shadow:
    """Tries at most one other operating point beside the current one. Usable in any thread.

    >>> import tempfile
    >>> from neardup import Index
    >>> folder = tempfile.TemporaryDirectory()
    >>> index = Index.open(folder.name, threshold=0.8, shingle="word:2")
    >>> _ = index.add("1", "the quick brown fox jumps over the lazy dog")
    >>> _ = index.add("2", "the quick brown fox jumps over the lazy cat")
    >>> index.shadow.start(threshold=0.7)
    >>> index.shadow.wait()
    True
    >>> index.shadow.report().agreement.only_shadow  # 7 of 9 shingles in common
    1
    >>> index.shadow.promote()
    1
    >>> index.get("2").duplicate_of
    '1'
    >>> index.close()
    >>> folder.cleanup()
    """

    def __init__(
        self, generation: ShadowedGeneration, store: Store, writer: IndexWriter, cold: SpillFolders
    ) -> None:
        self._generation, self._store, self._writer, self._cold = generation, store, writer, cold
        cold.forget_others(generation.settings.options)  # a process may have ended with a shadow
        self._changing = threading.Lock()
        self._following: ShadowThread | None = None

    def start(self, *, golden: Golden = (), **point: Any) -> None:
        """Start to judge all documents at another operating point, in the background.

        Args:
            golden: Labelled pairs that the report scores both operating points on: two ids, and
                whether these are duplicates.
            **point: The options that differ: threshold, recall, bands, rows, tables, limit, verify,
                measure, hamming, blocks; of vectors cosine and planes. Bands are chosen again if
                threshold, recall or measure is among them, and neither bands, rows nor tables.
        """
        with self._changing:
            if self._following is not None:
                raise UsageError("there is a shadow already: promote it or drop it first")
            settings, pairs = self._generation.settings, _pairs(golden)
            options = _shadow_options(settings.options, point)
            trial = Trial(self._store, self._cold, replace(settings, options=options))
            self._following = ShadowThread(trial, pairs, self._writer)

    def wait(self, seconds: float = inf) -> bool:
        """Wait until the shadow is in step with the index; return whether it is.

        Args:
            seconds: The longest time to wait.
        """
        following = self._require()
        following.wait(seconds)
        return following.state == "in step"

    def report(self) -> ShadowReport:
        """Return how the shadow compares with the current operating point.

        Returns:
            Decisions, queries, costs and scores of both.
        """
        with self._changing:  # it is not closed meanwhile
            return self._report(self._require(), self._writer.view)

    def _report(self, following: ShadowThread, current: View) -> ShadowReport:
        trial = following.trial
        with trial.lock, self._store.snapshot():
            behind = self._store.last_change() - trial.view.tables.sequence
            current_score, shadow_score = scores(current, trial, following.golden)
            return ShadowReport(
                following.state,
                following.failure,
                trial.judged,
                self._writer.documents,
                behind,
                side(
                    current,
                    self._writer.counters,
                    trial.current,
                    current.tables.nbytes,
                    current_score,
                ),
                side(trial.view, trial.counters, trial.own, trial.nbytes, shadow_score),
                agreement(current, trial),
                replace(following.agreement),
            )

    def promote(self, *, wait: bool = False) -> int:
        """Make the shadow the current operating point, in one transaction.

        Args:
            wait: Wait until it is in step. Without it, a shadow that is not is an error (`Busy`).

        Returns:
            The number of documents whose answer changed.
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
        """Stop the shadow and delete its tables; an error if there is none."""
        self._require()
        self.close()

    def close(self) -> None:
        """Stop the shadow and delete its tables, if there is one."""
        with self._changing:
            if self._following is not None:
                self._following.join()
                self._following = None
                self._cold.forget_others(self._generation.settings.options)

    def observe_query(
        self, arrivals: Arrivals, copies: Iterable[int], seconds: float, sequence: int
    ) -> None:
        """Answer a query by the shadow too, and count where it differs. Never raises.

        Args:
            arrivals: The sketched texts of the query.
            copies: The rows that the index answered as copies.
            seconds: How long the index took.
            sequence: The change of the index that the answer is based on.
        """
        following = self._following
        if following is None or following.state != "in step" or not len(arrivals):
            return
        try:
            following.observe_query(arrivals, copies, seconds, sequence)
        except Exception as error:  # the report has it; the query was answered by the index
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
        """Promote the shadow. Called in the writer thread; returns the changed answers."""
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
                    # First: processes that follow must not enter the moved documents into their
                    # old tables.
                    self._store.note_retuned()
                    self._store.move(moved)
                    self._store.set_meta("point", settings.stored["point"])
                trial.view.tables.sequence = self._store.last_change()
                # The decisions are stored now, and the overlay would hide documents added later.
                self._writer.change_view(replace(trial.view, store=self._store))
                self._generation.settings = settings
                following.stop()
            self._following = None
            self._cold.forget_others(trial.options)
            return len(moved)


def _shadow_options(options: Options, point: dict[str, Any]) -> Options:
    """Return the options with another operating point; refuse the same one, or another spec."""
    point = {name: value for name, value in point.items() if value is not None}
    for name in SPEC_NAMES:
        if name in point:
            raise ParameterError(
                f"{name} belongs to the specification, which documents are stored by: index them "
                "anew (neardup index reindex)"
            )
    if options.spec.narrow and not point.keys() & LAYOUT:
        point["tables"] = stated(options)["tables"]
    try:
        wanted = changed(options, point)
    except TooFewSlots as error:
        cure = f"neardup index reindex --slots {error.curve.slots}"
        raise TooFewSlots(error.curve, error.slots, cure) from None
    if stated(wanted) == stated(options):
        raise ParameterError(
            "this is the operating point of the index already: give an option that differs"
        )
    if options.spec.narrow and wanted.hash_tables != options.hash_tables:
        raise ParameterError(
            f"slots of {options.spec.bits} bits have lost what bands are made of: leave out bands, "
            "rows and tables, or index the documents anew (neardup index reindex)"
        )
    return wanted


def _pairs(golden: Golden) -> Golden:
    """Check labelled pairs."""
    try:
        return tuple((str(a), str(b), bool(same)) for a, b, same in golden)
    except (TypeError, ValueError):
        raise ParameterError(
            "golden pairs are two ids and whether these are duplicates: (id, id, True)"
        ) from None
