"""One trial: what is counted is what the slow way counts."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import corpora

from neardup import reference
from neardup.evaluation.lab import as_documents
from neardup.options import Options
from neardup.planner.trial_runner import TrialReference, TrialRunner
from neardup.planner.tuning import TrialPoint
from neardup.spec import Spec

SMALL = TrialPoint(shingle="word:2", slots=8, bands=4, rows=2, threshold=0.5)

FLOOR = 0.25
"""How far down the truth goes."""


def units_of(text: str, shingle: str) -> tuple[int, ...]:
    spec = Spec.of(shingle)
    return tuple(reference.unit_hashes(reference.units(text, spec), spec))


def sets_of(texts: list[str], shingle: str) -> list[set[int]]:
    size = Spec.of(shingle).size
    return [set(reference.shingles(units_of(text, shingle), size)) for text in texts]


def similar(sets: list[set[int]], threshold: float) -> set[tuple[int, int]]:
    return {
        (a, b)
        for a, b in combinations(range(len(sets)), 2)
        if sets[a] and sets[b] and reference.jaccard(sets[a], sets[b]) >= threshold
    }


def runner_of(texts: list[str], of: TrialPoint) -> TrialRunner:
    true = similar(sets_of(texts, of.shingle), of.threshold)
    documents = as_documents(texts)
    return TrialRunner(
        documents,
        TrialReference.of(documents, of.options().spec, of.threshold, len(true), FLOOR),
        {},
    )


@given(corpora(), st.sampled_from(["word:1", "word:2", "char:4"]), st.sampled_from([0.3, 0.5, 0.9]))
def test_counts_equal_the_reference_implementation(texts, shingle, threshold):
    """Also if the trial has other shingles and another threshold than the reference."""
    trial = replace(SMALL, shingle=shingle, threshold=threshold)
    found = runner_of(texts, SMALL)._once(trial)
    sets, spec = sets_of(texts, shingle), trial.options().spec
    keys = [reference.band_keys(reference.signature(sorted(each), spec), 4, 2) for each in sets]
    meet = {
        (a, b)
        for a, b in similar(sets, 0.0)
        if any(x == y for x, y in zip(keys[a], keys[b], strict=True))
    }
    got = meet & similar(sets, threshold)
    true = similar(sets_of(texts, SMALL.shingle), SMALL.threshold)
    assert (found.pairs, found.true_pairs) == (len(got), len(true))
    assert found.recall == (len(got & true) / len(true) if true else None)
    assert found.precision == (len(got & true) / len(got) if got else None)
    same = [(units_of(text, shingle), units_of(text, SMALL.shingle)) for text in texts]
    different = {frozenset((same[a], same[b])) for a, b in meet if same[a] != same[b]}
    assert found.candidates == len(different)
    known = similar(sets_of(texts, SMALL.shingle), FLOOR)
    nearer = {frozenset((same[a], same[b])) for a, b in meet & known if same[a] != same[b]}
    assert found.far == len(different - nearer)


def test_bucket_sizes_include_buckets_of_one_document():
    texts = ["a b c d", "a b c e", "p q r s", "t u v w", "t u v w"]
    found = runner_of(texts, SMALL).measure(SMALL)
    spec = SMALL.options().spec
    keys = [
        reference.band_keys(reference.signature(sorted(each), spec), 4, 2)
        for each in sets_of(texts[:4], "word:2")  # the last is a copy: it is looked at once
    ]
    sizes = Counter(
        size for band in range(4) for size in Counter(each[band] for each in keys).values()
    )
    assert found.bucket_sizes == sizes
    assert found.buckets == sum(sizes.values())
    assert found.average_bucket == pytest.approx(16 / found.buckets)
    assert found.memory == 5 * (8 * 4 + 4 * 8)
    assert found.t_sig > 0 and found.t_rest > 0


def test_one_bucket_makes_all_pairs_candidates():
    texts = [f"one of so many similar texts with the number {number}" for number in range(30)]
    found = runner_of(texts, SMALL).measure(replace(SMALL, buckets=1))
    assert found.candidates == 30 * 29 // 2
    assert found.bucket_sizes == {30: 4}
    assert found.recall == 1.0


def test_small_vocabulary_makes_dissimilar_documents_similar():
    texts = [" ".join(f"w{n}x{word}" for word in range(12)) for n in range(40)]
    one = replace(SMALL, verify="exact", vocabulary=1)
    found = runner_of(texts, SMALL).measure(one)
    assert found.pairs == 40 * 39 // 2
    assert found.precision == 0.0
    assert found.recall is None


def test_large_vocabulary_allocates_no_table():
    """Sixteen million words: as if there were no limit, and no table of them."""
    texts = [f"{'same words in all of them ' * 5} {number}" for number in range(20)]
    lab, many = runner_of(texts, SMALL), replace(SMALL, vocabulary=1 << 24)
    lab.warm_up(many)
    tracemalloc.start()
    found = lab.measure(many)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.pairs > 0 and found.precision == 1.0
    assert most < 50_000_000


@pytest.mark.parametrize("sketch", ["minhash", "oneperm", "weighted", "simhash"])
@pytest.mark.parametrize("verify", ["exact", "estimate", "none"])
def test_every_sketch_and_verification_runs(sketch, verify):
    texts = [f"{'same words in all of them ' * 5} {number}" for number in range(20)]
    base = TrialPoint.of(Options.of(sketch=sketch, verify=verify, shingle="word:2"))
    lab = runner_of(texts, SMALL)
    lab.warm_up(base)
    found = lab.measure(base)
    assert found.true_pairs == 190
    if verify == "none":
        assert found.pairs == found.candidates
    assert found.candidates >= found.pairs
    assert found.recall is not None and found.recall <= 1.0
