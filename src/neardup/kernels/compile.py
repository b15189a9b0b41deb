"""Declare kernels: an explicit signature, compiled once, cached, run without the GIL.

Arrays that a kernel only reads are typed read-only: NumPy's writable arrays convert to that type
and Arrow's buffers have it, so that each kernel is compiled exactly once.
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
I16 = types.Array(types.int16, 1, "C", readonly=True)
I32 = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C", readonly=True)
F32 = types.Array(types.float32, 1, "C", readonly=True)
F64 = types.Array(types.float64, 1, "C", readonly=True)
I8_ROWS = types.Array(types.int8, 2, "C", readonly=True)
U8_ROWS = types.Array(types.uint8, 2, "C", readonly=True)
U32_ROWS = types.Array(types.uint32, 2, "C", readonly=True)
U64_ROWS = types.Array(types.uint64, 2, "C", readonly=True)
I16_ROWS = types.Array(types.int16, 2, "C", readonly=True)
I64_ROWS = types.Array(types.int64, 2, "C", readonly=True)
F32_ROWS = types.Array(types.float32, 2, "C", readonly=True)
F64_ROWS = types.Array(types.float64, 2, "C", readonly=True)
OUT_U8 = types.Array(types.uint8, 1, "C")
OUT_U32 = types.Array(types.uint32, 1, "C")
OUT_U64 = types.Array(types.uint64, 1, "C")
OUT_I64 = types.Array(types.int64, 1, "C")
OUT_U32_ROWS = types.Array(types.uint32, 2, "C")
OUT_U64_ROWS = types.Array(types.uint64, 2, "C")
int64, uint64, float64, boolean = types.int64, types.uint64, types.float64, types.boolean
HASHER = types.Tuple((int64, uint64, uint64))  # type: ignore[no-untyped-call]


class Kernel(NamedTuple):
    """A function that Python calls, and the argument types that it is compiled for."""

    function: Callable[..., Any]
    signatures: tuple[tuple[Any, ...], ...]

    def compiled(self) -> Compiled:
        """Return the compiled function, from Numba's cache or compiled and stored there."""
        function: Compiled = njit(list(self.signatures), nogil=True, cache=True)(self.function)
        return function


def kernel(*arguments: Any) -> Callable[[Compiled], Kernel]:
    """Declare a function that Python calls, for exactly these argument types.

    It is compiled at its first access in `neardup.kernels`: a run compiles only what it uses.
    """
    return lambda function: Kernel(function, (arguments,))


def kernel_for(*signatures: tuple[Any, ...]) -> Callable[[Compiled], Kernel]:
    """Declare a function that Python calls, for each of several lists of argument types."""
    return lambda function: Kernel(function, signatures)


def inner(function: Compiled) -> Compiled:
    """Declare a function that only kernels call; it is compiled into each of them."""
    compiled: Compiled = njit(nogil=True)(function)
    return compiled


def uncounted(function: Compiled) -> Compiled:
    """Declare an inner function that neither makes nor returns arrays.

    It does not count references to its arguments. To count them is an atomic operation, at the
    beginning and at the end of each call: half of the time of short functions.
    """
    compiled: Compiled = njit(nogil=True, _nrt=False)(function)  # type: ignore[call-overload]
    return compiled


def inline(function: Compiled) -> Compiled:
    """Declare a function of few lines that is inlined, for innermost loops."""
    compiled: Compiled = njit(nogil=True, inline="always")(function)
    return compiled
