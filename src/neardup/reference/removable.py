"""MinHash slots with spare values, as sets: what a slot still knows after adding and removing."""

from __future__ import annotations

from dataclasses import dataclass, field

from neardup.reference.sketches import EMPTY_SLOT

NOTHING_MISSING = 2**64 - 1


@dataclass
class Slot:
    """The set's keys below the limit: a value of 32 bits, then the element's upper half."""

    a: int
    b: int
    room: int
    keys: set[int] = field(default_factory=set)
    limit: int = NOTHING_MISSING

    def key(self, x: int) -> int:
        return (self.a * x + self.b) % 2**32 << 32 | x >> 32

    def add(self, key: int) -> None:
        self.keys = {known for known in self.keys | {key} if known < self.limit}
        if len(self.keys) > self.room:
            self.limit = max(self.keys)
            self.keys.discard(self.limit)

    def merge(self, other: Slot) -> None:
        self.limit = min(self.limit, other.limit)
        self.keys = {key for key in self.keys if key < self.limit}
        for key in other.keys:
            self.add(key)

    def remove(self, key: int) -> None:
        self.keys.discard(key)

    @property
    def value(self) -> int | None:
        """The least value, or None if it is not known."""
        if self.keys:
            return min(self.keys) >> 32
        return EMPTY_SLOT if self.limit == NOTHING_MISSING else None
