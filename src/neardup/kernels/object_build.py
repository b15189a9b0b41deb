"""Compile modules of kernels ahead of time, to shared objects that need no Numba. See decision 040.

    python -m neardup.kernels.object_build FOLDER LEVEL MODULE

All that depends on numba.pycc, which Numba will remove one day, is here.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core.compiler import Flags

from neardup import kernels, runtime
from neardup.kernels import shared_objects

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Numba announces that pycc will go one day
    pycc: Any = import_module("numba.pycc.compiler")
    CC: Any = import_module("numba.pycc").CC


def build_object(folder: Path, level: str, module: str) -> None:
    """Compile all kernels of a module to an object in a folder, and list their argument types.

    Args:
        folder: Where the object is written, complete or not at all.
        level: The instructions that may be used, as LLVM names them (x86-64-v3); or "generic".
        module: The name of the module in `kernels.KERNELS`.
    """
    source = import_module(f"neardup.kernels.{module}")
    declared = {kernel: getattr(source, kernel) for kernel in kernels.KERNELS[module]}
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as work:
        target: Any = _Object(shared_objects.PYTHON_NAME)
        target.output_dir, target.target_cpu = work, level
        target._extra_cflags, target._extra_ldflags = {os.name: ["-g0"]}, {os.name: ["-s"]}
        for kernel, (function, signatures) in declared.items():
            for number, signature in enumerate(signatures):
                target.export(f"{kernel}_{number}", signature)(function)
        target.compile()
        stated = {
            kernel: [[describe_type(kind) for kind in signature] for signature in signatures]
            for kernel, (_, signatures) in declared.items()
        }
        listed = Path(work) / "kernels.json"
        listed.write_text(json.dumps(stated))
        listed.replace(shared_objects.list_path(folder, module))
        built = Path(work) / target.output_file
        built.replace(shared_objects.object_path(folder, module))  # last: an object has its list


class _Object(CC):  # type: ignore[misc]  # Numba has no types
    """A shared object; what all of them have in common is compiled once and kept in the cache."""

    def _compile_mixins(self, build_dir: str) -> list[str]:
        made = (numba.__version__, np.__version__, sys.implementation.cache_tag)
        digest = hashlib.blake2b(repr(made).encode(), digest_size=8)
        kept = runtime.cache_home() / f"mixin-{digest.hexdigest()}"
        if not kept.exists():
            kept.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            own = Path(tempfile.mkdtemp(dir=kept.parent, prefix=f".{kept.name}-"))
            for path in map(Path, super()._compile_mixins(build_dir)):
                shutil.copyfile(path, own / path.name)
            try:
                own.rename(kept)
            except OSError:  # another process was first
                shutil.rmtree(own, ignore_errors=True)
        return [str(path) for path in sorted(kept.iterdir())]


def _flags_without_gil() -> Any:
    """Return flags of wrappers that release the GIL, as those of the JIT do with nogil=True."""
    flags: Any = Flags()  # type: ignore[no-untyped-call]
    flags.release_gil = True
    return flags


pycc.Flags = _flags_without_gil


def describe_type(kind: Any) -> str:
    """Return an argument type as `shared_objects` reads it: a NumPy type, [dimensions], ! to write.

    >>> from neardup.kernels.compile import OUT_U32_ROWS, I64, HASHER, int64
    >>> [describe_type(kind) for kind in (OUT_U32_ROWS, I64, int64, HASHER)]
    ['uint32[2]!', 'int64[1]', 'int64', '(int64, uint64, uint64)']
    """
    if isinstance(kind, types.Array):
        return f"{kind.dtype}[{kind.ndim}]{'!' if kind.mutable else ''}"
    if isinstance(kind, types.BaseTuple):
        parts: Any = kind
        return f"({', '.join(map(describe_type, parts))})"
    return "bool" if kind is types.boolean else str(kind)


if __name__ == "__main__":
    build_object(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
