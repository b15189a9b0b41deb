"""A new index of documents that were judged before: stored as they come, nothing is decided.

It is made beside its folder and moved there when it is complete.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neardup.errors import UsageError
from neardup.formats.blocks import sync_folder
from neardup.formats.tables import no_room
from neardup.index import folder, snapshot
from neardup.index.known import Signing
from neardup.index.settings import Settings
from neardup.index.store import CHECKPOINT_BYTES, Row, Store


class Loader:
    """Takes in documents, some at a time: each call is a transaction."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.documents = self.kept = 0

    def add(self, rows: Sequence[Row], blobs: Mapping[str, Sequence[tuple[int, Any]]]) -> None:
        """Store documents with what belongs to them, table -> (number, bytes)."""
        with self._store.transaction():
            self._store.add(rows)
            for table, some in blobs.items():
                self._store.add_blobs(table, some)
        if self._store.wal_bytes > CHECKPOINT_BYTES:
            self._store.checkpoint("TRUNCATE")
        self.documents += len(rows)
        self.kept += sum(row.witness is None for row in rows)

    def reach(self, number: int) -> None:
        """Numbers up to this one were given, whether or not their documents are still there."""
        with self._store.transaction():
            self._store.reach(number)


@contextmanager
def new_index(path: Path, settings: Settings) -> Iterator[Loader]:
    """What is loaded inside becomes the index of a folder, which must be empty or not be there."""
    require_free(path)
    place = path.resolve()
    beside = place.with_name(f".{place.name}.tmp")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        (beside / folder.FIRST).mkdir(mode=0o700, parents=True)
        file = beside / folder.FIRST / folder.STORE
        Store.create(file, settings.stored)
        store = Store(file)
        try:
            yield Loader(store)
            cold = snapshot.Cold(beside / folder.FIRST)
            derived = snapshot.rebuilt(store, Signing(settings.options), cold)
            snapshot.write(file.with_name(folder.SNAPSHOT), derived, settings.options)
            store.checkpoint("TRUNCATE")
        finally:
            store.close()
        sync_folder(beside / folder.FIRST)
        place.mkdir(parents=True, exist_ok=True)
        with folder.locked(place):
            require_free(place)
            shutil.rmtree(place / folder.FIRST, ignore_errors=True)  # never finished
            (beside / folder.FIRST).rename(place / folder.FIRST)
            folder.list_generations(place, folder.Generations(folder.FIRST))
        sync_folder(place.parent)
    except OSError as error:
        raise no_room(path, error) from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def require_free(path: Path) -> None:
    """Refuse a folder that holds an index, or anything else."""
    if folder.generations(path) is not None:
        raise UsageError(
            f"{path} holds an index: add to it with neardup index add, or choose another folder"
        )
