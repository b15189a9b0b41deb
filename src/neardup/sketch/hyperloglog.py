"""HyperLogLog: estimate the number of distinct elements from a few kilobytes.

The registers are those of Apache DataSketches (HLL, 8 bits each), fed with our 64-bit element
hashes. The library's estimate for a single stream depends on the order of the elements; ours must
not, so that only the estimate from the registers alone is ever used (`_settled`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from neardup.errors import FormatError, UsageError
from neardup.keys import Key
from neardup.sketch.base import Hashes, SetSketch, require_size
from neardup.spec import Spec, check_choice, check_whole

REGISTERS = tuple(2**power for power in range(7, 17))
HEAD = 40
"""Bytes before the registers in the library's serialised form."""
MOST_RANK = 63
"""The greatest value of a register."""


class HyperLogLog(SetSketch):
    """Counts the distinct elements of a stream, with a standard error of 1.04 / sqrt(registers).

    Needs `pip install 'neardup[sketches]'`. The same elements give the same estimate, in any order
    and with any repeats.

    Args:
        registers: The number of registers, a power of two from 128 to 65,536, a byte each; with
            4,096 the standard error is 1.6 %.
        seed: The seed of the hashes; only sketches with the same seed can be merged.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret key of 16 bytes, with `hash="siphash"`, so that nobody without it can make
            colliding elements; None for none.
        spec: The whole specification, instead of `registers`, `seed` and `hash`.

    >>> sketch = HyperLogLog()
    >>> sketch.update_batch(["a", "b", "a"])
    >>> round(sketch.count())
    2
    """

    KIND = "hyperloglog"
    _hll: Any

    def __init__(
        self,
        registers: int = 4096,
        seed: int = 0,
        *,
        hash: str = "xxh64",
        key: bytes | Key | None = None,
        spec: Spec | None = None,
    ) -> None:
        super().__init__(spec, key, slots=registers, seed=seed, hash=hash)
        self._restore(b"")

    @classmethod
    def _require(cls, spec: Spec) -> None:
        super()._require(spec)
        check_choice("number of registers", spec.slots, REGISTERS)

    def count(self) -> float:
        """Estimate the number of distinct elements."""
        with self._lock:
            return float(self._settled().get_estimate())

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Return a lower and an upper bound of the number of distinct elements.

        Args:
            deviations: The half width of the interval in standard deviations: 1, 2 or 3, for a
                confidence of 68, 95 or 99.7 %.
        """
        wide = check_whole("deviations", deviations, 1, 3)
        with self._lock:
            settled = self._settled()
        return float(settled.get_lower_bound(wide)), float(settled.get_upper_bound(wide))

    def is_empty(self) -> bool:
        """Return whether no element was added."""
        return bool(self._hll.is_empty())

    @property
    def _power(self) -> int:
        return self.spec.slots.bit_length() - 1

    def _settled(self) -> Any:
        """Return the same registers, without the state that depends on the elements' order."""
        return self._union(self._hll)

    def _union(self, other: Any) -> Any:
        library = require_library()
        union = library.hll_union(self._power)
        union.update(self._hll)
        union.update(other)
        return union.get_result(library.HLL_8)

    def _add(self, hashes: Hashes) -> None:
        for value in hashes.view(np.int64).tolist():
            self._hll.update(value)

    def _absorb(self, other: HyperLogLog) -> None:
        if not other.is_empty():
            self._hll = self._union(other._hll)

    def _payload(self) -> bytes:
        return b"" if self.is_empty() else bytes(self._settled().serialize_updatable())

    def _restore(self, payload: bytes) -> None:
        library = require_library()
        self._hll = library.hll_sketch(self._power, library.HLL_8, True)
        if not payload:
            return
        require_size(payload, HEAD + self.spec.slots)
        # The library trusts offsets in its input, and would write outside its memory for forged
        # bytes: it only gets the one form that we write.
        ours = payload[:8] == self._form and payload[36:HEAD] == bytes(4)
        if ours and max(payload[HEAD:]) <= MOST_RANK:
            self._hll = library.hll_sketch.deserialize(payload)
        if self._payload() != payload:
            raise FormatError("the bytes are not those of a HyperLogLog: fetch them again")

    @property
    def _form(self) -> bytes:
        """The first eight bytes of what we write: 8-bit registers, estimated out of order."""
        return bytes([10, 1, 7, self._power, 0, 0x30, 0, 10])

    def __repr__(self) -> str:
        return (
            f"HyperLogLog(registers={self.spec.slots}, seed={self.spec.seed}, "
            f"count≈{self.count():.0f})"
        )


def require_library() -> Any:
    """Return the module of Apache DataSketches, or raise `UsageError` if it is not installed."""
    if find_spec("datasketches") is None:
        raise UsageError(
            "HyperLogLog needs Apache DataSketches: pip install 'neardup[sketches]', or use BottomK"
        )
    return import_module("datasketches")
