"""Where compiled kernels are kept, and whether they are there already. Imports no Numba.

Numba does not notice when a function changes that a cached one calls in another file, so the
cache folder's name has a hash of a kernel's source and of all that it imports: a changed kernel
never meets an old cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

COMPLETE = "complete"
quiet = False


def _warn(message: str) -> None:
    print(f"neardup: {message}", file=sys.stderr, flush=True)


say: Callable[[str], None] = _warn
"""How people hear of it; a service has a log."""


def home() -> Path:
    """The user's folder for what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "neardup"


@cache
def folder(module: str) -> Path:
    """The cache folder of exactly these sources, or a private one if it can't be used."""
    # Bounds checks are compiled in or not, and Numba's own cache does not tell the two apart.
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    digest.update(version("numba").encode() + os.environ.get("NUMBA_CPU_NAME", "").encode())
    # Numba finds a compiled function by the place of its source: another installation has its own.
    digest.update(os.fsencode(Path(__file__).resolve().parent))
    for name, source in sorted(_sources(module).items()):
        digest.update(name.encode() + b"\0" + source)
    try:
        wanted = home() / f"{module}-{digest.hexdigest()}"
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


def imported_by(module: str) -> list[str]:
    """The module and those that it imports, each after what it imports itself."""
    sources = _sources(module)
    return sorted(sources, key=lambda name: (len(_sources(name)), name))


def discard(module: str) -> None:
    """Take a cache away that can't be read: the next process makes it anew."""
    shutil.rmtree(folder(module), ignore_errors=True)


def is_compiled(module: str) -> bool:
    """Whether a process has left a module's kernels in the cache."""
    return (folder(module) / COMPLETE).exists()


def announce(module: str) -> None:
    """Say, once, why the first use takes long, unless somebody asked for silence."""
    global quiet
    if not quiet and not is_compiled(module):
        quiet = True
        say("compiling what this needs, up to half a minute, once")


def mark_compiled(module: str) -> None:
    with suppress(OSError):  # a full disk: the next run compiles again
        (folder(module) / COMPLETE).touch()
