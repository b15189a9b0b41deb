"""A backend does the work of a stage: on threads of this machine, or in the tasks of a cluster.

Work goes from files to files: its items are shards, bands or files, and for each it writes a file
and returns a small result. So it can be done anywhere where the same paths lead to the same files,
and repeated when a machine is lost. All that is between two pieces of work, such as ranking and
deciding, is done where the run was started, in bounded memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Item = TypeVar("Item", contravariant=True)
Done = TypeVar("Done", covariant=True)
AnyItem = TypeVar("AnyItem")
AnyDone = TypeVar("AnyDone")

Advance = Callable[[int], None]


class Work(Protocol[Item, Done]):
    """The part of a stage that is done for each of its items. It can be pickled."""

    def __call__(self, items: Iterable[Item], threads: int, advance: Advance) -> Iterator[Done]:
        """Yield the result of each item, in order.

        Args:
            items: What the work is done for.
            threads: The number of threads to use.
            advance: Called with the amount of work that was done, for the display of progress.
        """


class Backend(Protocol):
    """Does work, on one machine or on many.

    is_remote  whether other machines take part, of which some may be lost
    """

    is_remote: bool

    def run(
        self, work: Work[AnyItem, AnyDone], items: Sequence[AnyItem], threads: int, advance: Advance
    ) -> Iterator[AnyDone]:
        """Yield the result of each item, in order.

        Args:
            work: What is done.
            items: What it is done for.
            threads: The number of threads to use on this machine.
            advance: Called, in the thread of the caller, with the amount of work that was done.
        """

    def reduce(
        self,
        work: Work[AnyItem, AnyDone],
        items: Sequence[AnyItem],
        merge: Callable[[AnyDone, AnyDone], AnyDone],
        threads: int,
        advance: Advance,
    ) -> AnyDone:
        """Return one result for all items, of work that yields one for all that it is given.

        Args:
            work: What is done.
            items: What it is done for.
            merge: Returns one result for two; it may change the first.
            threads: The number of threads to use on this machine.
            advance: Called, in the thread of the caller, with the amount of work that was done.
        """

    def describe(self) -> dict[str, Any]:
        """Return what run.json states of the backend."""


class LocalBackend:
    """Does all work on threads of this machine."""

    is_remote = False

    def run(
        self, work: Work[AnyItem, AnyDone], items: Sequence[AnyItem], threads: int, advance: Advance
    ) -> Iterator[AnyDone]:
        return work(items, threads, advance)

    def reduce(
        self,
        work: Work[AnyItem, AnyDone],
        items: Sequence[AnyItem],
        merge: Callable[[AnyDone, AnyDone], AnyDone],
        threads: int,
        advance: Advance,
    ) -> AnyDone:
        return functools.reduce(merge, work(items, threads, advance))

    def describe(self) -> dict[str, Any]:
        return {}
