"""The MinHash class: what its methods mean, besides the contract of every sketch."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, Spec, reference
from neardup.errors import SpecMismatch

elements = st.lists(st.one_of(st.binary(max_size=20), st.text(max_size=10)), max_size=20)


def of(found, **options) -> MinHash:
    sketch = MinHash(**options)
    sketch.update_batch(found)
    return sketch


@given(elements)
def test_equals_its_twin(found):
    data = {e.encode("utf-8", "surrogatepass") if isinstance(e, str) else e for e in found}
    twin = reference.signature({reference.xxh64(e, 0) for e in data}, Spec())
    assert of(found).slots.tolist() == twin


def test_the_empty_set():
    empty = MinHash()
    assert empty.is_empty()
    assert empty.count() == 0
    assert empty.jaccard(MinHash()) == 1.0
    assert (empty.slots == 2**32 - 1).all()
    assert not of(["x"]).is_empty()


@pytest.mark.parametrize("other", [MinHash(64), MinHash(seed=1), MinHash(spec=Spec(size=3))])
def test_different_specifications_are_not_compared(other):
    for act in (MinHash().merge, MinHash().jaccard):
        with pytest.raises(SpecMismatch, match=r"slots|seed|size"):
            act(other)


@given(elements, st.integers(1, 40))
def test_bytes_round_trip(found, slots):
    sketch = of(found, slots=slots, seed=9)
    assert MinHash.from_bytes(sketch.to_bytes()) == sketch
    assert pickle.loads(pickle.dumps(sketch)) == sketch


def test_hashes_equal_their_elements():
    sketch = MinHash()
    sketch.update_hashes(np.array([reference.xxh64(b"x")], np.uint64))
    assert sketch == of(["x"])


def test_repr_states_parameters_and_estimate():
    assert repr(of(["a"])) == "MinHash(slots=128, seed=0, count≈1)"
