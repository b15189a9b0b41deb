"""Shared objects of kernels: those of the package, else those of the cache, else built now.

Objects are built in processes of their own, as many at a time as there are cores, so that a run
imports no compiler. A run over files asks for its kernels one after the other: with the first that
is missing all of them are begun.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache as cached
from pathlib import Path
from typing import Final

from neardup import runtime
from neardup.kernels import cache, shared_objects
from neardup.kernels.shared_objects import Kernel

RUN_MODULES: Final = (
    "verification",
    "minhash",
    "units",
    "jsonl",
    "characters",
    "shingles",
    "hashing",
    "bands",
    "rounds",
)
"""The kernel modules of most runs, those that take longest to compile first."""

_builds: dict[str, Future[bool]] = {}
os.register_at_fork(after_in_child=_builds.clear)  # the threads that build stay in the parent


def find_object(module: str) -> dict[str, Kernel] | None:
    """Return the kernels of a module, by their names; None if there is no object.

    Args:
        module: The name of the module in `kernels.KERNELS`.
    """
    if (packaged := shared_objects.packaged_folder(module)) is not None:
        return shared_objects.load_object(packaged, module)
    if has_object(module) and (found := _load(module)) is not None:
        return found
    if not can_build(module):
        return None
    with cache.time_compiling(module):
        if not _build(module):
            return None
    return _load(module)


def has_object(module: str) -> bool:
    """Return whether the package or the cache has the object of a module."""
    if shared_objects.packaged_folder(module) is not None:
        return True
    return shared_objects.object_path(cache.kernel_folder(module), module).exists()


def processor() -> str:
    """Return the processor that objects are for, for messages."""
    return f"{shared_objects.processor_level()} ({sysconfig.get_platform()})"


def _load(module: str) -> dict[str, Kernel] | None:
    try:
        return shared_objects.load_object(cache.kernel_folder(module), module)
    except (OSError, ImportError, ValueError, AttributeError):  # it is damaged
        cache.discard_kernels(module)
        cache.kernel_folder(module).mkdir(parents=True, exist_ok=True, mode=0o700)
        return None


def can_build(module: str) -> bool:
    """Return whether an object can be built and kept."""
    return cache.is_kept(module) and has_compiler()


@cached
def has_compiler() -> bool:
    """Return whether Numba, its tools and a C compiler with Python's headers are there."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    tools = all(importlib.util.find_spec(name) for name in ("numba", "setuptools"))
    return tools and header.exists() and shutil.which(compiler) is not None


def _build(module: str) -> bool:
    """Wait until the object of a module is built; return whether it was."""
    if module not in _builds:
        wanted = RUN_MODULES if module in RUN_MODULES else (module,)
        missing = [name for name in wanted if not has_object(name)]
        # The one that is waited for comes first.
        missing.sort(key=lambda name: name != module)
        pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="kernels")
        _builds.update({name: pool.submit(build_for_cache, name) for name in missing})
        pool.shutdown(wait=False)
    return _builds[module].result()


def build_for_cache(module: str) -> bool:
    """Build the object of a module into the cache; return whether it could be."""
    problem = build_object(cache.kernel_folder(module), shared_objects.processor_level(), module)
    if problem is None:
        return True
    runtime.say(f"kernels are compiled into memory at each start, as no object can be: {problem}")
    return False


def build_object(folder: Path, level: str, module: str) -> str | None:
    """Build the object of a module in a process of its own; return what went wrong, if anything.

    Args:
        folder: Where the object is written.
        level: The processor that it is for, see `shared_objects.LEVELS`.
        module: The name of the module in `kernels.KERNELS`.
    """
    package = str(Path(__file__).parents[2])
    paths = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "neardup.kernels.object_build", str(folder), level, module]
    try:
        done = subprocess.run(  # noqa: S603  # our own module
            command,
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    except OSError as error:
        return str(error)
    if done.returncode == 0 and shared_objects.object_path(folder, module).exists():
        return None
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
