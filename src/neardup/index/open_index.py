"""The folder of an index, open: which generation answers, and how another takes its place."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from neardup.errors import ParameterError, UsageError
from neardup.formats.tables import write_error
from neardup.index import folder
from neardup.index.generation import Generation, OpenOptions, lock_unless, opened_store
from neardup.index.lookup import ReadWriteLock
from neardup.index.settings import IndexSettings, asked
from neardup.index.store import Store
from neardup.keys import Key, require_key
from neardup.options import Options
from neardup.spec import Spec

T = TypeVar("T")


class OpenIndex:
    """An open folder and the generation that answers. Any thread."""

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
        read_only: bool,
    ) -> OpenIndex:
        """Open the current generation of an index, which is made if the folder has none."""
        if folder.read_generations(path) is None:
            if read_only:
                raise UsageError(f"{path} holds no index: give the folder of one")
            _create_index(path, asked(None, spec, key, options), bool(keep_texts))
        with lock_unless(read_only, path) as lock:
            name = folder.require_index(path).current
            with opened_store(path, name, read_only) as (store, settings):
                asked(settings.options, spec, key, options)
                require_key(settings.options.spec, key)
                if keep_texts is not None and keep_texts != settings.keep_texts:
                    raise ParameterError(
                        f"{path} was made {'with' if settings.keep_texts else 'without'} its "
                        "texts: leave out keep_texts, or build the index again"
                    )
                return cls(path, Generation(store, key, lock, how), how)

    @contextmanager
    def while_open(self) -> Iterator[Generation]:
        """The current generation, which is not closed before the block ends.

        Blocks must not be nested in one thread: `close` may wait between them.
        """
        self._follow_generations()
        with self._using.reading():
            if self._closed:
                raise UsageError(f"{self.path} is closed: open it again")
            yield self.generation

    def close(self) -> None:
        """Finish what waits, write a snapshot if one is due, and let another process write."""
        with self._closing:
            if self._closed:
                return
            try:
                finished = None
                while finished is not self.generation:  # another one, if there was a switch
                    finished = self.generation
                    finished.finish()
            finally:
                self._closed = True
                with self._switching, self._using.writing():  # no call is under way any more
                    for store in (*self._former, self.generation.store):
                        store.close()
                if self._lock is not None:
                    self._lock.release()

    def open_generation(self, name: str, key: Key | None) -> Generation:
        """Open another generation of the same folder, to write there."""
        return Generation.open(self.path, name, [key, self.generation.key], self._how)

    def between_commits(self, call: Callable[[], T]) -> T:
        """Have the writer thread call something between two commits, such as `switch_to`."""
        writer = self.generation.require_writer()
        result = self.generation.between_commits(call)
        if writer is not self.generation.writer:
            writer.close()
        return result

    def switch_to(self, generation: Generation) -> None:
        """Answer from another generation from now on; for the writer thread, or for a reader.

        Calls under way are answered from the old one. Requests that wait for its writer are handed
        over to the new one's.
        """
        former = self.generation
        if former.shadow is not None:
            former.shadow.close()
        self._former.append(former.store)
        generation.adopt(former.counters)
        self.generation = generation
        if former.writer is not None and generation.writer is not None:
            former.writer.hand_over(generation.writer)

    def _follow_generations(self) -> None:
        """Switch as another process has switched, if this is a reader."""
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


def _create_index(path: Path, options: Options | None, keep_texts: bool) -> None:
    """Make an index in a folder that has none."""
    settings = IndexSettings(options or Options(), keep_texts)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(path, error) from None
    with folder.locked(path):
        if folder.read_generations(path) is None:  # another process may have been faster
            Generation.create(path / folder.FIRST, settings)
            folder.write_generations(path, folder.Generations(folder.FIRST))
