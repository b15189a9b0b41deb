"""MinHashLSH: what its methods mean, probes, bytes, threads."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, MinHashLSH, RemovableMinHash, Spec, WeightedMinHash
from neardup.errors import ParameterError, SpecMismatch
from neardup.lsh.curve import Curve, Curves
from neardup.minhash_lsh import Match

sets = st.sets(st.integers(0, 30), min_size=1, max_size=20)


def of(elements, kind=MinHash, **options):
    sketch = kind(**options)
    sketch.update_batch([f"e{element}" for element in elements])
    return sketch


def probing(**options):
    """What a query with probes is made with."""
    return RemovableMinHash(spare=1, **options)


def meet(a, b, bands, rows):
    """By definition: the slots of one of the bands are all equal."""
    equal = (a.slots == b.slots)[: bands * rows].reshape(bands, rows)
    return equal.all(axis=1).any()


@given(st.lists(sets, min_size=1, max_size=8), sets, st.data())
def test_query_returns_the_sets_that_share_a_band(inserted_sets, query, data):
    index = MinHashLSH(slots=12, params=(4, 3))
    sketches = {f"k{place}": of(found, slots=12) for place, found in enumerate(inserted_sets)}
    for key, sketch in sketches.items():
        index.insert(key, sketch)
    gone = data.draw(st.sets(st.sampled_from(sorted(sketches))))
    for key in gone:
        index.remove(key)
    asked = of(query, slots=12)
    want = [key for key in sketches if key not in gone and meet(asked, sketches[key], 4, 3)]
    want.sort(key=lambda key: -asked.jaccard(sketches[key]))  # stable: ties as inserted
    assert index.query(asked) == want
    assert index.matches(asked) == [Match(key, asked.jaccard(sketches[key])) for key in want]
    least = [key for key in want if asked.jaccard(sketches[key]) >= 0.5]
    assert index.query(asked, min_jaccard=0.5) == least
    assert index.keys() == list(index) == [key for key in sketches if key not in gone]
    assert len(index) == len(sketches) - len(gone)
    assert index.is_empty() == (len(index) == 0)
    assert all((key in index) == (key not in gone) for key in sketches)
    assert [sum(band.values()) for band in index.get_counts()] == [len(index)] * 4


def test_removed_key_can_be_inserted_again():
    index = MinHashLSH(threshold=0.5)
    for _ in range(3):
        index.insert(("any", "hashable"), of(range(9)))
        index.insert(frozenset({1}), of(range(9)))
        assert index.query(of(range(9))) == [("any", "hashable"), frozenset({1})]
        index.remove(("any", "hashable"))
        index.remove(frozenset({1}))
        assert index.query(of(range(9))) == []
    assert index.get_counts() == [{}] * 42


def test_existing_key_is_refused():
    index = MinHashLSH()
    index.insert("a", of([1]))
    with pytest.raises(ValueError, match="'a' is in the index already: remove it first"):
        index.insert("a", of([2]))
    assert index.query(of([1])) == ["a"]
    assert index.query(of([2])) == []
    with pytest.raises(ValueError, match="'b' is not in the index"):
        index.remove("b")


def test_inserted_sketch_is_copied():
    index, sketch = MinHashLSH(), of(range(5))
    index.insert("a", sketch)
    sketch.update("another")
    assert index.matches(of(range(5))) == [Match("a", 1.0)]
    index.remove("a")


@pytest.mark.parametrize("other", [MinHash(64), MinHash(seed=1), MinHash(spec=Spec(size=3))])
def test_sketch_of_another_specification_is_refused(other):
    for act in (lambda: MinHashLSH().insert("a", other), lambda: MinHashLSH().query(other)):
        with pytest.raises(SpecMismatch, match=r"this MinHashLSH .* the sketch"):
            act()


def test_keyed_sketches_match_sketches_of_the_same_key():
    options = {"hash": "siphash", "key": bytes(range(16))}
    index = MinHashLSH(0.5, spec=MinHash(**options).spec)
    index.insert("a", of(range(9), **options))
    assert index.query(of(range(9), probing, **options), probes=9) == ["a"]
    with pytest.raises(SpecMismatch, match="hash"):
        index.query(of(range(9)))


def test_objects_that_are_no_sketches_are_refused():
    with pytest.raises(ParameterError, match="must be a MinHash, not list"):
        MinHashLSH().insert("a", [1, 2])


def test_bands_are_chosen_by_threshold_or_set_by_params():
    assert MinHashLSH(0.8).curve == Curve(21, 6)
    assert MinHashLSH(0.8, recall=0.9).curve.probability(0.8) >= 0.9
    assert MinHashLSH(params=(20, 5)).curve == Curve(20, 5)
    assert MinHashLSH(slots=256, params=(20, 5), tables=2).curve == Curve(40, 5)
    assert MinHashLSH(0.8, 256, tables=2).curve == Curve(42, 6)
    assert MinHashLSH(slots=256, tables="20x5,10x8").curve == Curves((Curve(20, 5), Curve(10, 8)))
    with pytest.raises(ParameterError, match=r"need 180 slots, there are 128: .* --slots 180"):
        MinHashLSH(tables="20x5,10x8")


@pytest.mark.parametrize("params", [(0, 5), ("20", 5), (20, 5.5), (129, 1), (20, 5, 1), 5])
def test_invalid_params_are_refused(params):
    with pytest.raises(ValueError, match=r"bands and rows must be|params are \(bands, rows\)"):
        MinHashLSH(params=params)


def test_merging_adds_all_or_nothing():
    one, two = MinHashLSH(), MinHashLSH()
    one.insert("a", of([1]))
    two.insert("b", of([2]))
    one.merge(two)
    assert one.query(of([2])) == ["b"]
    two.insert("c", of([3]))
    with pytest.raises(ParameterError, match="'b' is in the index already"):
        one.merge(two)
    assert one.keys() == ["a", "b"]
    with pytest.raises(SpecMismatch):
        one.merge(MinHashLSH(slots=64))


def test_pickled_index_answers_the_same():
    index = MinHashLSH(slots=256, tables="20x5,10x8")
    for number in range(9):
        index.insert(number, of(range(number, number + 30), slots=256))
    twin = pickle.loads(pickle.dumps(index))
    assert repr(twin) == repr(index) == "MinHashLSH(9 sets of 256 slots, 20 bands of 5 and 10 of 8)"
    asked = of(range(30), slots=256)
    assert twin.matches(asked) == index.matches(asked) != []
    twin.remove(0)
    assert 0 in index


def test_concurrent_inserts_and_removals_lose_no_set():
    index = MinHashLSH()
    sketches = [of(range(number, number + 20)) for number in range(40)]

    def work(part):
        for number in range(part, 400, 8):
            index.insert(number, sketches[number % 40])
            index.query(sketches[0])
            if number % 3 == 0:
                index.remove(number)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(index.keys()) == [number for number in range(400) if number % 3]
    assert sum(index.get_counts()[0].values()) == len(index)
    same = [key for key, similarity in index.matches(sketches[7]) if similarity == 1.0]
    assert sorted(same) == [number for number in range(7, 400, 40) if number % 3]


def test_probes_need_second_values():
    index = MinHashLSH()
    with pytest.raises(ParameterError, match="make the query with RemovableMinHash"):
        index.query(of([1]), probes=3)
    with pytest.raises(ParameterError, match="probes must be a whole number"):
        index.query(of([1]), probes=-1)


@given(sets, sets)
def test_probes_find_sets_that_differ_in_one_slot(query, other):
    index = MinHashLSH(slots=12, params=(4, 3))
    inserted, asked = of(other, slots=12), of(query, probing, slots=12)
    index.insert("there", inserted)
    theirs, mine, second = inserted.slots, asked.slots, asked.seconds
    want = meet(asked, inserted, 4, 3)
    for slot in range(12):
        probe = mine.copy()
        probe[slot] = second[slot]
        band = slice(slot // 3 * 3, slot // 3 * 3 + 3)
        want |= bool((probe[band] == theirs[band]).all()) and second[slot] != 2**32 - 1
    assert (index.query(asked, probes=12) == ["there"]) == want


def test_probes_raise_recall():
    """Of 400 sets of similarity 0.6, with 8 bands of 6. By theory P = 0.32 without probes and 0.56
    with all 48: for sets of equal size a probe hits with (1 - J) / 2 of a band's chance, 0.2 times
    6 rows of 8 bands. Tolerance: five standard errors."""
    rng = np.random.default_rng(5)
    found = {0: 0, 10: 0, 48: 0}
    for _ in range(400):
        union = rng.integers(0, 2**62, 250)
        index = MinHashLSH(params=(8, 6))
        index.insert("near", of(union[:200].tolist()))
        query = of(union[50:].tolist(), probing)
        for probes in found:
            found[probes] += len(index.query(query, probes=probes))
    error = 5 * np.sqrt(0.25 / 400)
    assert abs(found[0] / 400 - Curve(8, 6).probability(0.6)) < error
    one_band = 0.6**6 * (1 + 6 * 0.2)
    assert abs(found[48] / 400 - (1 - (1 - one_band) ** 8)) < error
    # The likeliest first: a fifth of the lookups finds more than a fifth of what is gained.
    assert found[10] - found[0] > (found[48] - found[0]) * 10 / 48


def test_only_sketches_with_whole_slots_are_supported():
    for how in (
        {"bits": 1},
        {"sketch": "oneperm", "bits": 8},
        {"sketch": "simhash"},
        {"sketch": "bottomk"},
        {"sketch": "hyperloglog"},
    ):
        with pytest.raises(ParameterError, match=r"use Spec\.of"):
            MinHashLSH(spec=Spec.of(**how))
    for how in ({}, {"sketch": "oneperm"}, {"family": "affine-m61"}):
        spec = Spec.of(**how)
        index = MinHashLSH(spec=spec)
        index.insert("a", of([1, 2], spec=spec))
        assert index.query(of([1, 2], spec=spec)) == ["a"]
    weighted = WeightedMinHash()
    weighted.update("a", 2.0)
    index = MinHashLSH(spec=weighted.spec)
    index.insert("a", weighted)
    assert index.query(weighted) == ["a"]


def test_invalid_numbers_and_indexes_are_refused():
    index = MinHashLSH()
    with pytest.raises(ParameterError, match="min_jaccard"):
        index.query(MinHash(), min_jaccard="0.5")
    with pytest.raises(ParameterError, match="MinHashLSH"):
        index.merge({})
