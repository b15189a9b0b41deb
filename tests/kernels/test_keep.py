"""The keep list equals its definition, on random graphs with chains, stars and full buckets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neardup import cluster, reference
from neardup.lsh.bands import group
from neardup.verify import Exact


@st.composite
def graphs(draw):
    """Documents as small sets, in a few buckets; neighbours overlap, so chains are common."""
    count = draw(st.integers(1, 14))
    rows = [
        set(range(start, start + draw(st.integers(3, 6))))
        for start in draw(st.lists(st.integers(0, 8), min_size=count, max_size=count))
    ]
    bands = draw(st.integers(1, 3))
    keys = [[draw(st.integers(0, 2)) * 10 + band for band in range(bands)] for _ in range(count)]
    return rows, keys


@settings(max_examples=400)
@given(graphs(), st.sampled_from([0.2, 0.5, 0.6, 2 / 3, 0.8, 1.0]), st.integers(1, 4))
def test_stars_equal_the_definition(graph, threshold, limit):
    rows, keys = graph
    similarity = {
        (u, v): reference.jaccard(rows[u], rows[v]) for v in range(len(rows)) for u in range(v)
    }
    want = reference.keep_list(keys, similarity, threshold, limit)
    buckets = group(np.array(keys, np.uint64))
    shared = [rows[d] for d in buckets.documents.tolist()]
    flat = np.array([x for row in shared for x in sorted(row)], np.uint64)
    offsets = np.cumsum([0, *map(len, shared)]).astype(np.int64)
    kept = cluster.stars(buckets, Exact(flat, offsets, threshold), limit)
    got = [None] * len(rows)
    for place, document in enumerate(buckets.documents.tolist()):
        if kept.witness[place] >= 0:
            witness = int(buckets.documents[kept.witness[place]])
            got[document] = (witness, float(kept.similarity[place]))
    assert got == want
    for number in np.flatnonzero(kept.turned_away[: len(buckets.sizes)]).tolist():
        band, key = int(buckets.band_of[number]), int(buckets.key_of[number])
        stay = sum(want[d] is None and keys[d][band] == key for d in range(len(rows)))
        assert kept.turned_away[number] == stay - limit > 0


@settings(max_examples=200)
@given(graphs(), st.sampled_from([0.2, 0.5, 0.8]))
def test_components_equal_a_naive_search(graph, threshold):
    rows, keys = graph
    count = len(rows)
    meet = [[any(a == b for a, b in zip(keys[u], keys[v], strict=True)) for v in range(count)]
            for u in range(count)]  # fmt: skip
    best = list(range(count))
    for _ in range(count):
        for u in range(count):
            for v in range(count):
                if meet[u][v] and reference.jaccard(rows[u], rows[v]) >= threshold:
                    best[u] = best[v] = min(best[u], best[v])
    buckets = group(np.array(keys, np.uint64))
    shared = [rows[d] for d in buckets.documents.tolist()]
    flat = np.array([x for row in shared for x in sorted(row)], np.uint64)
    offsets = np.cumsum([0, *map(len, shared)]).astype(np.int64)
    kept = cluster.components(buckets, Exact(flat, offsets, threshold))
    got = list(range(count))
    for place, document in enumerate(buckets.documents.tolist()):
        if kept.witness[place] >= 0:
            got[document] = int(buckets.documents[kept.witness[place]])
            assert kept.similarity[place] == reference.jaccard(rows[got[document]], rows[document])
    assert got == best


@given(graphs())
def test_every_candidate_pair_once(graph):
    _, keys = graph
    buckets = group(np.array(keys, np.uint64))
    blocks = list(cluster.candidates(buckets))
    got = [
        (int(buckets.documents[u]), int(buckets.documents[v]))
        for left, right in blocks
        for u, v in zip(left.tolist(), right.tolist(), strict=True)
    ]
    want = {
        (u, v)
        for v in range(len(keys))
        for u in range(v)
        if any(a == b for a, b in zip(keys[u], keys[v], strict=True))
    }
    assert len(got) == len(set(got))
    assert set(got) == want


@given(st.lists(st.integers(0, 3), max_size=12), st.randoms(use_true_random=False))
def test_identical_follow_the_best_ranked(contents, random):
    content = np.array([[c, 7] for c in contents], np.uint64).reshape(-1, 2)
    order = [d for d in range(len(contents)) if random.random() < 0.8]
    random.shuffle(order)
    leader = cluster.identical(content, np.array(order, np.int64))
    for document in range(len(contents)):
        same = [d for d in order if contents[d] == contents[document]]
        assert leader[document] == (same[0] if document in order else -1)
