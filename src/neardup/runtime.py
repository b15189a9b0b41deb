"""The cache of compiled kernels, a pool of threads, and progress. Imports no Numba.

Numba does not notice a change of a function in another file that a cached function calls. So the
name of a cache folder contains a hash of the sources of a kernel module and of all modules that it
imports: a changed kernel never uses an old cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar

COMPLETE = "complete"
quiet = False


def _print_warning(message: str) -> None:
    print(f"neardup: {message}", file=sys.stderr, flush=True)


say: Callable[[str], None] = _print_warning
"""Where warnings are written: to stderr; a service writes them to its log."""


def cache_home() -> Path:
    """Return the user's cache folder of neardup."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup"


@cache
def kernel_folder(module: str) -> Path:
    """Return the cache folder of a module's sources, or a private one if it can't be used."""
    # Numba's own cache does not distinguish kernels with bounds checks from those without.
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    digest.update(version("numba").encode() + os.environ.get("NUMBA_CPU_NAME", "").encode())
    # Numba finds a compiled function by the path of its source: another installation has its own.
    digest.update(os.fsencode(Path(__file__).resolve().parent))
    for name, source in sorted(_sources(module).items()):
        digest.update(name.encode() + b"\0" + source)
    try:
        wanted = cache_home() / f"{module}-{digest.hexdigest()}"
        wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(wanted, os.W_OK):
            return wanted
    except (OSError, RuntimeError):  # not writable, or no home folder
        pass
    return private_folder() / module


@cache
def private_folder() -> Path:
    """Return a cache folder of this process, removed at its end."""
    # Not a name that others could guess: they could put their own code there.
    private = tempfile.mkdtemp(prefix="neardup-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return Path(private)


@cache
def _sources(module: str) -> dict[str, bytes]:
    """Return the sources of a kernel module and of those that it imports, by their names."""
    sources: dict[str, bytes] = {}
    pending = [module]
    while pending:
        name = pending.pop()
        if name not in sources:
            sources[name] = (Path(__file__).parent / "kernels" / f"{name}.py").read_bytes()
            pending += re.findall(
                r"^from neardup\.kernels\.(\w+) import", sources[name].decode(), re.M
            )
    return sources


def discard_kernels(module: str) -> None:
    """Remove a cache that can't be read; the next process compiles again."""
    shutil.rmtree(kernel_folder(module), ignore_errors=True)


def is_compiled(module: str, kernel: str) -> bool:
    """Return whether the cache has this kernel."""
    return (kernel_folder(module) / f"{kernel}.{COMPLETE}").exists()


def announce(module: str, kernel: str) -> None:
    """Write once, before a kernel is compiled, why this takes long; nothing if `quiet`."""
    global quiet
    if not quiet and not is_compiled(module, kernel):
        quiet = True
        say("compiling kernels for the first use, up to half a minute")


def mark_compiled(module: str, kernel: str) -> None:
    """Record that the cache has this kernel."""
    with suppress(OSError):  # a full disk: the next run compiles again
        (kernel_folder(module) / f"{kernel}.{COMPLETE}").touch()


Work = TypeVar("Work")
Done = TypeVar("Done")

AHEAD = 4
"""Pieces of work that may be submitted ahead, for each thread."""


def map_in_order(
    work: Iterable[Work], do: Callable[[Work], Done], workers: int
) -> Iterator[tuple[Work, Done]]:
    """Yield each piece of work with its result, in order, computed by `workers` threads."""
    if workers == 1:
        for piece in work:
            yield piece, do(piece)
        return
    waiting: deque[tuple[Work, Future[Done]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for piece in work:
                waiting.append((piece, pool.submit(do, piece)))
                if len(waiting) > AHEAD * workers:
                    done, future = waiting.popleft()
                    yield done, future.result()
            while waiting:
                done, future = waiting.popleft()
                yield done, future.result()
        finally:
            pool.shutdown(cancel_futures=True)


class Progress(Protocol):
    """A display of how far a long run has come: stages, steps and messages.

    `total` of a stage is None if it is not known in advance.
    """

    def stage(self, name: str, total: int | None, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...
    def say(self, message: str) -> None: ...


class Silent:
    """Progress that shows nothing."""

    def stage(self, name: str, total: int | None, unit: str) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        pass


SILENT = Silent()
