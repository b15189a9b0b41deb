"""Compare two operating points over the same documents, queries and labelled pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

from neardup.index.settings import stated
from neardup.index.shadow_trial import ABSENT, KEPT, DecisionTable, Trial
from neardup.index.stats import BucketSizes, Counters
from neardup.index.view import View

EXAMPLES: Final = 10
"""So many documents of a kind are named."""
Golden = Sequence[tuple[str, str, bool]]
"""Two ids, and whether the documents are duplicates."""


@dataclass(frozen=True)
class Example:
    """A document that one of the two removes."""

    id: str
    duplicate_of: str
    similarity: float


@dataclass(frozen=True)
class Agreement:
    """Of the same documents: what both decide, and what only one does."""

    both_kept: int
    both_removed: int
    only_current: int
    """Removed by the current one alone."""
    only_shadow: int
    another_witness: int
    """Of those that both remove: as copies of different documents."""
    only_current_examples: tuple[Example, ...]
    only_shadow_examples: tuple[Example, ...]


@dataclass
class QueryAgreement:
    """Queries that both have answered while neither of them changed."""

    queries: int = 0
    both: int = 0
    """A copy, both say."""
    neither: int = 0
    only_current: int = 0
    only_shadow: int = 0
    current_seconds: float = 0.0
    shadow_seconds: float = 0.0

    def count(self, current: set[int], shadow: set[int], queries: int) -> None:
        """So many queries, and which of them are copies."""
        self.queries += queries
        self.both += len(current & shadow)
        self.neither += queries - len(current | shadow)
        self.only_current += len(current - shadow)
        self.only_shadow += len(shadow - current)


@dataclass(frozen=True)
class Score:
    """On labelled pairs: a pair is found if both documents are in one cluster."""

    pairs: int
    missing: int
    """Pairs of which a document is not there: they don't count."""
    duplicates: int
    found: int
    right: int

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
    """One of the two. What was counted of the current one is since the index was opened."""

    point: dict[str, Any]
    kept: int
    removed: int
    predicted_recall: float
    """Of pairs that are just similar enough."""
    judged: int
    """Documents and queries that are not identical to a document that was there."""
    candidates_per_document: float
    compared: int
    seconds_per_document: float
    """To judge it, without its sketch and its commit."""
    buckets: BucketSizes
    memory_bytes: int
    score: Score | None


@dataclass(frozen=True)
class ShadowReport:
    """The current operating point and the one beside it."""

    state: str
    """`building`, `in step`, or `failed`."""
    reason: str | None
    """Why it failed."""
    judged: int
    documents: int
    """`judged` of so many documents have been looked at."""
    behind: int
    """Changes that the shadow has not taken in yet."""
    current: Side
    shadow: Side
    agreement: Agreement
    asked: QueryAgreement

    @property
    def as_dict(self) -> dict[str, Any]:
        """All of it, as JSON can say it."""
        found = asdict(self)
        for name, side in (("current", self.current), ("shadow", self.shadow)):
            if side.score is not None:
                found[name]["score"] |= {
                    "recall": side.score.recall,
                    "precision": side.score.precision,
                }
        return found


def side(
    view: View, counters: Counters, decisions: DecisionTable, nbytes: int, score: Score | None
) -> Side:
    """What is said of one of the two."""
    options = view.decider.options
    judged = max(counters.judged, 1)
    there = decisions.witness[decisions.witness != ABSENT]
    kept = int(np.count_nonzero(there == KEPT))
    return Side(
        stated(options),
        kept,
        len(there) - kept,
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
    """Document by document."""
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
    """Of the current one and of the other, if there are labelled pairs."""
    if not golden:
        return None, None
    rows = view.rows_by_id([id for pair in golden for id in pair[:2]])
    numbers = {id: row.number for id, row in rows.items() if trial.own.has(row.number)}
    pairs = [
        (numbers[a], numbers[b], same) for a, b, same in golden if a in numbers and b in numbers
    ]
    return (_score(trial.current, pairs, len(golden)), _score(trial.own, pairs, len(golden)))


def _score(decisions: DecisionTable, pairs: list[tuple[int, int, bool]], given: int) -> Score:
    labels = [same for _, _, same in pairs]
    left = decisions.clusters([a for a, _, _ in pairs])
    right = decisions.clusters([b for _, b, _ in pairs])
    found = [a == b for a, b in zip(left, right, strict=True)]
    good = sum(f and same for f, same in zip(found, labels, strict=True))
    return Score(len(pairs), given - len(pairs), sum(labels), sum(found), good)
