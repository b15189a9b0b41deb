"""Compile the kernels into the wheel: docs/decisions/040-kernels-ahead-of-time.md.

NEARDUP_LEVELS names the processors ("x86-64-v2 x86-64-v3 x86-64-v4"); without it, this machine's.
Without a C compiler the wheel has no kernels, and neardup[jit] compiles them when it runs.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class KernelsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds shared objects of all kernels to a wheel, one for each level of processors."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the objects, unless the installation is an editable one.

        Args:
            version: "editable", or "standard".
            build_data: What hatchling puts into the wheel.
        """
        if version == "editable":
            return
        sys.path.insert(0, str(Path(self.root) / "src"))
        from neardup.kernels import KERNELS
        from neardup.kernels.object_cache import build_object, has_compiler
        from neardup.kernels.shared_objects import processor_level

        if not has_compiler():
            self.app.display_warning(
                "no C compiler with Python's headers: this wheel has no compiled kernels; install "
                "neardup[jit] to compile them when it runs"
            )
            return
        levels = os.environ.get("NEARDUP_LEVELS", "").split() or [processor_level()]
        objects = Path(tempfile.mkdtemp(prefix="neardup-objects-"))
        atexit.register(shutil.rmtree, objects)
        mixin = Path(tempfile.mkdtemp(prefix="neardup-mixin-"))
        atexit.register(shutil.rmtree, mixin)
        work = [(objects / level, level, module, mixin) for level in levels for module in KERNELS]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for problem in pool.map(lambda one: build_object(*one), work):
                if problem is not None:
                    raise RuntimeError(f"a kernel was not compiled: {problem}")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        build_data["force_include"][str(objects)] = "neardup/kernels/objects"
