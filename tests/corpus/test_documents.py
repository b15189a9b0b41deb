"""String views: slices, and whatever a null points to."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from neardup.corpus.documents import as_plain
from neardup.corpus.rows import filter_column

VALUES = ["short", None, "long enough to need a buffer", "", None, "another that needs a buffer"]


@pytest.mark.parametrize("kind", [pa.string_view(), pa.binary_view()], ids=str)
def test_sliced_view_columns_become_plain(kind: pa.DataType) -> None:
    values = (
        VALUES if kind == pa.string_view() else [None if v is None else v.encode() for v in VALUES]
    )
    column = pa.array(values, kind)
    for start in range(len(values)):
        for length in range(len(values) - start + 1):
            part = as_plain(column.slice(start, length))
            part.validate(full=True)
            assert part.to_pylist() == values[start : start + length]
    keep = np.array([False, True, True, False, False, True])
    kept = filter_column(column, keep)
    assert kept.type == kind
    assert kept.to_pylist() == [values[1], values[2], values[5]]


def test_null_view_that_points_outside_does_not_crash() -> None:
    present, views, *data = pa.array(VALUES, pa.string_view()).buffers()
    slots = np.frombuffer(views, np.int32).reshape(-1, 4).copy()
    slots[1] = slots[4] = [2**31 - 1, 0, 77, 2**31 - 1]
    wild = pa.Array.from_buffers(
        pa.string_view(), len(VALUES), [present, pa.py_buffer(slots), *data]
    )
    wild.validate(full=True)  # the format allows it
    assert as_plain(wild).to_pylist() == VALUES


def test_other_types_are_unchanged() -> None:
    column = pa.array([1, 2])
    assert as_plain(column) is column
