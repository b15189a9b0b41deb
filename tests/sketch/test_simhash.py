"""The SimHash class: what its methods mean, weights, the seeds' example, how good the angle is."""

from __future__ import annotations

import math
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import SimHash
from neardup.errors import FormatError, ParameterError
from neardup.reference import weighted as twin
from neardup.reference import xxh64
from neardup.sketch import base
from neardup.sketch.simhash import simhash_signatures
from neardup.spec import Spec

weighted = st.lists(
    st.tuples(st.text(max_size=5), st.one_of(st.integers(-100, 100), st.floats(-1000, 1000))),
    max_size=20,
)


def of(terms, **options) -> SimHash:
    sketch = SimHash(**options)
    sketch.update_batch([element for element, _ in terms], [weight for _, weight in terms])
    return sketch


def merged(*sketches):
    whole = sketches[0].copy()
    for other in sketches[1:]:
        whole.merge(other)
    return whole


@given(weighted, st.sampled_from([64, 128]))
def test_equals_its_twin(terms, bits):
    found = [
        (twin.words(xxh64(element.encode("utf-8", "surrogatepass")), bits), round(weight * 2**16))
        for element, weight in terms
    ]
    sketch = of(terms, bits=bits)
    assert sketch.sums.tolist() == twin.sums(found, bits)
    assert sketch.fingerprint == twin.sign(sketch.sums.tolist())
    assert sketch.total() == sum(abs(weight) for _, weight in found) / 2**16


@given(st.lists(st.integers(0, 2**64 - 1), max_size=30), st.sampled_from([64, 128]))
def test_bulk_signatures_equal_single_sketches(hashes, bits):
    sketch = SimHash(bits)
    sketch.update_hashes(np.array(hashes, np.uint64))
    rows = simhash_signatures(
        np.array(hashes, np.uint64), np.array([0, len(hashes)]), sketch.spec, None
    )
    assert rows[0].tolist() == sketch.words.tolist()


@given(weighted, weighted, weighted)
def test_a_merge_adds_the_bags(a, b, c):
    x, y, z = of(a), of(b), of(c)
    assert merged(x, y) == merged(y, x) == of(a + b)
    assert merged(merged(x, y), z) == merged(x, merged(y, z))
    assert merged(x, SimHash()) == x


def test_repeated_elements_count_again():
    once, twice = of([("a", 1)]), of([("a", 1), ("a", 1)])
    assert merged(once, once) == twice == of([("a", 2)])
    assert twice != once
    assert twice.fingerprint == once.fingerprint


def test_published_example_has_distance_two():
    """cat 3, sat 2, mat 2 against cat 3, sat 2, rat 2, with given hashes of four bits."""
    cat, sat, mat, rat = 0b1010, 0b1100, 0b0110, 0b1001
    a = twin.sums([(cat, 3), (sat, 2), (mat, 2)], 4)
    b = twin.sums([(cat, 3), (sat, 2), (rat, 2)], 4)
    assert (a[::-1], b[::-1]) == ([3, 1, 3, -7], [7, -3, -1, -3])
    assert (twin.sign(a), twin.sign(b)) == (0b1110, 0b1000)
    assert twin.hamming(twin.sign(a), twin.sign(b)) == 2
    # The angle says cos(pi / 2) = 0, the truth is 13/17: four bits say little. Of three terms more
    # bits say pi / 4, since 3 a + 2 b + 2 c and 3 a + 2 b + 2 d differ in sign for 4 of 16 signs.
    terms = [("cat", 3), ("sat", 2)]
    found = [
        of([*terms, ("mat", 2)], bits=128, seed=seed).angle(
            of([*terms, ("rat", 2)], bits=128, seed=seed)
        )
        for seed in range(50)
    ]
    assert abs(np.mean(found) - math.pi / 4) < 0.07  # 4 standard errors


@pytest.mark.parametrize("bits", [64, 128])
@pytest.mark.parametrize("common", [0.5, 0.8, 0.95])
def test_angle_is_unbiased_with_binomial_variance(bits, common):
    """d ~ Binomial(f, angle / pi): mean within 4 standard errors, variance within 15 %."""
    rng, pairs, size = np.random.default_rng(5), 4_000, 400
    shared = round(common * size)
    rows = rng.integers(0, 2**64, (pairs, 2 * size - shared), dtype=np.uint64)
    both = np.concatenate([rows[:, :size], rows[:, size - shared :]], axis=1)
    offsets = np.arange(2 * pairs + 1) * size
    words = simhash_signatures(both.ravel(), offsets, SimHash(bits).spec, None)
    apart = np.bitwise_count(words[0::2] ^ words[1::2]).sum(axis=1)
    share = math.acos(shared / size) / math.pi
    error = math.sqrt(bits * share * (1 - share) / pairs)
    assert abs(apart.mean() - bits * share) < 4 * error
    assert abs(apart.var() / (bits * share * (1 - share)) - 1) < 0.15


def test_hamming_angle_and_cosine_are_symmetric():
    a, b = of([("x", 1)]), of([("y", 1)])
    apart = (xxh64(b"x") ^ xxh64(b"y")).bit_count()
    assert a.hamming(b) == b.hamming(a) == apart
    assert a.angle(b) == math.pi * apart / 64
    assert a.cosine(b) == math.cos(a.angle(b))
    assert (a.hamming(a), a.cosine(a)) == (0, 1.0)


def test_the_empty_bag():
    empty = SimHash()
    assert (empty.fingerprint, empty.total(), empty.is_empty()) == (0, 0.0, True)
    empty.update("a", 0)
    assert empty == SimHash()
    empty.update_batch([])
    assert empty.is_empty()
    assert not of([("a", 0.5)]).is_empty()
    assert not of([("a", 1), ("a", -1)]).is_empty()


