"""The memory budget of a run: its limit, its current use, and what is left."""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from neardup.errors import ParameterError
from neardup.formatting import format_bytes

LEAST = 400 * 10**6
"""The interpreter, its libraries and the work on a few chunks need so much."""

EACH_THREAD = 48 << 20
"""What a thread that reads and sketches takes, with the chunks that wait for it."""


class Budget:
    """A promise about this process's resident memory, in bytes."""

    def __init__(self, total: int | None = None) -> None:
        self.total = max(free_memory() // 2, LEAST) if total is None else total
        if self.total < LEAST:
            raise ParameterError(
                f"--memory {format_bytes(self.total)} is too little: give at least "
                f"{format_bytes(LEAST)}"
            )

    def share(self, parts: int = 1) -> int:
        """What each of some parts may use now; a little is always left."""
        return max(self.total - resident_memory(), LEAST // 16) // max(parts, 1)

    def threads(self, wanted: int) -> int:
        """As many threads as are wanted, if there is room for their chunks."""
        return max(min(wanted, self.share() // EACH_THREAD), 1)


def resident_memory() -> int:
    """What this process holds now."""
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return peak_memory()


def peak_memory() -> int:
    """The largest resident size so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def free_memory() -> int:
    """What could still be used: of the machine, or of the container that this runs in."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(1024 * int(next(x for x in lines if x.startswith("MemAvailable")).split()[1]))
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        most = int((group / "memory.max").read_text())
        found.append(most - int((group / "memory.current").read_text()))
    return max(min(found), 0)
