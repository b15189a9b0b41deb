"""The MinHash class: what its methods mean, laws of merging, bytes, threads."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, Spec, reference
from neardup.errors import FormatError, SpecMismatch

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


@given(elements)
def test_one_by_one_is_the_same(found):
    sketch = MinHash()
    for element in found:
        sketch.update(element)
    assert sketch == of(found)


@given(elements, elements, elements)
def test_merging_is_the_union(a, b, c):
    def merged(*sketches):
        whole = sketches[0].copy()
        for other in sketches[1:]:
            whole.merge(other)
        return whole

    x, y, z = of(a), of(b), of(c)
    assert merged(x, y) == merged(y, x) == of(a + b)
    assert merged(merged(x, y), z) == merged(x, merged(y, z))
    assert merged(x, x) == x


def test_a_copy_is_independent():
    sketch = of(["a"])
    twin = sketch.copy()
    twin.update("b")
    assert sketch == of(["a"]) != twin


def test_the_empty_set():
    empty = MinHash()
    assert empty.is_empty()
    assert empty.count() == 0
    assert empty.jaccard(MinHash()) == 1.0
    assert (empty.slots == 2**32 - 1).all()
    assert not of(["x"]).is_empty()


@pytest.mark.parametrize("other", [MinHash(64), MinHash(seed=1), MinHash(spec=Spec(size=3))])
def test_different_specifications_never_meet(other):
    for act in (MinHash().merge, MinHash().jaccard):
        with pytest.raises(SpecMismatch, match=r"slots|seed|size"):
            act(other)


@given(elements, st.integers(1, 40))
def test_bytes_round_trip(found, slots):
    sketch = of(found, slots=slots, seed=9)
    assert MinHash.from_bytes(sketch.to_bytes()) == sketch
    assert pickle.loads(pickle.dumps(sketch)) == sketch


def test_altered_bytes_are_noticed():
    data = of(["a", "b"], slots=4).to_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            MinHash.from_bytes(bytes(changed))
        with pytest.raises(FormatError):
            MinHash.from_bytes(data[:at])
    with pytest.raises(FormatError):
        MinHash.from_bytes(data + b"x")


def test_updates_from_threads_are_not_lost():
    sketch = MinHash()
    parts = [[f"{t}-{i}" for i in range(300)] for t in range(8)]
    threads = [
        threading.Thread(target=lambda part=part: [sketch.update(e) for e in part])
        for part in parts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sketch == of([e for part in parts for e in part])


def test_hashes_are_elements_too():
    sketch = MinHash()
    sketch.update_hashes(np.array([reference.xxh64(b"x")], np.uint64))
    assert sketch == of(["x"])


def test_repr_says_what_it_is():
    assert repr(of(["a"])) == "MinHash(slots=128, seed=0, count≈1)"
