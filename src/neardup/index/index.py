"""The online index: is this new document a copy of something that came before?

    with neardup.Index.open("posts", threshold=0.8) as index:
        index.add("1", "the first text of all that there are in here")
        index.query("The first text of all that there are in here!").duplicate_of

Durable: what was acknowledged is there after a crash. The answer is that of a batch run over the
same documents in the order in which they were added.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from neardup.errors import Conflict, ParameterError, UsageError
from neardup.formatting import parse_bytes
from neardup.index import folder, generation, planner
from neardup.index.answer import Answer, Document, DocumentCluster, SimilarDocument
from neardup.index.arrivals import SketchedTexts
from neardup.index.exchange import export_store
from neardup.index.explain import DocumentExplanation, Explanation, explain_query, explain_stored
from neardup.index.generation import Generation, OpenOptions
from neardup.index.integrity import find_problems
from neardup.index.lookup import ReadWriteLock
from neardup.index.planner import AddRequest, CallRequest, RemoveRequest
from neardup.index.settings import IndexSettings
from neardup.index.shadow import Shadow
from neardup.index.stats import Stats
from neardup.index.store import Row, Store
from neardup.index.validation import check_id, encode_metadata, encode_text
from neardup.index.view import (
    Probing,
    View,
    answers_of,
    cluster_around,
    copies_of,
    document_with,
    matches_of,
    text_with,
)
from neardup.index.writer import MOST_WAITING, IndexWriter
from neardup.keys import Key, to_key
from neardup.option_table import IndexOptions, takes_options
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import Spec, check_whole

if TYPE_CHECKING:
    from neardup.index.rebuild import Reindexed


P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="Holder")


def while_open(
    method: Callable[Concatenate[H, P], T],
) -> Callable[Concatenate[H, P], T]:
    """A call that nobody closes the index under. One can't call another."""

    @wraps(method)
    def called(self: H, /, *args: P.args, **others: P.kwargs) -> T:
        self._follow_generations()
        with self._using.reading():
            if self._closed:
                raise UsageError(f"{self.path} is closed: open it again")
            return method(self, *args, **others)

    return called


class Holder:
    """Open until it is closed. Any thread."""

    def __init__(self, path: Path, opened: generation.OpenedStore, how: OpenOptions) -> None:
        self.path, self._how, self._lock = path, how, opened.lock
        self._now = Generation(opened, how)
        self._former: list[Store] = []
        self._listing, self._listed_at = path / folder.LISTED, (0, 0)
        self._exchanging, self._using = threading.Lock(), ReadWriteLock()
        self._closing, self._closed = threading.Lock(), False

    @classmethod
    def of_generation(
        cls,
        path: Path,
        name: str,
        keys: Iterable[Key | None],
        *,
        read_only: bool = False,
        how: OpenOptions | None = None,
    ) -> Self:
        """One generation of an index, whether it is the current one or not.

        Of the keys it takes the one that it needs, if any.
        """
        with generation.open_generation(path, name, keys, read_only=read_only) as opened:
            return cls(path, opened, how or OpenOptions())

    @property
    def settings(self) -> IndexSettings:
        return self._now.settings

    @property
    def options(self) -> Options:
        return self.settings.options

    @property
    def spec(self) -> Spec:
        return self.options.spec

    @property
    def sketcher(self) -> Sketcher:
        """Makes sketches as this index does."""
        return self._now.sketching.sketcher

    @property
    def store(self) -> Store:
        """What is stored; to be read."""
        return self._now.store

    @property
    def generation(self) -> str:
        """The folder in the index's own that answers come from."""
        return self._now.name

    @property
    def read_only(self) -> bool:
        return self._now.writer is None

    @property
    def sequence(self) -> int:
        """The number of the last change that answers are based on."""
        return self._now.point.derived.sequence

    def __len__(self) -> int:
        writer = self._now.writer
        return self._counted() if writer is None else writer.documents

    @while_open
    def _counted(self) -> int:
        return self.store.counts()[0]

    def close(self) -> None:
        """Finish what waits, write a snapshot if that is worth it, and let others write."""
        with self._closing:
            if self._closed:
                return
            try:
                self._finish()
            finally:
                self._closed = True
                with self._exchanging, self._using.writing():  # nobody asks any more
                    for store in (*self._former, self.store):
                        store.close()
                if self._lock is not None:
                    self._lock.release()

    def _finish(self) -> None:
        finished = None
        while finished is not self._now:  # another one, if a generation came in between
            finished = self._now
            if finished.shadow is not None:
                finished.shadow.close()
            finished.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def beside(self, generation: str, key: Key | None) -> Self:
        """Another generation of the same folder, to write there."""
        return self.of_generation(self.path, generation, [key, self._now.key], how=self._how)

    def between_commits(self, call: Callable[[], None]) -> None:
        """Have the thread that writes do something."""
        _, writer = self._writing()
        writer.put(CallRequest(call)).done.result()
        if writer is not self._now.writer:
            writer.close()

    def follow(self, other: Store) -> None:
        """Give larger numbers than another store has, to documents and to changes."""
        _, writer = self._writing()
        self.between_commits(lambda: writer.follow(other))

    def go_over(self, other: Self) -> None:
        """Be another generation from now on, in the thread that writes; `other` is used up.

        Who is being answered is answered from the old one. What waits to be written waits there.
        """
        former = self._now
        if former.shadow is not None:
            former.shadow.close()
        self._former.append(former.store)
        other._now.go_on_counting(former.counters)
        self._now, other._closed = other._now, True
        if other._lock is not None:
            other._lock.release()
        if former.writer is not None and self._now.writer is not None:
            former.writer.hand_over(self._now.writer)

    def _follow_generations(self) -> None:
        """Of a reader: has another process gone over to another generation?"""
        if self._now.writer is not None or folder.file_identity(self._listing) == self._listed_at:
            return
        with self._exchanging:
            at, listed = folder.file_identity(self._listing), folder.read_generations(self.path)
            if listed is None or self._closed:
                return
            if listed.current != self.generation:
                self.go_over(
                    self.of_generation(
                        self.path, listed.current, [self._now.key], read_only=True, how=self._how
                    )
                )
            self._listed_at = at

    def _writing(self) -> tuple[Generation, IndexWriter]:
        now = self._now
        if now.writer is None:
            raise UsageError(f"{self.path} was opened read-only: open it to write")
        return now, now.writer


