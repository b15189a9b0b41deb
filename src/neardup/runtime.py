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
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar

COMPLETE = "complete"
UNUSED_DAYS = 30
"""Compiled kernels that no process has loaded for so long are removed."""
DAY = 86_400
KERNELS = re.compile(r"[a-z_]+-[0-9a-f]{16}")
"""The name of a folder of compiled kernels."""
quiet = False
compiling_seconds = 0.0
"""How long this process has compiled kernels: no rate and no estimate of progress counts it."""


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
        if not wanted.exists():
            remove_unused_kernels()
        wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(wanted, os.W_OK):
            if wanted.stat().st_mtime < time.time() - DAY:
                os.utime(wanted)  # it is in use
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
    if quiet or is_compiled(module, kernel):
        return
    quiet = True
    if is_kept(module):
        say("compiling kernels for the first use, up to half a minute")
    else:
        say(
            "compiling kernels, up to half a minute at every start, because the cache folder "
            "can't be written: set XDG_CACHE_HOME to a folder that can"
        )


def is_kept(module: str) -> bool:
    """Return whether compiled kernels are kept for the next process."""
    try:
        return kernel_folder(module).is_relative_to(cache_home())
    except RuntimeError:  # the user has no home folder
        return False


@contextmanager
def time_compiling(module: str, kernel: str) -> Iterator[None]:
    """Announce that a kernel is compiled, and count the time as no progress."""
    global compiling_seconds
    announce(module, kernel)
    start = time.monotonic()
    try:
        yield
    finally:
        compiling_seconds += time.monotonic() - start


def kernel_folders() -> list[Path]:
    """Return the folders of compiled kernels in the cache, of all versions and installations."""
    try:
        return sorted(path for path in cache_home().iterdir() if KERNELS.fullmatch(path.name))
    except (OSError, RuntimeError):  # there is no cache, or no home folder
        return []


def remove_unused_kernels(days: float = UNUSED_DAYS) -> int:
    """Remove compiled kernels that have not been loaded for days; return how many folders."""
    removed = 0
    for folder in kernel_folders():
        with suppress(OSError):  # another process was first
            if folder.stat().st_mtime <= time.time() - days * DAY:
                shutil.rmtree(folder)
                removed += 1
    return removed


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
