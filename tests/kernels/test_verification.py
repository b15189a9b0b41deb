"""The keep list equals its definition, on random graphs with chains, stars and full buckets."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup import cluster, reference
from neardup.lsh.buckets import group_by_key
from neardup.verify import Estimated, Exact


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


@settings(max_examples=examples(100))
@given(graphs(), st.sampled_from([0.2, 0.5, 0.6, 2 / 3, 0.8, 1.0]), st.integers(1, 4))
def test_stars_equal_the_definition(graph, threshold, limit):
    rows, keys = graph
    similarity = {
        (u, v): reference.jaccard(rows[u], rows[v]) for v in range(len(rows)) for u in range(v)
    }
    want = reference.keep_list(keys, similarity, threshold, limit)
    buckets = group_by_key(np.array(keys, np.uint64))
    shared = [rows[d] for d in buckets.documents.tolist()]
    flat = np.array([x for row in shared for x in sorted(row)], np.uint64)
    offsets = np.cumsum([0, *map(len, shared)]).astype(np.int64)
    kept = cluster.keep_stars(buckets, Exact(flat, offsets, threshold), limit)
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


def naive_components(count, keys, similar):
    """Each document's best-ranked connected one, by relaxing every edge often enough."""
    best = list(range(count))
    for _ in range(count):
        for u in range(count):
            for v in range(count):
                meet = any(a == b for a, b in zip(keys[u], keys[v], strict=True))
                if meet and similar(u, v):
                    best[u] = best[v] = min(best[u], best[v])
    return best


@settings(max_examples=examples(80))
@given(graphs(), st.sampled_from([0.2, 0.5, 0.8]))
def test_components_equal_a_naive_search(graph, threshold):
    rows, keys = graph
    best = naive_components(
        len(rows), keys, lambda u, v: reference.jaccard(rows[u], rows[v]) >= threshold
    )
    buckets = group_by_key(np.array(keys, np.uint64))
    shared = [rows[d] for d in buckets.documents.tolist()]
    flat = np.array([x for row in shared for x in sorted(row)], np.uint64)
    offsets = np.cumsum([0, *map(len, shared)]).astype(np.int64)
    kept = cluster.keep_components(buckets, Exact(flat, offsets, threshold))
    got = list(range(len(rows)))
    for place, document in enumerate(buckets.documents.tolist()):
        if kept.witness[place] >= 0:
            got[document] = int(buckets.documents[kept.witness[place]])
            assert kept.similarity[place] == reference.jaccard(rows[got[document]], rows[document])
    assert got == best


@given(
    st.integers(2, 9), st.integers(1, 40), st.floats(0.0, 1.0), st.randoms(use_true_random=False)
)
def test_components_by_slots_equal_a_naive_search(count, slots, threshold, random):
    rows = [[random.randint(0, 1) for _ in range(slots)] for _ in range(count)]
    keys = [[random.randint(0, 1) * 10 + band for band in range(2)] for _ in range(count)]
    best = naive_components(
        count, keys, lambda u, v: reference.estimate(rows[u], rows[v]) >= threshold
    )
    buckets = group_by_key(np.array(keys, np.uint64))
    chosen = np.array([rows[d] for d in buckets.documents.tolist()], np.uint32).reshape(-1, slots)
    kept = cluster.keep_components(buckets, Estimated(chosen, threshold))
    got = list(range(count))
    for place, document in enumerate(buckets.documents.tolist()):
        if kept.witness[place] >= 0:
            got[document] = int(buckets.documents[kept.witness[place]])
    assert got == best


def test_a_hot_bucket_of_similar_documents_is_one_component():
    count = 5_000
    flat = np.tile(np.arange(5, dtype=np.uint64), count)
    offsets = np.arange(count + 1, dtype=np.int64) * 5
    buckets = group_by_key(np.zeros((count, 2), np.uint64))
    kept = cluster.keep_components(buckets, Exact(flat, offsets, 0.8), cap=10)
    assert (kept.witness[1:] == 0).all()
    assert kept.compared == count - 1
    assert not kept.turned_away.any()


def test_a_cap_that_is_reached_is_counted():
    flat = np.arange(30, dtype=np.uint64)
    buckets = group_by_key(np.zeros((30, 1), np.uint64))
    kept = cluster.keep_components(buckets, Exact(flat, np.arange(31), 0.8), cap=10)
    assert (kept.witness == -1).all()
    assert kept.turned_away[0] == 20


@given(graphs())
def test_every_candidate_pair_once(graph):
    _, keys = graph
    buckets = group_by_key(np.array(keys, np.uint64))
    blocks = list(cluster.pair_candidates(buckets))
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
def test_identical_documents_follow_the_best_ranked(contents, random):
    content = np.array([[c, 7] for c in contents], np.uint64).reshape(-1, 2)
    order = [d for d in range(len(contents)) if random.random() < 0.8]
    random.shuffle(order)
    leader = cluster.find_identical(content, np.array(order, np.int64))
    for document in range(len(contents)):
        same = [d for d in order if contents[d] == contents[document]]
        assert leader[document] == (same[0] if document in order else -1)
