"""The documents that an index has, as who judges new ones needs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.index.deciding import Arrivals
from neardup.index.store import Stored
from neardup.index.tables.derived import Derived
from neardup.index.tables.postings import Integers, Keys, Numbers
from neardup.lsh.tables import Tables
from neardup.options import Options
from neardup.sketch import bulk
from neardup.text.arrays import Ragged


class Behind(FormatError):  # noqa: N818  # reads as what happened
    """The tables have a document that is not stored: it was removed just now, so ask again."""

    def __init__(self) -> None:
        super().__init__("the store lacks documents that its tables have: run neardup index verify")


@dataclass(frozen=True)
class Signing:
    """How signatures are stored: full slots; or, narrow ones, the band keys and a few bits."""

    options: Options

    @cached_property
    def tables(self) -> Tables:
        """Which documents meet."""
        return self.options.tables

    @property
    def _key_bytes(self) -> int:
        return 8 * self.tables.count if self.options.spec.narrow else 0

    def packed(self, keys: Keys, compared: NDArray[Any]) -> list[Any]:
        """The blobs of some documents."""
        if not self.options.spec.narrow:
            return list(np.ascontiguousarray(compared))
        return [a.tobytes() + b.tobytes() for a, b in zip(keys, compared, strict=True)]

    def unpacked(self, blobs: Sequence[bytes]) -> tuple[Keys, NDArray[Any]]:
        """Band keys, and what is compared, of some documents."""
        _, kind = bulk.compared_shape(self.options.spec)
        rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
        first = self._key_bytes
        compared: NDArray[Any] = np.ascontiguousarray(rows[:, first:]).view(kind)
        if first:
            return np.ascontiguousarray(rows[:, :first]).view(np.uint64), compared
        return self.tables.keys(compared), compared


@dataclass(frozen=True)
class Known:
    """The kept documents, but for those that are about to be removed."""

    store: Stored
    derived: Derived
    signing: Signing
    without: tuple[int, ...] = ()

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        return self.derived.leaders(keys, limit, self.without)

    def sets(self, numbers: list[int]) -> dict[int, bytes]:
        return self.store.blobs("shingles", numbers)

    def compared(self, numbers: list[int]) -> NDArray[Any]:
        """One row each."""
        blobs = self.store.blobs("signatures", numbers)
        if len(blobs) < len(numbers):
            raise Behind
        return self.signing.unpacked([blobs[number] for number in numbers])[1]

    def stored(self, numbers: Sequence[int], contents: Sequence[bytes]) -> Arrivals:
        """Documents that are there, to be judged again."""
        if not numbers:
            raise ValueError("nothing to judge")
        signatures = self.store.blobs("signatures", numbers)
        keys, compared = self.signing.unpacked([signatures[number] for number in numbers])
        content = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        return Arrivals(content, keys, compared, self._stored_sets(numbers))

    def _stored_sets(self, numbers: Sequence[int]) -> Ragged | None:
        sets = self.sets(list(numbers))
        if len(sets) < len(numbers):
            return None
        rows = [np.frombuffer(sets[number], np.uint64) for number in numbers]
        sizes = np.array([len(row) for row in rows], np.int64)
        return Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(sizes)]))


def joined(parts: Sequence[Arrivals]) -> Arrivals:
    """Documents one after the other; without sets if any of them has none."""
    if len(parts) == 1:
        return parts[0]
    sets = None
    if all(part.shingles is not None for part in parts):
        rows = [part.sets for part in parts if part.sets is not None]
        sizes = np.concatenate([row.sizes for row in rows])
        data = np.concatenate([row.data[: row.offsets[-1]] for row in rows])
        sets = Ragged(data, np.concatenate([[0], np.cumsum(sizes)]))
    return Arrivals(
        np.concatenate([part.content for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.compared for part in parts]),
        sets,
    )
