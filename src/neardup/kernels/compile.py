"""How a kernel is declared: one explicit signature, compiled once, cached, without the GIL.

Arrays that a kernel only reads are typed read-only: NumPy's writable arrays convert to that,
Arrow's read-only buffers are that already, so each kernel is compiled exactly once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from numba import njit, types

Compiled = Callable[..., Any]

U8 = types.Array(types.uint8, 1, "C", readonly=True)
U16 = types.Array(types.uint16, 1, "C", readonly=True)
U32 = types.Array(types.uint32, 1, "C", readonly=True)
U64 = types.Array(types.uint64, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
F64 = types.Array(types.float64, 1, "C", readonly=True)
U8_ROWS = types.Array(types.uint8, 2, "C", readonly=True)
U32_ROWS = types.Array(types.uint32, 2, "C", readonly=True)
U64_ROWS = types.Array(types.uint64, 2, "C", readonly=True)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
OUT_U8 = types.Array(types.uint8, 1, "C")
OUT_U32 = types.Array(types.uint32, 1, "C")
OUT_U64 = types.Array(types.uint64, 1, "C")
OUT_I64 = types.Array(types.int64, 1, "C")
OUT_U32_ROWS = types.Array(types.uint32, 2, "C")
OUT_U64_ROWS = types.Array(types.uint64, 2, "C")
int64, uint64, float64, boolean = types.int64, types.uint64, types.float64, types.boolean
HASHER = types.Tuple((int64, uint64, uint64))  # type: ignore[no-untyped-call]


class Kernel(NamedTuple):
    """A function that Python calls, and the argument types that it is to be compiled for."""

    function: Callable[..., Any]
    signatures: tuple[tuple[Any, ...], ...]

    def compiled(self) -> Compiled:
        """The compiled function: loaded from Numba's cache, or compiled and stored there."""
        found: Compiled = njit(list(self.signatures), nogil=True, cache=True)(self.function)
        return found


def kernel(*arguments: Any) -> Callable[[Compiled], Kernel]:
    """Declare a function that Python calls, for exactly these argument types.

    It is compiled when `neardup.kernels` is first asked for it: a run compiles what it uses.
    """
    return lambda function: Kernel(function, (arguments,))


def kernel_for(*signatures: tuple[Any, ...]) -> Callable[[Compiled], Kernel]:
    """Declare a function that Python calls, for each of several lists of argument types."""
    return lambda function: Kernel(function, signatures)


def inner(function: Compiled) -> Compiled:
    """A function that only kernels call; it becomes part of each of them."""
    compiled: Compiled = njit(nogil=True)(function)
    return compiled


def inline(function: Compiled) -> Compiled:
    """The same for the few lines of an innermost loop, where a call would cost more than them."""
    compiled: Compiled = njit(nogil=True, inline="always")(function)
    return compiled
