"""What a run may use: memory, with how much of it is in use, and threads."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from neardup.errors import ParameterError
from neardup.formatting import format_bytes, parse_memory

LEAST = 400 * 10**6
"""The least budget: the interpreter, its libraries and the work on a few chunks."""

EACH_THREAD = 48 << 20
"""Bytes for a thread that reads and sketches, with the chunks in its queue."""


class Budget:
    """A limit for the resident memory of this process, in bytes.

    `total` is half of the free memory unless the caller sets it.
    """

    def __init__(self, total: int | None = None) -> None:
        self.total = max(free_memory() // 2, LEAST) if total is None else parse_memory(total)
        if self.total < LEAST:
            raise ParameterError(
                f"--memory {format_bytes(self.total)} is below the minimum: give at least "
                f"{format_bytes(LEAST)}"
            )

    def share(self, parts: int = 1) -> int:
        """Return how many bytes each of `parts` may use now; LEAST / 16 in total at the least.

        Memory that is not used any more goes back to the system before, if half of the budget is
        in use: the C library would keep it.
        """
        if resident_memory() > self.total // 2:
            with suppress(OSError, AttributeError):  # another C library than glibc
                ctypes.CDLL(None).malloc_trim(0)
        return max(self.total - resident_memory(), LEAST // 16) // max(parts, 1)

    def threads(self, wanted: int, each: int = EACH_THREAD) -> int:
        """Return `wanted`, or as many threads as there is memory for, but at least one.

        Args:
            wanted: The most threads.
            each: The bytes for a thread.
        """
        return max(min(wanted, self.share() // max(each, EACH_THREAD)), 1)


def check_workers(workers: int | None) -> int:
    """Return the number of threads: as given, or one per core."""
    if workers is not None and workers < 1:
        raise ParameterError(f"--workers must be at least 1, not {workers}")
    return workers or usable_cores()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def resident_memory() -> int:
    """Return the resident bytes of this process now; the peak where that is not known."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return peak_memory()


def peak_memory() -> int:
    """Return the largest resident size of this process so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def free_memory() -> int:
    """Return the bytes that are free on the machine, or in the container if that has a limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        limits.append(1024 * int(next(x for x in lines if x.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        allowed = int((group / "memory.max").read_text())
        limits.append(allowed - int((group / "memory.current").read_text()))
    return max(min(limits), 0)