@given(weighted, st.sampled_from([64, 128]))
def test_opposite_weights_have_opposite_sums(terms, bits):
    sketch = of(terms, bits=bits)
    opposite = of([(element, -weight) for element, weight in terms], bits=bits)
    assert opposite.sums.tolist() == (-sketch.sums).tolist()
    assert opposite.total() == sketch.total()
    assert SimHash.from_bytes(opposite.to_bytes()) == opposite


@pytest.mark.parametrize("dimension", [32, 384])
@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.8, 0.95])
def test_angles_of_vectors_are_estimated(dimension, cosine):
    """The share of bits that differ is t / pi: within 4 standard errors of 800 pairs of 128 bits.

    The signs of few dimensions are not quite normal; with 32 of them the share is off by a little.
    """
    rng, pairs = np.random.default_rng(7), 800
    a, b = rng.normal(size=(2, pairs, dimension))
    a /= np.linalg.norm(a, axis=1)[:, None]
    b -= (a * b).sum(axis=1)[:, None] * a
    b /= np.linalg.norm(b, axis=1)[:, None]
    b = cosine * a + math.sqrt(1 - cosine**2) * b
    apart = [
        SimHash.of_vector(x, 128, seed).hamming(SimHash.of_vector(7 * y, 128, seed))
        for seed, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    share = math.acos(cosine) / math.pi
    error = math.sqrt(share * (1 - share) / (128 * pairs))
    assert abs(np.mean(apart) / 128 - share) < 4 * error + 0.05 / dimension


def test_a_vector_is_a_bag_of_its_places():
    vector = np.array([3, -1, 0, 6], np.float32)
    bag = SimHash(128, 9)
    bag.update_batch({"0": 2**14, "1": -(2**15) / 6, "3": 2**15})
    assert SimHash.of_vector(vector, 128, 9) == bag
    assert SimHash.of_vector(vector.tolist(), spec=bag.spec) == bag


@pytest.mark.parametrize(
    "vector",
    [[], [0.0, 0], [1, math.nan], [math.inf], [[1.0]], [[1], [1, 2]], ["1"], None, 3.0, [1, None]],
)
def test_what_is_no_vector(vector):
    with pytest.raises(ParameterError, match="vector"):
        SimHash.of_vector(vector)


@pytest.mark.parametrize(
    "weight", [-(2**31) - 1, math.nan, math.inf, -math.inf, 2**31 + 1, "1", None]
)
def test_invalid_weights_change_nothing(weight):
    sketch = of([("a", 1)])
    for act in (
        lambda: sketch.update("b", weight),
        lambda: sketch.update_batch(["b", "c"], [1, weight]),
    ):
        with pytest.raises(ParameterError, match="weights must be"):
            act()
    assert sketch == of([("a", 1)])


def test_each_element_has_a_weight():
    with pytest.raises(ParameterError, match="2 elements have 1 weights"):
        SimHash().update_batch(["a", "b"], [1])
    for wrong in (5.0, np.array(5.0), [[1], [2]], [[1], [2, 3]]):
        with pytest.raises(ParameterError, match="numbers in a list"):
            SimHash().update_batch(["a", "b"], wrong)


def test_small_floats_are_weights():
    assert of([("a", np.float16(2.5))]) == of([("a", 2.5)])


def test_weights_that_would_overflow():
    sketch = SimHash()
    hashes = np.zeros(1 << 15, np.uint64)
    sketch.update_hashes(hashes, np.full(len(hashes), 2.0**31))
    before = sketch.copy()
    for act in (lambda: sketch.update("a"), lambda: sketch.merge(before)):
        with pytest.raises(ParameterError, match="the weights add up to more than"):
            act()
    with pytest.raises(ParameterError, match="the weights add up to more than"):
        SimHash().update_hashes(np.zeros(1 << 18, np.uint64), np.full(1 << 18, 2.0**31))
    assert sketch == before


def test_other_bits_and_other_sketches_are_refused():
    for bits in (32, 0, 65, "64"):
        with pytest.raises(ParameterError):
            SimHash(bits)
    with pytest.raises(ParameterError, match="use Spec"):
        SimHash(spec=Spec())
    with pytest.raises(ParameterError, match="must be a SimHash"):
        SimHash().hamming(3)


def test_bytes_hold_the_sums():
    sketch = of([("a", 2.5), ("b", 1)], bits=128, seed=3)
    assert SimHash.from_bytes(sketch.to_bytes()) == sketch == pickle.loads(pickle.dumps(sketch))
    assert SimHash.from_bytes(sketch.to_bytes()).sums.tolist() == sketch.sums.tolist()


@pytest.mark.parametrize(
    ("total", "sums"),
    [(-5, 2**62), (-5, -5), (2, 4), (2, -4), (2, 1), (0, 2), (2, -(2**63)), (2**62 + 2, 0)],
)
def test_invalid_contents_are_refused(total, sums):
    with pytest.raises(FormatError, match="match its total weight"):
        SimHash.from_bytes(
            base.pack_sketch(SimHash().spec, np.array([total] + 64 * [sums]).tobytes())
        )


def test_repr_states_parameters_and_estimate():
    assert repr(SimHash()) == "SimHash(bits=64, seed=0, fingerprint=0000000000000000)"


def test_a_counter_has_elements_and_weights():
    counted, listed = SimHash(), SimHash()
    counted.update_batch(Counter({"cat": 100, "dog": 1}))
    listed.update_batch(["cat", "dog"], [100, 1])
    assert counted == listed and counted.total() == 101
    with pytest.raises(ParameterError, match="mapping has the weights"):
        counted.update_batch({"cat": 1}, [1])
