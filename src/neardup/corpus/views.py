"""How are Arrow's string views, which Polars writes, turned into plain columns?

A cast, but PyArrow 26 also looks at what a null's view points to. The format leaves that
undefined, so a file may hold anything there, and the process would crash: it is blanked first.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PLAIN = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
_VIEW = 16  # bytes


def as_plain(column: pa.Array) -> pa.Array:
    """large_string for string_view, large_binary for binary_view; other columns as they are."""
    if column.type not in PLAIN:
        return column
    if column.null_count:
        column = _blanked(column)
    return column.cast(PLAIN[column.type])


def _blanked(column: pa.Array) -> pa.Array:
    """The column with an empty view for every null."""
    _, views, *data = column.buffers()
    end = (column.offset + len(column)) * _VIEW
    slots = np.frombuffer(views, np.uint8)[column.offset * _VIEW : end].reshape(-1, _VIEW).copy()
    valid = column.is_valid()
    present = np.frombuffer(valid.cast(pa.uint8()).buffers()[1], np.uint8)[: len(column)]
    slots[present == 0] = 0
    # Of a computed column: its bits begin at 0, as those of the new one do.
    buffers = [valid.buffers()[1], pa.py_buffer(slots), *data]
    return pa.Array.from_buffers(column.type, len(column), buffers)
