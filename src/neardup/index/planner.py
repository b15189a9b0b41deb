"""Requests for the writer thread, and the plan of a commit: the rows it removes, moves and adds.

Copies of a removed document are judged first, without the removed documents, then those that
arrive: they have higher numbers. So replacing a document is one step.
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
from neardup.index.decider import KEPT, CandidateSource, WithKept
from neardup.index.postings import LAST_NUMBER, Keys
from neardup.index.stats import Counters
from neardup.index.store import Row
from neardup.index.validation import is_valid_id
from neardup.index.view import View, answer_from_row

CONFLICT: Final = "this id is there with another content: give another id, or replace it"
REPLACED: Final = "a later document of the same batch has this id and replaces it"


@dataclass
class AddRequest:
    """Documents to add. Texts that can't be sketched are in `rejected`, not in `arrivals`."""

    ids: list[str]
    arrivals: Arrivals
    places: list[int]
    """The place of each arrival's id in `ids`."""
    rejected: dict[int, str]
    """Place in `ids` -> reason."""
    metadata: Sequence[str | None]
    view: View
    """The view whose operating point the arrivals' keys were made for."""
    texts: Sequence[bytes | None] | None = None
    """The texts to store, or None if the index keeps no texts."""
    replace: bool = False
    generated: Sequence[bool] | None = None
    """Which ids were made of names of files and rows; None for none."""
    carried: Sequence[tuple[int, float]] | None = None
    """Number and time of each document, if it is copied from another generation."""
    resubmit: Callable[[], Future[list[Answer]]] | None = None
    """Sketches the documents again by the index's specification and submits them; None if the
    documents came as sketches."""
    done: Future[list[Answer]] = field(default_factory=Future)

    @property
    def documents(self) -> int:
        return len(self.ids)

    def joins(self, other: Request) -> bool:
        """Whether both requests can be committed together."""
        return (
            isinstance(other, AddRequest)
            and not (self.replace or other.replace)
            and self.carried is None
            and other.carried is None
            and (self.arrivals.shingles is None) == (other.arrivals.shingles is None)
        )

    def resubmit_to_index(self) -> None:
        """Submit the documents to the index's new generation, and pass its answer on to `done`."""
        if self.resubmit is None:
            raise SpecMismatch(
                "the index has another specification now: make the sketches again by its sketcher"
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
class RemoveSlice:
    """Some of many documents that are removed together, by their numbers (`removal.py`)."""

    numbers: Sequence[int]
    together: Sequence[int]
    """All of the many: copies of the removed ones are judged without them."""
    done: Future[list[int]] = field(default_factory=Future)
    """The numbers of those that were there."""
    documents: int = 0
    """None: a removal that has begun is not refused because many documents wait."""


@dataclass
class RehomeSlice:
    """Some of the copies of a document that is about to be removed, to be judged without it."""

    witness: int
    copies: Sequence[int]
    together: Sequence[int]
    """All documents that are about to be removed."""
    done: Future[int] = field(default_factory=Future)
    """How many copies were judged."""
    documents: int = 0


@dataclass
class CallRequest:
    """A function to call between two commits."""

    call: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)
    documents: int = 0


Request = AddRequest | RemoveRequest | RemoveSlice | RehomeSlice | CallRequest


class Judgement(NamedTuple):
    """The decision about one document; its witness is None if it is kept."""

    witness: int | None
    similarity: float | None
    exact: int
    cosine: float | None = None


def _judgement(row: Row) -> Judgement:
    return Judgement(row.witness, row.similarity, row.exact, row.cosine)


