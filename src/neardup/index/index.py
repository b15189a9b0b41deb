"""`Index`, the online index: decides whether a document is a copy of one added before.

    with neardup.Index.open("posts", threshold=0.8) as index:
        index.add("1", "the first text of all that there are in here")
        index.query("The first text of all that there are in here!").duplicate_of

Acknowledged documents are durable: they survive a crash. The answers are those of a batch run over
the same documents in the order in which they were added.

`Index` is the public face. Behind it are the open folder (`open_index.py`), a generation in it
(`generation.py`: store, tables, writer thread) and the view that answers (`view.py`).
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, Self, TypedDict, Unpack, overload

from numpy.typing import NDArray

from neardup.errors import Conflict, ParameterError, UsageError
from neardup.explanation import PairVerdict
from neardup.formatting import format_count, parse_duration
from neardup.index import cutover, rebuild
from neardup.index.answer import (
    PAGE_TEXT_BYTES,
    Answer,
    ClusterPage,
    ClusterWithTexts,
    Document,
    DocumentCluster,
    DocumentWithText,
    SimilarDocument,
)
from neardup.index.arrivals import Groups, Texts, VectorRows
from neardup.index.cluster_pages import list_clusters
from neardup.index.exchange import ExportedStore, describe_additions, export_store
from neardup.index.expiry import ExpiryPass, Forgotten
from neardup.index.explain import (
    Explanation,
    explain_query,
)
from neardup.index.generation import Generation, OpenOptions
from neardup.index.increment import add_increment
from neardup.index.open_index import OpenIndex
from neardup.index.planner import CONFLICT
from neardup.index.rebuild import Reindexed
from neardup.index.redis_store.address import (
    MOST_REPLICAS,
    RedisAddress,
    is_redis,
    not_on_redis,
    refuse_url,
)
from neardup.index.redis_store.open_servers import OpenServers
from neardup.index.redis_store.rebalancing import Rebalanced
from neardup.index.request_queue import MOST_WAITING
from neardup.index.settings import IndexSettings, parse_budget
from neardup.index.shadow import Shadow
from neardup.index.stats import Stats
from neardup.index.stored_explanation import (
    DocumentExplanation,
    explain_stored,
    explain_stored_pair,
)
from neardup.index.validation import check_id, encode_metadata
from neardup.index.view import View
from neardup.keys import Key, to_key
from neardup.keyword_arguments import takes_options
from neardup.option_table import OnlineOptions
from neardup.options import Options
from neardup.pipeline.job import Job
from neardup.pipeline.record import FinishedRun
from neardup.runtime import SILENT, Progress
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import Spec, check_whole

Metadata = Sequence[dict[str, Any] | None] | None
Vector = Sequence[float] | NDArray[Any] | None


class Stored(TypedDict):
    """How an index is opened, wherever it is."""

    keep_texts: bool | None
    within: str | None
    dimension: int | None
    read_only: bool


class Index:
    """An open index, made by `Index.open`. Any number of threads may use it.

    One process writes, others may read. Readers don't wait for readers. `add` returns when its
    documents are stored durably.

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

    def __init__(self, opened: OpenIndex | OpenServers) -> None:
        """Wrap an open folder; use `Index.open` instead.

        Args:
            opened: The open folder and the generation that answers.
        """
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
        within: str | None = None,
        dimension: int | None = None,
        key: bytes | Key | None = None,
        clock: Callable[[], float] | None = None,
        most_waiting: int = MOST_WAITING,
        replicas: int = 0,
        say: Callable[[str], None] = lambda _: None,
        **options: Unpack[OnlineOptions],
    ) -> Index:
        """Open the index in a folder, or make one there.

        An index that exists keeps its specification and operating point, and refuses to be opened
        with others: `retune` and `reindex` change them.

        Args:
            path: The folder, or the address of Redis servers: `"redis://HOST:PORT?name=posts"`.
            spec: The specification of a new index, instead of the options that decide it.
            read_only: Open it beside a process that writes; nothing can be added.
            memory: The most memory for the tables, in bytes or as "4 GB"; tables that don't fit
                are looked up on disk. By default all tables are in memory.
            keep_texts: Store the texts of documents, so that the index can be rebuilt by another
                specification (`reindex`). By default a new index stores none, and an existing one
                does as it did before.
            within: Of a new index: compare documents of one group only, such as `"lang"`, and say
                which group each is in (`add(..., within="en")`). It is the column from which
                commands that read files into the index take the groups.
            dimension: Of a new index with vectors: how many numbers each of them has. What they
                decide is said as for `neardup.dedup`: with vectors and cosine, also, or unless.
                Without a centre nothing is subtracted from vectors; that of a run (its folder) or
                of a sample (an .npy file) makes far fewer candidates.
            key: The secret key of an index with hash siphash.
            clock: Returns the time that is stored with a new document, in seconds since 1970. By
                default it is that of this machine, or of the server of an index on Redis.
            most_waiting: The most documents that may wait for the writer thread; more are refused
                (`Busy`).
            replicas: Of an index on Redis: how many replicas have to have a document before it is
                acknowledged.
            say: Receives messages about steps that take long.
            **options: The operating point of a new index, and the specification if there is no
                `spec`: matching options, as in `neardup.dedup`.

        Returns:
            The open index; a context manager that closes it.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with Index.open(folder, threshold=0.9) as index:
        ...         index.options.threshold
        0.9
        """
        required = (spec, to_key(key), dict(options))
        replicas = check_whole("replicas", replicas, 0, MOST_REPLICAS)
        how = OpenOptions(clock, most_waiting, say, parse_budget(memory))
        stored: Stored = {
            "keep_texts": keep_texts,
            "within": within,
            "dimension": dimension,
            "read_only": read_only,
        }
        if is_redis(path):
            address = RedisAddress.parse(str(path))
            if memory is not None:
                raise ParameterError(
                    "memory is that of the tables of an index in a folder: leave it out, servers "
                    "have a limit of their own (maxmemory)"
                )
            return cls(OpenServers.open(address, *required, how, replicas=replicas, **stored))
        refuse_url(path)
        if replicas:
            raise ParameterError("replicas are those of Redis servers: leave them out for a folder")
        return cls(OpenIndex.open(Path(path), *required, how, **stored))

    def close(self) -> None:
        """Store the documents that wait, write a snapshot if one is due, and release the lock.

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
        """The number of stored documents, copies included."""
        if isinstance(self._opened, OpenIndex) and not self.read_only:
            return self._opened.generation.count_documents()[0]
        with self._opened.while_open() as generation:
            return generation.count_documents()[0]

    def __contains__(self, id: object) -> bool:
        """Whether a document has this id."""
        return isinstance(id, str) and self.get(id) is not None

    def __repr__(self) -> str:
        if self._opened.closed:
            return f"Index({str(self.path)!r}, closed)"
        options = self.options
        point = (
            f"Hamming distance <= {options.hamming}"
            if options.by_bits
            else (f"threshold {options.threshold:g}")
        )
        read_only = ", read-only" if self.read_only else ""
        compared = f"{options.spec.shingle} shingles"
        if options.vectors is not None:
            vectors = f"vectors of {options.spec.dimension} numbers"
            also = f"{compared}, {options.vectors.role} cosine {options.vectors.threshold:g} of"
            compared = vectors if options.spec.of_vectors else f"{also} {vectors}"
        return (
            f"Index({str(self.path)!r}, {format_count(len(self), 'document')}, {point} of "
            f"{compared}{read_only})"
        )

    def _in_folder(self, wanted: str) -> OpenIndex:
        """Return the open folder; raise UsageError if the index is on servers."""
        if isinstance(self._opened, OpenServers):
            raise not_on_redis(self._opened.path, wanted)
        return self._opened

    def _one_text(self, text: Any) -> list[Any] | None:
        """Return the text of one document as those of a batch; None if it needs none."""
        return None if text is None and self.spec.of_vectors else [text]

    @property
    def path(self) -> Path | str:
        """The folder of the index, or its address without a password."""
        return self._opened.path

    @property
    def settings(self) -> IndexSettings:
        """The stored settings: specification, operating point, whether texts are stored."""
        return self._opened.generation.settings

    @property
    def options(self) -> Options:
        """The specification and the operating point."""
        return self.settings.options

    @property
    def spec(self) -> Spec:
        """The specification that documents are sketched by."""
        return self.options.spec

    @property
    def sketcher(self) -> Sketcher:
        """The sketcher that makes sketches for `add_sketches` and `query_sketches`."""
        return self._opened.generation.sketcher.sketcher

    @property
    def generation(self) -> str:
        """The name of the current generation: a folder in the folder of the index."""
        return self._opened.generation.name

    @property
    def read_only(self) -> bool:
        """Whether the index was opened read-only."""
        return self._opened.generation.queue is None

    @property
    def sequence(self) -> int:
        """The number of the last change that answers are based on."""
        return self._opened.generation.view.tables.sequence

    # Adding and removing

    def add(
        self,
        id: str,
        text: str | None = None,
        *,
        vector: Vector = None,
        metadata: dict[str, Any] | None = None,
        replace: bool = False,
        within: str | None = None,
    ) -> Answer:
        """Judge a document and store it, in one step.

        If the id is stored with the same content, its answer is repeated with `again` set, and
        nothing is added; with `replace`, its metadata and its text are replaced.

        Args:
            id: The document's id, up to 1,024 bytes of UTF-8.
            text: Its text; a list of token ids if the specification is of tokens.
            vector: Its vector, a list of numbers or an array, if the index was made with vectors.
                One that compares vectors alone needs no text.
            metadata: A dictionary that is stored with the document, as JSON.
            replace: Replace a stored document that has this id. Without it, an id with another
                content is a `Conflict`. With the same content, its number, witness and cluster
                stay, and its metadata and text are those of this call.
            within: The group of the document, if the index was made with `within`: it is compared
                with documents of the same group only. Those without one are a group, too.

        Returns:
            The answer: `new`, `duplicate` with its witness and similarity, or `rejected`. With
            also and unless it has the cosine too, and by which signal it is a duplicate.

        >>> index = _example()
        >>> index.add("2", "the quick brown fox jumps over the lazy dog again").duplicate_of
        '1'
        """
        answers = self.add_batch(
            [id],
            self._one_text(text),
            vectors=_alone(vector),
            metadata=[metadata],
            replace=replace,
            within=_alone(within),
        )
        answer = answers[0]
        if answer.reason == CONFLICT:
            raise Conflict(f"document {id!r}: {CONFLICT}")
        return answer

    check_and_add = add

    def add_batch(
        self,
        ids: Sequence[str],
        texts: Texts = None,
        *,
        vectors: VectorRows = None,
        metadata: Metadata = None,
        replace: bool = False,
        within: Groups = None,
    ) -> list[Answer]:
        """Judge documents in order and store them in one commit.

        Args:
            ids: The ids, one for each text.
            texts: The texts; none if the index compares vectors alone.
            vectors: The vectors, if the index has some: a matrix, or a list of vectors.
            metadata: The metadata of each document, None for none.
            replace: As in `add`. Without it a document whose id has another content is rejected.
            within: The group of each document, as in `add`.

        Returns:
            The answers, in the order of the documents.

        >>> index = _example()
        >>> answers = index.add_batch(["2", "3"], ["one two six", "six two one"])
        >>> [answer.status for answer in answers]
        ['new', 'new']
        """
        return self.submit(
            ids, texts, vectors=vectors, metadata=metadata, replace=replace, within=within
        ).result()

    def submit(
        self,
        ids: Sequence[str],
        texts: Texts = None,
        *,
        vectors: VectorRows = None,
        metadata: Metadata = None,
        replace: bool = False,
        within: Groups = None,
        generated: Sequence[bool] | None = None,
    ) -> Future[list[Answer]]:
        """Sketch documents and queue them for the writer thread, without waiting for it.

        Args:
            ids: The ids, one for each text.
            texts: The texts.
            vectors: The vectors, as in `add_batch`.
            metadata: The metadata of each document, None for none.
            replace: As in `add_batch`.
            within: As in `add_batch`.
            generated: Which ids were made of the name of a file and a row; None for none. Such a
                document gets another id if its own belongs to another content.

        Returns:
            A future of the answers, which is set when all documents are stored.

        >>> index = _example()
        >>> index.submit(["2"], ["one two six"]).result()[0].status
        'new'
        """
        for what, given in (("texts", texts), ("vectors", vectors)):
            if given is not None and len(ids) != len(given):
                raise ParameterError(f"{len(ids)} ids for {len(given)} {what}: give one for each")
        for id in ids:
            check_id(id)
        return self._opened.generation.submit_texts(
            ids,
            texts,
            encode_metadata(metadata, len(ids)),
            within,
            vectors,
            replace=replace,
            generated=generated,
            resubmit=lambda: self.submit(
                ids,
                texts,
                vectors=vectors,
                metadata=metadata,
                replace=replace,
                within=within,
                generated=generated,
            ),
        )

    def add_sketches(
        self,
        ids: Sequence[str],
        sketch: SketchedDocuments,
        *,
        metadata: Metadata = None,
        replace: bool = False,
        within: Groups = None,
    ) -> list[Answer]:
        """Judge and store documents that come as sketches, without their texts.

        Args:
            ids: The ids, one for each sketch.
            sketch: Sketches of the same specification, made by `sketcher`.
            metadata: The metadata of each document, None for none.
            replace: As in `add_batch`.
            within: The group of each document, if their sketches were made without groups.

        Returns:
            The answers, in the order of the documents.

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
        return generation.submit_sketches(ids, sketch, encoded, within, replace=replace).result()

    def add_increment(self, job: Job, folder: Path, progress: Progress = SILENT) -> FinishedRun:
        """Add the documents of a run's inputs, and write what is new of them: for `run_job`.

        `neardup index add -o` does it. The decisions are those of the index: a row is kept if its
        document is new. Documents of a run that was stopped are written by their stored decisions.

        Args:
            job: The run, with the options of this index.
            folder: The folder in which everything that belongs into its output is written.
            progress: Receives the progress.

        Returns:
            The record of the run.

        >>> import tempfile
        >>> from pathlib import Path
        >>> from neardup.pipeline.job import make_job
        >>> from neardup.pipeline.run import run_job
        >>> index = _example()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     posts = Path(folder, "posts")
        ...     posts.mkdir()
        ...     size = (posts / "a.txt").write_text("The quick brown fox jumps over the lazy dog")
        ...     size = (posts / "b.txt").write_text("some other words that are new in here")
        ...     job = make_job([posts], f"{folder}/out", index.options)
        ...     counts = run_job(job, SILENT, index.add_increment).record["counts"]
        >>> counts["kept"], counts["removed"]
        (1, 1)
        """
        return add_increment(self._in_folder("an increment (-o)"), job, folder, progress)

    def remove(self, id: str) -> bool:
        """Remove a document. Its copies are judged again in the same commit.

        Args:
            id: The document's id.

        Returns:
            Whether a document had this id.

        >>> index = _example()
        >>> index.remove("1"), index.remove("1")
        (True, False)
        """
        return self.remove_batch([id])[0]

    def remove_batch(self, ids: Sequence[str]) -> list[bool]:
        """Remove many documents. Their copies are judged again once, without any of them.

        It takes as many commits as the documents and their copies need, so that other threads are
        served in between. If the process ends before it returns, some of them are removed.

        Args:
            ids: The ids of the documents.

        Returns:
            For each id, whether a document had it; of a repeated id, for the first one.

        >>> index = _example()
        >>> _ = index.add("2", "one two six")
        >>> index.remove_batch(["1", "3", "2"])
        [True, False, True]
        """
        with self._opened.while_open() as generation:
            return generation.remove_batch(ids)

    def forget(
        self,
        older_than: str | float | timedelta,
        *,
        by: str | None = None,
        dry_run: bool = False,
    ) -> Forgotten:
        """Remove the documents that are older than a duration, as `remove_batch` does.

        If the process ends meanwhile, the next call removes the rest.

        Args:
            older_than: The duration: `"30d"`, `"12h"`, a number of seconds or a timedelta.
            by: The field of the metadata that has the date of a document: seconds since 1970 or a
                date as text. Documents without it stay, and are counted. By default it is the time
                when a document was added.
            dry_run: Remove nothing; possible on an index that was opened read-only, too.

        Returns:
            How many documents were removed, and how many have no date.

        >>> index = _example()
        >>> _ = index.add("2", "one two six", metadata={"seen": "2020-02-02"})
        >>> index.forget("30d", by="seen").documents
        1
        """
        expiry = self.forget_in_steps(older_than, by=by)
        for _ in expiry.find():
            pass
        expiry.found.require_dates()
        if dry_run:
            return expiry.found
        for _ in expiry.remove():
            pass
        return expiry.result

    def forget_in_steps(
        self,
        older_than: str | float | timedelta,
        *,
        by: str | None = None,
        now: float | None = None,
    ) -> ExpiryPass:
        """Prepare a pass that forgets documents in steps, for a service that does so beside others.

        Args:
            older_than: As in `forget`.
            by: As in `forget`.
            now: The time, in seconds since 1970; by default that of the clock of the index.

        Returns:
            The pass, whose steps `find` and `remove` are to be called.

        >>> index = _example()
        >>> expiry = index.forget_in_steps("30d", now=4e9)
        >>> len(list(expiry.find())), expiry.found.documents
        (1, 1)
        >>> len(list(expiry.remove())), len(index)
        (1, 0)
        """
        seconds = parse_duration(older_than, "older_than")
        if by is not None and not (isinstance(by, str) and by):
            raise ParameterError(f"by is the name of a field of the metadata, not {by!r}")
        before = (self.now() if now is None else now) - seconds
        return ExpiryPass(self._opened.while_open, before, by)

    def now(self) -> float:
        """Return the time that a document would get that is added now, in seconds since 1970.

        >>> index = _example()
        >>> index.now() > index.now() - 1
        True
        """
        return self._opened.now()

    def hold_upkeep(self) -> bool:
        """Return whether this process does the upkeep of the index now, such as forgetting.

        Of those that have an index on Redis open and call it about every second, one gets it; if
        that one is silent, another one, ten seconds later. A folder has one process that writes.

        >>> _example().hold_upkeep()
        True
        """
        if isinstance(self._opened, OpenServers):
            return self._opened.generation.hold_upkeep()
        return not self.read_only

    # Querying

    def query(
        self,
        text: str | None = None,
        *,
        vector: Vector = None,
        probes: int = 0,
        within: str | None = None,
    ) -> Answer:
        """Judge a text without storing it.

        Args:
            text: The text; a list of token ids if the specification is of tokens.
            vector: Its vector, as in `add`.
            probes: The number of additional buckets that are looked up, the likeliest first: finds
                more copies, and takes longer.
            within: The group to look in, as in `add`.

        Returns:
            The answer, without an id.

        >>> _example().query("a quite different text").status
        'new'
        """
        return self.query_batch(
            self._one_text(text), vectors=_alone(vector), probes=probes, within=_alone(within)
        )[0]

    check = query

    def query_batch(
        self,
        texts: Texts = None,
        *,
        vectors: VectorRows = None,
        probes: int = 0,
        within: Groups = None,
    ) -> list[Answer]:
        """Judge texts without storing them, each by itself.

        Args:
            texts: The texts.
            vectors: Their vectors, as in `add_batch`.
            probes: As in `query`.
            within: The group of each text, as in `query`.

        Returns:
            The answers, in the order of the texts.

        >>> [answer.status for answer in _example().query_batch(["one two six", ""])]
        ['new', 'rejected']
        """
        with self._opened.while_open() as generation:
            return generation.query_texts(texts, probes, within, vectors)

    def query_sketches(self, sketch: SketchedDocuments, *, within: Groups = None) -> list[Answer]:
        """Judge documents that come as sketches, without storing them.

        Args:
            sketch: Sketches of the same specification, made by `sketcher`.
            within: As in `add_sketches`.

        Returns:
            The answers, in the order of the sketches.

        >>> from neardup.corpus.documents import Documents, make_strings
        >>> index = _example()
        >>> sketch = index.sketcher(Documents(make_strings(["one two six"]), [], None, None, {}))
        >>> index.query_sketches(sketch)[0].status
        'new'
        """
        with self._opened.while_open() as generation:
            return generation.query_sketches(sketch, within)

    def similar(
        self,
        text: str | None = None,
        most: int = 10,
        *,
        vector: Vector = None,
        within: str | None = None,
    ) -> list[SimilarDocument]:
        """Find the kept documents that are similar to a text.

        Args:
            text: The text.
            most: The most documents that are returned.
            vector: Its vector, as in `add`.
            within: The group to look in, as in `query`.

        Returns:
            The documents with their similarity, the most similar first.

        >>> similar = _example().similar("The quick brown fox jumps over the lazy dog!")
        >>> [document.id for document in similar]
        ['1']
        """
        with self._opened.while_open() as generation:
            apart = generation.sketcher.hash_groups(_alone(within), 1)

            def question(view: View) -> list[SimilarDocument]:
                arrivals = generation.sketcher.sketch_texts(
                    self._one_text(text), view.codec.lsh, apart, _alone(vector)
                ).arrivals
                return view.find_similar(arrivals, most) if len(arrivals) else []

            return generation.answer(question)

    def explain(
        self, text: str | None = None, *, vector: Vector = None, within: str | None = None
    ) -> Explanation:
        """Explain the answer to a text: every step of `query`, with its result and its time.

        Args:
            text: The text.
            vector: Its vector, as in `add`.
            within: The group to look in, as in `query`.

        Returns:
            The steps; `str()` gives a page to read.

        >>> _example().explain("one two six").rule
        'no kept document shares a bucket'
        """
        for _ in range(2):  # the first time includes loading kernels and pages
            begun = time.perf_counter()
            answer = self.query(text, vector=vector, within=within)
            seconds = time.perf_counter() - begun
            explanation = self._explain(text, vector, within, answer, seconds)
        return explanation

    def _explain(
        self,
        text: str | None,
        vector: Vector,
        within: str | None,
        answer: Answer,
        seconds: float,
    ) -> Explanation:
        texts, vectors = self._one_text(text), _alone(vector)
        with self._opened.while_open() as generation:
            sketcher = generation.sketcher
            apart = sketcher.hash_groups(_alone(within), 1)
            return generation.answer(
                lambda view: explain_query(texts, vectors, apart, answer, seconds, view, sketcher)
            )

    def explain_document(self, id: str) -> DocumentExplanation | None:
        """Explain the decision about a stored document: compare it with its witness again.

        Args:
            id: The document's id.

        Returns:
            The comparison with its witness and its candidates; None if no document has this id.

        >>> _example().explain_document("1").rule[:16]
        'no kept document'
        """

        def question(view: View) -> DocumentExplanation | None:
            document = view.document(id)
            return None if document is None else explain_stored(view, document)

        with self._opened.while_open() as generation:
            return generation.answer(question)

    def explain_pair(self, a: str, b: str) -> PairVerdict | None:
        """Explain why two stored documents are duplicates of one another, or why they are not.

        Args:
            a: The id of a document.
            b: The id of another one.

        Returns:
            How they compare, with a sentence; None if one of the ids is unknown.

        >>> index = _example()
        >>> _ = index.add("2", "a quick brown fox jumps over the lazy dog")
        >>> index.explain_pair("2", "1").verdict
        'copy'
        """

        def question(view: View) -> PairVerdict | None:
            one, other = view.document(a), view.document(b)
            return None if one is None or other is None else explain_stored_pair(view, one, other)

        with self._opened.while_open() as generation:
            return generation.answer(question)

    @overload
    def get(self, id: str, *, text: Literal[False] = False) -> Document | None: ...
    @overload
    def get(self, id: str, *, text: Literal[True]) -> DocumentWithText | None: ...

    def get(self, id: str, *, text: bool = False) -> Document | None:
        """Return a stored document with its status, cluster and metadata.

        Args:
            id: The document's id.
            text: Read its text too, if the index stores texts (`keep_texts`).

        Returns:
            The document, with an attribute `text` if that is wanted; None if no document has this
            id.

        >>> _example().get("1").status
        'new'
        >>> _example().get("1", text=True).text
        'the quick brown fox jumps over the lazy dog'
        """
        with self._opened.while_open() as generation:
            if text:
                return generation.answer(lambda view: view.document_with_text(id))
            return generation.answer(lambda view: view.document(id))

    def text(self, id: str) -> Any:
        """Return the stored text of a document.

        Args:
            id: The document's id.

        Returns:
            The text, or the list of token ids; None if it is not stored.

        >>> _example().text("1")
        'the quick brown fox jumps over the lazy dog'
        """
        with self._opened.while_open() as generation:
            return generation.answer(lambda view: view.text(id))

    def clusters(self, most: int = 100, *, after: str | None = None) -> ClusterPage:
        """List the clusters of two or more documents, largest first, then by number.

        Documents that are added between two pages change nothing in the pages that follow: they
        show the sizes of the first page. If documents are removed meanwhile, a cluster that has
        shrunk may be listed again, with its smaller size, and a copy that became a kept document
        may bring a cluster of its own.

        Args:
            most: The most clusters of a page, up to 10,000.
            after: The `next` of the page before; without it, the first page.

        Returns:
            The page: its clusters, and the mark `next` of the page that follows.

        >>> index = _example()
        >>> _ = index.add("2", "a quick brown fox jumps over the lazy dog")
        >>> [(cluster.id, cluster.size) for cluster in index.clusters().clusters]
        [('1', 2)]
        """
        with self._opened.while_open() as generation:
            return generation.answer(lambda view: list_clusters(view, most, after))

    @overload
    def cluster(
        self, number: int, *, most: int | None = None, after: int = 0, text: Literal[False] = False
    ) -> DocumentCluster | None: ...
    @overload
    def cluster(
        self,
        number: int,
        *,
        most: int | None = None,
        after: int = 0,
        text: Literal[True],
        text_bytes: int = PAGE_TEXT_BYTES,
    ) -> ClusterWithTexts | None: ...

    def cluster(
        self,
        number: int,
        *,
        most: int | None = None,
        after: int = 0,
        text: bool = False,
        text_bytes: int = PAGE_TEXT_BYTES,
    ) -> DocumentCluster | ClusterWithTexts | None:
        """Return a cluster: a kept document and its copies.

        Args:
            number: The number of the kept document: the `cluster` of an answer.
            most: The most copies that are read; by default all. `size` counts all of them.
            after: Leave out the copies up to this number: those of earlier pages.
            text: Read the texts too, if the index stores texts (`keep_texts`), in pages: `next` is
                the `after` of the next one.
            text_bytes: A page with texts ends before the copy whose text would make more bytes than
                this; it has at least one copy.

        Returns:
            The cluster; None if no kept document has this number.

        >>> _example().cluster(1).size
        1
        >>> _example().cluster(1, text=True).representative.text
        'the quick brown fox jumps over the lazy dog'
        """
        with self._opened.while_open() as generation:
            if text:
                return generation.answer(
                    lambda view: view.cluster_with_texts(number, most, after, text_bytes)
                )
            return generation.answer(lambda view: view.cluster(number, most, after))

    # Changing the operating point

    @property
    def shadow(self) -> Shadow:
        """Tries another operating point beside the current one; see `Shadow`.

        >>> index = _example()
        >>> index.shadow.start(threshold=0.6)
        >>> index.shadow.wait()
        True
        >>> index.shadow.report().agreement.both_kept
        1
        >>> index.shadow.drop()
        """
        generation = self._in_folder("another operating point").generation
        generation.require_writer()
        assert generation.shadow is not None  # noqa: S101  # it is None only without a writer
        return generation.shadow

    def retune(self, **point: Any) -> int:
        """Change the operating point.

        All documents are judged again in order, from their stored signatures and shingles, while
        the index goes on.

        Args:
            **point: Options of the operating point that change, as in `Shadow.start`.

        Returns:
            The number of documents whose answer changed.

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
        """Return the state of the index in numbers: documents, memory, files, buckets, counters.

        >>> _example().stats().documents
        1
        """
        with self._opened.while_open() as generation:
            return generation.stats()

    def snapshot(self) -> int:
        """Write the tables to a file, so that the next start is fast.

        Returns:
            The number of the change up to which the file is complete.

        >>> _example().snapshot()
        1
        """
        generation = self._in_folder("a snapshot").generation
        generation.require_writer()
        return generation.snapshot()

    def snapshot_if_due(self) -> bool:
        """Write a snapshot if a start would take long without it.

        Returns:
            Whether it was written.

        >>> _example().snapshot_if_due()
        False
        """
        generation = self._in_folder("a snapshot").generation
        generation.require_writer()
        return generation.snapshot_if_due()

    def compact(self) -> None:
        """Drop removed documents from the tables, drop old changes, and free disk space.

        >>> _example().compact()
        """
        self._in_folder("compaction").generation.compact()

    def export(self, file: str | Path, progress: Progress = SILENT) -> int:
        """Write all documents to one file, for `neardup index import`.

        Args:
            file: The path of the file.
            progress: Receives the progress.

        Returns:
            The number of documents.

        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _example().export(f"{folder}/export")
        1
        """
        with self._opened.while_open() as generation:
            if isinstance(generation, Generation):
                header = describe_additions(generation.store.path.parent.parent)
                documents: ExportedStore = generation.store
            else:
                header, documents = {}, generation.list_documents()
            settings = generation.settings
            return export_store(documents, settings, Path(file), progress, **header)

    def verify(self) -> list[str]:
        """Check the stored documents and the tables.

        It reads all of one state. Documents that are added through this object wait until it is
        done; to check an index that another process writes to, open it read-only.

        Returns:
            The problems, one line each; empty if there are none.

        >>> _example().verify()
        []
        """
        with self._opened.while_open() as generation:
            return generation.verify()

    def repair(self) -> list[str]:
        """Repair what a failover of servers has left behind, in an index on Redis.

        Other processes may go on meanwhile.

        Returns:
            What was done, and what can't be repaired, one line each; empty if nothing was wrong.

        >>> _example().repair()
        Traceback (most recent call last):
        neardup.errors.UsageError: ... is in a folder, where nothing is repaired: ...
        """
        if isinstance(self._opened, OpenServers):
            return self._opened.generation.repair()
        raise UsageError(
            f"{self.path} is in a folder, where nothing is repaired: if neardup index verify lists "
            "problems, import an export (neardup index import), or build the index again"
        )

    def rebalance(self, address: str, progress: Progress = SILENT) -> Rebalanced:
        """Move an index on a ring of Redis servers to other servers, while it is used.

        About 1/N of its partitions move when a server comes or goes. Other processes go on, and
        this object too. If it is stopped, the index works on, and the same call finishes it.

        Args:
            address: The address of the index with the servers that it shall have, such as
                `"redis://a,b,c?ring"`; servers that leave have to be up.
            progress: Receives the progress.

        Returns:
            The servers, and how many partitions were moved.

        >>> _example().rebalance("redis://a,b,c?ring")
        Traceback (most recent call last):
        neardup.errors.UsageError: ... is in a folder: ...
        """
        if isinstance(self._opened, OpenServers):
            return self._opened.rebalance(RedisAddress.parse(address), progress)
        raise UsageError(
            f"{self.path} is in a folder: an index on a ring (redis://HOST,HOST?ring) can be "
            "rebalanced"
        )

    def finish_removals(self) -> int:
        """Finish the removals that processes which failed have left, in an index on Redis.

        A service calls it every minute. In a folder a removal is finished or has not begun.

        Returns:
            The number of removals that were not finished.

        >>> _example().finish_removals()
        0
        """
        if isinstance(self._opened, OpenServers):
            return self._opened.generation.finish_removals()
        return 0

    def ping(self) -> None:
        """Ask the servers of an index on Redis for a sign of life; a folder is always there.

        Raises:
            ServersUnavailable: If one of them does not answer at this moment.

        >>> _example().ping()
        """
        if isinstance(self._opened, OpenServers):
            self._opened.generation.ping()

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
        """Rebuild the index by another specification while it goes on, then switch to it.

        Args:
            spec: The new specification, instead of the options that decide it.
            key: The secret key of the new specification.
            corpus: Texts as (id, text), in any order; stored texts are used for other ids.
            keep_texts: Whether the new generation stores texts; by default as before.
            drop_missing: Leave out documents that have no text or are rejected. Without it they are
                an error, and nothing changes.
            progress: Receives the progress.
            **options: Options of the specification and the operating point that change; of vectors,
                which are always stored, cosine, planes and centre.

        Returns:
            The new generation, and the documents that were carried over and left out.

        >>> _example().reindex(shingle="word:3").generation
        'g2'
        """
        opened = self._in_folder("another specification")
        with opened.while_open():
            return rebuild.reindex(
                opened,
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
        """Switch back to the previous generation, after adding and removing what changed since.

        Args:
            key: The secret key of that generation, if it is another one.
            drop_missing: Leave out documents that were added since and have no text.
            progress: Receives the progress.

        Returns:
            The generation, and the documents that were carried over and left out.

        >>> index = _example()
        >>> _ = index.reindex(shingle="word:3")
        >>> index.undo_reindex().generation
        'g1'
        """
        opened = self._in_folder("another specification")
        with opened.while_open():
            return rebuild.undo(opened, key=key, drop_missing=drop_missing, progress=progress)

    def take_over(self, *, key: bytes | Key | None = None) -> bool:
        """Switch to a generation that another process has made (`neardup index reindex`).

        A process that writes calls it every few seconds; it costs nothing if none is offered.

        Args:
            key: The secret key of the offered generation, if it is another one.

        Returns:
            Whether a generation was offered.

        >>> _example().take_over()
        False
        """
        opened = self._in_folder("another specification")
        with opened.while_open():
            return cutover.accept_offer(opened, key)


def _alone(value: Any) -> list[Any] | None:
    """Return what one document has as that of a batch; None if it has nothing."""
    return None if value is None else [value]


def _example() -> Index:
    """Make an index with one document for the examples above, deleted with its last reference."""
    folder = tempfile.mkdtemp(prefix="neardup-example-")
    index = Index.open(folder, threshold=0.7, shingle="word:2", keep_texts=True)
    index.add("1", "the quick brown fox jumps over the lazy dog")
    weakref.finalize(index, shutil.rmtree, folder, ignore_errors=True)
    weakref.finalize(index, index._opened.close)
    return index
