"""The online index: is this new document a copy of one that came before?

    with neardup.Index.open("posts", threshold=0.8) as index:
        index.add("1", "the first text of all that there are in here")
        index.query("The first text of all that there are in here!").duplicate_of

Durable: what was acknowledged is there after a crash. The answer is that of a batch run over the
same documents in the order in which they were added.

`Index` is what people call. Behind it are the open folder (`open_index.py`), a generation in it
(`generation.py`: store, tables, writer thread) and the view that answers (`view.py`).
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self, Unpack

from neardup.errors import Conflict, ParameterError
from neardup.formatting import parse_bytes
from neardup.index import cutover, rebuild
from neardup.index.answer import Answer, Document, DocumentCluster, SimilarDocument
from neardup.index.exchange import export_store
from neardup.index.explain import DocumentExplanation, Explanation, explain_query, explain_stored
from neardup.index.generation import OpenOptions
from neardup.index.open_index import OpenIndex
from neardup.index.planner import CONFLICT
from neardup.index.rebuild import Reindexed
from neardup.index.settings import IndexSettings
from neardup.index.shadow import Shadow
from neardup.index.stats import Stats
from neardup.index.validation import check_id, encode_metadata
from neardup.index.view import View
from neardup.index.writer import MOST_WAITING
from neardup.keys import Key, to_key
from neardup.option_table import IndexOptions, takes_options
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import Spec, check_whole

Metadata = Sequence[dict[str, Any] | None] | None


class Index:
    """An open index. Any number of threads may use it; one process writes, others may read.

    Readers don't wait for readers. `add` returns when its documents are stored durably.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> index = Index.open(folder.name, threshold=0.7, shingle="word:2")
    >>> index.add("1", "the quick brown fox jumps over the lazy dog").status
    'new'
    >>> index.query("The quick brown fox jumps over the lazy dog!").duplicate_of
    '1'
    >>> index.close()
    >>> folder.cleanup()
    """

    def __init__(self, opened: OpenIndex) -> None:
        self._opened = opened

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
            memory: The most memory for the tables, in bytes or as "4 GB"; what does not fit is
                looked up on disk. By default they are held in memory.
            keep_texts: Store the texts of a new index, so that it can be indexed by another
                specification later.
            key: The secret key of an index with hash siphash.
            clock: Returns the time at which a document is added, in seconds since 1970.
            most_waiting: Documents that may wait for the writer thread; more are refused (`Busy`).
            say: Receives messages about steps that take long.
            **options: The operating point of a new index, and the specification if there is no
                `spec`: matching options, as in `neardup.dedup`.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Index.open(folder, threshold=0.9) as index:
        ...         index.options.threshold
        0.9
        """
        budget = parse_bytes(memory) if isinstance(memory, str) else memory
        if budget is not None:
            check_whole("memory", budget, 1, 2**62)
        opened = OpenIndex.open(
            Path(path),
            spec,
            to_key(key),
            dict(options),
            OpenOptions(clock, most_waiting, say, budget),
            keep_texts=keep_texts,
            read_only=read_only,
        )
        return cls(opened)

    def close(self) -> None:
        """Finish what waits, write a snapshot if one is due, and let another process write.

        >>> index = _example()
        >>> index.close()
        >>> index.query("any text")
        Traceback (most recent call last):
        neardup.errors.UsageError: ... is closed: open it again
        """
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        if not self.read_only:
            return self._opened.generation.count_documents()[0]
        with self._opened.while_open() as generation:
            return generation.count_documents()[0]

    @property
    def path(self) -> Path:
        """The folder."""
        return self._opened.path

    @property
    def settings(self) -> IndexSettings:
        """What is stored about the index: specification, operating point, whether it has texts."""
        return self._opened.generation.settings

    @property
    def options(self) -> Options:
        """Specification and operating point."""
        return self.settings.options

    @property
    def spec(self) -> Spec:
        """The specification that documents are sketched by."""
        return self.options.spec

    @property
    def sketcher(self) -> Sketcher:
        """Makes sketches for `add_sketches` and `query_sketches`."""
        return self._opened.generation.sketcher.sketcher

    @property
    def generation(self) -> str:
        """The name of the generation that answers: a folder in the folder of the index."""
        return self._opened.generation.name

    @property
    def read_only(self) -> bool:
        """Whether it was opened to read."""
        return self._opened.generation.writer is None

    @property
    def sequence(self) -> int:
        """The number of the last change that answers are based on."""
        return self._opened.generation.view.tables.sequence

    # Adding and removing

    def add(
        self, id: str, text: str, *, metadata: dict[str, Any] | None = None, replace: bool = False
    ) -> Answer:
        """Judge a document and store it, in one step.

        An id that is stored with the same content is answered again, and nothing is added.

        Args:
            id: The document's id, up to 1,024 bytes of UTF-8.
            text: Its text; a list of token ids if the specification is of tokens.
            metadata: Stored with the document, as JSON.
            replace: Replace a document that has this id with another content. Without it that is a
                `Conflict`.

        >>> index = _example()
        >>> index.add("2", "the quick brown fox jumps over the lazy dog again").duplicate_of
        '1'
        """
        answer = self.add_batch([id], [text], metadata=[metadata], replace=replace)[0]
        if answer.reason == CONFLICT:
            raise Conflict(f"document {id!r}: {CONFLICT}")
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
        """Judge documents in order and store them in one commit.

        Args:
            ids: The ids, one for each text.
            texts: The texts.
            metadata: Of each document, or None.
            replace: As in `add`. Without it a document whose id has another content is rejected.

        >>> index = _example()
        >>> answers = index.add_batch(["2", "3"], ["one two six", "six two one"])
        >>> [answer.status for answer in answers]
        ['new', 'new']
        """
        return self.submit(ids, texts, metadata=metadata, replace=replace).result()

    def submit(
        self,
        ids: Sequence[str],
        texts: Sequence[str],
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> Future[list[Answer]]:
        """Sketch documents and leave them to the writer thread, without waiting for it.

        The future has the answers when all documents are stored.

        Args:
            ids: The ids, one for each text.
            texts: The texts.
            metadata: Of each document, or None.
            replace: As in `add_batch`.

        >>> index = _example()
        >>> index.submit(["2"], ["one two six"]).result()[0].status
        'new'
        """
        if len(ids) != len(texts):
            raise ParameterError(f"{len(ids)} ids for {len(texts)} texts: give one for each")
        for id in ids:
            check_id(id)
        return self._opened.generation.submit_texts(
            ids,
            texts,
            encode_metadata(metadata, len(ids)),
            replace=replace,
            resubmit=lambda: self.submit(ids, texts, metadata=metadata, replace=replace),
        )

    def add_sketches(
        self,
        ids: Sequence[str],
        sketch: SketchedDocuments,
        *,
        metadata: Metadata = None,
        replace: bool = False,
    ) -> list[Answer]:
        """Judge and store documents that come as sketches, without their texts.

        Args:
            ids: The ids, one for each sketch.
            sketch: Sketches of the same specification, such as `sketcher` makes.
            metadata: Of each document, or None.
            replace: As in `add_batch`.

        >>> from neardup.corpus.documents import Documents, make_strings
        >>> index = _example()
        >>> sketch = index.sketcher(Documents(make_strings(["one two six"]), [], None, None, {}))
        >>> index.add_sketches(["2"], sketch)[0].status
        'new'
        """
        if len(ids) != len(sketch.content):
            raise ParameterError(f"{len(ids)} ids for {len(sketch.content)} sketches")
        for id in ids:
            check_id(id)
        encoded = encode_metadata(metadata, len(ids))
        generation = self._opened.generation
        return generation.submit_sketches(ids, sketch, encoded, replace=replace).result()

    def remove(self, id: str) -> bool:
        """Remove a document; whether there was one. Its copies are judged again.

        Args:
            id: The document's id.

        >>> index = _example()
        >>> index.remove("1"), index.remove("1")
        (True, False)
        """
        return self._opened.generation.remove(id)

    # Asking

    def query(self, text: str, *, probes: int = 0) -> Answer:
        """Judge a text without storing it.

        Args:
            text: The text.
            probes: How many more buckets are looked up, the likeliest first: finds more, and takes
                longer.

        >>> _example().query("a quite different text").status
        'new'
        """
        return self.query_batch([text], probes=probes)[0]

    def query_batch(self, texts: Sequence[str], *, probes: int = 0) -> list[Answer]:
        """Judge texts without storing them, each by itself.

        Args:
            texts: The texts.
            probes: As in `query`.

        >>> [answer.status for answer in _example().query_batch(["one two six", ""])]
        ['new', 'rejected']
        """
        with self._opened.while_open() as generation:
            return generation.query_texts(texts, probes)

    def query_sketches(self, sketch: SketchedDocuments) -> list[Answer]:
        """Judge documents that come as sketches, without storing them.

        Args:
            sketch: Sketches of the same specification, such as `sketcher` makes.

        >>> from neardup.corpus.documents import Documents, make_strings
        >>> index = _example()
        >>> sketch = index.sketcher(Documents(make_strings(["one two six"]), [], None, None, {}))
        >>> index.query_sketches(sketch)[0].status
        'new'
        """
        with self._opened.while_open() as generation:
            return generation.query_sketches(sketch)

    def similar(self, text: str, most: int = 10) -> list[SimilarDocument]:
        """The kept documents that are similar to a text, the most similar first.

        Args:
            text: The text.
            most: How many documents are returned at most.

        >>> similar = _example().similar("The quick brown fox jumps over the lazy dog!")
        >>> [document.id for document in similar]
        ['1']
        """
        with self._opened.while_open() as generation:

            def question(view: View) -> list[SimilarDocument]:
                arrivals = generation.sketcher.sketch_texts([text], view.codec.lsh).arrivals
                return view.find_similar(arrivals, most) if len(arrivals) else []

            return generation.answer(question)

    def explain(self, text: str) -> Explanation:
        """Every step of `query`: what it found, and how long it took.

        Args:
            text: The text.

        >>> _example().explain("one two six").rule
        'no kept document shares a bucket'
        """
        for _ in range(2):  # the first time, kernels and pages may have to be loaded
            begun = time.perf_counter()
            answer = self.query(text)
            seconds = time.perf_counter() - begun
            explanation = self._explain(text, answer, seconds)
        return explanation

    def _explain(self, text: str, answer: Answer, seconds: float) -> Explanation:
        with self._opened.while_open() as generation:
            return generation.answer(
                lambda view: explain_query(text, answer, seconds, view, generation.sketcher)
            )

    def explain_document(self, id: str) -> DocumentExplanation | None:
        """Compare a stored document with its witness and its candidates again.

        None if no document has this id.

        Args:
            id: The document's id.

        >>> _example().explain_document("1").rule[:16]
        'no kept document'
        """

        def question(view: View) -> DocumentExplanation | None:
            document = view.document(id)
            return None if document is None else explain_stored(view, document)

        with self._opened.while_open() as generation:
            return generation.answer(question)

    def get(self, id: str) -> Document | None:
        """A stored document; None if no document has this id.

        Args:
            id: The document's id.

        >>> _example().get("1").status
        'new'
        """
        with self._opened.while_open() as generation:
            return generation.answer(lambda view: view.document(id))

    def text(self, id: str) -> Any:
        """The text of a document, or its list of token ids; None if it is not stored.

        Args:
            id: The document's id.

        >>> _example().text("1")
        'the quick brown fox jumps over the lazy dog'
        """
        with self._opened.while_open() as generation:
            return generation.answer(lambda view: view.text(id))

    def cluster(self, number: int) -> DocumentCluster | None:
        """A kept document and its copies; None if no kept document has this number.

        Args:
            number: The number of the kept document: the `cluster` of an answer.

        >>> _example().cluster(1).size
        1
        """
        with self._opened.while_open() as generation:
            return generation.refresh().cluster(number)

    # Changing the operating point

    @property
    def shadow(self) -> Shadow:
        """Tries another operating point beside the current one; see `Shadow`."""
        generation = self._opened.generation
        generation.require_writer()
        assert generation.shadow is not None  # noqa: S101  # there is one beside a writer
        return generation.shadow

    def retune(self, **point: Any) -> int:
        """Change the operating point; of how many documents the answer changed.

        All documents are judged again in order, from what is stored, while the index goes on.

        Args:
            **point: Options of the operating point that change, as in `Shadow.start`.

        >>> _example().retune(threshold=0.6)
        0
        """
        self.shadow.start(**point)
        try:
            return self.shadow.promote(wait=True)
        except BaseException:
            self.shadow.close()
            raise

    # Maintenance

    def stats(self) -> Stats:
        """The state of the index in numbers.

        >>> _example().stats().documents
        1
        """
        with self._opened.while_open() as generation:
            return generation.stats()

    def snapshot(self) -> int:
        """Write the tables to a file, to start from; the change up to which they are complete.

        >>> _example().snapshot()
        1
        """
        self._opened.generation.require_writer()
        return self._opened.generation.snapshot()

    def snapshot_if_due(self) -> bool:
        """Write the tables if a start would take long without it; whether they were written.

        >>> _example().snapshot_if_due()
        False
        """
        self._opened.generation.require_writer()
        return self._opened.generation.snapshot_if_due()

    def compact(self) -> None:
        """Drop removed documents from the tables, forget old changes, and give back disk space.

        >>> _example().compact()
        """
        self._opened.generation.compact()

    def export(self, file: str | Path, progress: Progress = SILENT) -> int:
        """Write all documents to one file, for `neardup index import`; how many there are.

        Args:
            file: Where to write it.
            progress: Is told how far it is.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _example().export(f"{folder}/export")
        1
        """
        with self._opened.while_open() as generation:
            return export_store(generation.store, Path(file), progress)

    def verify(self) -> list[str]:
        """What is wrong with the stored documents or the tables, one line each; usually nothing.

        It reads everything, as of one state. What is added through this object waits until it is
        done; to check an index that another process writes to, open it read-only.

        >>> _example().verify()
        []
        """
        with self._opened.while_open() as generation:
            return generation.verify()

    # Generations

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
        """Index all documents by another specification while this one goes on, then switch to it.

        Args:
            spec: The new specification, instead of the options that decide it.
            key: The secret key of the new specification.
            corpus: Texts as (id, text), in any order; stored texts are used where it has none.
            keep_texts: Whether the new generation stores texts; by default as before.
            drop_missing: Leave out documents that have no text or are rejected. Without it they are
                an error, and nothing changes.
            progress: Is told how far it is.
            **options: Options of the specification and the operating point that change.

        >>> _example().reindex(shingle="word:3").generation
        'g2'
        """
        with self._opened.while_open():
            return rebuild.reindex(
                self._opened,
                spec,
                key=key,
                corpus=corpus,
                keep_texts=keep_texts,
                drop_missing=drop_missing,
                progress=progress,
                **options,
            )

    def undo_reindex(
        self,
        *,
        key: bytes | Key | None = None,
        drop_missing: bool = False,
        progress: Progress = SILENT,
    ) -> Reindexed:
        """Switch back to the previous generation, with what has been added and removed since.

        Args:
            key: The secret key that generation needs.
            drop_missing: Leave out documents that were added without a text.
            progress: Is told how far it is.

        >>> index = _example()
        >>> _ = index.reindex(shingle="word:3")
        >>> index.undo_reindex().generation
        'g1'
        """
        with self._opened.while_open():
            return rebuild.undo(self._opened, key=key, drop_missing=drop_missing, progress=progress)

    def take_over(self, *, key: bytes | Key | None = None) -> bool:
        """Switch to a generation that another process has made; False if none is offered.

        It takes no time if none is: a process that writes calls it every few seconds.

        Args:
            key: The secret key of the offered generation, if it is another one.

        >>> _example().take_over()
        False
        """
        with self._opened.while_open():
            return cutover.accept_offer(self._opened, key)


def _example() -> Index:
    """An index with one document, for the examples above; it goes when nothing refers to it."""
    folder = tempfile.mkdtemp(prefix="neardup-example-")
    index = Index.open(folder, threshold=0.7, shingle="word:2", keep_texts=True)
    index.add("1", "the quick brown fox jumps over the lazy dog")
    weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
    weakref.finalize(index, index._opened.close)
    return index
