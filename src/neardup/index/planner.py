"""Requests for the writer thread, and the plan of a commit: what it removes, moves and adds.

Copies of a document that is removed, and documents that arrive, are judged together and in order,
as if the removed documents were gone: so replacing a document is one step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from neardup.errors import OutputError, SpecMismatch
from neardup.index.answer import REJECTED, Answer
from neardup.index.arrivals import Arrivals, join_arrivals, select_arrivals
from neardup.index.decider import KEPT
from neardup.index.postings import LAST_NUMBER, Integers, Keys
from neardup.index.stats import Counters
from neardup.index.store import Row
from neardup.index.view import (
    View,
    answer_from_row,
)

CONFLICT: Final = "this id is there with another content: give another id, or replace it"
REPLACED: Final = "a later document of the same batch has this id and replaces it"


@dataclass
class AddRequest:
    """Documents to add. Those that are rejected already are not among the arrivals."""

    ids: list[str]
    arrivals: Arrivals
    places: list[int]
    """Of each arrival: which of the ids is its own."""
    rejected: dict[int, str]
    metadata: Sequence[str | None]
    view: View
    """The view that the arrivals' keys are for."""
    texts: Sequence[bytes | None] | None = None
    """To be stored."""
    replace: bool = False
    carried: Sequence[tuple[int, float]] | None = None
    """The number and the time of each, if it had them before."""
    resubmit: Callable[[], Future[list[Answer]]] | None = None
    """Submits the documents to the index again, by its specification then; None for sketches."""
    done: Future[list[Answer]] = field(default_factory=Future)

    @property
    def documents(self) -> int:
        return len(self.ids)

    def joins(self, other: Request) -> bool:
        """Whether both can be done together."""
        return (
            isinstance(other, AddRequest)
            and not (self.replace or other.replace)
            and self.carried is None
            and other.carried is None
            and (self.arrivals.shingles is None) == (other.arrivals.shingles is None)
        )

    def resubmit_to_index(self) -> None:
        """Have the index, which has another generation now, answer the caller that waits here."""
        if self.resubmit is None:
            raise SpecMismatch(
                "the index has another specification now: make the sketches by that one"
            )
        self.resubmit().add_done_callback(self._finish)

    def _finish(self, other: Future[list[Answer]]) -> None:
        if (error := other.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(other.result())


@dataclass
class RemoveRequest:
    """A document to remove."""

    id: str
    done: Future[bool] = field(default_factory=Future)
    documents: int = 1


@dataclass
class CallRequest:
    """A function to call between two commits."""

    call: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)
    documents: int = 0


Request = AddRequest | RemoveRequest | CallRequest


class Judgement(NamedTuple):
    """Of one document: its witness, or None if it is kept."""

    witness: int | None
    similarity: float | None
    exact: int


@dataclass
class CommitPlan:
    """What is to be written; `keys` are those of the moved, then of the added documents."""

    gone: dict[int, Row] = field(default_factory=dict)
    moved: list[Row] = field(default_factory=list)
    added: list[Row] = field(default_factory=list)
    keys: Keys = field(default_factory=lambda: np.empty((0, 0), np.uint64))
    arrivals: Arrivals | None = None
    """Of the added documents."""
    texts: list[bytes | None] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        return [*self.moved, *self.added]


@dataclass
class _SortedArrivals:
    """The documents of several requests: which are new, and what becomes of the others."""

    fresh: list[int] = field(default_factory=list)
    again: dict[int, Row | int] = field(default_factory=dict)
    """Place -> the document that is there, or the place of the same one in these requests."""
    refused: dict[int, str] = field(default_factory=dict)
    """Place -> why."""
    replaced: dict[int, Row] = field(default_factory=dict)