Metadata = Sequence[dict[str, Any] | None] | None


class Index(Holder):
    """An open index. Any number of threads may use it; one process writes, others may read.

    Readers don't wait for readers. `add` returns when its documents are stored for good.
    """

    @classmethod
    @takes_options("neardup.Index.open")
    def open(
        cls,
        path: str | Path,
        spec: Spec | None = None,
        *,
        read_only: bool = False,
        memory: int | str | None = None,
        keep_texts: bool | None = None,
        key: bytes | Key | None = None,
        clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING,
        say: Callable[[str], None] = lambda _: None,
        **options: Unpack[IndexOptions],
    ) -> Index:
        """Open the index in a folder, or make one there.

        An index that exists keeps its specification and operating point, and refuses to be opened
        with others: `retune` and `reindex` change them.

        Args:
            path: The folder.
            spec: The specification of a new index, instead of the options that decide it.
            read_only: Open it beside a process that writes; nothing can be added.
            memory: The most memory for the hash tables, in bytes or as "4 GB"; what does not fit is
                looked up on disk. By default they are held in memory.
            keep_texts: Store the texts of a new index, so that it can be indexed by another
                specification later.
            key: The secret key of an index with hash siphash.
            clock: Returns the time at which a document is added.
            most_waiting: Documents that may wait for the writer thread before `add` blocks.
            say: Receives messages about steps that take long.
            **options: The operating point of a new index, and the specification if there is no
                `spec`: matching options, as in `neardup.dedup`.

        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> with Index.open(folder, threshold=0.9) as index:
        ...     index.add("1", "the cat sat on the mat today").status
        'new'
        """
        path, secret = Path(path), to_key(key)
        budget = parse_bytes(memory) if isinstance(memory, str) else memory
        if budget is not None:
            check_whole("memory", budget, 1, 2**62)
        how, given = (
            OpenOptions(clock, most_waiting, say, budget),
            dict(options),
        )
        with generation.open_current(
            path, spec, secret, given, keep_texts=keep_texts, read_only=read_only
        ) as opened:
            return cls(path, opened, how)

    # Adding and removing

    def add(
        self, id: str, text: str, *, metadata: dict[str, Any] | None = None, replace: bool = False
    ) -> Answer:
        """Say whether a document is a copy, and store it: in one step that nobody comes between.

        An id that is there with the same content is answered again, and nothing is added. With
        another content it is a Conflict, unless the document is to be replaced.
        """
        answer = self.add_batch([id], [text], metadata=[metadata], replace=replace)[0]
        if answer.reason == planner.CONFLICT:
            raise Conflict(f"document {id!r}: {planner.CONFLICT}")
        return answer

    check_and_add = add

    def add_batch(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> list[Answer]:
        """The same for many documents, in order and in one commit."""
        return self.submit(ids, texts, metadata=metadata, replace=replace).result()

    def submit(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> Future[list[Answer]]:
        """The same without waiting: the future has the answers when all are stored."""
        if len(ids) != len(texts):
            raise ParameterError(f"{len(ids)} ids for {len(texts)} texts: give one for each")
        for id in ids:
            check_id(id)
        return self._put(
            ids,
            texts,
            encode_metadata(metadata, len(ids)),
            replace=replace,
            anew=lambda: self.submit(ids, texts, metadata=metadata, replace=replace),
        )

    def carry(self, rows: Sequence[Row], texts: Sequence[str]) -> Future[list[Answer]]:
        """Add documents of another generation: they keep numbers, times and metadata."""
        return self._put(
            [row.id for row in rows],
            texts,
            [row.metadata for row in rows],
            carried=[(row.number, row.added) for row in rows],
        )

    def _put(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        metadata: Sequence[str | None],
        **others: Any,
    ) -> Future[list[Answer]]:
        now, writer = self._writing()
        point = now.point
        sketched = now.sketching.texts(texts, point.signing.tables)
        _ = sketched.arrivals.sets  # sorted here, not by the thread that writes
        kept = None
        if now.settings.keep_texts:
            kept = [
                None if place in sketched.rejected else encode_text(text)
                for place, text in enumerate(texts)
            ]
        return writer.put(_adding(ids, sketched, metadata, point, texts=kept, **others)).done

    def add_sketches(
        self,
        ids: Sequence[str],
        sketch: SketchedDocuments,
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> list[Answer]:
        """Add documents by ready-made sketches of the same specification, without their texts."""
        return self._submit_sketches(ids, sketch, metadata, replace).result()

    def _submit_sketches(
        self, ids: Sequence[str], sketch: SketchedDocuments, metadata: Metadata, replace: bool
    ) -> Future[list[Answer]]:
        now, writer = self._writing()
        if len(ids) != len(sketch.content):
            raise ParameterError(f"{len(ids)} ids for {len(sketch.content)} sketches")
        for id in ids:
            check_id(id)
        point, stated = now.point, encode_metadata(metadata, len(ids))
        sketched = now.sketching.ready_made(sketch, point.signing.tables)
        return writer.put(_adding(ids, sketched, stated, point, replace=replace)).done

    def remove(self, id: str) -> bool:
        """Remove a document for good; whether it was there. Its copies find another witness."""
        return self._writing()[1].put(RemoveRequest(id)).done.result()

    # Asking

    def query(self, text: str, *, probes: int = 0) -> Answer:
        """Say whether a text is a copy of a kept document. Nothing is stored.

        With `probes` so many more buckets are looked into, the likeliest first.
        """
        return self.query_batch([text], probes=probes)[0]

    @while_open
    def query_batch(self, texts: Sequence[str], *, probes: int = 0) -> list[Answer]:
        """The same for many texts, each by itself."""
        now = self._now
        return self._asked(
            now, lambda point: now.sketching.texts(texts, point.signing.tables), probes
        )

    @while_open
    def query_sketches(self, sketch: SketchedDocuments) -> list[Answer]:
        """The same for ready-made sketches of the same specification, without their texts."""
        now = self._now
        return self._asked(
            now, lambda point: now.sketching.ready_made(sketch, point.signing.tables)
        )

    def _asked(
        self, now: Generation, sketch: Callable[[View], SketchedTexts], probes: int = 0
    ) -> list[Answer]:
        def ask(point: View) -> list[Answer]:
            more = Probing(point.signing, now.key, probes) if probes else None
            sketched = sketch(point)
            sequence, begun = point.derived.sequence, time.perf_counter()
            found = copies_of(now.store, point, sketched.arrivals, now.counters, more)
            took = time.perf_counter() - begun
            if now.shadow is not None and more is None:
                now.shadow.ask(sketched.arrivals, found, took, sequence)
            return answers_of(sketched, found)

        answers = now.ask(ask)
        now.counters.queries += len(answers)
        return answers

    @while_open
    def similar(self, text: str, most: int = 10) -> list[SimilarDocument]:
        """The kept documents that are similar to a text, the most similar first."""
        now = self._now

        def ask(point: View) -> list[SimilarDocument]:
            arrivals = now.sketching.texts([text], point.signing.tables).arrivals
            return matches_of(now.store, point, arrivals, most) if len(arrivals) else []

        return now.ask(ask)

    def explain(self, text: str) -> Explanation:
        """Every step of `query`, with what it found and how long it took."""
        for _ in range(2):  # the first time, what is needed may have to be loaded
            begun = time.perf_counter()
            answer = self.query(text)
            seconds = time.perf_counter() - begun
            found = self._explained(text, answer, seconds)
        return found

    @while_open
    def _explained(self, text: str, answer: Answer, seconds: float) -> Explanation:
        now = self._now
        return now.ask(
            lambda point: explain_query(text, answer, seconds, now.store, point, now.sketching)
        )

    @while_open
    def explain_document(self, id: str) -> DocumentExplanation | None:
        """A stored document beside its witness, and others; None if there is none with this id."""
        now = self._now

        def ask(point: View) -> DocumentExplanation | None:
            document = document_with(now.store, point, id)
            return None if document is None else explain_stored(now.store, point, document)

        return now.ask(ask)

    @while_open
    def get(self, id: str) -> Document | None:
        """What is known of a document; None if there is none with this id."""
        now = self._now
        return now.ask(lambda point: document_with(now.store, point, id))

    @while_open
    def text(self, id: str) -> Any:
        """The text of a document, or its list of tokens; None if it is not there, or not kept."""
        now = self._now
        return now.ask(lambda point: text_with(now.store, point, id, now.settings))

    @while_open
    def cluster(self, number: int) -> DocumentCluster | None:
        """A kept document and its copies; None if there is no such cluster."""
        return cluster_around(self._now.store, self._now.refreshed(), number)

    # Changing the operating point

    @property
    def shadow(self) -> Shadow:
        """Another operating point beside the current one; see `Shadow`."""
        now, _ = self._writing()
        assert now.shadow is not None  # noqa: S101  # who writes has one
        return now.shadow

    def retune(self, **point: Any) -> int:
        """Go over to another operating point; of how many documents the answer changed.

        `point` is what differs, as in `shadow.start`. All documents are judged again in order, by
        what is stored of them, beside what goes on.
        """
        self.shadow.start(**point)
        try:
            return self.shadow.promote(wait=True)
        except BaseException:
            self.shadow.close()
            raise

    # Keeping house

    @while_open
    def stats(self) -> Stats:
        """The state of the index in numbers."""
        return self._now.stats()

    def snapshot(self) -> int:
        """Write the tables to a file, to start from; the change up to which they are complete."""
        return self._writing()[0].snapshot()

    def snapshot_if_due(self) -> bool:
        """The same if a start would take long without it; whether it was written."""
        return self._writing()[0].snapshot_if_due()

    def compact(self) -> None:
        """Build the tables without removed documents, forget old changes, and give back space."""
        self.between_commits(lambda: self._now.compact())

    @while_open
    def export(self, file: str | Path, progress: Progress = SILENT) -> int:
        """Write all documents to one file, for `import_index`; how many there are."""
        return export_store(self.store, Path(file), progress)

    @while_open
    def verify(self) -> list[str]:
        """What is wrong with the stored documents or the tables; nothing, usually."""
        return find_problems(self.store, self._now.refreshed())

    # Generations

    @while_open
    def reindex(
        self,
        /,
        spec: Spec | None = None,
        *,
        key: bytes | Key | None = None,
        corpus: Iterable[tuple[str, str]] | None = None,
        keep_texts: bool | None = None,
        drop_missing: bool = False,
        progress: Progress = SILENT,
        **options: Any,
    ) -> Reindexed:
        """Index all documents by another specification, while this one goes on; then go over to it.

        Texts are the stored ones, or those of `corpus`: (id, text) in any order. `options` are as
        in `open`; what is not given stays. Documents that have no text, or are rejected, are an
        error unless they may be left out.
        """
        from neardup.index import rebuild

        return rebuild.reindex(
            self,
            spec,
            key=key,
            corpus=corpus,
            keep_texts=keep_texts,
            drop_missing=drop_missing,
            progress=progress,
            **options,
        )

    @while_open
    def undo_reindex(
        self,
        *,
        key: bytes | Key | None = None,
        drop_missing: bool = False,
        progress: Progress = SILENT,
    ) -> Reindexed:
        """Go back to the generation before, with what has happened since."""
        from neardup.index import rebuild

        return rebuild.undo(self, key=key, drop_missing=drop_missing, progress=progress)

    @while_open
    def take_over(self, *, key: bytes | Key | None = None) -> bool:
        """Go over to a generation that another process has made; False if none waits.

        Takes no time if none does: to be called now and then. `key` is the new one, if it changes.
        """
        from neardup.index import cutover

        return cutover.accept_offer(self, key)


def _adding(
    ids: Sequence[str],
    sketched: SketchedTexts,
    metadata: Sequence[str | None],
    point: View,
    *,
    texts: Sequence[bytes | None] | None = None,
    replace: bool = False,
    **others: Any,
) -> AddRequest:
    return AddRequest(
        list(ids),
        sketched.arrivals,
        sketched.places,
        sketched.rejected,
        metadata,
        texts,
        replace,
        point,
        **others,
    )
