"""Where compiled kernels are kept, and whether they are there already. Imports no Numba.

Numba does not notice when a function changes that a cached one calls in another file, so the
cache folder's name is a hash of every kernel source: a changed kernel never meets an old cache.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

COMPLETE = "complete"
quiet = False


@cache
def folder() -> Path:
    """The cache folder of exactly these kernel sources, or a private one if it can't be used."""
    # Bounds checks are compiled in or not, and Numba's own cache does not tell the two apart.
    digest = hashlib.blake2b(os.environ.get("NUMBA_BOUNDSCHECK", "").encode(), digest_size=8)
    digest.update(version("numba").encode() + os.environ.get("NUMBA_CPU_NAME", "").encode())
    # Numba finds a compiled function by the place of its source: another installation has its own.
    digest.update(os.fsencode(Path(__file__).resolve().parent))
    for source in sorted((Path(__file__).parent / "kernels").glob("*.py")):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    try:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        wanted = home / "neardup" / digest.hexdigest()
        wanted.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(wanted, os.W_OK):
            return wanted
    except (OSError, RuntimeError):  # not writable, or there is no home
        pass
    # For this process alone: a name that others could guess could be planted with foreign code.
    private = tempfile.mkdtemp(prefix="neardup-kernels-")
    atexit.register(shutil.rmtree, private, ignore_errors=True)
    return Path(private)


def is_compiled() -> bool:
    """Whether a process has left all kernels in the cache."""
    return (folder() / COMPLETE).exists()


def announce() -> None:
    """Say why the first use takes long, unless somebody asked for silence."""
    if not quiet and not is_compiled():
        print(
            "neardup: first run: compiling, about half a minute, once", file=sys.stderr, flush=True
        )


def mark_compiled() -> None:
    with suppress(OSError):  # a full disk: the next run compiles again
        (folder() / COMPLETE).touch()
