"""One generation of an index, open: its documents, its tables, and who writes there."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from neardup.errors import FormatError, OutputError
from neardup.formats.blocks import sync_folder
from neardup.index import folder, snapshot
from neardup.index.deciding import Decider
from neardup.index.known import Behind, Signing
from neardup.index.opening import How, Opened
from neardup.index.settings import Settings
from neardup.index.shadow.shadow import Shadow
from neardup.index.sketching import Sketching
from neardup.index.stats import BucketSizes, Stats, earlier_bytes, file_sizes
from neardup.index.tables.derived import Derived
from neardup.index.work import Counters, Point
from neardup.index.writing import Writer
from neardup.options import Options

FEW_CHANGES = 10_000
"""So many are entered in a fraction of a second when an index is opened: no need of a snapshot."""
PAUSES = (0.0, 0.001, 0.01, 0.1)
"""Seconds to wait for tables that are behind."""
T = TypeVar("T")


class Generation:
    """Any number of threads may use it. Without a `writer` it follows what another process does."""

    def __init__(self, opened: Opened, how: How) -> None:
        self.store, self.settings, self.key = opened.store, opened.settings, opened.key
        self.snapshot_sequence = 0
        self._say, self._writes = how.say, opened.lock is not None
        self._cold = snapshot.Cold(self.store.path.parent, how.memory, read_only=not self._writes)
        self._snapshot = self.store.path.with_name(folder.SNAPSHOT)
        self._refreshing, self._writing_snapshot = threading.Lock(), threading.Lock()
        self._followed = self._loaded()
        self.writer: Writer | None = None
        self.shadow: Shadow | None = None
        self.counters = Counters()
        if self._writes:
            self.writer = Writer(
                self.store,
                self._followed,
                self.counters,
                how.clock,
                how.most_waiting,
                self.snapshot,
            )
            self.shadow = Shadow(self, self.store, self.writer, self._cold)
        self.sketching = Sketching.of(self.settings, self.key, self.counters)

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
    def point(self) -> Point:
        """The tables as they are."""
        return self._followed if self.writer is None else self.writer.point

    def refreshed(self) -> Point:
        """The tables; of a reader, with what another process has written since."""
        if self.writer is not None:
            return self.writer.point
        with self._refreshing:
            point = self._followed
            if not snapshot.catch_up(point.derived, self.store, point.signing):
                self._followed = self._loaded()
            return self._followed

    def ask(self, question: Callable[[Point], T]) -> T:
        """An answer by tables and documents that belong together.

        What was removed is not stored any more, a moment before the tables know.
        """
        for pause in PAUSES:
            try:
                return question(self.refreshed())
            except Behind:
                time.sleep(pause)
        return question(self.refreshed())

    def _loaded(self) -> Point:
        """The tables of the operating point that is stored; another one may be while they load."""
        while True:
            self.settings = Settings.of_stored(self.store.meta(), str(self.store.path))
            options = self.settings.options
            signing = Signing(options)
            derived = self._derived(signing)
            if self.store.meta()["point"] == self.settings.stored["point"]:
                return Point(Decider(options, self.settings.frequencies.weights), signing, derived)

    def _derived(self, signing: Signing) -> Derived:
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
        return snapshot.rebuilt(self.store, signing, self._cold)

    def _read(self, options: Options) -> Derived:
        """From the snapshot; while it is read, who writes may put another one in its place."""
        while True:
            file = folder.identity(self._snapshot)
            try:
                return snapshot.read(self._snapshot, options, self._cold)
            except FormatError:
                if folder.identity(self._snapshot) == file:
                    raise

    # Keeping house

    def snapshot(self) -> int:
        """Write the tables to a file, to start from; the change up to which they are complete."""
        with self._writing_snapshot:
            point = self.point
            sequence = snapshot.write(self._snapshot, point.derived, point.signing.options)
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
            earlier_bytes(self.store.path.parent.parent),
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
