"""What an open index holds: a generation of it; and how it goes over to another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from neardup.errors import UsageError
from neardup.index import folder, opening
from neardup.index.generation import Generation
from neardup.index.opening import How
from neardup.index.settings import Settings
from neardup.index.store import Store
from neardup.index.tables.guard import Guard
from neardup.index.work import Calling
from neardup.index.writing import Writer
from neardup.keys import Key
from neardup.options import Options
from neardup.sketcher import Sketcher
from neardup.spec import Spec

P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound="Holder")


def steady(
    method: Callable[Concatenate[H, P], T],
) -> Callable[Concatenate[H, P], T]:
    """A call that nobody closes the index under. One can't call another."""

    @wraps(method)
    def called(self: H, /, *args: P.args, **others: P.kwargs) -> T:
        self._follow_generations()
        with self._using.reading():
            if self._closed:
                raise UsageError(f"{self.path} is closed: open it again")
            return method(self, *args, **others)

    return called


class Holder:
    """Open until it is closed. Any thread."""

    def __init__(self, path: Path, opened: opening.Opened, how: How) -> None:
        self.path, self._how, self._lock = path, how, opened.lock
        self._now = Generation(opened, how)
        self._former: list[Store] = []
        self._listing, self._listed_at = path / folder.LISTED, (0, 0)
        self._exchanging, self._using = threading.Lock(), Guard()
        self._closing, self._closed = threading.Lock(), False

    @classmethod
    def of_generation(
        cls,
        path: Path,
        name: str,
        keys: Iterable[Key | None],
        *,
        read_only: bool = False,
        how: How | None = None,
    ) -> Self:
        """One generation of an index, whether it is the current one or not.

        Of the keys it takes the one that it needs, if any.
        """
        with opening.opened_generation(path, name, keys, read_only=read_only) as opened:
            return cls(path, opened, how or How())

    @property
    def settings(self) -> Settings:
        return self._now.settings

    @property
    def options(self) -> Options:
        return self.settings.options

    @property
    def spec(self) -> Spec:
        return self.options.spec

    @property
    def sketcher(self) -> Sketcher:
        """Makes sketches as this index does."""
        return self._now.sketching.sketcher

    @property
    def store(self) -> Store:
        """What is stored; to be read."""
        return self._now.store

    @property
    def generation(self) -> str:
        """The folder in the index's own that answers come from."""
        return self._now.name

    @property
    def read_only(self) -> bool:
        return self._now.writer is None

    @property
    def sequence(self) -> int:
        """The number of the last change that answers are based on."""
        return self._now.point.derived.sequence

    def __len__(self) -> int:
        writer = self._now.writer
        return self._counted() if writer is None else writer.documents

    @steady
    def _counted(self) -> int:
        return self.store.counts()[0]

    def close(self) -> None:
        """Finish what waits, write a snapshot if that is worth it, and let others write."""
        with self._closing:
            if self._closed:
                return
            try:
                self._finish()
            finally:
                self._closed = True
                with self._exchanging, self._using.writing():  # nobody asks any more
                    for store in (*self._former, self.store):
                        store.close()
                if self._lock is not None:
                    self._lock.release()

    def _finish(self) -> None:
        finished = None
        while finished is not self._now:  # another one, if a generation came in between
            finished = self._now
            if finished.shadow is not None:
                finished.shadow.close()
            finished.finish()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def beside(self, generation: str, key: Key | None) -> Self:
        """Another generation of the same folder, to write there."""
        return self.of_generation(self.path, generation, [key, self._now.key], how=self._how)

    def between_commits(self, call: Callable[[], None]) -> None:
        """Have the thread that writes do something."""
        _, writer = self._writing()
        writer.put(Calling(call)).done.result()
        if writer is not self._now.writer:
            writer.close()

    def follow(self, other: Store) -> None:
        """Give larger numbers than another store has, to documents and to changes."""
        _, writer = self._writing()
        self.between_commits(lambda: writer.follow(other))

    def go_over(self, other: Self) -> None:
        """Be another generation from now on, in the thread that writes; `other` is used up.

        Who is being answered is answered from the old one. What waits to be written waits there.
        """
        former = self._now
        if former.shadow is not None:
            former.shadow.close()
        self._former.append(former.store)
        other._now.go_on_counting(former.counters)
        self._now, other._closed = other._now, True
        if other._lock is not None:
            other._lock.release()
        if former.writer is not None and self._now.writer is not None:
            former.writer.hand_over(self._now.writer)

    def _follow_generations(self) -> None:
        """Of a reader: has another process gone over to another generation?"""
        if self._now.writer is not None or folder.identity(self._listing) == self._listed_at:
            return
        with self._exchanging:
            at, listed = folder.identity(self._listing), folder.generations(self.path)
            if listed is None or self._closed:
                return
            if listed.current != self.generation:
                self.go_over(
                    self.of_generation(
                        self.path, listed.current, [self._now.key], read_only=True, how=self._how
                    )
                )
            self._listed_at = at

    def _writing(self) -> tuple[Generation, Writer]:
        now = self._now
        if now.writer is None:
            raise UsageError(f"{self.path} was opened read-only: open it to write")
        return now, now.writer
