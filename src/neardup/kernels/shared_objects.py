"""Kernels that were compiled ahead of time: found, loaded, and called with checked arguments.

A wheel has them in its folder `objects`, one for each level of processors; from a clone they are
compiled at their first use into the cache. Neither Numba nor LLVM is imported to run them.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

PACKAGED: Final = Path(__file__).parent / "objects"
"""The objects of a wheel: a folder for each level."""
SUFFIX: Final = sysconfig.get_config_var("EXT_SUFFIX") or ".so"
PYTHON_NAME: Final = "neardup_kernels"
"""The name of every object in itself, the last part of the one that it is imported by."""
GENERIC: Final = "generic"
LEVELS: Final = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "x86-64-v2": "cx16 lahf_lm popcnt sse4_1 sse4_2 ssse3",
}
"""Level of x86 -> the flags that Linux lists for it, besides those of the levels below."""
READ: Final = 0x101
"""The flags of an array in C order that is aligned: NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED."""
WRITE: Final = READ | 0x400
"""And NPY_ARRAY_WRITEABLE."""

NUMBERS: Final[dict[str, tuple[type, ...]]] = {
    "b": (bool, np.bool_),
    "f": (float, int, np.floating, np.integer),
    "i": (int, np.integer),
    "u": (int, np.integer),
}
"""Kind of a number's type -> the classes that are converted to it."""

Kernel: TypeAlias = Callable[..., Any]


def object_path(folder: Path, module: str) -> Path:
    """Return where the object of a kernel module is in a folder."""
    return folder / f"{module}{SUFFIX}"


def object_files(folder: Path, module: str) -> tuple[Path, Path]:
    """Return where the list of its kernels is, with their argument types, and the object."""
    return folder / f"{module}.json", object_path(folder, module)


def digest_of(data: bytes) -> str:
    """Return the digest of an object that its list states."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@cache
def processor_level() -> str:
    """Return the highest level of instructions that this processor has; NEARDUP_CPU_LEVEL first."""
    if forced := os.environ.get("NEARDUP_CPU_LEVEL"):
        return forced
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return GENERIC
    flags = _processor_flags()
    missing = [level for level, needed in LEVELS.items() if not flags.issuperset(needed.split())]
    levels = list(LEVELS)
    for place, level in enumerate(levels):
        if not set(missing) & set(levels[place:]):
            return level
    return GENERIC


def _processor_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            for line in file:
                if line.startswith("flags"):
                    return set(line.partition(":")[2].split())
    except OSError:  # not Linux
        pass
    return set()


def packaged_folder(module: str) -> Path | None:
    """Return the folder of the wheel that has a module's object for this processor; None without.

    Args:
        module: The name of the module in `kernels.KERNELS`.
    """
    if not PACKAGED.is_dir():
        return None
    levels, here = [*LEVELS, GENERIC], processor_level()
    usable = levels[levels.index(here) :] if here in levels else [here]
    folders = (PACKAGED / level for level in usable)
    return next((folder for folder in folders if object_path(folder, module).exists()), None)


def load_object(folder: Path, module: str) -> dict[str, Kernel]:
    """Load the object of a kernel module; return its kernels by their names.

    Raises:
        OSError, ImportError, ValueError: It is not there, or damaged.
    """
    listed, place = object_files(folder, module)
    stated = json.loads(listed.read_bytes())
    # A file that was cut would end the process when it is loaded.
    if not isinstance(stated, dict) or stated.get("digest") != digest_of(place.read_bytes()):
        raise ValueError(f"{place} is damaged")
    path, imported = str(place), f"{module}.{PYTHON_NAME}"
    loader = importlib.machinery.ExtensionFileLoader(imported, path)
    spec = importlib.machinery.ModuleSpec(imported, loader, origin=path)
    loaded = importlib.util.module_from_spec(spec)
    try:
        return {
            kernel: check_arguments(
                kernel,
                [
                    (signature, getattr(loaded, f"{kernel}_{number}"))
                    for number, signature in enumerate(signatures)
                ],
            )
            for kernel, signatures in stated["kernels"].items()
        }
    except (KeyError, TypeError, AttributeError):
        raise ValueError(f"{listed} is damaged") from None


def check_arguments(name: str, compiled: Sequence[tuple[Sequence[str], Kernel]]) -> Kernel:
    """Return a function that calls the compiled one for the types of its arguments.

    The wrappers of compiled functions do not check their arguments: an array of another type would
    be read as if it were of theirs.

    Args:
        name: The name of the kernel.
        compiled: The argument types, see `object_build.describe_type`, and the function for them.
    """
    overloads = [(tuple(map(ArgumentType.parse, types)), function) for types, function in compiled]

    def call(*given: Any) -> Any:
        for types, function in overloads:
            if len(types) == len(given) and _fit(given, types):
                return function(*given)
        wanted = " or ".join(f"({', '.join(types)})" for types, _ in compiled)
        got = ", ".join(map(_describe_value, given))
        raise TypeError(f"kernel {name} takes {wanted}, not ({got})")

    call.__name__ = name
    return call


class ArgumentType(NamedTuple):
    """The type of an argument.

    dtype       of an array; None for a number or a tuple
    dimensions  of an array
    flags       that an array must have
    classes     of a number or a tuple
    parts       the types in a tuple
    """

    dtype: np.dtype[Any] | None
    dimensions: int = 0
    flags: int = 0
    classes: tuple[type, ...] = ()
    parts: tuple[ArgumentType, ...] = ()

    @classmethod
    def parse(cls, stated: str) -> ArgumentType:
        """Return the type that `object_build.describe_type` has described."""
        if stated.startswith("("):
            parts = tuple(map(cls.parse, stated[1:-1].split(", ")))
            return cls(None, classes=(tuple,), parts=parts)
        name, _, shape = stated.partition("[")
        if not shape:
            return cls(None, classes=NUMBERS[np.dtype(name).kind])
        return cls(np.dtype(name), int(shape[0]), WRITE if shape.endswith("!") else READ)


def _fit(given: Sequence[Any], types: Sequence[ArgumentType]) -> bool:
    """Return whether as many values are of these types. Every call pays for it."""
    for value, (dtype, dimensions, flags, classes, parts) in zip(given, types):  # noqa: B905
        if dtype is None:
            if not isinstance(value, classes):
                return False
            inside: Any = value
            if parts and (len(inside) != len(parts) or not _fit(inside, parts)):
                return False
        elif (
            not isinstance(value, np.ndarray)
            or (value.dtype is not dtype and value.dtype != dtype)
            or value.ndim != dimensions
            or value.flags.num & flags != flags
        ):
            return False
    return True


def _describe_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{value.ndim}]{'!' if value.flags.writeable else ''}"
    return type(value).__name__
