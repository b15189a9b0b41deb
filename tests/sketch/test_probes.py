"""ProbeMinHash: a MinHash that knows second values."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, ProbeMinHash, Spec, reference
from neardup.errors import FormatError, ParameterError, SpecMismatch
from neardup.reference import probes as slow

elements = st.lists(st.binary(max_size=20), max_size=20)


def of(found, kind=ProbeMinHash, **options):
    sketch = kind(**options)
    sketch.update_batch(found)
    return sketch


@given(elements)
def test_equals_its_twin(found):
    sketch, hashes = of(found), {reference.xxh64(e, 0) for e in found}
    assert sketch.seconds.tolist() == slow.seconds(hashes, Spec())
    assert sketch.slots.tolist() == reference.signature(hashes, Spec())
    assert sketch == of(found, MinHash)
    assert sketch.jaccard(of(found, MinHash)) == 1.0


@given(elements, elements)
def test_merging_is_the_union(a, b):
    both, other_way = of(a), of(b)
    both.merge(of(b))
    other_way.merge(of(a))
    assert both == other_way == of(a + b)
    again = both.copy()
    again.merge(both)
    assert again == both
    plain = of(a, MinHash)
    plain.merge(of(b))
    assert plain == of(a + b, MinHash)


def test_many_elements_at_once():
    found = [f"e{number}".encode() for number in range(9_000)]
    assert of(found).seconds.tolist() == slow.seconds(
        {reference.xxh64(e, 0) for e in found}, Spec()
    )


def test_what_has_no_second_values_is_not_merged():
    with pytest.raises(ParameterError, match="merge a ProbeMinHash, or merge this one into"):
        of([b"a"]).merge(of([b"b"], MinHash))
    with pytest.raises(SpecMismatch):
        of([b"a"]).merge(of([b"a"], slots=4))


@given(elements, st.integers(1, 40))
def test_bytes_round_trip(found, slots):
    sketch = of(found, slots=slots, seed=9)
    for twin in (ProbeMinHash.from_bytes(sketch.to_bytes()), pickle.loads(pickle.dumps(sketch))):
        assert twin == sketch
        assert twin.seconds.tolist() == sketch.seconds.tolist()
        twin.update("more")
    with pytest.raises(FormatError):
        MinHash.from_bytes(sketch.to_bytes())
    with pytest.raises(FormatError):
        ProbeMinHash.from_bytes(of(found, MinHash, slots=slots).to_bytes())


def test_a_copy_is_independent():
    sketch = of([b"a"])
    twin = sketch.copy()
    twin.update("b")
    assert sketch == of([b"a"])
    assert twin != sketch
    assert repr(sketch) == "ProbeMinHash(slots=128, seed=0, count≈1)"
