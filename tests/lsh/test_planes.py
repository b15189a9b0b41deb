"""Signs agree by the angle, and a plan of planes predicts what meets, of embeddings too."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.embeddings import WordVectors, crowd, passages, plant_copies, unit
from support.strategies import examples

from neardup.errors import ParameterError
from neardup.lsh import planes as module
from neardup.lsh.angles import angle_agreement
from neardup.lsh.planes import PlanePrediction, Planes, VectorCounts, plan_planes
from neardup.reference import vectors as twin
from neardup.sketch.hyperplane import quantise_centre, sign_words

PLANTED = 3_000


def contents_of(count, seed=1):
    return np.random.default_rng(seed).integers(0, 2**64, (count, 2), dtype=np.uint64)


def counted(vectors):
    counts = VectorCounts()
    counts.add(vectors, contents_of(len(vectors)))
    return counts


@pytest.mark.parametrize("cosine", [-0.8, 0.0, 0.5, 0.9, 0.99])
def test_signs_agree_by_the_angle(cosine):
    """The tolerance is five standard errors, and what rounding to whole numbers may add."""
    pairs, planes = 30, 4_096
    vectors = np.random.default_rng(5).standard_normal((pairs, 96)).astype(np.float32)
    copies = plant_copies(vectors, np.full(pairs, cosine), seed=6)
    none = np.zeros(96, np.int16)
    apart = sign_words(vectors, none, planes, 9) ^ sign_words(copies, none, planes, 9)
    agree = 1 - np.unpackbits(apart.view(np.uint8)).sum() / (pairs * planes)
    want = angle_agreement(cosine)
    assert abs(agree - want) < 5 * np.sqrt(want * (1 - want) / (pairs * planes)) + 1e-4


@settings(max_examples=examples(30))
@given(
    st.lists(st.lists(st.integers(-3, 3), min_size=3, max_size=3), min_size=1, max_size=40),
    st.lists(st.integers(0, 39), max_size=4),
    st.integers(2, 6),
    st.randoms(use_true_random=False),
)
def test_counts_depend_neither_on_the_order_nor_on_batches(rows, cuts, most, random):
    vectors = np.array(rows, np.float32)
    found = {row: number for number, row in enumerate(dict.fromkeys(map(tuple, rows)))}
    contents = contents_of(40)[[found[tuple(row)] for row in rows]]
    order = list(range(len(rows)))
    random.shuffle(order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SAMPLED", most)
        patch.setattr(module, "LEAST_CENTRED", 1)
        whole, merged = VectorCounts(), VectorCounts()
        whole.add(vectors, contents)
        for part in np.split(np.array(order), sorted(cuts)):
            one = VectorCounts()
            one.add(vectors[part], contents[part])
            merged.merge(one)
        assert merged.documents == whole.documents == vectors.any(axis=1).sum()
        assert merged.sample.tolist() == whole.sample.tolist()
        middle = whole.centre(3).tolist()
        assert merged.centre(3).tolist() == middle
    by_hash = sorted((contents[at, 0], row) for at, row in enumerate(rows) if any(row))
    distinct = dict(by_hash)
    assert whole.sample.tolist() == [twin.quantised(row) for row in distinct.values()][:most]
    assert middle == (twin.centre(rows) if vectors.any() else [0, 0, 0])


def test_few_vectors_are_not_centred():
    vectors = np.ones((module.LEAST_CENTRED, 2), np.float32)
    assert counted(vectors).centre(2).any()
    assert not counted(vectors[1:]).centre(2).any()
    assert VectorCounts().centre(2).tolist() == [0, 0]


def test_counts_refuse_another_dimension():
    counts = counted(np.ones((3, 2), np.float32))
    with pytest.raises(ParameterError, match="vectors have 3 numbers, those before have 2"):
        counts.add(np.ones((3, 3), np.float32), contents_of(3))


def test_a_given_centre_is_the_mean_of_unit_vectors():
    assert quantise_centre(np.array([0.6, -0.25])).tolist() == [9830, -4096]
    with pytest.raises(ParameterError, match="length 5, more than 1"):
        quantise_centre(np.array([3.0, 4.0]))


@pytest.fixture(scope="module")
def embeddings():
    found = WordVectors.fit(passages(), 64, words=2_000).embed(passages(40, 8)[:5_000])
    return found[found.any(axis=1)]


@pytest.mark.parametrize(
    ("mean", "cosine", "centred"),
    [
        (0.0, 0.9, True),
        (0.0, 0.95, False),
        (0.3, 0.95, True),
        (0.7, 0.95, True),
        (0.7, 0.98, False),
    ],
)
def test_plan_predicts_what_meets(embeddings, mean, cosine, centred):
    vectors = crowd(embeddings, mean) if mean else np.ascontiguousarray(embeddings)
    copies = plant_copies(vectors[:PLANTED], np.full(PLANTED, cosine))
    every = np.concatenate([vectors, copies])
    counts = counted(every)
    centre = counts.centre(64) if centred else np.zeros(64, np.int16)
    planes = plan_planes(cosine, 0.99, counts, centre)
    predicted = PlanePrediction.of(planes, cosine, counts, centre)
    assert 0.99 <= predicted.recall < 0.992
    by_seed = [planes.keys(sign_words(every, centre, planes.bits, seed)) for seed in range(3)]

    def share_met(left, right):
        return np.mean([(keys[left] == keys[right]).any(axis=1).mean() for keys in by_seed])

    planted = np.arange(PLANTED)
    assert abs(share_met(planted, planted + len(vectors)) - predicted.recall) < 0.01
    products = np.triu(unit(vectors) @ unit(vectors).T, 1)
    near = np.nonzero(np.abs(products - cosine) <= 0.1 * (1 - cosine))
    assert len(near[0]) > 800
    assert abs(share_met(*near) - predicted.recall) < 0.01
    others = np.nonzero((products[:1_000] < cosine) & (products[:1_000] != 0))
    chosen = np.random.default_rng(1).integers(0, len(others[0]), 50_000)
    candidates = predicted.candidates / (len(every) * (len(every) - 1) / 2)
    met = share_met(others[0][chosen], others[1][chosen])
    assert met == pytest.approx(candidates, rel=0.5 if centred else 1.0, abs=1e-3)


def test_centred_planes_take_less_work_where_vectors_crowd(embeddings):
    counts = counted(crowd(embeddings, 0.7))
    seconds = [
        PlanePrediction.of(plan_planes(0.9, 0.99, counts, centre), 0.9, counts, centre).seconds
        for centre in (counts.centre(64), np.zeros(64, np.int16))
    ]
    assert seconds[0] < seconds[1]


def test_higher_recall_takes_more_work(embeddings):
    counts = counted(embeddings)
    centre = counts.centre(64)
    seconds = [
        PlanePrediction.of(plan_planes(0.9, recall, counts, centre), 0.9, counts, centre).seconds
        for recall in (0.9, 0.999)
    ]
    assert seconds == sorted(seconds)


def test_what_would_be_quadratic_is_refused_with_a_cosine_that_is_not():
    counts = counted(np.random.default_rng(3).standard_normal((1_000, 96)).astype(np.float32))
    counts.documents = 200_000_000
    with pytest.raises(ParameterError) as refused:
        plan_planes(0.3, 0.99, counts, counts.centre(96))
    assert "200,000,000 documents would be compared in vain: use" in str(refused.value)
    enough = float(re.search(r"use cosine (0\.\d+) or more, or", str(refused.value))[1])
    assert 0.3 < enough < 0.9
    assert plan_planes(enough, 0.99, counts, counts.centre(96)).bits
    with pytest.raises(ParameterError, match="in vain"):
        plan_planes(enough - 0.01, 0.99, counts, counts.centre(96))


def test_threshold_below_all_cosines_is_refused_and_not_planned_in_thousands_of_bands():
    vectors = np.random.default_rng(5).normal(1, 0.1, (500, 64)).astype(np.float32)
    counts = counted(vectors)
    with pytest.raises(ParameterError, match=r"nearer to each other .* --centre none"):
        plan_planes(0.9, 0.99, counts, counts.centre(64))
    assert plan_planes(0.9, 0.99, counts, np.zeros(64, np.int16)).bands < 100


def test_recall_that_few_planes_don_t_reach_is_refused(embeddings):
    counts = counted(embeddings)
    with pytest.raises(ParameterError, match="3 planes are too few"):
        plan_planes(0.7, 0.999, counts, counts.centre(64), most=3)
    assert plan_planes(0.95, 0.9, counts, counts.centre(64), most=300).bits <= 300


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("cosine", [0.5, 0.95, 1.0])
def test_few_vectors_have_a_plan(count, cosine):
    counts = VectorCounts()
    counts.add(np.eye(2, dtype=np.float32)[:count] + 1, contents_of(count))
    planes = plan_planes(cosine, 0.99, counts, counts.centre(2))
    predicted = PlanePrediction.of(planes, cosine, counts, counts.centre(2))
    assert predicted.recall >= 0.99
    assert predicted.candidates <= 1


@pytest.mark.parametrize("recall", [0.0, 1.0, 99.0])
def test_recall_must_be_a_share(recall):
    with pytest.raises(ParameterError, match="recall must be above 0 and below 1"):
        plan_planes(0.9, recall, VectorCounts(), np.zeros(2, np.int16))


@pytest.mark.parametrize(("bands", "rows"), [(0, 3), (3, 64), (40_000, 2)])
def test_planes_have_bounds(bands, rows):
    with pytest.raises(ParameterError):
        Planes(bands, rows)


def test_bands_are_named_in_words():
    assert [str(Planes(1, 21)), str(Planes(22, 1))] == [
        "1 band of 21 planes",
        "22 bands of 1 plane",
    ]
