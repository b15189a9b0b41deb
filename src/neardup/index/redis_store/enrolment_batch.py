"""Documents that are added together, and the bytes that are stored of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from neardup.index.arrivals import Arrivals, select_arrivals
from neardup.index.redis_store.keyspace import Record, add_sum
from neardup.index.view import View


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
