"""What every open index does alike: sketch, ask, hand over to the writer.

`Generation` has its documents in a folder, `SharedGeneration` (redis_store/) on servers.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from neardup.errors import UsageError
from neardup.index.answer import Answer
from neardup.index.arrivals import (
    ArrivalSketcher,
    Groups,
    SketchedTexts,
    Texts,
    VectorRows,
)
from neardup.index.expiry import DatedDocuments
from neardup.index.planner import AddRequest, CallRequest
from neardup.index.request_queue import RequestQueue
from neardup.index.settings import IndexSettings
from neardup.index.stats import Counters, Stats
from neardup.index.store import Row
from neardup.index.validation import encode_text
from neardup.index.view import Probing, TablesBehind, View
from neardup.keys import Key
from neardup.lsh.bands import Tables
from neardup.sketcher import SketchedDocuments

T = TypeVar("T")


def count_documents(texts: Texts, vectors: VectorRows) -> int:
    """Return the number of documents that have these texts, or these vectors alone."""
    return len(texts) if texts is not None else 0 if vectors is None else len(vectors)


class BaseGeneration(ABC):
    """Documents of one specification that are queried and added to. Usable in any thread."""

    settings: IndexSettings
    sketcher: ArrivalSketcher
    counters: Counters
    key: Key | None
    pauses: ClassVar[tuple[float, ...]] = (0.0, 0.001, 0.01, 0.1)
    """Seconds between retries while the tables are behind the store."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name in the index."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The folder or the address of the index, for messages."""

    @property
    @abstractmethod
    def view(self) -> View:
        """The current view, which may be behind the changes of another process."""

    @property
    @abstractmethod
    def queue(self) -> RequestQueue | None:
        """The queue of the writer thread; None if the index was opened read-only."""

    @property
    @abstractmethod
    def documents(self) -> DatedDocuments:
        """All documents, with their dates."""

    @abstractmethod
    def refresh(self) -> View:
        """Return the view with all changes that any process has committed."""

    @abstractmethod
    def count_documents(self) -> tuple[int, int]:
        """Return the number of documents, and of kept ones."""

    @abstractmethod
    def stats(self) -> Stats:
        """Return the state of the index in numbers."""

    @abstractmethod
    def verify(self) -> list[str]:
        """List problems of the stored documents and the tables, one line each."""

    # Reading

    def answer(self, question: Callable[[View], T]) -> T:
        """Call `question` with the current view, and retry while its tables are behind the store.

        A document that is removed leaves the store a moment before it leaves the tables.
        """
        for pause in self.pauses:
            try:
                return question(self.refresh())
            except TablesBehind:
                time.sleep(pause)
        return question(self.refresh())

    def query_texts(
        self, texts: Texts, probes: int = 0, groups: Groups = None, vectors: VectorRows = None
    ) -> list[Answer]:
        """Judge texts without storing them, each by itself; `probes` as in `Index.query`."""
        apart = self.sketcher.hash_groups(groups, count_documents(texts, vectors))
        return self._query(
            lambda lsh: self.sketcher.sketch_texts(texts, lsh, apart, vectors), probes
        )

    def query_sketches(self, sketch: SketchedDocuments, groups: Groups = None) -> list[Answer]:
        """Judge sketches of the same specification without storing them, each by itself."""
        return self._query(lambda lsh: self.sketcher.accept_sketches(sketch, lsh, groups))

    def _query(self, sketch: Callable[[Tables], SketchedTexts], probes: int = 0) -> list[Answer]:
        def question(view: View) -> list[Answer]:
            probing = Probing(view.codec, self.key, probes) if probes else None
            sketched = sketch(view.codec.lsh)
            sequence, begun = view.tables.sequence, time.perf_counter()
            copies = view.find_copies(sketched.arrivals, self.counters, probing)
            seconds = time.perf_counter() - begun
            if probing is None:
                self.observe_query(sketched, copies, seconds, sequence)
            return [view.name_signal(answer) for answer in sketched.answers(copies)]

        answers = self.answer(question)
        self.counters.queries += len(answers)
        return answers

    def observe_query(  # noqa: B027  # most have no shadow
        self, sketched: SketchedTexts, copies: dict[int, Answer], seconds: float, sequence: int
    ) -> None:
        """Take notice of answers to a query, as a shadow does.

        Args:
            sketched: The texts.
            copies: The answers to those that are copies, by row.
            seconds: The time that it took.
            sequence: The last change that the answers are based on.
        """

    # Writing

    def require_queue(self) -> RequestQueue:
        """Return the writer's queue; raise UsageError if the index was opened read-only."""
        if self.queue is None:
            raise UsageError(f"{self.place} was opened read-only: open it to write")
        return self.queue

    def submit_texts(
        self,
        ids: Sequence[str],
        texts: Texts,
        metadata: Sequence[str | None],
        groups: Groups | NDArray[np.uint64] = None,
        vectors: VectorRows = None,
        **request: Any,
    ) -> Future[list[Answer]]:
        """Sketch documents in this thread and queue them for the writer thread.

        `groups` are those of the documents, or their hashes; `request` has other fields of the
        `AddRequest`.
        """
        queue, view = self.require_queue(), self.view
        apart = groups
        if not isinstance(apart, np.ndarray):
            apart = self.sketcher.hash_groups(apart, len(ids))
        sketched = self.sketcher.sketch_texts(texts, view.codec.lsh, apart, vectors)
        _ = sketched.arrivals.sets  # sorted here, not by the writer thread
        stored = None
        if self.settings.keep_texts and texts is not None:
            stored = [
                None if place in sketched.rejected or text is None else encode_text(text)
                for place, text in enumerate(texts)
            ]
        return self._submit(queue, view, ids, sketched, metadata, texts=stored, **request)

    def submit_sketches(
        self,
        ids: Sequence[str],
        sketch: SketchedDocuments,
        metadata: Sequence[str | None],
        groups: Groups = None,
        *,
        replace: bool,
    ) -> Future[list[Answer]]:
        """Queue documents that come as sketches for the writer thread."""
        queue, view = self.require_queue(), self.view
        sketched = self.sketcher.accept_sketches(sketch, view.codec.lsh, groups)
        return self._submit(queue, view, ids, sketched, metadata, replace=replace)

    def _submit(
        self,
        queue: RequestQueue,
        view: View,
        ids: Sequence[str],
        sketched: SketchedTexts,
        metadata: Sequence[str | None],
        **request: Any,
    ) -> Future[list[Answer]]:
        request_to_add = AddRequest(
            list(ids),
            sketched.arrivals,
            sketched.places,
            sketched.rejected,
            metadata,
            view=view,
            **request,
        )
        return queue.put(request_to_add).done

    @abstractmethod
    def remove_batch(self, ids: Sequence[str]) -> list[bool]:
        """Remove documents; return for each id whether a document had it."""

    @abstractmethod
    def remove_in_steps(
        self, numbers: Sequence[int], still: Callable[[Row], bool]
    ) -> Iterator[list[int]]:
        """Remove documents in steps; yield the numbers of those that a step has removed.

        Args:
            numbers: The documents.
            still: Whether a document is still to be removed, asked a moment before it is.
        """

    def between_commits(self, call: Callable[[], T]) -> T:
        """Have the writer thread call a function between two commits; return its result."""
        result: T = self.require_queue().put(CallRequest(call)).done.result()
        return result
