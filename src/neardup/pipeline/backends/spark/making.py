"""Documents to rows of the table of sketches, in a task.

id            null without one; besides, the columns that say where the document is
keep_...      the value of the keep column, in the column of its type; and which type that is
length        raw bytes of the text, or the number of tokens
c0, c1        both halves of the content hash
reason        why it is rejected; null if it is not
empty_slots   of a batch together, at its first document
keys          eight bytes for each table of the operating point
slots         what is compared of the signature, unless shingles are
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from neardup.corpus.documents import strings
from neardup.options import Options
from neardup.pipeline.backends.spark.keeping import KEEP, keep_columns
from neardup.pipeline.backends.spark.sources import Found, Reader
from neardup.pipeline.backends.spark.tables import Batches, batch_of, equal_rows
from neardup.sketch.bulk import compared
from neardup.sketcher import Sketcher


@dataclass(frozen=True)
class Making:
    """What is made of each document, by which rules."""

    reader: Reader
    sketcher: Sketcher
    options: Options

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for found in self.reader(batches):
            if len(found.documents):
                yield self._rows(found)

    def _rows(self, found: Found) -> pa.RecordBatch:
        documents, sketch = found.documents, self.sketcher(found.documents)
        count = len(documents)
        reasons: list[str | None] = [None] * count
        for row in sketch.empty.tolist():
            reasons[row] = "empty"
        for row, why in documents.rejected.items():
            reasons[row] = why
        empty_slots = np.zeros(count, np.int64)
        empty_slots[0] = sketch.empty_slots
        content = sketch.content.view(np.int64)
        columns: dict[str, Any] = {
            **found.where,
            "id": narrow(documents.ids),
            **keep_columns(documents.keep, count),
            "length": sketch.lengths,
            "c0": np.ascontiguousarray(content[:, 0]),
            "c1": np.ascontiguousarray(content[:, 1]),
            "reason": narrow(strings(reasons)),
            "empty_slots": empty_slots,
            "keys": equal_rows(sketch.keys(self.options.tables)),
        }
        if self.options.verify != "exact":
            columns["slots"] = equal_rows(compared(sketch.signatures, self.options.spec))
        return batch_of(**columns)


def schema(where: dict[str, str], id_type: str, options: Options) -> str:
    """The columns of the table of sketches, in Spark's words."""
    columns = where | {"id": id_type} | KEEP
    columns |= {"length": "long", "c0": "long", "c1": "long", "reason": "string"}
    columns |= {"empty_slots": "long", "keys": "binary"}
    columns |= {} if options.verify == "exact" else {"slots": "binary"}
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


def narrow(values: Any) -> pa.Array:
    """Texts with short offsets, as Spark wants them."""
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values
