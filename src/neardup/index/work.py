"""What the one who writes is asked to do, and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neardup.errors import SpecMismatch
from neardup.index.answer import NEW, REJECTED, Answer
from neardup.index.deciding import Arrivals, Decider, Pairs, Verdicts
from neardup.index.known import Known, Signing
from neardup.index.store import Stored
from neardup.index.tables.derived import Derived
from neardup.index.times import Times


@dataclass(frozen=True)
class Point:
    """An operating point with its tables, and how documents are judged and stored there."""

    decider: Decider
    signing: Signing
    derived: Derived

    def known(self, store: Stored, without: Sequence[int] = ()) -> Known:
        return Known(store, self.derived, self.signing, tuple(without))


@dataclass
class Adding:
    """Documents to add. Those that are rejected already are not among the arrivals."""

    ids: list[str]
    arrivals: Arrivals
    places: list[int]
    """Of each arrival: which of the ids is its own."""
    rejected: dict[int, str]
    metadata: Sequence[str | None]
    texts: Sequence[bytes | None] | None
    """To be stored."""
    replace: bool
    point: Point
    """The one that the arrivals' keys are for."""
    carried: Sequence[tuple[int, float]] | None = None
    """The number and the time of each, if it had them before."""
    anew: Callable[[], Future[list[Answer]]] | None = None
    """Asks again, by what the index is then; None if that is not possible."""
    done: Future[list[Answer]] = field(default_factory=Future)

    @property
    def documents(self) -> int:
        return len(self.ids)

    def joins(self, other: Work) -> bool:
        """Whether both can be done together."""
        return (
            isinstance(other, Adding)
            and not (self.replace or other.replace)
            and self.carried is None
            and other.carried is None
            and (self.arrivals.shingles is None) == (other.arrivals.shingles is None)
        )

    def ask_again(self) -> None:
        """Leave it to the index, which is another one now; for its answers somebody waits here."""
        if self.anew is None:
            raise SpecMismatch(
                "the index has got another specification: make the sketches by that one"
            )
        self.anew().add_done_callback(self._finish)

    def _finish(self, other: Future[list[Answer]]) -> None:
        if (error := other.exception()) is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(other.result())


@dataclass
class Removing:
    """A document to remove."""

    id: str
    done: Future[bool] = field(default_factory=Future)
    documents: int = 1


@dataclass
class Calling:
    """Something to do while nobody writes."""

    call: Callable[[], Any]
    done: Future[Any] = field(default_factory=Future)
    documents: int = 0


Work = Adding | Removing | Calling


@dataclass
class Counters:
    """What has been done since the index was opened."""

    judged: int = 0
    looked_up: int = 0
    candidates: int = 0
    compared: int = 0
    similar: int = 0
    judge_seconds: float = 0.0
    added: int = 0
    new: int = 0
    rejected: int = 0
    again: int = 0
    removed: int = 0
    queries: int = 0
    sketched: int = 0
    slots: int = 0
    empty_slots: int = 0
    sketch_times: Times = field(default_factory=Times)
    """Of documents; those of a batch share its time."""
    commit_times: Times = field(default_factory=Times)

    def judge(self, documents: int, verdicts: Verdicts, seconds: float) -> None:
        self.judged += documents
        self.judge_seconds += seconds
        self.looked_up += verdicts.looked_up
        self.candidates += verdicts.candidates
        self.compared += verdicts.compared
        self.similar += verdicts.similar

    def meet(self, documents: int, pairs: Pairs, seconds: float) -> None:
        """The same for texts that were only asked about."""
        self.judged += documents
        self.judge_seconds += seconds
        self.candidates += len(pairs.rows)
        self.compared += len(pairs.rows)
        self.similar += int(np.count_nonzero(pairs.similarity >= 0.0))

    def answer(self, answers: Sequence[Answer]) -> None:
        rejected = sum(answer.status == REJECTED for answer in answers)
        again = sum(answer.again for answer in answers)
        self.rejected += rejected
        self.again += again
        self.added += len(answers) - rejected - again
        self.new += sum(answer.status == NEW and not answer.again for answer in answers)
