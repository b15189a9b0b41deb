"""Slots cut down to a few bits: less to store, and an estimate that knows about chance.

A slot's bits are the highest of its product with a constant, which depend on all bits of the
slot. The lowest bits themselves won't do: (a x + b) mod 2^32 has the lowest bit of x, or its
opposite, in every slot that x wins, and the error for sets of 20 was 12 % above theory.

Two slots of different values then agree by chance in 2^-b of all cases. So J = (P - C) / (1 - C),
where P is the share of equal slots and C = 2^-b. (Published corrections depend on the sizes of the
sets, because a least value is small and its bits lean to 0; these bits don't.) An estimate below 0
is given as 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError
from neardup.sketch import base
from neardup.spec import B_BITS, MINHASHES, Spec, check_choice

SPREAD = {4: np.uint32(0x9E3779B1), 8: np.uint64(0x9E3779B97F4A7C15)}
"""Bytes of a slot -> the constant that it is multiplied with."""

Rows = NDArray[Any]


def packed_size(spec: Spec) -> int:
    """Bytes of a document's slots."""
    return -(-spec.slots * spec.bits // 8)


def pack_slots(rows: Rows, bits: int) -> NDArray[np.uint8]:
    """The bits of each slot, one row of bytes a document: slot 0 in the lowest ones of byte 0."""
    size = rows.itemsize
    cut = rows * SPREAD[size] >> rows.dtype.type(8 * size - bits)
    if bits == 16:
        pairs: NDArray[np.uint8] = cut.astype("<u2").view(np.uint8)
        return pairs
    each = 8 // bits
    found = np.zeros((len(rows), -(-rows.shape[1] // each)), np.uint8)
    for place in range(each):
        some = cut[:, place::each].astype(np.uint8)
        found[:, : some.shape[1]] |= some << np.uint8(place * bits)
    return found


def unpack_slots(rows: NDArray[np.uint8], bits: int, slots: int) -> Rows:
    """One value a slot, in bytes, or in four of them for 16 bits."""
    if bits == 16:
        return np.ascontiguousarray(rows).view("<u2").astype(np.uint32)
    each, mask = 8 // bits, np.uint8((1 << bits) - 1)
    found = np.empty((len(rows), rows.shape[1] * each), np.uint8)
    for place in range(each):
        found[:, place::each] = rows >> np.uint8(place * bits) & mask
    return np.ascontiguousarray(found[:, :slots])


def collision_chance(bits: int) -> float:
    """How often slots of different values are equal."""
    return 2.0**-bits


class BBitMinHash:
    """What is left of a MinHash when it is stored: b bits a slot. It can be compared, not updated.

    Args:
        spec: The specification, which has the slots and the bits of each.
        data: The packed slots; `MinHash.b_bit` makes them.

    >>> from neardup import MinHash
    >>> sketch = MinHash()
    >>> sketch.update_batch(["the cat", "cat sat"])
    >>> small = sketch.b_bit(1)
    >>> len(small.packed)
    16
    >>> small.jaccard(small)
    1.0
    """

    def __init__(self, spec: Spec, data: bytes) -> None:
        _require(spec)
        if len(data) != packed_size(spec):
            raise ParameterError(
                f"{spec.slots} slots of {spec.bits} bits are "
                f"{packed_size(spec)} bytes, not {len(data)}"
            )
        self.spec, self.packed = spec, bytes(data)

    @property
    def slots(self) -> Rows:
        """The bits of each slot."""
        row = np.frombuffer(self.packed, np.uint8)[None]
        found: Rows = unpack_slots(row, self.spec.bits, self.spec.slots)[0]
        return found

    def jaccard(self, other: BBitMinHash) -> float:
        """The estimated Jaccard similarity of the two sets."""
        if not isinstance(other, BBitMinHash):
            raise ParameterError(
                f"the other must be a BBitMinHash, not {type(other).__name__}: make one with b_bit"
            )
        self.spec.require_same(other.spec, "this BBitMinHash", "the other")
        share = np.count_nonzero(self.slots == other.slots) / self.spec.slots
        by_chance = collision_chance(self.spec.bits)
        return max(float((share - by_chance) / (1 - by_chance)), 0.0)

    def update(self, *_: object) -> None:
        """Not possible."""
        raise ParameterError(
            "a BBitMinHash can't be updated or merged, its slots are cut: keep the MinHash, "
            "change that, and call b_bit again"
        )

    update_batch = update_hashes = merge = update

    def to_bytes(self) -> bytes:
        """The sketch with its specification and a checksum; `from_bytes` reads it."""
        return base.pack_sketch(self.spec, self.packed)

    @classmethod
    def from_bytes(cls, data: bytes) -> BBitMinHash:
        """The sketch that `to_bytes` wrote; anything truncated or altered is an error."""
        return cls(*base.unpack_sketch(data, _require, packed_size))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BBitMinHash):
            return NotImplemented
        return self.spec == other.spec and self.packed == other.packed

    def __hash__(self) -> int:
        return hash((self.spec, self.packed))

    def __len__(self) -> int:
        return self.spec.slots

    def __repr__(self) -> str:
        return f"BBitMinHash(slots={self.spec.slots}, bits={self.spec.bits})"


def _require(spec: Spec) -> None:
    """Refuse a specification that a BBitMinHash can't have, whether given or read."""
    check_choice("sketch of a BBitMinHash", spec.sketch, MINHASHES)
    check_choice("bits of a slot", spec.bits, B_BITS)
