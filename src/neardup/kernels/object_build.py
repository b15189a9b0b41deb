"""Compile modules of kernels ahead of time, to shared objects that need no Numba. See decision 040.

`object_cache.build_object` runs it in a process of its own: compiling one module after the other in
one process fails in some orders. All that depends on numba.pycc, which Numba will remove one day,
is here.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from numba import types
from numba.core.codegen import AOTCPUCodegen
from numba.core.compiler import Flags

from neardup import kernels
from neardup.kernels import shared_objects

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Numba announces that pycc will go one day
    pycc: Any = import_module("numba.pycc.compiler")
    CC: Any = import_module("numba.pycc").CC

NUMBAS_CALLS: Final = "modulemixin.c"
"""The file of Numba that ours includes."""
INIT_FUNCTION: Final = "neardup_init_object"
"""The function in it that an object calls when it is loaded."""


def build_object(folder: str, level: str, module: str, mixin: str) -> None:
    """Compile all kernels of a module to an object in a folder, and list their argument types.

    Args:
        folder: Where the object is written, complete or not at all.
        level: The instructions that may be used, as LLVM names them (x86-64-v3); or "generic".
        module: The name of the module in `kernels.KERNELS`.
        mixin: A folder for what all objects have in common; it is compiled if it is not there.
    """
    target_folder = Path(folder)
    source = import_module(f"neardup.kernels.{module}")
    declared = {kernel: getattr(source, kernel) for kernel in kernels.KERNELS[module]}
    target_folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target_folder, prefix=".") as work:
        target: Any = _Object(shared_objects.PYTHON_NAME, Path(mixin))
        target.output_dir, target.target_cpu = work, level
        for kernel, (function, signatures) in declared.items():
            for number, signature in enumerate(signatures):
                target.export(f"{kernel}_{number}", signature)(function)
        target.compile()
        stated = {
            kernel: [[describe_type(kind) for kind in signature] for signature in signatures]
            for kernel, (_, signatures) in declared.items()
        }
        built, listed = Path(work) / target.output_file, Path(work) / "kernels.json"
        digest = shared_objects.digest_of(built.read_bytes(), stated)
        listed.write_text(json.dumps({"digest": digest, "kernels": stated}))
        # The object last: it has its list.
        for path, place in zip(
            (listed, built), shared_objects.object_files(target_folder, module), strict=True
        ):
            with path.open("rb") as file:
                os.fsync(file.fileno())
            path.replace(place)


class _Object(CC):  # type: ignore[misc]  # Numba has no types
    """A shared object; what all of them have in common is compiled once, from `object_calls.c`."""

    def __init__(self, name: str, mixin: Path) -> None:
        super().__init__(name)
        self.mixin = mixin
        others = [path for path in CC._mixin_sources if path != NUMBAS_CALLS]
        self._mixin_sources = [str(shared_objects.CALLS), *others]
        self._init_function = INIT_FUNCTION
        self._extra_cflags = {os.name: ["-g0", f"-I{Path(pycc.__file__).parent}"]}
        self._extra_ldflags = {os.name: ["-s"]}

    def _compile_mixins(self, build_dir: str) -> list[str]:
        complete = self.mixin / "complete"
        try:
            names = complete.read_text("utf-8").split()
        except OSError:
            names = []
        if not names or not all((self.mixin / name).is_file() for name in names):
            self.mixin.mkdir(parents=True, exist_ok=True, mode=0o700)
            compiled = [Path(path) for path in super()._compile_mixins(build_dir)]
            names = [path.name for path in compiled]
            for path in compiled:  # processes that do the same at once write the same
                own = self.mixin / f".{path.name}.{os.getpid()}"
                shutil.copyfile(path, own)
                own.replace(self.mixin / path.name)
            complete.write_text("\n".join(names), "utf-8")
        return [str(self.mixin / name) for name in names]


def _flags_without_gil() -> Any:
    """Return flags of wrappers that release the GIL, as those of the JIT do with nogil=True."""
    flags: Any = Flags()  # type: ignore[no-untyped-call]
    flags.release_gil = True
    return flags


pycc.Flags = _flags_without_gil


def _use_full_width(codegen: Any) -> str:
    """Return LLVM's features for vectors as wide as the level has; its default is half of v4's."""
    return "-prefer-256-bit" if codegen._cpu_name.startswith("x86-64") else ""


AOTCPUCodegen._customize_tm_features = _use_full_width  # type: ignore[method-assign]


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
