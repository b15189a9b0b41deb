"""Is a text a copy of a kept document? Nothing is stored."""

from __future__ import annotations

import time

import numpy as np

from neardup.index.answer import DUPLICATE, Answer
from neardup.index.deciding import Arrivals, first_similar
from neardup.index.planning import rows_like
from neardup.index.probing import Probing
from neardup.index.store import Stored
from neardup.index.work import Counters, Point


def copies_of(
    store: Stored, point: Point, arrivals: Arrivals, counters: Counters, more: Probing | None = None
) -> dict[int, Answer] | None:
    """Of those that are copies, what is said; None if a witness was removed meanwhile.

    With `more`, other buckets are looked into besides.
    """
    if not len(arrivals):
        return {}
    begun = time.perf_counter()
    same = rows_like(store, point, arrivals.content)
    rest = np.array([at for at in range(len(arrivals)) if at not in same], np.int64)
    found = {
        at: (row.number, 1.0, True) if row.witness is None or row.similarity is None
        else (row.witness, row.similarity, bool(row.exact))
        for at, row in same.items()
    }  # fmt: skip
    if len(rest):
        probes = None if more is None else more.of(arrivals, rest)
        _, pairs = point.decider.meetings(arrivals, rest, point.known(store), probes)
        counters.meet(len(rest), pairs, time.perf_counter() - begun)
        for row, place in first_similar(pairs):
            found[row] = (int(pairs.numbers[place]), float(pairs.similarity[place]),
                          bool(pairs.exact[place]))  # fmt: skip
    if not found:
        return {}
    names = store.rows(sorted({witness for witness, _, _ in found.values()}))
    if any(witness not in names for witness, _, _ in found.values()):
        return None
    return {at: Answer(None, DUPLICATE, names[witness].id, similarity, exact, witness)
            for at, (witness, similarity, exact) in found.items()}  # fmt: skip
