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
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
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
FAILED: Final = "no-object"
"""A file in the folder of a module whose object can't be used here: it is not tried again."""

_loaded: dict[str, dict[str, Kernel]] = {}
_builds: dict[str, Future[str | None]] = {}
_running: set[subprocess.Popen[str]] = set()
_said = threading.Event()
os.register_at_fork(after_in_child=_builds.clear)  # the threads that build stay in the parent


def find_object(module: str) -> dict[str, Kernel] | None:
    """Return the kernels of a module, by their names; None if there is no object.

    Args:
        module: The name of the module in `kernels.KERNELS`.
    """
    if module not in _loaded:
        found = _load_packaged(module) or _load_cached(module)
        if found is None and can_build(module):
            with cache.time_compiling(module):
                problem = _wait_for_build(module)
            found = None if problem is not None else _load_cached(module)
            if found is None:
                _give_up(module, problem or "it can't be loaded")
        if found is None:
            return None
        _loaded[module] = found
    return _loaded[module]


def has_object(module: str) -> bool:
    """Return whether the package or the cache has the object of a module."""
    if shared_objects.packaged_folder(module) is not None:
        return True
    return shared_objects.object_path(cache.kernel_folder(module), module).exists()


def processor() -> str:
    """Return the processor that objects are for, for messages."""
    return f"{shared_objects.processor_level()} ({sysconfig.get_platform()})"


def _load_packaged(module: str) -> dict[str, Kernel] | None:
    folder = shared_objects.packaged_folder(module)
    if folder is None:
        return None
    try:
        return shared_objects.load_object(folder, module)
    except (OSError, ImportError, ValueError) as error:  # for an older system, or damaged
        _say_once(f"the compiled kernels of the package can't be loaded ({error}): install it anew")
        return None


def _load_cached(module: str) -> dict[str, Kernel] | None:
    folder = cache.kernel_folder(module)
    if not shared_objects.object_path(folder, module).exists():
        return None
    try:
        return shared_objects.load_object(folder, module)
    except (OSError, ImportError, ValueError):  # damaged: built again
        for path in shared_objects.object_files(folder, module):
            with suppress(OSError):
                path.unlink(missing_ok=True)
        return None


def can_build(module: str) -> bool:
    """Return whether an object can be built and kept."""
    folder = cache.kernel_folder(module)
    return cache.is_kept(module) and not (folder / FAILED).exists() and has_compiler()


@cached
def has_compiler() -> bool:
    """Return whether Numba, its tools and a C compiler with Python's headers are there."""
    compiler = (os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc").split()[0]
    header = Path(sysconfig.get_path("include")) / "Python.h"
    tools = all(importlib.util.find_spec(name) for name in ("numba", "setuptools"))
    return bool(sys.executable) and tools and header.exists() and bool(shutil.which(compiler))


def build_for_cache(module: str) -> str | None:
    """Build the object of a module into the cache; return what went wrong, if anything."""
    folder, level = cache.kernel_folder(module), shared_objects.processor_level()
    return build_object(folder, level, module, cache.mixin_folder())


def _wait_for_build(module: str) -> str | None:
    """Wait until the object of a module is built; return what went wrong, if anything."""
    if module not in _builds:
        wanted = RUN_MODULES if module in RUN_MODULES else (module,)
        missing = [name for name in wanted if not has_object(name)]
        # The one that is waited for comes first.
        missing.sort(key=lambda name: name != module)
        pool = ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="kernels")
        _builds.update({name: pool.submit(build_for_cache, name) for name in missing})
        pool.shutdown(wait=False)
    try:
        return _builds[module].result()
    except BaseException:  # the process is stopped: no build may hold it up
        for build in _builds.values():
            build.cancel()
        for process in list(_running):
            process.terminate()
        raise


def _give_up(module: str, problem: str) -> None:
    """Note that an object can't be used here, so that no later start tries it again."""
    with suppress(OSError):
        (cache.kernel_folder(module) / FAILED).write_text(problem, "utf-8")
    _say_once(f"kernels are compiled by Numba, as objects of them can't be used here: {problem}")


def _say_once(message: str) -> None:
    if not _said.is_set():
        _said.set()
        runtime.say(message)


def build_object(folder: Path, level: str, module: str, mixin: Path) -> str | None:
    """Build the object of a module in a process of its own; return what went wrong, if anything.

    Args:
        folder: Where the object is written.
        level: The processor that it is for, see `shared_objects.LEVELS`.
        module: The name of the module in `kernels.KERNELS`.
        mixin: A folder for what all objects have in common.
    """
    # Not from the working folder, which may have a numba.py of its own; and the package last.
    code = (
        "import sys; sys.path.append(sys.argv[1])\n"
        "from neardup.kernels.object_build import build_object\n"
        "build_object(*sys.argv[2:])"
    )
    arguments = (Path(__file__).parents[2], folder, level, module, mixin)
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    try:
        with subprocess.Popen(  # noqa: S603  # our own module
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            _running.add(process)
            try:
                errors = process.communicate()[1]
            finally:
                _running.discard(process)
    except OSError as error:
        return str(error)
    if process.returncode == 0 and shared_objects.object_path(folder, module).exists():
        return None
    return (errors.strip().splitlines() or [f"exit code {process.returncode}"])[-1]