class CommitPlanner:
    """Makes plans. For the thread that writes."""

    def __init__(self, view: View, counters: Counters) -> None:
        self.view, self.counters = view, counters

    def plan_removal(self, id: str) -> CommitPlan | None:
        """The plan without a document; None if there is no such one."""
        row = self.view.rows_by_id([id]).get(id)
        if row is None:
            return None
        plan = CommitPlan(gone={row.number: row})
        self.judge(plan, [], None, [])
        return plan

    def plan_addition(self, works: Sequence[AddRequest], next_number: int, now: float) -> Addition:
        """The plan with new documents."""
        arrivals = join_arrivals([self._current(work) for work in works])
        ids = [work.ids[place] for work in works for place in work.places]
        contents = [row.tobytes() for row in arrivals.content]
        kinds = self._sort(ids, contents, replacing=works[0].replace)
        plan = CommitPlan(gone=kinds.replaced, arrivals=select_arrivals(arrivals, kinds.fresh))
        metadata = [work.metadata[place] for work in works for place in work.places]
        texts = [
            None if work.texts is None else work.texts[place]
            for work in works
            for place in work.places
        ]
        plan.texts = [texts[at] for at in kinds.fresh]
        placed = [(next_number + place, now) for place in range(len(kinds.fresh))]
        if (carried := works[0].carried) is not None:
            placed = [carried[works[0].places[at]] for at in kinds.fresh]
        check_number(max((number for number, _ in placed), default=0))
        fresh = [contents[at] for at in kinds.fresh]
        verdicts = self.judge(plan, fresh, plan.arrivals, [number for number, _ in placed])
        plan.added = [
            Row(number, ids[at], contents[at], *verdict, added, metadata[at])
            for at, verdict, (number, added) in zip(kinds.fresh, verdicts, placed, strict=True)
        ]
        return Addition(works, plan, kinds)

    def _current(self, work: AddRequest) -> Arrivals:
        """The arrivals with the keys of the current operating point."""
        if work.view is self.view or self.view.codec.options.spec.narrow:
            return work.arrivals
        return work.arrivals.with_keys(self.view.codec.lsh.keys(work.arrivals.compared))

    def _sort(self, ids: list[str], contents: list[bytes], *, replacing: bool) -> _SortedArrivals:
        there = self.view.rows_by_id(ids)
        first: dict[str, int] = {}
        kinds = _SortedArrivals()
        for at, (id, content) in enumerate(zip(ids, contents, strict=True)):
            row, earlier = there.get(id), first.get(id)
            if earlier is not None and contents[earlier] == content:
                kinds.again[at] = earlier
            elif earlier is None and row is not None and row.content == content:
                kinds.again[at] = row
            elif not replacing and (earlier is not None or row is not None):
                kinds.refused[at] = CONFLICT
            else:
                if earlier is not None:
                    kinds.fresh.remove(earlier)
                    kinds.refused[earlier] = REPLACED
                first[id] = at
                kinds.fresh.append(at)
                if row is not None:
                    kinds.replaced[row.number] = row
        return kinds

    def judge(
        self,
        plan: CommitPlan,
        contents: Sequence[bytes],
        arrivals: Arrivals | None,
        numbers: Sequence[int],
    ) -> list[Judgement]:
        """Judge those that lose their witness, who go into the plan, and those that come."""
        orphaned = self._orphaned_copies(plan.gone)
        copies = self._identical(contents, {*plan.gone, *(row.number for row in orphaned)})
        rest = [at for at in range(len(contents)) if at not in copies]
        view = self.view.without(plan.gone)
        parts = []
        if orphaned:
            stored = [row.number for row in orphaned]
            parts.append(view.stored_arrivals(stored, [row.content for row in orphaned]))
        keys = [part.keys for part in parts] + ([arrivals.keys] if arrivals is not None else [])
        plan.keys = np.concatenate(keys) if keys else plan.keys
        if arrivals is not None and rest:
            parts.append(select_arrivals(arrivals, rest))
        judged = [*(row.number for row in orphaned), *(numbers[at] for at in rest)]
        found = self._decide(parts, np.array(judged, np.int64), view) if parts else []
        plan.moved = [
            row._replace(**verdict._asdict())
            for row, verdict in zip(orphaned, found[: len(orphaned)], strict=True)
        ]
        verdicts = dict(zip(rest, found[len(orphaned) :], strict=True)) | copies
        return [verdicts[at] for at in range(len(contents))]

    def _decide(self, parts: list[Arrivals], numbers: Integers, view: View) -> list[Judgement]:
        begun = time.perf_counter()
        judged = view.decider.decide(join_arrivals(parts), numbers, view)
        self.counters.count_judged(len(numbers), judged, time.perf_counter() - begun)
        columns = (judged.witness.tolist(), judged.similarity.tolist(), judged.exact.tolist())
        return [
            Judgement(None, None, 1)
            if witness == KEPT
            else Judgement(witness, similarity, int(exact))
            for witness, similarity, exact in zip(*columns, strict=True)
        ]

    def _orphaned_copies(self, gone: dict[int, Row]) -> list[Row]:
        """The copies of documents that go, in order."""
        kept = [number for number, row in gone.items() if row.witness is None]
        members = self.view.copies_of(kept)
        rows = self.view.store.rows(sorted(members - set(gone))) if members else {}
        return [rows[number] for number in sorted(rows) if rows[number].witness in gone]

    def _identical(self, contents: Sequence[bytes], leaving: set[int]) -> dict[int, Judgement]:
        """New documents with the content of one that is there and stays as it is."""
        if not contents:
            return {}
        words = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        found = {}
        for at, row in self.view.rows_by_content(words, leaving).items():
            found[at] = (
                Judgement(row.number, 1.0, 1)
                if row.witness is None
                else Judgement(row.witness, row.similarity, row.exact)
            )
        return found


@dataclass
class Addition:
    """A plan for several requests, and what each of them is told when it is done."""

    works: Sequence[AddRequest]
    plan: CommitPlan
    kinds: _SortedArrivals

    def answers(self, view: View) -> list[list[Answer]]:
        """The answers to each request, in order."""
        placed = dict(zip(self.kinds.fresh, self.plan.added, strict=True))
        moved = {row.number: row for row in self.plan.moved}
        rows = dict(placed)
        for at, row in self.kinds.again.items():
            if isinstance(row, int) and row in placed:
                rows[at] = placed[row]
            elif isinstance(row, int) or row.number in self.plan.gone:  # by a later one
                self.kinds.refused[at] = REPLACED
            else:
                rows[at] = moved.get(row.number, row)
        ids = view.witness_ids(rows.values(), {row.number: row.id for row in placed.values()})
        listed, at = [], 0
        for work in self.works:
            answers = [
                Answer(id, REJECTED, reason=work.rejected.get(place))
                for place, id in enumerate(work.ids)
            ]
            for place in work.places:
                why = self.kinds.refused.get(at)
                answers[place] = (
                    Answer(work.ids[place], REJECTED, reason=why)
                    if why is not None
                    else answer_from_row(rows[at], ids, again=at in self.kinds.again)
                )
                at += 1
            listed.append(answers)
        return listed


def check_number(number: int) -> None:
    """Refuse a document that the tables could not hold."""
    if number > LAST_NUMBER:
        raise OutputError(
            f"an index takes {LAST_NUMBER:,} documents, and those that were removed count: build "
            "another one for what is to come"
        )