@dataclass
class CommitPlan:
    """The rows that a commit removes (by number), gives another witness, updates, and adds."""

    removed: dict[int, Row] = field(default_factory=dict)
    moved: list[Row] = field(default_factory=list)
    updated: list[Row] = field(default_factory=list)
    """Stored documents that get other metadata or another text; with the witness of `moved`."""
    updated_texts: list[tuple[int, bytes]] = field(default_factory=list)
    """Number and text of the updated documents that have another text."""
    added: list[Row] = field(default_factory=list)
    keys: Keys = field(default_factory=lambda: np.empty((0, 0), np.uint64))
    """Band keys of `rows`: of the moved documents, then of the added ones."""
    arrivals: Arrivals | None = None
    """The added documents."""
    texts: list[bytes | None] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """The rows that are entered into the tables."""
        return [*self.moved, *self.added]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to commit."""
        return not (self.removed or self.rows or self.updated)


@dataclass
class SortedArrivals:
    """The arrivals of several requests by their place: new ones, and why others are not."""

    fresh: list[int] = field(default_factory=list)
    again: dict[int, Row | int] = field(default_factory=dict)
    """Place -> the stored row with the same id and content, or the place of an equal arrival."""
    refused: dict[int, str] = field(default_factory=dict)
    """Place -> reason."""
    replaced: dict[int, Row] = field(default_factory=dict)
    """Number -> stored row that a new document replaces."""
    renewed: dict[int, int] = field(default_factory=dict)
    """Number of a stored row -> place of the last arrival with its id and content, if arrivals
    replace: its metadata and its text are stored."""
    last: dict[int, int] = field(default_factory=dict)
    """The same for new arrivals, by place: an equal one after it replaces it."""


def sort_arrivals(
    ids: list[str],
    contents: list[bytes],
    stored: dict[str, Row],
    *,
    replacing: bool,
) -> SortedArrivals:
    """Sort arrivals into new, repeated, refused and replacing ones, by id and content.

    An arrival with an id and a content that are stored is repeated, and nothing is added; if
    arrivals replace, its metadata and its text are stored.

    Args:
        ids: The id of each arrival.
        contents: The content hash of each arrival.
        stored: The stored documents that have these ids, by id.
        replacing: Whether arrivals replace stored documents.
    """
    first: dict[str, int] = {}
    kinds = SortedArrivals()
    for at, (id, content) in enumerate(zip(ids, contents, strict=True)):
        row, earlier = stored.get(id), first.get(id)
        if earlier is not None and contents[earlier] == content:
            kinds.again[at] = earlier
            if replacing:
                kinds.last[earlier] = at
        elif earlier is None and row is not None and row.content == content:
            kinds.again[at] = row
            if replacing:
                kinds.renewed[row.number] = at
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


class CommitPlanner:
    """Plans commits by judging documents. For the writer thread."""

    def __init__(self, view: View, counters: Counters) -> None:
        self.view, self.counters = view, counters

    def plan_removal(self, id: str) -> CommitPlan | None:
        """Plan the removal of a document; None if no document has this id."""
        row = self.view.rows_by_id([id]).get(id)
        if row is None:
            return None
        plan = CommitPlan(removed={row.number: row})
        self.judge(plan, [], None, [])
        return plan

    def plan_removal_of(self, numbers: Sequence[int], together: Sequence[int]) -> CommitPlan:
        """Plan the removal of documents by number; those that don't exist are left out.

        Args:
            numbers: The documents.
            together: Documents that are about to be removed too: copies are judged without them.
        """
        plan = CommitPlan(removed=self.view.store.rows(numbers))
        self._judge(plan, self._orphaned_copies(plan.removed), together=together)
        return plan

    def plan_rehoming(
        self, witness: int, copies: Sequence[int], together: Sequence[int]
    ) -> CommitPlan:
        """Plan another decision about copies of a document that is about to be removed.

        Args:
            witness: The document.
            copies: The numbers of copies of it; those that have another witness are left out.
            together: All documents that are about to be removed: copies are judged without them.
        """
        rows = self.view.store.rows(copies)
        plan = CommitPlan()
        orphaned = [rows[number] for number in sorted(rows) if rows[number].witness == witness]
        self._judge(plan, orphaned, together=together)
        return plan

    def plan_addition(
        self, requests: Sequence[AddRequest], next_number: int, now: float
    ) -> Addition:
        """Plan the addition of the requests' documents, numbered from `next_number` on."""
        arrivals = join_arrivals([self._current(request) for request in requests])
        ids = [request.ids[place] for request in requests for place in request.places]
        contents = [row.tobytes() for row in arrivals.content]
        metadata = [request.metadata[place] for request in requests for place in request.places]
        texts = [
            None if request.texts is None else request.texts[place]
            for request in requests
            for place in request.places
        ]
        stored = self.view.rows_by_id(ids)
        if not requests[0].replace and any(request.generated for request in requests):
            each = ((request, place) for request in requests for place in request.places)
            generated = [
                at
                for at, (request, place) in enumerate(each)
                if request.generated is not None and request.generated[place]
            ]
            stored |= self.view.rows_by_id(_free_ids(ids, contents, generated, stored))
        kinds = sort_arrivals(ids, contents, stored, replacing=requests[0].replace)
        plan = CommitPlan(removed=kinds.replaced, arrivals=select_arrivals(arrivals, kinds.fresh))
        latest = [kinds.last.get(at, at) for at in kinds.fresh]
        plan.texts = [texts[at] for at in latest]
        placed = [(next_number + place, now) for place in range(len(kinds.fresh))]
        if (carried := requests[0].carried) is not None:
            placed = [carried[requests[0].places[at]] for at in kinds.fresh]
        check_number(max((number for number, _ in placed), default=0))
        fresh = [contents[at] for at in kinds.fresh]
        verdicts = self.judge(plan, fresh, plan.arrivals, [number for number, _ in placed])
        plan.added = [
            Row(number, ids[at], contents[at], *verdict[:3], added, metadata[at], verdict.cosine)
            for at, verdict, (number, added) in zip(latest, verdicts, placed, strict=True)
        ]
        self._plan_updates(plan, kinds, metadata, texts)
        return Addition(requests, plan, kinds)

    def _plan_updates(
        self,
        plan: CommitPlan,
        kinds: SortedArrivals,
        metadata: Sequence[str | None],
        texts: Sequence[bytes | None],
    ) -> None:
        """Plan what replaces metadata and texts of stored documents whose content stays."""
        renewed = {number: at for number, at in kinds.renewed.items() if number not in plan.removed}
        if not renewed:
            return
        moved = {row.number: row for row in plan.moved}
        rows = {row.number: row for row in kinds.again.values() if isinstance(row, Row)}
        stored = self.view.store.blobs("texts", list(renewed))
        for number, at in renewed.items():
            row, text = moved.get(number, rows[number]), texts[at]
            if text is not None and text != stored.get(number):
                plan.updated_texts.append((number, text))
            elif metadata[at] == row.metadata:
                continue
            plan.updated.append(row._replace(metadata=metadata[at]))

    def _current(self, request: AddRequest) -> Arrivals:
        """Return the arrivals with the keys of the current operating point."""
        if request.view is self.view or self.view.codec.options.spec.narrow:
            return request.arrivals
        return request.arrivals.with_bands(self.view.codec.lsh)

    def judge(
        self,
        plan: CommitPlan,
        contents: Sequence[bytes],
        arrivals: Arrivals | None,
        numbers: Sequence[int],
    ) -> list[Judgement]:
        """Judge copies that lose their witness, which go into `plan.moved`, and the arrivals.

        Args:
            plan: Its `removed` rows are excluded; `moved` and `keys` are set.
            contents: The content hash of each arrival.
            arrivals: The arrivals; None if the plan only removes.
            numbers: The number that each arrival will have.

        Returns:
            The judgements of the arrivals.
        """
        return self._judge(plan, self._orphaned_copies(plan.removed), contents, arrivals, numbers)

    def _judge(
        self,
        plan: CommitPlan,
        orphaned: Sequence[Row],
        contents: Sequence[bytes] = (),
        arrivals: Arrivals | None = None,
        numbers: Sequence[int] = (),
        together: Sequence[int] = (),
    ) -> list[Judgement]:
        """Judge orphaned copies and arrivals; see `judge`.

        `together` are documents that are excluded besides those that the plan removes.
        """
        view = self.view.without({*plan.removed, *together})
        source: CandidateSource = view
        keys = [] if arrivals is None else [arrivals.keys]
        if orphaned:
            stored = [row.number for row in orphaned]
            again = view.stored_arrivals(stored, [row.content for row in orphaned])
            decided = self._decide(again, stored, view)
            plan.moved = [
                row._replace(**verdict._asdict())
                for row, verdict in zip(orphaned, decided, strict=True)
            ]
            kept = np.flatnonzero([row.witness is None for row in plan.moved])
            if len(kept):
                source = WithKept(view, np.array(stored, np.int64)[kept], again.keys[kept])
            keys = [again.keys, *keys]
        plan.keys = np.concatenate(keys) if keys else plan.keys
        copies = self._identical(contents, plan)
        rest = [at for at in range(len(contents)) if at not in copies]
        if arrivals is None or not rest:
            return [copies[at] for at in range(len(contents))]
        decisions = self._decide(
            select_arrivals(arrivals, rest), [numbers[at] for at in rest], source
        )
        verdicts = dict(zip(rest, decisions, strict=True)) | copies
        return [verdicts[at] for at in range(len(contents))]

    def _decide(
        self, arrivals: Arrivals, numbers: Sequence[int], source: CandidateSource
    ) -> list[Judgement]:
        begun, decider = time.perf_counter(), self.view.decider
        judged = decider.decide(arrivals, np.array(numbers, np.int64), source)
        self.counters.count_judged(len(numbers), judged, time.perf_counter() - begun)
        columns = (judged.witness.tolist(), judged.similarity.tolist(), judged.exact.tolist())
        return [
            Judgement(None, None, 1)
            if witness == KEPT
            else Judgement(witness, similarity, int(exact), cosine)
            for witness, similarity, exact, cosine in zip(*columns, judged.cosines, strict=True)
        ]

    def _orphaned_copies(self, removed: dict[int, Row]) -> list[Row]:
        """Return the remaining copies of removed documents, in order."""
        store = self.view.store
        kept = [number for number, row in removed.items() if row.witness is None]
        listed = sorted(self.view.copies_of(kept) - set(removed))  # many that were copies once
        witness_of = store.witnesses(listed) if listed else {}
        rows = store.rows([number for number in listed if witness_of.get(number) in removed])
        return [rows[number] for number in sorted(rows)]

    def _identical(self, contents: Sequence[bytes], plan: CommitPlan) -> dict[int, Judgement]:
        """Judge arrivals that have the content of a stored document, by place.

        Those that the plan removes don't count, and those that it moves count as they are then.
        """
        if not contents:
            return {}
        words = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        moved = {row.content: row for row in reversed(plan.moved)}
        excluded = {*plan.removed, *(row.number for row in plan.moved)}
        found = {at: moved[content] for at, content in enumerate(contents) if content in moved}
        found |= self.view.rows_by_content(words, excluded)
        return {
            at: Judgement(row.number, 1.0, 1) if row.witness is None else _judgement(row)
            for at, row in found.items()
        }


