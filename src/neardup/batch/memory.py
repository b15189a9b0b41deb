"""How much memory have a run's processes held at most?"""

from __future__ import annotations

import multiprocessing
import resource
import sys


class Memory:
    """The largest resident size of this process plus those of its workers, in bytes.

    Pages that processes share, such as libraries, count in each of them.
    """

    def __init__(self) -> None:
        self._workers = 0

    def note_workers(self) -> None:
        """To be called when the workers have done their work, before they end."""
        found = [high_water(str(worker.pid)) for worker in multiprocessing.active_children()]
        self._workers = max(self._workers, sum(found))

    @property
    def peak(self) -> int:
        return high_water("self") + self._workers


def high_water(process: str) -> int:
    """The largest resident size of a process, in bytes; 0 if the system does not tell."""
    try:
        with open(f"/proc/{process}/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    # A child's ru_maxrss begins with its parent's, which VmHWM does not: so this comes second.
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit if process == "self" else 0
