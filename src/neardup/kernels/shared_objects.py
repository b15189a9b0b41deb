"""Kernels that were compiled ahead of time: found and loaded.

A wheel has them in its folder `objects`, one for each level of processors; from a clone they are
compiled at their first use into the cache. Neither Numba nor LLVM is imported to run them. A call
checks its arguments, see `object_calls.c`.
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
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np

PACKAGED: Final = Path(__file__).parent / "objects"
"""The objects of a wheel: a folder for each level."""
CALLS: Final = Path(__file__).with_name("object_calls.c")
"""What all objects have in common."""
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
Kernel: TypeAlias = Callable[..., Any]


def object_path(folder: Path, module: str) -> Path:
    """Return where the object of a kernel module is in a folder."""
    return folder / f"{module}{SUFFIX}"


def object_files(folder: Path, module: str) -> tuple[Path, Path]:
    """Return where the list of its kernels is, with their argument types, and the object."""
    return folder / f"{module}.json", object_path(folder, module)


def digest_of(built: bytes, kernels: object) -> str:
    """Return the digest of an object and of the list of its kernels, which the list states."""
    listed = json.dumps(kernels).encode()
    return hashlib.blake2b(listed + b"\0" + built, digest_size=16).hexdigest()


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
    kernels = stated.get("kernels") if isinstance(stated, dict) else None
    # A file that was cut, or other types, would end the process.
    if not kernels or stated.get("digest") != digest_of(place.read_bytes(), kernels):
        raise ValueError(f"{place} is damaged")
    path, imported = str(place), f"{module}.{PYTHON_NAME}"
    loader = importlib.machinery.ExtensionFileLoader(imported, path)
    spec = importlib.machinery.ModuleSpec(imported, loader, origin=path)
    loaded: Any = importlib.util.module_from_spec(spec)
    found: dict[str, Kernel] = {}
    for kernel, signatures in kernels.items():
        overloads: list[Any] = []
        for number, signature in enumerate(signatures):
            types = b"".join(map(encode_type, signature))
            overloads += types, getattr(loaded, f"{kernel}_{number}")
        found[kernel] = loaded.Kernel(partial(_refuse, kernel, signatures), *overloads)
    return found


def encode_type(stated: str) -> bytes:
    r"""Return an argument type as `object_calls.c` reads it.

    Args:
        stated: The type, as `object_build.describe_type` has described it.

    >>> encode_type("uint32[2]!"), encode_type("(int64, uint64)")
    (b'u\x04\x02\x01', b'(\x02\x00\x00i\x08\x00\x00u\x08\x00\x00')
    """
    if stated.startswith("("):
        parts = stated[1:-1].split(", ")
        return bytes([ord("("), len(parts), 0, 0]) + b"".join(map(encode_type, parts))
    name, _, shape = stated.partition("[")
    dtype = np.dtype(name)
    dimensions = int(shape[0]) if shape else 0
    return bytes([ord(dtype.kind), dtype.itemsize, dimensions, shape.endswith("!")])


def _refuse(name: str, signatures: Sequence[Sequence[str]], *given: Any) -> NoReturn:
    """Say which arguments a kernel takes, when it was called with others."""
    wanted = " or ".join(f"({', '.join(types)})" for types in signatures)
    got = ", ".join(map(_describe_value, given))
    raise TypeError(f"kernel {name} takes {wanted}, not ({got})")


def _describe_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{value.ndim}]{'!' if value.flags.writeable else ''}"
    return type(value).__name__
