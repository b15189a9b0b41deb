"""The online index: is this new document a copy of something that came before?

    with neardup.Index.open("posts", threshold=0.8) as index:
        index.add("1", "the first text of all that there are in here")
        index.query("The first text of all that there are in here!").duplicate_of

Durable: what was acknowledged is there after a crash. The answer is that of a batch run over the
same documents in the order in which they were added.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neardup.errors import Conflict, ParameterError
from neardup.formatting import parse_bytes
from neardup.index import opening, planning
from neardup.index.answer import Answer, Cluster, Document, Match
from neardup.index.asking import answers_of, copies_of, matches_of
from neardup.index.checking import problems
from neardup.index.documents import cluster_around, document_with, text_with
from neardup.index.explain import Explanation, explained
from neardup.index.explain_document import DocumentExplanation, explained_document
from neardup.index.filling.exchange import export_store
from neardup.index.generation import Generation
from neardup.index.given import LONGEST_ID as LONGEST_ID
from neardup.index.given import check_id, metadata_of, packed_text
from neardup.index.holding import Holder, steady
from neardup.index.opening import How
from neardup.index.probing import Probing
from neardup.index.shadow.shadow import Shadow
from neardup.index.sketching import Sketched
from neardup.index.stats import Stats
from neardup.index.store import Row
from neardup.index.work import Adding, Point, Removing
from neardup.index.writing import MOST_WAITING
from neardup.keys import Key, key_of
from neardup.progress import SILENT, Progress
from neardup.sketcher import Sketch
from neardup.spec import Spec, whole

if TYPE_CHECKING:
    from neardup.index.anew.reindex import Reindexed

Metadata = Sequence[dict[str, Any] | None] | None


class Index(Holder):
    """An open index. Any number of threads may use it; one process writes, others may read.

    Readers don't wait for readers. `add` returns when its documents are stored for good.
    """

    @classmethod
    def open(
        cls,
        path: str | Path,
        spec: Spec | None = None,
        threshold: float | None = None,
        *,
        read_only: bool = False,
        memory: int | str | None = None,
        keep_texts: bool | None = None,
        key: bytes | Key | None = None,
        clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING,
        say: Callable[[str], None] = lambda _: None,
        **options: Any,
    ) -> Index:
        """Open the index in a folder, or make one there.

        `spec` and `options` (see `neardup.dedup`) say what a new index is for; one that is there
        keeps what it has, and refuses to be opened for something else. With `keep_texts` it can be
        indexed anew by another specification. Past `memory` (bytes, or "4 GB") tables go to disk,
        where they still answer. `say` hears what takes long.
        """
        path, secret = Path(path), key_of(key)
        budget = parse_bytes(memory) if isinstance(memory, str) else memory
        if budget is not None:
            whole("memory", budget, 1, 2**62)
        how, given = How(clock, most_waiting, say, budget), {"threshold": threshold, **options}
        with opening.opened(
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
        if answer.reason == planning.CONFLICT:
            raise Conflict(f"document {id!r}: {planning.CONFLICT}")
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
            metadata_of(metadata, len(ids)),
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
        sketched = now.sketching.texts(texts, point)
        _ = sketched.arrivals.sets  # sorted here, not by the thread that writes
        kept = None
        if now.settings.keep_texts:
            kept = [
                None if place in sketched.rejected else packed_text(text)
                for place, text in enumerate(texts)
            ]
        return writer.put(_adding(ids, sketched, metadata, point, texts=kept, **others)).done

    def add_sketches(
        self,
        ids: Sequence[str],
        sketch: Sketch,
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> list[Answer]:
        """Add documents by ready-made sketches of the same specification, without their texts."""
        return self._submit_sketches(ids, sketch, metadata, replace).result()

    def _submit_sketches(
        self, ids: Sequence[str], sketch: Sketch, metadata: Metadata, replace: bool
    ) -> Future[list[Answer]]:
        now, writer = self._writing()
        if len(ids) != len(sketch.content):
            raise ParameterError(f"{len(ids)} ids for {len(sketch.content)} sketches")
        for id in ids:
            check_id(id)
        point, stated = now.point, metadata_of(metadata, len(ids))
        sketched = now.sketching.ready_made(sketch, point)
        return writer.put(_adding(ids, sketched, stated, point, replace=replace)).done

    def remove(self, id: str) -> bool:
        """Remove a document for good; whether it was there. Its copies find another witness."""
        return self._writing()[1].put(Removing(id)).done.result()

    # Asking

    def query(self, text: str, *, probes: int = 0) -> Answer:
        """Say whether a text is a copy of a kept document. Nothing is stored.

        With `probes` so many more buckets are looked into, the likeliest first.
        """
        return self.query_batch([text], probes=probes)[0]

    @steady
    def query_batch(self, texts: Sequence[str], *, probes: int = 0) -> list[Answer]:
        """The same for many texts, each by itself."""
        now = self._now
        return self._asked(now, lambda point: now.sketching.texts(texts, point), probes)

    @steady
    def query_sketches(self, sketch: Sketch) -> list[Answer]:
        """The same for ready-made sketches of the same specification, without their texts."""
        now = self._now
        return self._asked(now, lambda point: now.sketching.ready_made(sketch, point))

    def _asked(
        self, now: Generation, sketch: Callable[[Point], Sketched], probes: int = 0
    ) -> list[Answer]:
        def ask(point: Point) -> list[Answer]:
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

    @steady
    def similar(self, text: str, most: int = 10) -> list[Match]:
        """The kept documents that are similar to a text, the most similar first."""
        now = self._now

        def ask(point: Point) -> list[Match]:
            arrivals = now.sketching.texts([text], point).arrivals
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

    @steady
    def _explained(self, text: str, answer: Answer, seconds: float) -> Explanation:
        now = self._now
        return now.ask(
            lambda point: explained(text, answer, seconds, now.store, point, now.sketching)
        )

    @steady
    def explain_document(self, id: str) -> DocumentExplanation | None:
        """A stored document beside its witness, and others; None if there is none with this id."""
        now = self._now

        def ask(point: Point) -> DocumentExplanation | None:
            document = document_with(now.store, point, id)
            return None if document is None else explained_document(now.store, point, document)

        return now.ask(ask)

    @steady
    def get(self, id: str) -> Document | None:
        """What is known of a document; None if there is none with this id."""
        now = self._now
        return now.ask(lambda point: document_with(now.store, point, id))

    @steady
    def text(self, id: str) -> Any:
        """The text of a document, or its list of tokens; None if it is not there, or not kept."""
        now = self._now
        return now.ask(lambda point: text_with(now.store, point, id, now.settings))

    @steady
    def cluster(self, number: int) -> Cluster | None:
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

    @steady
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

    @steady
    def export(self, file: str | Path, progress: Progress = SILENT) -> int:
        """Write all documents to one file, for `import_index`; how many there are."""
        return export_store(self.store, Path(file), progress)

    @steady
    def verify(self) -> list[str]:
        """What is wrong with the stored documents or the tables; nothing, usually."""
        return problems(self.store, self._now.refreshed())

    # Generations

    @steady
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
        from neardup.index.anew import reindex

        return reindex.reindex(
            self,
            spec,
            key=key,
            corpus=corpus,
            keep_texts=keep_texts,
            drop_missing=drop_missing,
            progress=progress,
            **options,
        )

    @steady
    def undo_reindex(
        self,
        *,
        key: bytes | Key | None = None,
        drop_missing: bool = False,
        progress: Progress = SILENT,
    ) -> Reindexed:
        """Go back to the generation before, with what has happened since."""
        from neardup.index.anew import reindex

        return reindex.undo(self, key=key, drop_missing=drop_missing, progress=progress)

    @steady
    def take_over(self, *, key: bytes | Key | None = None) -> bool:
        """Go over to a generation that another process has made; False if none waits.

        Takes no time if none does: to be called now and then. `key` is the new one, if it changes.
        """
        from neardup.index.anew import going_over

        return going_over.take_over(self, key)


def _adding(
    ids: Sequence[str],
    sketched: Sketched,
    metadata: Sequence[str | None],
    point: Point,
    *,
    texts: Sequence[bytes | None] | None = None,
    replace: bool = False,
    **others: Any,
) -> Adding:
    return Adding(
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
