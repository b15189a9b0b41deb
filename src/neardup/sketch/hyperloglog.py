"""HyperLogLog: how many different elements there are, from a few kilobytes.

The registers are those of Apache DataSketches (HLL, 8 bits each), fed with our 64-bit element
hashes. Its estimate for a single stream depends on the order of the elements; ours must not, so
that only what depends on the registers alone is ever used (`_settled`).
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from neardup.errors import FormatError, UsageError
from neardup.keys import Key
from neardup.sketch.base import Hashes, SetSketch
from neardup.spec import Spec, check_choice, check_whole

REGISTERS = tuple(2**power for power in range(7, 17))
HEAD = 40
"""Bytes of the library's form before its registers."""
MOST_RANK = 63
"""What a register can hold."""


class HyperLogLog(SetSketch):
    """Counts the different elements of a stream, with a standard error of 1.04 / sqrt(registers).

    Needs `pip install 'neardup[sketches]'`. The same elements give the same estimate, whatever
    their order and however often they come.

    Args:
        registers: The number of registers, a power of two; more make a smaller error.
        seed: The seed of the hashes; only sketches with the same seed can be compared.
        hash: The hash function: `xxh64`, `murmur3`, `fnv1a` or `siphash`.
        key: A secret that makes the hashes unpredictable to others; None for none.
        spec: The whole specification, instead of the arguments above.

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
        """The estimated number of distinct elements."""
        with self._lock:
            return float(self._settled().get_estimate())

    def bounds(self, deviations: int = 2) -> tuple[float, float]:
        """Where the number is 68, 95 or 99.7 times of 100: 1, 2 or 3 standard deviations around."""
        wide = check_whole("deviations", deviations, 1, 3)
        with self._lock:
            settled = self._settled()
        return float(settled.get_lower_bound(wide)), float(settled.get_upper_bound(wide))

    def is_empty(self) -> bool:
        return bool(self._hll.is_empty())

    @property
    def _power(self) -> int:
        return self.spec.slots.bit_length() - 1

    def _settled(self) -> Any:
        """The same registers, without what depends on the order of the elements."""
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
        if len(payload) != HEAD + self.spec.slots:
            raise FormatError(
                f"the sketch holds {len(payload)} bytes, its specification says "
                f"{HEAD + self.spec.slots}"
            )
        # The library writes where foreign bytes tell it to: it gets no other form than our own.
        ours = payload[:8] == self._form and payload[36:HEAD] == bytes(4)
        if ours and max(payload[HEAD:]) <= MOST_RANK:
            self._hll = library.hll_sketch.deserialize(payload)
        if self._payload() != payload:
            raise FormatError("the sketch's bytes are not those of such a HyperLogLog")

    @property
    def _form(self) -> bytes:
        """How the library's form begins when it is ours: 8-bit registers that know no order."""
        return bytes([10, 1, 7, self._power, 0, 0x30, 0, 10])

    def __repr__(self) -> str:
        return (
            f"HyperLogLog(registers={self.spec.slots}, seed={self.spec.seed}, "
            f"count≈{self.count():.0f})"
        )


def require_library() -> Any:
    """Apache DataSketches, if it is installed."""
    if find_spec("datasketches") is None:
        raise UsageError(
            "HyperLogLog needs Apache DataSketches: pip install 'neardup[sketches]', or use BottomK"
        )
    return import_module("datasketches")
