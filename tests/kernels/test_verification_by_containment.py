"""Containment: the kernels equal set arithmetic, and the keep list its definition."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import cluster, reference
from neardup.lsh.buckets import group_by_key
from neardup.measure_table import MEASURES
from neardup.verify import Exact

sets = st.sets(st.integers(0, 40), min_size=1, max_size=40)
thresholds = st.one_of(
    st.floats(0.01, 1.0), st.fractions(0, 1, max_denominator=40).filter(bool).map(float)
)


def contained(rows, threshold) -> Exact:
    flat = np.array([x for row in rows for x in sorted(row)], np.uint64)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Exact(flat, offsets, threshold, MEASURES["containment"])


@given(st.lists(sets, min_size=2, max_size=6), thresholds)
def test_containment_is_the_share_of_the_right_document_in_the_left(rows, threshold):
    left, right = map(np.ascontiguousarray, np.nonzero(~np.eye(len(rows), dtype=bool)))
    got = contained(rows, threshold).pairs(left, right).tolist()
    for u, v, similarity in zip(left.tolist(), right.tolist(), got, strict=True):
        truth = reference.containment(rows[v], rows[u])
        assert similarity == (truth if truth >= threshold else -1.0)


@settings(max_examples=examples(80))
@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 9)), min_size=1, max_size=14),
    st.sampled_from([0.2, 0.5, 2 / 3, 0.8, 1.0]),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_the_keep_list_equals_the_definition(ranges, threshold, limit, random):
    rows = [set(range(start, start + size)) for start, size in ranges]
    keys = [[random.randint(0, 2) * 10 + band for band in range(2)] for _ in rows]
    similarity = {
        (u, v): reference.containment(rows[v], rows[u]) for v in range(len(rows)) for u in range(v)
    }
    want = reference.keep_list(keys, similarity, threshold, limit)
    buckets = group_by_key(np.array(keys, np.uint64))
    shared = [rows[d] for d in buckets.documents.tolist()]
    kept = cluster.keep_stars(buckets, contained(shared, threshold), limit)
    got = [None] * len(rows)
    for place, document in enumerate(buckets.documents.tolist()):
        if kept.witness[place] >= 0:
            witness = int(buckets.documents[kept.witness[place]])
            got[document] = (witness, float(kept.similarity[place]))
    assert got == want
