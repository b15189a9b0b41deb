"""Settings of a process that runs for months and answers in milliseconds."""

from __future__ import annotations

import ctypes
import sys
from contextlib import suppress
from typing import Final

SWITCH_SECONDS: Final = 0.0005
MMAP_THRESHOLD: Final = -3
"""As <malloc.h> has it."""
LARGE: Final = 256 << 10


def settle_in() -> None:
    """Let threads take turns more often, and give back the memory of large arrays at once.

    With Python's usual five milliseconds a thread that is busy makes all others wait that long.
    The C library raises by itself the size from which memory is given back, up to 32 MB; what is
    smaller is kept in pieces, and a process grows without an end in sight.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)
