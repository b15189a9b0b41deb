"""An open index folder: holds the generation that answers, and switches to another one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from neardup.errors import ParameterError, UsageError
from neardup.formats.tables import write_error
from neardup.index import folder
from neardup.index.additions import close_stopped
from neardup.index.generation import Generation, OpenOptions, lock_unless, opened_store
from neardup.index.lookup import ReadWriteLock
from neardup.index.settings import IndexSettings, new_settings, require_options
from neardup.index.store import Store
from neardup.index.vector_settings import require_vectors
from neardup.keys import Key, require_key
from neardup.spec import Spec

T = TypeVar("T")


class OpenIndex:
    """An open folder and the generation that answers. Usable in any thread."""

    def __init__(self, path: Path, generation: Generation, how: OpenOptions) -> None:
        self.path, self.generation, self._how = path, generation, how
        self._lock = generation.lock
        self._former: list[Store] = []
        self._listing, self._listed_at = path / folder.LISTED, (0, 0)
        self._switching, self._using = threading.Lock(), ReadWriteLock()
        self._closing, self._closed = threading.Lock(), False

    @classmethod
    def open(
        cls,
        path: Path,
        spec: Spec | None,
        key: Key | None,
        options: dict[str, Any],
        how: OpenOptions,
        *,
        keep_texts: bool | None,
        within: str | None,
        dimension: int | None,
        read_only: bool,
    ) -> OpenIndex:
        """Open the current generation of an index; make an index if the folder has none.

        Args:
            path: The folder of the index.
            spec: The specification that the caller requires, or of a new index.
            key: The key of a keyed hash.
            options: The options that the caller requires, or of a new index.
            how: How the index works in this process.
            keep_texts: Whether texts are stored; None for no requirement.
            within: The column of the groups; None for none, or as the index has it.
            dimension: The numbers of a vector; None for none, or as the index has it.
            read_only: Open it beside a process that writes.
        """
        if folder.read_generations(path) is None:
            if read_only:
                folder.require_index(path)
            _create_index(
                path,
                new_settings(
                    spec,
                    key,
                    options,
                    keep_texts=keep_texts,
                    within=within,
                    dimension=dimension,
                ),
            )
        with lock_unless(read_only, path) as lock:
            name = folder.require_index(path).current
            with opened_store(path, name, read_only) as (store, settings):
                others = require_vectors(settings.options, options, dimension)
                require_settings(path, settings, spec, key, others, keep_texts, within)
                if not read_only:
                    close_stopped(path, store.last_number())
                return cls(path, Generation(store, key, lock, how), how)

    @contextmanager
    def while_open(self) -> Iterator[Generation]:
        """Yield the current generation, which is not closed before the block ends.

        Blocks must not be nested in one thread: `close` may wait for the outer one.
        """
        self._follow_generations()
        with self._using.reading():
            if self._closed:
                raise UsageError(f"{self.path} is closed: open it again")
            yield self.generation

    def now(self) -> float:
        """Return the time that a document would get that is added now."""
        return float((self._how.clock or time.time)())

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Finish queued requests, write a snapshot if one is due, and release the lock."""
        with self._closing:
            if self._closed:
                return
            try:
                finished = None
                while finished is not self.generation:  # it may have switched meanwhile
                    finished = self.generation
                    finished.finish()
            finally:
                self._closed = True
                with self._switching, self._using.writing():  # waits for calls under way
                    for store in (*self._former, self.generation.store):
                        store.close()
                if self._lock is not None:
                    self._lock.release()

    def open_generation(self, name: str, key: Key | None) -> Generation:
        """Open another generation of the same folder, to write there."""
        return Generation.open(self.path, name, [key, self.generation.key], self._how)

    def between_commits(self, call: Callable[[], T]) -> T:
        """Have the writer thread call a function between two commits, such as `switch_to`."""
        writer = self.generation.require_writer()
        result = self.generation.between_commits(call)
        if writer is not self.generation.writer:
            writer.close()
        return result

    def switch_to(self, generation: Generation) -> None:
        """Answer from another generation from now on. Called in the writer thread, or by a reader.

        Calls under way are answered from the old generation. Requests that wait for its writer are
        handed over to the new writer.
        """
        former = self.generation
        if former.shadow is not None:
            former.shadow.close()
        self._former.append(former.store)
        generation.adopt(former.counters, self._lock)
        self.generation = generation
        if former.writer is not None and generation.writer is not None:
            former.writer.hand_over(generation.writer)

    def _follow_generations(self) -> None:
        """As a reader, switch to the generation that the writing process has switched to."""
        if self.generation.writer is not None:
            return
        if folder.file_identity(self._listing) == self._listed_at:
            return
        with self._switching:
            at, listed = folder.file_identity(self._listing), folder.read_generations(self.path)
            if listed is None or self._closed:
                return
            if listed.current != self.generation.name:
                keys = [self.generation.key]
                self.switch_to(
                    Generation.open(self.path, listed.current, keys, self._how, read_only=True)
                )
            self._listed_at = at


def check_settings(
    path: Path,
    key: Key | None,
    options: dict[str, Any],
    keep_texts: bool | None,
    within: str | None,
    dimension: int | None,
) -> None:
    """Raise the errors of `OpenIndex.open` that need no documents, in a moment; write nothing."""
    if folder.read_generations(path) is None:
        new_settings(
            None,
            key,
            options,
            keep_texts=keep_texts,
            within=within,
            dimension=dimension,
        )
        return
    with folder.locked(path):
        name = folder.require_index(path).current
        with opened_store(path, name, read_only=True) as (store, settings):
            others = require_vectors(settings.options, options, dimension)
            require_settings(path, settings, None, key, others, keep_texts, within)
            store.close()


def require_settings(
    path: Path | str,
    settings: IndexSettings,
    spec: Spec | None,
    key: Key | None,
    options: dict[str, Any],
    keep_texts: bool | None,
    within: str | None,
) -> None:
    """Raise an error unless an index has the settings that a caller requires."""
    require_options(settings.options, spec, key, options)
    require_key(settings.options.spec, key)
    if keep_texts is not None and keep_texts != settings.keep_texts:
        raise ParameterError(
            f"{path} was made {'with' if settings.keep_texts else 'without'} its texts: leave out "
            "keep_texts, or build the index again"
        )
    if within is not None and within != settings.within:
        has = f"groups by {settings.within!r}" if settings.within else "no groups"
        raise ParameterError(
            f"{path} was made with {has}, and within {within!r} is asked for: leave out within, or "
            "build the index again"
        )


def _create_index(path: Path, settings: IndexSettings) -> None:
    """Make an index in a folder that has none."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    with folder.locked(path):
        if folder.read_generations(path) is None:  # another process may have been faster
            Generation.create(path / folder.FIRST, settings)
            folder.write_generations(path, folder.Generations(folder.FIRST))
