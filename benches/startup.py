"""Measure how long neardup takes to start: import, `--help`, and the first three demos."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAVY = ("numba", "pyarrow", "llvmlite")


def command(name: str = "neardup") -> str:
    """The console script of the Python that runs the benchmark."""
    return str(Path(sys.executable).with_name(name))


def wall(arguments: list[str], cwd: str | None = None, env: dict[str, str] | None = None) -> float:
    start = time.perf_counter()
    subprocess.run(
        arguments, cwd=cwd, env=os.environ | (env or {}), check=True, capture_output=True
    )
    return time.perf_counter() - start


def best(arguments: list[str], times: int = 10) -> float:
    return min(wall(arguments) for _ in range(times))


def heavy_imports() -> list[str]:
    """Of the heavy packages, those that `import neardup` has pulled in."""
    code = f"import sys, neardup; print(*[name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.split()


def demos() -> list[float]:
    """Three demos from an empty kernel cache: only the first may compile."""
    with tempfile.TemporaryDirectory() as folder:
        env = {"XDG_CACHE_HOME": f"{folder}/cache"}
        return [
            wall([command(), "demo"], cwd=tempfile.mkdtemp(dir=folder), env=env) for _ in range(3)
        ]


def measure() -> dict[str, float | list[str]]:
    bare = best([sys.executable, "-c", "pass"])
    first, second, third = demos()
    return {
        "import_seconds": best([sys.executable, "-c", "import neardup"]) - bare,
        "heavy_imports": heavy_imports(),
        "help_seconds": best([command(), "--help"]),
        "first_demo_seconds": first,
        "second_demo_seconds": second,
        "third_demo_seconds": third,
    }
