"""Documents that are added together, and the bytes that are stored of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from neardup.index.arrivals import Arrivals, select_arrivals
from neardup.index.redis_store.keyspace import BLOCK, Record, add_sum
from neardup.index.view import View

SENT_BYTES: Final = 32 << 20
"""Bytes of documents that are sent at once: a server takes a gigabyte at most, and some seconds."""


@dataclass(frozen=True)
class EnrolmentBatch:
    """Documents to add, with different ids, in order."""

    arrivals: Arrivals
    ids: Sequence[str]
    metadata: Sequence[str | None]
    texts: Sequence[bytes | None]
    added: float
    """The time that is stored with them."""

    def select(self, rows: list[int]) -> EnrolmentBatch:
        """Return some of the documents."""
        if len(rows) == len(self.ids):
            return self
        return EnrolmentBatch(
            select_arrivals(self.arrivals, rows),
            [self.ids[row] for row in rows],
            [self.metadata[row] for row in rows],
            [self.texts[row] for row in rows],
            self.added,
        )

    def pack(self, numbers: Sequence[int], view: View) -> list[tuple[bytes, bytes, bytes]]:
        """Return the record, the shingles and the text of each document as they are stored."""
        arrivals = self.arrivals
        signatures = view.codec.pack(arrivals.keys, arrivals.compared, arrivals.apart)
        sets: list[bytes] = [b""] * len(numbers)
        if (found := arrivals.sets) is not None:
            spans = pairwise(found.offsets.tolist())
            sets = [
                add_sum(number, found.data[begin:end].tobytes())
                for number, (begin, end) in zip(numbers, spans, strict=True)
            ]
        packed = []
        for place, number in enumerate(numbers):
            content, text = arrivals.content[place].tobytes(), self.texts[place]
            record = Record(
                self.ids[place],
                content,
                self.added,
                self.metadata[place],
                bytes(signatures[place]),
            )
            stored = b"" if text is None else add_sum(number, text)
            packed.append((record.pack(number), sets[place], stored))
        return packed


def divide(numbers: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Divide documents into those of a block that are sent together; return their places.

    Args:
        numbers: Their numbers.
        sizes: The bytes of each.
    """
    parts: list[list[int]] = []
    block, size = -1, 0
    for place, number in enumerate(numbers):
        if number // BLOCK != block or size + sizes[place] > SENT_BYTES:
            parts.append([])
            block, size = number // BLOCK, 0
        parts[-1].append(place)
        size += sizes[place]
    return parts
