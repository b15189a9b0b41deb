"""Compile all kernels on all cores, each module once, before tests run on several workers.

Two workers that begin with an empty cache would compile most kernels twice, each for itself.
"""

from __future__ import annotations

import os
from multiprocessing import get_context

from neardup import kernels


def compile_module(module: str) -> None:
    for name in kernels.KERNELS[module]:
        getattr(kernels, name)


if __name__ == "__main__":
    largest_first = sorted(kernels.KERNELS, key=lambda module: -len(kernels.KERNELS[module]))
    with get_context("spawn").Pool(os.cpu_count()) as pool:
        for _ in pool.imap_unordered(compile_module, largest_first):
            pass
