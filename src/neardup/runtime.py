"""Around the work: the cache of compiled kernels, threads, progress. Imports no Numba.

Numba does not notice when a function changes that a cached one calls in another file, so the cache
folder's name has a hash of a kernel module's source and of all that it imports: a changed kernel
never gets an old cache.
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
"""How people hear of it; a service has a log."""


def cache_home() -> Path:
    """The user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup"


@cache
def kernel_folder(module: str) -> Path:
    """The cache folder of exactly these sources, or a private one if it can't be used."""
    # Bounds checks are compiled in or not, and Numba's own cache does not tell the two apart.
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    digest.update(version("numba").encode() + os.environ.get("NUMBA_CPU_NAME", "").encode())
    # Numba finds a compiled function by the place of its source: another installation has its own.
    digest.update(os.fsencode(Path(__file__).resolve().parent))
    for name, source in sorted(_sources(module).items()):
        digest.update(name.encode() + b"\0" + source)
    try:
        wanted = cache_home() / f"{module}-{digest.hexdigest()}"
        wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(wanted, os.W_OK):
            return wanted
    except (OSError, RuntimeError):  # not writable, or there is no home
        pass
    return private_folder() / module


@cache
def private_folder() -> Path:
    """A cache that goes with this process."""
    # For this process alone: a name that others could guess could be planted with foreign code.
    private = tempfile.mkdtemp(prefix="neardup-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return Path(private)


@cache
def _sources(module: str) -> dict[str, bytes]:
    """The source of a kernel module and of those that it imports."""
    found: dict[str, bytes] = {}
    wanted = [module]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = (Path(__file__).parent / "kernels" / f"{name}.py").read_bytes()
            wanted += re.findall(
                r"^from neardup\.kernels\.(\w+) import", found[name].decode(), re.M
            )
    return found


def discard_kernels(module: str) -> None:
    """Take a cache away that can't be read: the next process makes it anew."""
    shutil.rmtree(kernel_folder(module), ignore_errors=True)


def is_compiled(module: str, kernel: str) -> bool:
    """Whether a process has left this kernel in the cache."""
    return (kernel_folder(module) / f"{kernel}.{COMPLETE}").exists()


def announce(module: str, kernel: str) -> None:
    """Say, once, why the first use takes long, unless the caller asked for silence."""
    global quiet
    if not quiet and not is_compiled(module, kernel):
        quiet = True
        say("compiling what this needs, up to half a minute, once")


def mark_compiled(module: str, kernel: str) -> None:
    """Remember that this kernel is in the cache."""
    with suppress(OSError):  # a full disk: the next run compiles again
        (kernel_folder(module) / f"{kernel}.{COMPLETE}").touch()


Work = TypeVar("Work")
Done = TypeVar("Done")

AHEAD = 4
"""Pieces of work a thread that may wait for their turn."""


def map_in_order(
    work: Iterable[Work], do: Callable[[Work], Done], workers: int
) -> Iterator[tuple[Work, Done]]:
    """Each piece of work and what came of it, in order, done by that many threads."""
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
    """Something that shows how far a long piece of work has come.

    `total` of a stage is None if it is not known in advance.
    """

    def stage(self, name: str, total: int | None, unit: str) -> None: ...
    def advance(self, amount: int) -> None: ...
    def say(self, message: str) -> None: ...


class Silent:
    """Says nothing."""

    def stage(self, name: str, total: int | None, unit: str) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass

    def say(self, message: str) -> None:
        pass


SILENT = Silent()