@dataclass
class Addition:
    """A plan for several requests, and the answers to them when it is committed."""

    requests: Sequence[AddRequest]
    plan: CommitPlan
    kinds: SortedArrivals

    def answers(self, view: View) -> list[list[Answer]]:
        """Return the answers to each request, in order."""
        added = dict(zip(self.kinds.fresh, self.plan.added, strict=True))
        moved = {row.number: row for row in self.plan.moved}
        rows = dict(added)
        for at, row in self.kinds.again.items():
            if isinstance(row, int) and row in added:
                rows[at] = added[row]
            elif isinstance(row, int) or row.number in self.plan.removed:  # by a later arrival
                self.kinds.refused[at] = REPLACED
            else:
                rows[at] = moved.get(row.number, row)
        ids = view.witness_ids(rows.values(), {row.number: row.id for row in added.values()})
        listed, at = [], 0
        for request in self.requests:
            answers = [
                Answer(id, REJECTED, reason=request.rejected.get(place))
                for place, id in enumerate(request.ids)
            ]
            for place in request.places:
                reason = self.kinds.refused.get(at)
                if reason is not None:
                    answers[place] = Answer(request.ids[place], REJECTED, reason=reason)
                else:
                    again = at in self.kinds.again
                    answer = answer_from_row(rows[at], ids, again=again)
                    answers[place] = view.name_signal(answer, rows[at].cosine)
                at += 1
            listed.append([view.name_signal(answer) for answer in answers])
        return listed


def _free_ids(
    ids: list[str], contents: Sequence[bytes], generated: Sequence[int], stored: dict[str, Row]
) -> list[str]:
    """Give arrivals another id whose generated one belongs to another content; return these ids.

    Files of two days may have one name. The content is in the new id, so that the same document has
    the same id when it comes again.

    Args:
        ids: The ids of all arrivals, which are changed.
        contents: The content hash of each arrival.
        generated: The arrivals whose ids were made of file and row.
        stored: The stored rows with these ids.
    """
    first: dict[str, bytes] = {}
    changed = []
    for at in generated:
        id, content = ids[at], contents[at]
        holder = stored[id].content if id in stored else first.setdefault(id, content)
        other = f"{id}#{content.hex()}"
        if holder != content and is_valid_id(other):
            ids[at] = other
            changed.append(other)
    return changed


def check_number(number: int) -> None:
    """Refuse a document whose number the tables can't hold."""
    if number > LAST_NUMBER:
        raise OutputError(
            f"an index holds at most {LAST_NUMBER:,} documents, removed ones included: build "
            "another index for more documents"
        )
