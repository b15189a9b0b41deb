"""Pairs, keep lists and components by vectors, and by sets and vectors, equal their slow twins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.signals import words_of
from support.strategies import examples

from neardup import cluster, reference
from neardup.lsh.buckets import group_by_key
from neardup.measure_table import MEASURES
from neardup.reference import vectors as twin
from neardup.verify import Signals

LEASTS = [0.0, 0.5, 0.7071067811865475, 0.9, 1.0]


@st.composite
def corpora(draw):
    """Documents of few shingles and few directions, in a few buckets, so that chains are common."""
    count, dimension = draw(st.integers(1, 10)), draw(st.sampled_from([1, 2, 3, 9]))
    numbers = st.lists(st.integers(-2, 3), min_size=dimension, max_size=dimension)
    vectors = np.array([draw(numbers) for _ in range(count)], np.float32)
    starts = [draw(st.integers(0, 6)) for _ in range(count)]
    sets = [set(range(start, start + draw(st.integers(0, 5)))) for start in starts]
    keys = [[draw(st.integers(0, 2)) * 10 + band for band in range(2)] for _ in range(count)]
    return sets, vectors, keys


def by_twin(name, sets, vectors, threshold, least):
    """Return the similarity of documents u and v, -1.0 if they are not similar."""
    documents = list(zip(sets, vectors.tolist(), strict=True))

    def similarity(u: int, v: int) -> float:
        one, other = documents[u], documents[v]
        if name == "cosine":
            return twin.cosine_similarity(one[1], other[1], threshold)
        return getattr(twin, name)(one, other, threshold, least)

    return similarity


def compared(name, sets, vectors, threshold, least):
    rows, offsets = words_of(vectors, None if name == "cosine" else sets)
    return Signals(rows, offsets, vectors.shape[1], threshold, least, MEASURES[name])


measures = pytest.mark.parametrize("name", ["cosine", "either", "both"])
thresholds = st.sampled_from([0.2, 0.5, 2 / 3, 0.8, 1.0])


@measures
@given(corpora(), thresholds, st.sampled_from(LEASTS))
def test_pairs_equal_their_twin(name, corpus, threshold, least):
    sets, vectors, _ = corpus
    left, right = (side.ravel().astype(np.int64) for side in np.indices((len(sets),) * 2))
    comparison = compared(name, sets, vectors, threshold, least)
    similarity = by_twin(name, sets, vectors, threshold, least)
    want = [similarity(u, v) for u, v in zip(left, right, strict=True)]
    assert comparison.pairs(left, right).tolist() == want
    numbers = comparison.numbers(left, right).tolist()
    lists = vectors.tolist()
    for u, v, got in zip(left, right, numbers, strict=True):
        one, other = (sets[u], lists[u]), (sets[v], lists[v])
        text = 1.0 if name == "cosine" else twin.lexical(one, other)
        assert got == [text, twin.cosine(one[1], other[1])]


@st.composite
def close_vectors(draw):
    """Vectors near one of few, so that cosines are at, just below and far below thresholds."""
    dimension = draw(st.sampled_from([1, 3, 4, 7, 16, 33]))
    chance = np.random.default_rng(draw(st.integers(0, 2**32)))
    middles = chance.standard_normal((2, dimension))
    noise = chance.standard_normal((8, dimension)) * draw(st.sampled_from([1e-8, 1e-3, 0.3, 2.0]))
    scale = draw(st.sampled_from([1e-38, 1.0, 1e37]))
    return (scale * (middles[chance.integers(0, 2, 8)] + noise)).astype(np.float32)


@given(close_vectors(), st.data())
def test_cosines_at_the_threshold_are_not_ruled_out(vectors, data):
    left, right = (side.ravel().astype(np.int64) for side in np.indices((len(vectors),) * 2))
    cosines = compared("cosine", None, vectors, 0.0, 0.0).numbers(left, right)[:, 1]
    reached = [cosine for cosine in cosines.tolist() if cosine >= 0.0]
    threshold = data.draw(st.sampled_from([*reached, 0.0, 0.5, 0.99]))
    comparison = compared("cosine", None, vectors, threshold, 0.0)
    for least in (threshold, 0.0, 0.9):
        want = np.where(np.maximum(cosines, 0.0) >= least, np.maximum(cosines, 0.0), -1.0)
        assert comparison.pairs(left, right, least).tolist() == want.tolist()


@measures
@given(corpora())
def test_every_pair_has_a_similarity_if_none_is_too_low(name, corpus):
    sets, vectors, _ = corpus
    left, right = (side.ravel().astype(np.int64) for side in np.indices((len(sets),) * 2))
    comparison = compared(name, sets, vectors, 0.8, 0.9)
    similar, numbers = comparison.pairs(left, right, least=0.0), comparison.numbers(left, right)
    want = np.maximum(numbers[:, 1], 0.0) if name == "cosine" else numbers[:, 0]
    assert similar.tolist() == want.tolist()


@measures
@settings(max_examples=examples(60))
@given(corpora(), thresholds, st.sampled_from(LEASTS), st.integers(1, 4))
def test_stars_equal_the_definition(name, corpus, threshold, least, limit):
    sets, vectors, keys = corpus
    similarity = by_twin(name, sets, vectors, threshold, least)
    similar = {(u, v): similarity(u, v) for v in range(len(sets)) for u in range(v)}
    want = reference.keep_list(keys, similar, 0.0, limit)
    buckets = group_by_key(np.array(keys, np.uint64))
    chosen = buckets.documents.tolist()
    if not chosen:
        assert want == [None] * len(sets)
        return
    comparison = compared(name, [sets[d] for d in chosen], vectors[chosen], threshold, least)
    kept = cluster.keep_stars(buckets, comparison, limit)
    got = [None] * len(sets)
    for place, document in enumerate(chosen):
        if kept.witness[place] >= 0:
            witness = chosen[kept.witness[place]]
            got[document] = (witness, float(kept.similarity[place]))
    assert got == want


@measures
@settings(max_examples=examples(60))
@given(corpora(), thresholds, st.sampled_from(LEASTS))
def test_components_equal_a_naive_search(name, corpus, threshold, least):
    sets, vectors, keys = corpus
    similarity = by_twin(name, sets, vectors, threshold, least)
    best = list(range(len(sets)))
    for _ in best:
        for u in range(len(sets)):
            for v in range(len(sets)):
                meet = any(a == b for a, b in zip(keys[u], keys[v], strict=True))
                if meet and similarity(u, v) >= 0.0:
                    best[u] = best[v] = min(best[u], best[v])
    buckets = group_by_key(np.array(keys, np.uint64))
    chosen = buckets.documents.tolist()
    got = list(range(len(sets)))
    if chosen:
        comparison = compared(name, [sets[d] for d in chosen], vectors[chosen], threshold, least)
        kept = cluster.keep_components(buckets, comparison)
        for place, document in enumerate(chosen):
            if kept.witness[place] >= 0:
                got[document] = chosen[kept.witness[place]]
    assert got == best
