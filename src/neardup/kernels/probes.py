"""The two least values of each column: a slot's minimum, and what it would be without that."""

from __future__ import annotations

import numpy as np

from neardup.kernels.compile import U32_ROWS, U64_ROWS, kernel_for


@kernel_for((U32_ROWS,), (U64_ROWS,))
def two_least(values):
    """The least and the second least *different* value of each column, as two rows.

    Where there is none, the largest possible value stands.
    """
    rows, columns = values.shape
    most = values.dtype.type(np.iinfo(values.dtype).max)
    out = np.full((2, columns), most, values.dtype)
    first, second = out[0], out[1]
    for i in range(rows):
        row = values[i]
        for j in range(columns):
            value, least = row[j], first[j]
            other = most if value == least else max(value, least)
            second[j] = min(second[j], other)
            first[j] = min(value, least)
    return out
