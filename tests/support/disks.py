"""Disks that are full, or fail."""

from __future__ import annotations

import ctypes
import errno
import platform
import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file of this process may become larger."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


FILTER = struct.Struct("=HBBI")
"""An instruction of the kernel's packet filter: code, two jumps, a value."""
NUMBERS = {"x86_64": (74, 75, 317), "aarch64": (82, 83, 277)}
"""Numbers of the system calls fsync, fdatasync and seccomp, by machine."""


def fail_syncs() -> None:
    """From now on no file of this process can be synced (EIO); this can't be undone."""
    fsync, fdatasync, seccomp = NUMBERS[platform.machine()]
    instructions = [
        (0x20, 0, 0, 0),  # load the number of the call
        (0x15, 2, 0, fsync),
        (0x15, 1, 0, fdatasync),
        (0x06, 0, 0, 0x7FFF0000),  # allow it
        (0x06, 0, 0, 0x00050000 | errno.EIO),
    ]
    code = ctypes.create_string_buffer(b"".join(FILTER.pack(*one) for one in instructions))
    program = struct.pack("@HP", len(instructions), ctypes.addressof(code))
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(38, 1, 0, 0, 0) or library.syscall(seccomp, 1, 1, program):
        raise OSError(ctypes.get_errno(), "no filter of system calls")
