"""Slots with spare values: the kernels equal their slow twin, whatever is added and removed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels
from neardup.reference.sketches import NOTHING_MISSING, Slot

# Few elements, so that they come again; some with equal lower halves, whose slots are equal.
elements = st.one_of(
    st.integers(0, 3).map(lambda x: x << 32 | 7), st.integers(0, 12), st.integers(0, 2**64 - 1)
)
steps = st.lists(st.tuples(st.sampled_from("+++-"), elements), max_size=40)
constants = st.lists(
    st.tuples(st.integers(0, 2**31 - 1).map(lambda a: 2 * a + 1), st.integers(0, 2**32 - 1)),
    min_size=1,
    max_size=4,
)


class Rows:
    """The kernels' arrays, used like a list of twins."""

    def __init__(self, pairs, room):
        self.constants = tuple(np.array(column, np.uint32) for column in zip(*pairs, strict=True))
        self.rows = np.full((len(pairs), room), NOTHING_MISSING, np.uint64)
        self.limits = np.full(len(pairs), NOTHING_MISSING, np.uint64)

    def act(self, sign, x):
        if sign == "+":
            kernels.add_keys(self.rows, self.limits, np.array([x], np.uint64), *self.constants)
            return None
        return kernels.remove_key(self.rows, self.limits, np.uint64(x), *self.constants)

    def state(self):
        return [
            ([key for key in row if key != NOTHING_MISSING], limit)
            for row, limit in zip(self.rows.tolist(), self.limits.tolist(), strict=True)
        ]


def act(twins, sign, x):
    if sign == "+":
        for slot in twins:
            slot.add(slot.key(x))
        return None
    known = [slot.key(x) in slot.keys for slot in twins if slot.key(x) < slot.limit]
    for slot in twins:
        slot.remove(slot.key(x))
    return sum(known), len(known) - sum(known)


def state(twins):
    return [(sorted(slot.keys), slot.limit) for slot in twins]


@given(constants, st.integers(1, 4), steps, steps)
def test_slots_with_spares_equal_their_twin(pairs, room, mine, theirs):
    whole = []
    for path in (mine, theirs):
        rows, twins = Rows(pairs, room), [Slot(a, b, room) for a, b in pairs]
        for sign, x in path:
            assert rows.act(sign, x) == act(twins, sign, x)
            assert rows.state() == state(twins)
        whole.append((rows, twins))
    (rows, twins), (other_rows, other_twins) = whole
    kernels.merge_keys(rows.rows, rows.limits, other_rows.rows, other_rows.limits)
    for slot, other in zip(twins, other_twins, strict=True):
        slot.merge(other)
    assert rows.state() == state(twins)
