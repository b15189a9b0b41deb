"""Compile all kernels into the cache, on all cores, each module once: for images and for tests.

Two test workers that begin with an empty cache would compile most kernels twice.

python scripts/compile_kernels.py
"""

from __future__ import annotations

import os
from multiprocessing import get_context

from neardup import kernels, runtime


def compile_module(module: str) -> None:
    runtime.quiet = True
    for name in kernels.KERNELS[module]:
        getattr(kernels, name)


def main() -> None:
    largest_first = sorted(kernels.KERNELS, key=lambda module: -len(kernels.KERNELS[module]))
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(compile_module, largest_first):
            pass
    missing = [
        kernel
        for module, names in kernels.KERNELS.items()
        for kernel in names
        if not runtime.is_compiled(module, kernel)
    ]
    if missing:
        raise SystemExit(f"{runtime.cache_home()} cannot be written: {', '.join(missing)}")
    print(f"{len(kernels.KERNELS)} modules of kernels are compiled in {runtime.cache_home()}")


if __name__ == "__main__":
    main()
