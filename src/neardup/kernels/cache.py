"""The cache of compiled kernels: a folder for each version of a kernel module. Imports no Numba.

Numba does not notice a change of a function in another file that a cached function calls. So the
name of a folder contains a hash of the sources of a kernel module and of all modules that it
imports: a changed kernel never uses an old cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from neardup import runtime
from neardup.kernels import shared_objects

COMPLETE = "complete"
UNUSED_DAYS = 30
"""Compiled kernels that no process has loaded for so long are removed."""
DAY = 86_400
FOLDER = re.compile(r"[a-z_]+-[0-9a-f]{16}")
"""The name of a folder of compiled kernels."""


def uses_objects() -> bool:
    """Return whether kernels are shared objects; else Numba compiles them into each process.

    Its bounds checks (NUMBA_BOUNDSCHECK) are for the latter, which NEARDUP_KERNELS=jit asks for.
    """
    environment = os.environ
    return environment.get("NEARDUP_KERNELS") != "jit" and not environment.get("NUMBA_BOUNDSCHECK")


@cache
def kernel_folder(module: str) -> Path:
    """Return the cache folder of a module's sources, or a private one if it can't be used."""
    digest = hashlib.blake2b(_numba_version().encode(), digest_size=8)
    if uses_objects():
        digest.update(f"\0{shared_objects.processor_level()}\0{_platform()}".encode())
    else:
        # Numba's own cache does not distinguish kernels with bounds checks from those without.
        digest.update(os.environ.get("NUMBA_BOUNDSCHECK", "").encode())
        digest.update(os.environ.get("NUMBA_CPU_NAME", "").encode())
        # It finds a compiled function by the path of its source: no two installations share one.
        digest.update(os.fsencode(Path(__file__).resolve().parent))
    for name, source in sorted(_sources(module).items()):
        digest.update(name.encode() + b"\0" + source)
    try:
        wanted = runtime.cache_home() / f"{module}-{digest.hexdigest()}"
        if not wanted.exists():
            remove_unused_kernels()
        runtime.cache_home().mkdir(parents=True, exist_ok=True, mode=0o700)
        wanted.mkdir(exist_ok=True, mode=0o700)
        safe = is_trusted(runtime.cache_home()) and is_trusted(wanted)
        if safe and shared_objects.object_path(wanted, module).exists():
            return wanted  # though it may be read-only
        if safe and os.access(wanted, os.W_OK):
            if wanted.stat().st_mtime < time.time() - DAY:
                os.utime(wanted)  # it is in use
            return wanted
    except (OSError, RuntimeError):  # not writable, or no home folder
        pass
    return runtime.private_folder() / module


def mixin_folder() -> Path:
    """Return the folder of what all objects have in common."""
    made = f"{_numba_version()} {version('numpy')} {_platform()}\0".encode()
    digest = hashlib.blake2b(made + shared_objects.CALLS.read_bytes(), digest_size=8)
    return runtime.cache_home() / f"mixin-{digest.hexdigest()}"


def is_trusted(folder: Path) -> bool:
    """Return whether only the user, or root, can have put code into a folder."""
    status = folder.stat()
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & stat.S_IWOTH


def _platform() -> str:
    """Return what compiled code depends on besides the processor."""
    return f"{sys.implementation.cache_tag} {sysconfig.get_platform()} {shared_objects.SUFFIX}"


@cache
def _numba_version() -> str:
    try:
        return version("numba")
    except PackageNotFoundError:
        return ""


@cache
def _sources(module: str) -> dict[str, bytes]:
    """Return the sources of a kernel module and of those that it imports, by their names."""
    sources: dict[str, bytes] = {}
    pending = [f"kernels.{module}"]
    if uses_objects():
        sources[shared_objects.CALLS.name] = shared_objects.CALLS.read_bytes()
        pending.append("kernels.object_build")
    while pending:
        name = pending.pop()
        if name not in sources:
            path = Path(__file__).parents[1].joinpath(*name.split(".")).with_suffix(".py")
            sources[name] = path.read_bytes()
            imports = r"^from neardup\.((?:kernels|reference)\.\w+) import"
            pending += re.findall(imports, sources[name].decode(), re.M)
    return sources


def discard_kernels(module: str) -> None:
    """Remove a cache that can't be read; the next process compiles again."""
    shutil.rmtree(kernel_folder(module), ignore_errors=True)


def is_compiled(module: str, kernel: str) -> bool:
    """Return whether the cache has this kernel."""
    return (kernel_folder(module) / f"{kernel}.{COMPLETE}").exists()


def announce(module: str) -> None:
    """Write once, before kernels are compiled, why this takes long; nothing if `quiet`."""
    if runtime.quiet:
        return
    runtime.quiet = True
    if is_kept(module):
        runtime.say("compiling kernels for the first use, up to half a minute")
    else:
        runtime.say(
            "compiling kernels, up to half a minute at every start, because the cache folder "
            "can't be written: set XDG_CACHE_HOME to a folder that can"
        )


def is_kept(module: str) -> bool:
    """Return whether compiled kernels are kept for the next process."""
    try:
        return kernel_folder(module).is_relative_to(runtime.cache_home())
    except RuntimeError:  # the user has no home folder
        return False


@contextmanager
def time_compiling(module: str, kernel: str | None = None) -> Iterator[None]:
    """Announce that a kernel or a whole module is compiled; the time does not count as progress."""
    if kernel is None or not is_compiled(module, kernel):
        announce(module)
    start = time.monotonic()
    try:
        yield
    finally:
        runtime.compiling_seconds += time.monotonic() - start


def kernel_folders() -> list[Path]:
    """Return the folders of compiled kernels in the cache, of all versions and installations."""
    try:
        inside = runtime.cache_home().iterdir()
        return sorted(path for path in inside if FOLDER.fullmatch(path.name))
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
