"""The rows of OUT's tables, in the task that writes each of them, and what they tell."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from heapq import nlargest
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.formats.tables import column
from neardup.pipeline import samples
from neardup.pipeline.backends.spark.tables import numbers
from neardup.pipeline.places import Places

Integers = NDArray[np.int64]


class Plain:
    """Rows that tell nothing, and are complete with each batch."""

    def end(self, _: Places) -> dict[str, Any] | None:
        return None

    def told(self) -> Any:
        return None


@dataclass
class Removed(Plain):
    """removed.parquet, in input order. Tells how many there are, and some to show."""

    count: int = 0
    near: list[tuple[str, str, float]] = field(default_factory=list)
    other: list[tuple[str, str, float]] = field(default_factory=list)

    def __call__(self, batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
        number, witness = numbers(batch, "number"), numbers(batch, "witness")
        file, row = places.of(number)
        witness_file, witness_row = places.of(witness)
        names = places.named(batch.column("id"), number)
        witnesses = places.named(batch.column("witness_id"), witness)
        similarity = batch.column("similarity").to_numpy()
        self.count += len(batch)
        for listed, here in ((self.near, similarity < 1.0), (self.other, similarity >= 1.0)):
            for at in np.flatnonzero(here)[: samples.SHOWN - len(listed)].tolist():
                listed.append((names[at].as_py(), witnesses[at].as_py(), float(similarity[at])))
        return {
            "id": names,
            "file": file,
            "row": row,
            "witness": witnesses,
            "witness_file": witness_file,
            "witness_row": witness_row,
            "similarity": similarity,
            "exact": batch.column("exact"),
            "cluster": witness,
        }

    def told(self) -> Any:
        return {"count": self.count, "examples": self.near or self.other}


@dataclass
class Clusters:
    """clusters.parquet, of removed documents by witness, the least similar first.

    Tells of the largest: kept document, name, copies, and some of these: similarity, number, name.
    """

    largest: list[dict[str, Any]] = field(default_factory=list)
    _open: pa.RecordBatch | None = None
    """The last cluster so far, which may go on; its first rows are enough."""
    _copies: int = 0

    def __call__(self, batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
        if self._open is not None:
            batch = pa.concat_batches([self._open, batch])
        witness = numbers(batch, "witness")
        starts = np.concatenate([[0], np.flatnonzero(np.diff(witness)) + 1, [len(batch)]])
        copies = np.diff(starts)
        copies[0] += self._copies
        last = int(starts[-2])
        self._open = batch.slice(last, samples.COPIES)
        self._copies = int(copies[-1]) - len(self._open)
        return self._rows(batch, starts[:-2], copies[:-1], places)

    def end(self, places: Places) -> dict[str, Any] | None:
        if self._open is None:
            return None
        copies = np.array([len(self._open) + self._copies])
        return self._rows(self._open, np.zeros(1, np.int64), copies, places)

    def _rows(
        self, batch: pa.RecordBatch, starts: Integers, copies: Integers, places: Places
    ) -> dict[str, Any]:
        """The rows of clusters that begin at some places in a batch."""
        kept = numbers(batch, "witness")[starts]
        file, row = places.of(kept)
        names = places.named(batch.column("witness_id").take(column(starts)), kept)
        largest = np.lexsort((kept, -copies))[: samples.CLUSTERS]
        found = [
            {
                "kept": int(kept[at]),
                "name": names[at].as_py(),
                "copies": int(copies[at]),
                "some": _copies(batch.slice(starts[at], min(copies[at], samples.COPIES)), places),
            }
            for at in largest.tolist()
        ]
        every = [*self.largest, *found]
        self.largest = nlargest(samples.CLUSTERS, every, lambda one: (one["copies"], -one["kept"]))
        return {"cluster": kept, "id": names, "file": file, "row": row, "size": copies + 1}

    def told(self) -> Any:
        return self.largest


def _copies(batch: pa.RecordBatch, places: Places) -> list[tuple[float, int, str]]:
    number = numbers(batch, "number")
    names = places.named(batch.column("id"), number).to_pylist()
    similarity = batch.column("similarity").to_pylist()
    return list(zip(similarity, number.tolist(), names, strict=True))


@dataclass
class Rejected(Plain):
    """rejected.parquet, in input order. Tells how many there are for each reason."""

    reasons: Counter[str] = field(default_factory=Counter)

    def __call__(self, batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
        number = numbers(batch, "number")
        file, row = places.of(number)
        reasons = batch.column("reason").cast(pa.large_string())
        self.reasons.update(reasons.to_pylist())
        return {
            "id": places.named(batch.column("id"), number),
            "file": file,
            "row": row,
            "reason": reasons,
        }

    def told(self) -> Any:
        return dict(self.reasons)


class Pairs(Plain):
    """pairs.parquet."""

    def __call__(self, batch: pa.RecordBatch, places: Places) -> dict[str, Any]:
        a, b = numbers(batch, "a"), numbers(batch, "b")
        return {
            "a": places.named(batch.column("a_id"), a),
            "b": places.named(batch.column("b_id"), b),
            "similarity": batch.column("similarity"),
        }
