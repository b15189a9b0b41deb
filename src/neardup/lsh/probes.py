"""More buckets for one query: what would its key be, had it lost the element of a slot's minimum?

A near-duplicate misses a band where one slot differs. Often that is because the query has an
element that the other lacks; then the other's minimum there is the query's second least value. So
a probe is a band's key with one slot's value replaced by the second least: as many as there are
slots, at most.

The probes are ordered by how likely they are to hit. The other has the same values in a band if it
has those elements, and nothing of its own lies below them. The chance of the latter falls with the
sum of the band's values, whatever the other set is: the least sum goes first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.tables import Bands


def probe_keys(
    slots: NDArray[Any], seconds: NDArray[Any], bands: Bands, most: int
) -> list[tuple[int, int]]:
    """Up to `most` probes, the likeliest first: the number of a table, and a key to look up there.

    A slot whose second value is the largest possible has none: the set is too small.
    """
    table = np.repeat(np.arange(bands.count), bands.rows)
    has = seconds[: bands.slots] != np.iinfo(seconds.dtype).max
    values = slots[: bands.slots].astype(np.float64)
    sums = np.bincount(table, values)[table] + (seconds[: bands.slots] - values)
    order = np.argsort(sums, kind="stable")
    chosen = order[has[order]][:most]
    copies = np.tile(slots, (len(chosen), 1))
    probe = np.arange(len(chosen))
    copies[probe, chosen] = seconds[chosen]
    keys = bands.keys(copies)[probe, table[chosen]]
    return list(zip(table[chosen].tolist(), keys.tolist(), strict=True))
