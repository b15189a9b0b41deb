"""Opening the folder of an index, or making one: who holds it, what is stored there, for what."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neardup.errors import ParameterError, UsageError
from neardup.formats.blocks import sync_folder
from neardup.formats.tables import no_room
from neardup.index import folder
from neardup.index.settings import Settings, asked
from neardup.index.store import Store
from neardup.index.writing import MOST_WAITING
from neardup.keys import Key, require_key
from neardup.options import Options
from neardup.spec import Spec


@dataclass(frozen=True)
class How:
    """How an index works, whatever is in it."""

    clock: Callable[[], float] = time.time
    most_waiting: int = MOST_WAITING
    say: Callable[[str], None] = lambda _: None
    memory: int | None = None
    """Bytes of the tables."""


@dataclass(frozen=True)
class Opened:
    """A generation of an index: what is stored there, and the lock if it is to be written to."""

    store: Store
    settings: Settings
    key: Key | None
    lock: folder.Lock | None


@contextmanager
def opened(
    path: Path,
    spec: Spec | None,
    key: Key | None,
    given: dict[str, Any],
    *,
    keep_texts: bool | None,
    read_only: bool,
) -> Iterator[Opened]:
    """The current generation of an index, which is made if there is none.

    If what is done inside fails, it is closed again.
    """
    if folder.generations(path) is None:
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
        yield Opened(store, settings, key, lock)


@contextmanager
def opened_generation(
    path: Path, name: str, keys: Iterable[Key | None], *, read_only: bool
) -> Iterator[Opened]:
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
        yield Opened(store, settings, key, lock)


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
def _stored(path: Path, name: str | None, read_only: bool) -> Iterator[tuple[Store, Settings]]:
    if name is None:
        listed = folder.generations(path)
        assert listed is not None  # noqa: S101  # it was there, or has been made
        name = listed.current
    store = Store(path / name / folder.STORE, read_only=read_only)
    try:
        yield store, Settings.of_stored(store.meta(), str(store.path))
    except BaseException:
        store.close()
        raise


def _make(path: Path, options: Options | None, keep_texts: bool) -> None:
    """A new index in a folder that has none."""
    settings = Settings(options or Options(), keep_texts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise no_room(path, error) from None
    with folder.locked(path):
        if folder.generations(path) is None:  # or somebody else was faster
            make_generation(path / folder.FIRST, settings)
            folder.list_generations(path, folder.Generations(folder.FIRST))


def make_generation(path: Path, settings: Settings) -> None:
    """The folder of a generation without documents."""
    try:
        path.mkdir(exist_ok=True, mode=0o700)
        Store.create(path / folder.STORE, settings.stored)
        sync_folder(path)
    except OSError as error:
        raise no_room(path, error) from None
