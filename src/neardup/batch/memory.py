"""How much memory has this process held at most?"""

from __future__ import annotations

import resource
import sys


def peak_memory() -> int:
    """The largest resident size so far, in bytes."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
