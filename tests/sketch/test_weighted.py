"""Weighted MinHash: what weights mean, and which are refused."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import WeightedMinHash
from neardup.errors import FormatError, ParameterError
from neardup.reference.hashes import xxh64
from neardup.reference.weighted import weighted_signature
from neardup.sketch import base

weights = st.one_of(st.floats(2**-6, 2**31), st.just(0), st.integers(1, 9))
bags = st.dictionaries(st.text(max_size=3), weights, max_size=10)


def of(bag, **options):
    sketch = WeightedMinHash(**options)
    sketch.update_batch(bag)
    return sketch


@given(bags)
def test_slots_equal_their_twin(bag):
    fixed = {xxh64(name.encode(), 3): round(weight * 2**16) for name, weight in bag.items()}
    assert of(bag, slots=16, seed=3).slots.tolist() == weighted_signature(fixed, 16, 3)


@given(bags, bags)
def test_merging_is_the_greater_weight(a, b):
    whole = of(a, slots=16)
    whole.merge(of(b, slots=16))
    greater = {name: max(a.get(name, 0), b.get(name, 0)) for name in {*a, *b}}
    assert whole == of(greater, slots=16)


def test_text_and_its_bytes_are_one_element():
    assert of({"a": 2.0, b"a": 5.0}) == of({"a": 5.0})


def test_counts_are_weights():
    assert of(Counter("abracadabra")) == of({"a": 5, "b": 2, "r": 2, "c": 1, "d": 1})
    assert of({"a": np.float16(2), "b": np.int64(3)}) == of({"a": 2, "b": 3})


def test_a_weight_of_zero_adds_nothing():
    assert of({"a": 0.0}).is_empty()
    assert of({"a": 1, "b": 0}) == of({"a": 1})
    assert of({"a": 1.0}).jaccard(of({"a": 1.0 + 2**-18})) == 1.0, "weights are rounded"


@pytest.mark.parametrize(
    "weight", [-1, -0.001, math.nan, math.inf, -math.inf, "1", None, 1j, np.complex128(1)]
)
def test_invalid_weights_are_refused(weight):
    for act in (lambda s: s.update("a", weight), lambda s: s.update_batch({"a": weight})):
        sketch = WeightedMinHash()
        with pytest.raises(ParameterError, match="not a number that is 0 or more"):
            act(sketch)
        assert sketch.is_empty()


@pytest.mark.parametrize("weight", [1e-6, 2**-17, 2**32, 10**400, 1e300])
def test_weights_beyond_the_scale_are_refused(weight):
    with pytest.raises(ParameterError, match="multiply all weights by the same number"):
        WeightedMinHash().update("a", weight)


def test_invalid_contents_are_refused():
    sketch = of({"a": 1})
    with pytest.raises(FormatError, match="requires 512"):
        WeightedMinHash.from_bytes(base.pack_sketch(sketch.spec, sketch._payload()[:-4]))
    for slots in ([0xFFFFFFFF] * 128, [0x7F800000] + [1] * 127, [0] * 128):
        with pytest.raises(FormatError, match="a rank in every slot, or in none"):
            WeightedMinHash.from_bytes(
                base.pack_sketch(sketch.spec, np.array(slots, "<u4").tobytes())
            )
