"""One generation of an index, open: its documents, its tables, and who writes there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from neardup.errors import FormatError, OutputError, ParameterError, UsageError
from neardup.formats.blocks import sync_folder
from neardup.formats.tables import write_error
from neardup.index import folder, snapshot
from neardup.index.arrivals import ArrivalSketcher, SignatureCodec
from neardup.index.decider import Decider
from neardup.index.lookup import LookupTables
from neardup.index.settings import IndexSettings, asked
from neardup.index.shadow import Shadow
from neardup.index.stats import BucketSizes, Counters, Stats, file_sizes, previous_bytes
from neardup.index.store import Store
from neardup.index.view import TablesBehind, View
from neardup.index.writer import MOST_WAITING, IndexWriter
from neardup.keys import Key, require_key
from neardup.options import Options
from neardup.spec import Spec


@dataclass(frozen=True)
class OpenOptions:
    """How an index works, whatever is in it."""

    clock: Callable[[], float] = time.time
    most_waiting: int = MOST_WAITING
    say: Callable[[str], None] = lambda _: None
    memory: int | None = None
    """Bytes of the tables."""


@dataclass(frozen=True)
class OpenedStore:
    """A generation of an index: what is stored there, and the lock if it is to be written to."""

    store: Store
    settings: IndexSettings
    key: Key | None
    lock: folder.Lock | None


@contextmanager
def open_current(
    path: Path,
    spec: Spec | None,
    key: Key | None,
    given: dict[str, Any],
    *,
    keep_texts: bool | None,
    read_only: bool,
) -> Iterator[OpenedStore]:
    """The current generation of an index, which is made if there is none.

    If what is done inside fails, it is closed again.
    """
    if folder.read_generations(path) is None:
        if read_only:
            raise UsageError(f"{path} holds no index: give the folder of one")
        _make(path, asked(None, spec, key, given), bool(keep_texts))
    with _locked(path, read_only) as lock, _stored(path, None, read_only) as (store, settings):
        asked(settings.options, spec, key, given)
        require_key(settings.options.spec, key)
        if keep_texts is not None and keep_texts != settings.keep_texts:
            raise ParameterError(
                f"{path} was made {'with' if settings.keep_texts else 'without'} its texts: "
                "leave out keep_texts, or build the index anew"
            )
        yield OpenedStore(store, settings, key, lock)


@contextmanager
def open_generation(
    path: Path, name: str, keys: Iterable[Key | None], *, read_only: bool
) -> Iterator[OpenedStore]:
    """One generation, whether it is the current one or not. Of the keys it takes the one it needs.

    If what is done inside fails, it is closed again.
    """
    with (
        _locked(path / name, read_only) as lock,
        _stored(path, name, read_only) as (store, settings),
    ):
        wanted = settings.options.spec.key
        key = next((key for key in keys if key is not None and key.id == wanted), None)
        require_key(settings.options.spec, key)
        yield OpenedStore(store, settings, key, lock)


@contextmanager
def _locked(path: Path, read_only: bool) -> Iterator[folder.Lock | None]:
    lock = None if read_only else folder.Lock(path)
    try:
        yield lock
    except BaseException:
        if lock is not None:
            lock.release()
        raise


@contextmanager
def _stored(path: Path, name: str | None, read_only: bool) -> Iterator[tuple[Store, IndexSettings]]:
    if name is None:
        listed = folder.read_generations(path)
        assert listed is not None  # noqa: S101  # it was there, or has been made
        name = listed.current
    store = Store(path / name / folder.STORE, read_only=read_only)
    try:
        yield store, IndexSettings.of_stored(store.meta(), str(store.path))
    except BaseException:
        store.close()
        raise


def _make(path: Path, options: Options | None, keep_texts: bool) -> None:
    """A new index in a folder that has none."""
    settings = IndexSettings(options or Options(), keep_texts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    with folder.locked(path):
        if folder.read_generations(path) is None:  # or somebody else was faster
            create_generation(path / folder.FIRST, settings)
            folder.write_generations(path, folder.Generations(folder.FIRST))


def create_generation(path: Path, settings: IndexSettings) -> None:
    """The folder of a generation without documents."""
    try:
        path.mkdir(exist_ok=True, mode=0o700)
        Store.create(path / folder.STORE, settings.stored)
        sync_folder(path)
    except OSError as error:
        raise write_error(path, error) from None


FEW_CHANGES = 10_000
"""So many are entered in a fraction of a second when an index is opened: no need of a snapshot."""
PAUSES = (0.0, 0.001, 0.01, 0.1)
"""Seconds to wait for tables that are behind."""
T = TypeVar("T")


class Generation:
    """Any number of threads may use it. Without a `writer` it follows what another process does."""

    def __init__(self, opened: OpenedStore, how: OpenOptions) -> None:
        self.store, self.settings, self.key = opened.store, opened.settings, opened.key
        self.snapshot_sequence = 0
        self._say, self._writes = how.say, opened.lock is not None
        self._cold = snapshot.SpillFolders(
            self.store.path.parent, how.memory, read_only=not self._writes
        )
        self._snapshot = self.store.path.with_name(folder.SNAPSHOT)
        self._refreshing, self._writing_snapshot = threading.Lock(), threading.Lock()
        self._followed = self._loaded()
        self.writer: IndexWriter | None = None
        self.shadow: Shadow | None = None
        self.counters = Counters()
        if self._writes:
            self.writer = IndexWriter(
                self.store,
                self._followed,
                self.counters,
                how.clock,
                how.most_waiting,
                self.snapshot,
            )
            self.shadow = Shadow(self, self.store, self.writer, self._cold)
        self.sketching = ArrivalSketcher.of(self.settings, self.key, self.counters)

    def go_on_counting(self, counters: Counters) -> None:
        """Add to what was counted before."""
        self.counters = counters
        self.sketching = replace(self.sketching, counters=counters)
        if self.writer is not None:
            self.writer.go_on_counting(counters)

    @property
    def name(self) -> str:
        """Of its folder."""
        return self.store.path.parent.name

    @property
    def point(self) -> View:
        """The tables as they are."""
        return self._followed if self.writer is None else self.writer.point

    def refreshed(self) -> View:
        """The tables; of a reader, with what another process has written since."""
        if self.writer is not None:
            return self.writer.point
        with self._refreshing:
            point = self._followed
            if not snapshot.catch_up(point.derived, self.store, point.signing):
                self._followed = self._loaded()
            return self._followed

    def ask(self, question: Callable[[View], T]) -> T:
        """An answer by tables and documents that belong together.

        What was removed is not stored any more, a moment before the tables know.
        """
        for pause in PAUSES:
            try:
                return question(self.refreshed())
            except TablesBehind:
                time.sleep(pause)
        return question(self.refreshed())

    def _loaded(self) -> View:
        """The tables of the operating point that is stored; another one may be while they load."""
        while True:
            self.settings = IndexSettings.of_stored(self.store.meta(), str(self.store.path))
            options = self.settings.options
            signing = SignatureCodec(options)
            derived = self._derived(signing)
            if self.store.meta()["point"] == self.settings.stored["point"]:
                return View(Decider(options, self.settings.frequencies.weights), signing, derived)

    def _derived(self, signing: SignatureCodec) -> LookupTables:
        """From the snapshot and what came later; or made anew, if there is none."""
        derived = None
        if self._snapshot.exists():
            try:
                derived = self._read(signing.options)
                self.snapshot_sequence = derived.sequence
            except FormatError as error:
                self._say(str(error))
        if derived is not None and snapshot.catch_up(derived, self.store, signing):
            return derived
        self.snapshot_sequence = 0
        if self._writes:  # what counts on tables on disk goes before them
            self._snapshot.unlink(missing_ok=True)
            sync_folder(self._snapshot.parent)
        return snapshot.build_tables(self.store, signing, self._cold)

    def _read(self, options: Options) -> LookupTables:
        """From the snapshot; while it is read, who writes may put another one in its place."""
        while True:
            file = folder.file_identity(self._snapshot)
            try:
                return snapshot.read_snapshot(self._snapshot, options, self._cold)
            except FormatError:
                if folder.file_identity(self._snapshot) == file:
                    raise

    # Keeping house

    def snapshot(self) -> int:
        """Write the tables to a file, to start from; the change up to which they are complete."""
        with self._writing_snapshot:
            point = self.point
            sequence = snapshot.write_snapshot(self._snapshot, point.derived, point.signing.options)
            self.snapshot_sequence = sequence
        return sequence

    def snapshot_if_due(self) -> bool:
        """Write the tables if there are many changes that are not in the file; whether it was."""
        changes = self.point.derived.sequence - self.snapshot_sequence
        documents = 0 if self.writer is None else self.writer.documents
        due = changes > max(FEW_CHANGES, documents // 20)
        if due:
            self.snapshot()
        return due

    def compact(self) -> None:
        """Without removed documents and old changes; for the thread that writes."""
        self.point.derived.compact()
        known = self.snapshot()
        with self.store.transaction():
            self.store.forget_changes(known)
        self.store.give_back()

    def stats(self) -> Stats:
        """The state of the index in numbers."""
        point, writer = self.refreshed(), self.writer
        derived = point.derived
        documents, kept = self.store.counts() if writer is None else (writer.documents, writer.kept)
        memory = {
            "bands": derived.bands.nbytes,
            "ids": derived.ids.nbytes,
            "contents": derived.contents.nbytes,
            "members": derived.members.nbytes,
            "removed": derived.dead.nbytes,
            "cold": derived.cold.nbytes if derived.cold else 0,
            "shadow": 0 if self.shadow is None else self.shadow.nbytes,
        }
        files = file_sizes(self.store.path.parent)
        if derived.cold:
            files["cold"] = derived.cold.disk_bytes
        return Stats(
            documents,
            kept,
            documents - kept,
            derived.buried,
            derived.sequence,
            self.snapshot_sequence,
            0 if writer is None else writer.waiting,
            0 if writer is None else writer.most_waiting,
            len(derived.bands.tables),
            memory,
            derived.budget,
            files,
            previous_bytes(self.store.path.parent.parent),
            self.store.wal_bytes,
            BucketSizes.of(derived, self.settings.options.limit),
            self.counters,
        )

    def finish(self) -> None:
        """Do what waits, and write a snapshot if that is worth it; nothing more is taken in."""
        if self.writer is None:
            return
        self.writer.close()
        try:
            self.snapshot_if_due()
        except OutputError as error:  # all is stored; the next start takes longer
            self._say(str(error))
