"""An open generation of an index: its store, its tables, and the writer thread.

A generation is a folder in the folder of an index. All its documents are sketched by the same
specification; another specification is another generation (`rebuild.py`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, OutputError
from neardup.formats.blocks import sync_path
from neardup.formats.tables import write_error
from neardup.index import folder, snapshot
from neardup.index.answer import Answer
from neardup.index.arrivals import ArrivalSketcher, SignatureCodec, SketchedTexts
from neardup.index.base_generation import BaseGeneration
from neardup.index.decider import Decider
from neardup.index.integrity import find_problems
from neardup.index.lookup import LookupTables
from neardup.index.removal import Removal, remove_ids
from neardup.index.request_queue import MOST_WAITING
from neardup.index.settings import IndexSettings
from neardup.index.shadow import Shadow
from neardup.index.stats import BucketSizes, Counters, Stats, file_sizes, previous_bytes
from neardup.index.store import Row, Store
from neardup.index.view import View
from neardup.index.writer import IndexWriter
from neardup.keys import Key, require_key
from neardup.options import Options

FEW_CHANGES: Final = 10_000
"""Changes that are entered within a second when the index is opened: they need no snapshot."""


@dataclass(frozen=True)
class OpenOptions:
    """How an index works in this process; nothing of it is stored."""

    clock: Callable[[], float] | None = None
    """Returns the time; None for that of this machine, or of the servers."""
    most_waiting: int = MOST_WAITING
    """Documents that may wait for the writer thread."""
    say: Callable[[str], None] = lambda _: None
    """Receives messages about steps that take long."""
    memory: int | None = None
    """The most bytes of the tables in memory; None for no limit."""


class Generation(BaseGeneration):
    """A store, the tables derived from it, and the writer thread. Usable in any thread.

    Without a `writer` it reads, and follows the changes of the process that writes.
    """

    def __init__(
        self, store: Store, key: Key | None, lock: folder.Lock | None, how: OpenOptions
    ) -> None:
        self.store, self.key, self.lock, self._say = store, key, lock, how.say
        self.snapshot_sequence = 0
        self._writes, self._adopted, self._closed = lock is not None, False, False
        if lock is not None:
            store.guard = lock.require_held
        self._spills = snapshot.SpillFolders(
            store.path.parent, how.memory, read_only=not self._writes
        )
        self._snapshot = store.path.with_name(folder.SNAPSHOT)
        self._refreshing, self._writing_snapshot = threading.Lock(), threading.Lock()
        self._followed = self._load_view()
        self.writer: IndexWriter | None = None
        self.shadow: Shadow | None = None
        self.counters = Counters()
        if self._writes:
            self.writer = IndexWriter(
                store,
                self._followed,
                self.counters,
                how.clock or time.time,
                how.most_waiting,
                self.snapshot,
            )
            self.shadow = Shadow(self, store, self.writer, self._spills)
        self.sketcher = ArrivalSketcher.of(self.settings, key, self.counters)

    @classmethod
    def open(
        cls,
        path: Path,
        name: str,
        keys: Iterable[Key | None],
        how: OpenOptions | None = None,
        *,
        read_only: bool = False,
    ) -> Generation:
        """Open the generation `name` of the index in `path`, whether it is the current one or not.

        `keys` may have keys of other specifications too: the one that fits is used.
        """
        with (
            lock_unless(read_only, path / name) as lock,
            opened_store(path, name, read_only) as opened,
        ):
            store, settings = opened
            required = settings.options.spec.key
            key = next((key for key in keys if key is not None and key.id == required), None)
            require_key(settings.options.spec, key)
            return cls(store, key, lock, how or OpenOptions())

    @staticmethod
    def create(path: Path, settings: IndexSettings) -> None:
        """Make the folder of a generation without documents."""
        try:
            path.mkdir(exist_ok=True, mode=0o700)
            Store.create(path / folder.STORE, settings.stored, settings.version)
            sync_path(path)
        except OSError as error:
            raise write_error(path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._adopted:
            self.close()

    def adopt(self, counters: Counters, lock: folder.Lock | None) -> None:
        """Let an open index own it, which closes it.

        Args:
            counters: Those of the index, which are counted on.
            lock: The lock of the index; None if it only reads.
        """
        self._adopted, self.counters = True, counters
        if lock is not None:
            self.store.guard = lock.require_held
        self.sketcher = replace(self.sketcher, counters=counters)
        if self.writer is not None:
            self.writer.go_on_counting(counters)
        if self.lock is not None:
            self.lock.release()

    def close(self) -> None:
        """Finish queued requests, close the store and release the lock; once."""
        if self._closed:
            return
        self._closed = True
        try:
            self.finish()
        finally:
            self.store.close()
            if self.lock is not None:
                self.lock.release()

    def finish(self) -> None:
        """Finish queued requests, accept no more, and write a snapshot if one is due."""
        if self.shadow is not None:
            self.shadow.close()
        if self.writer is None:
            return
        self.writer.close()
        try:
            self.snapshot_if_due()
        except OutputError as error:  # all documents are stored; the next start takes longer
            self._say(str(error))

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.store.path.parent.name

    @property
    def place(self) -> str:
        return str(self.store.path.parent.parent)

    @property
    def queue(self) -> IndexWriter | None:
        return self.writer

    # Reading

    @property
    def view(self) -> View:
        """The current view, which may be behind the changes of another process."""
        return self._followed if self.writer is None else self.writer.view

    @property
    def documents(self) -> Store:
        """The store, which has their dates."""
        return self.store

    def refresh(self) -> View:
        """Return the view with all changes that any process has committed."""
        if self.writer is not None:
            return self.writer.view
        with self._refreshing:
            return self._catch_up()

    def _catch_up(self) -> View:
        """Enter the changes of the writing process; the caller holds the lock `_refreshing`."""
        view = self._followed
        if not snapshot.catch_up(view.tables, self.store, view.codec):
            self._followed = self._load_view()
        return self._followed

    def observe_query(
        self, sketched: SketchedTexts, copies: dict[int, Answer], seconds: float, sequence: int
    ) -> None:
        """Let the shadow answer a query too."""
        if self.shadow is not None:
            self.shadow.observe_query(sketched.arrivals, copies, seconds, sequence)

    def verify(self) -> list[str]:
        """List problems of the stored documents and the tables, one line each.

        It checks one state of both: the writer thread commits nothing meanwhile; a reader brings
        its tables up to the state of the store that it checks, while other processes go on writing.
        """
        if self.writer is not None:
            writer = self.writer
            return self.between_commits(lambda: find_problems(self.store, writer.view))
        with self._refreshing:
            while True:
                view = self._catch_up()
                with self.store.snapshot():
                    # Tables that are loaded again could be of a later state than this one.
                    if snapshot.catch_up(view.tables, self.store, view.codec):
                        return find_problems(self.store, view)

    # Writing

    def require_writer(self) -> IndexWriter:
        """Return the writer; raise UsageError if the index was opened read-only."""
        self.require_queue()
        assert self.writer is not None  # noqa: S101  # it has the queue
        return self.writer

    def carry(
        self,
        rows: Sequence[Row],
        texts: Sequence[str | None],
        apart: NDArray[np.uint64] | None,
        vectors: NDArray[np.float32] | None = None,
        *,
        replace: bool = False,
    ) -> Future[list[Answer]]:
        """Add documents of another generation, which keep their numbers, times and metadata.

        `apart` has the hashes of their groups, if they have groups, `vectors` their vectors; with
        `replace` they are here already, with other metadata or another text.
        """
        return self.submit_texts(
            [row.id for row in rows],
            texts,
            [row.metadata for row in rows],
            apart,
            vectors,
            replace=replace,
            carried=[(row.number, row.added) for row in rows],
        )

    def update(self, rows: Sequence[Row]) -> None:
        """Store other metadata for documents."""
        writer = self.require_writer()
        self.between_commits(lambda: writer.update(rows))

    def remove_batch(self, ids: Sequence[str]) -> list[bool]:
        """Remove documents; return for each id whether a document had it."""
        self.require_writer()
        return remove_ids(self, ids)

    def remove_in_steps(
        self, numbers: Sequence[int], still: Callable[[Row], bool]
    ) -> Iterator[list[int]]:
        """Remove documents in commits that let others in between; yield what each has removed."""
        return Removal(self, numbers, still).steps()

    def number_after(self, other: Store) -> None:
        """Give new documents and changes larger numbers than another store has given."""
        writer = self.require_writer()
        self.between_commits(lambda: writer.number_after(other))

    # Tables

    def _load_view(self) -> View:
        """Load the view of the stored operating point; again if that changes meanwhile."""
        while True:
            meta = self.store.meta()
            self.settings = IndexSettings.of_stored(meta, str(self.store.path))
            options = self.settings.options
            codec = SignatureCodec.of(self.settings)
            tables = self._load_tables(codec)
            if self.store.meta()["point"] == meta["point"]:
                decider = Decider(options, self.settings.frequencies.weights)
                return View(self.store, tables, codec, decider)

    def _load_tables(self, codec: SignatureCodec) -> LookupTables:
        """Load the tables from the snapshot and the changes since, or build them."""
        tables = None
        if self._snapshot.exists():
            try:
                tables = self._read_snapshot(codec.options)
                self.snapshot_sequence = tables.sequence
            except FormatError as error:
                self._say(str(error))
        if tables is not None and snapshot.catch_up(tables, self.store, codec):
            return tables
        self.snapshot_sequence = 0
        if self._writes:  # it refers to tables on disk, so it is deleted before them
            self._snapshot.unlink(missing_ok=True)
            sync_path(self._snapshot.parent)
        return snapshot.build_tables(self.store, codec, self._spills)

    def _read_snapshot(self, options: Options) -> LookupTables:
        """Read the snapshot; again if the writing process has replaced the file meanwhile."""
        while True:
            file = folder.file_identity(self._snapshot)
            try:
                return snapshot.read_snapshot(self._snapshot, options, self._spills)
            except FormatError:
                if folder.file_identity(self._snapshot) == file:
                    raise

    def snapshot(self) -> int:
        """Write the snapshot; return the change up to which it is complete."""
        with self._writing_snapshot:
            view = self.view
            sequence = snapshot.write_snapshot(self._snapshot, view.tables, view.options)
            self.snapshot_sequence = sequence
        return sequence

    def snapshot_if_due(self) -> bool:
        """Write the snapshot if it lacks many changes; return whether it was written."""
        changes = self.view.tables.sequence - self.snapshot_sequence
        documents = 0 if self.writer is None else self.writer.documents
        due = changes > max(FEW_CHANGES, documents // 20)
        if due:
            self.snapshot()
        return due

    def compact(self) -> None:
        """Drop removed documents from the tables, and changes that a new snapshot contains."""

        def compact() -> None:
            self.view.tables.compact()
            complete = self.snapshot()
            with self.store.transaction():
                self.store.forget_changes(complete)
            self.store.free_space()

        self.between_commits(compact)

    # Numbers

    def count_documents(self) -> tuple[int, int]:
        """Return the number of documents, and of kept ones."""
        if self.writer is None:
            return self.store.counts()
        return self.writer.documents, self.writer.kept

    def stats(self) -> Stats:
        """Return the state of the index in numbers."""
        tables, writer = self.refresh().tables, self.writer
        documents, kept = self.count_documents()
        memory = {
            "bands": tables.bands.nbytes,
            "ids": tables.ids.nbytes,
            "contents": tables.contents.nbytes,
            "members": tables.members.nbytes,
            "removed": tables.dead.nbytes,
            "cold": tables.cold.nbytes if tables.cold else 0,
            "shadow": 0 if self.shadow is None else self.shadow.nbytes,
        }
        files = file_sizes(self.store.path.parent)
        if tables.cold:
            files["cold"] = tables.cold.disk_bytes
        return Stats(
            documents,
            kept,
            documents - kept,
            tables.tombstones,
            tables.sequence,
            self.snapshot_sequence,
            0 if writer is None else writer.waiting,
            0 if writer is None else writer.most_waiting,
            len(tables.bands.tables),
            memory,
            tables.budget,
            files,
            previous_bytes(self.store.path.parent.parent),
            self.store.wal_bytes,
            BucketSizes.of(tables, self.settings.options.limit),
            self.counters,
        )


@contextmanager
def lock_unless(read_only: bool, path: Path) -> Iterator[folder.Lock | None]:
    """Yield the lock of a folder, or None to read; it is released only if the block raises."""
    lock = None if read_only else folder.Lock(path)
    try:
        yield lock
    except BaseException:
        if lock is not None:
            lock.release()
        raise


@contextmanager
def opened_store(path: Path, name: str, read_only: bool) -> Iterator[tuple[Store, IndexSettings]]:
    """Yield the store of a generation and its settings; it is closed only if the block raises."""
    store = Store(path / name / folder.STORE, read_only=read_only)
    try:
        settings = IndexSettings.of_stored(store.meta(), str(store.path))
        settings.require_version(store.version, str(store.path))
        yield store, settings
    except BaseException:
        store.close()
        raise
