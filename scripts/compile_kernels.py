"""Compile all kernels into the cache, so that no later command has to: for images and for tests.

python scripts/compile_kernels.py
"""

from __future__ import annotations

from neardup import kernels, runtime


def main() -> None:
    runtime.quiet = True
    for names in kernels.KERNELS.values():
        for name in names:
            getattr(kernels, name)
    missing = [module for module in kernels.KERNELS if not runtime.is_compiled(module)]
    assert not missing, f"the cache {runtime.cache_home()} can't be written: {', '.join(missing)}"
    print(f"{len(kernels.KERNELS)} modules of kernels are in {runtime.cache_home()}")


if __name__ == "__main__":
    main()
