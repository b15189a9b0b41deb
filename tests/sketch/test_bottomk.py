"""Bottom-k: what it says after adding, removing and merging is true, or it says nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import BottomK
from neardup.errors import FormatError, NeardupError, ParameterError, StaleSketch
from neardup.reference.hashes import mix, xxh64
from neardup.sketch import base
from neardup.spec import Spec

names = st.integers(0, 30).map(str)
steps = st.lists(st.tuples(st.sampled_from("+++-"), names), max_size=80)


def value(name: str) -> int:
    """The published rule."""
    return mix(xxh64(name.encode()) ^ xxh64(b"bottom-k"))


def of(found, **options) -> BottomK:
    sketch = BottomK(**options)
    sketch.update_batch(found)
    return sketch


@given(steps, st.integers(2, 6), st.integers(0, 4))
def test_values_below_the_limit_are_exact(path, k, spare):
    sketch, truth = BottomK(k, spare), set()
    for sign, name in path:
        if sign == "+":
            sketch.update(name)
            truth.add(name)
        else:
            there = sketch.remove(name)
            assert there is None or there == (name in truth)
            truth.discard(name)
        values = sorted(map(value, truth))
        held = sketch.values.tolist()
        assert held == values[: len(held)]
        if sketch.complete:
            assert held == values
            assert sketch.count() == len(truth)
        elif len(held) >= k:
            assert sketch.count() == (k - 1) * 2**64 / (values[k - 1] + 1)
        else:
            with pytest.raises(StaleSketch):
                sketch.count()


@given(st.sets(names, min_size=12), st.randoms(use_true_random=False))
def test_spare_values_allow_as_many_removals(found, random):
    sketch = of(found, k=3, spare=4)
    assert sketch.spare_left == 4
    left = sorted(found)
    for _ in range(4):
        gone = left.pop(random.randrange(len(left)))
        before, there = sketch.spare_left, sketch.remove(gone)
        assert sketch.spare_left == before - bool(there)
        assert sketch.jaccard(of(left, k=3, spare=4)) == 1.0
        assert sketch.count() == of(left, k=3, spare=4).count()


@given(st.sets(names), st.sets(names), st.integers(2, 8))
def test_jaccard_is_the_share_of_the_least_values_of_the_union(a, b, k):
    x, y = of(a, k=k, spare=2), of(b, k=k, spare=0)
    least = sorted(map(value, a | b))[:k]
    both = set(map(value, a & b))
    want = sum(v in both for v in least) / len(least) if least else 1.0
    assert x.jaccard(y) == y.jaccard(x) == want


def test_small_sets_are_exact():
    a, b = of([*"abcd"]), of([*"cdef"])
    assert a.jaccard(b) == 2 / 6
    assert a.containment(b) == 2 / 4
    assert BottomK().containment(a) == 1.0
    assert a.containment(BottomK()) == 0.0


def test_a_stale_sketch_raises_with_the_cure():
    names = [str(i) for i in range(100)]
    sketch = of(names, k=8, spare=2)
    for name in sorted(names, key=value)[:3]:
        assert sketch.remove(name) is True
    assert sketch.spare_left == 0
    for act in (sketch.count, lambda: sketch.jaccard(sketch)):
        with pytest.raises(StaleSketch, match=r"7 of 8 values are left.*again, or with more spare"):
            act()
    assert StaleSketch.http_status == 409
    assert sketch.containment(of(names, k=8)) == 1.0, "this needs no k values"
    sketch.update_batch(names)
    assert sketch.count() == of(names, k=8, spare=2).count(), "what comes back is known again"


def test_removing_beyond_the_limit_returns_none():
    names = sorted((str(i) for i in range(100)), key=value)
    sketch = of(names, k=8, spare=0)
    assert sketch.remove(names[-1]) is None
    assert sketch == of(names, k=8, spare=0)
    with pytest.raises(StaleSketch, match="greater k"):
        of(names[50:51], k=8).containment(sketch)


def test_a_merged_sketch_has_the_lesser_spare():
    names = [str(i) for i in range(100)]
    for a, b in ((2, 5), (5, 2)):
        sketch = of(names, k=8, spare=a)
        sketch.merge(of(names, k=8, spare=b))
        assert sketch == of(names, k=8, spare=2)


def test_parameters_out_of_range_are_refused():
    for options in ({"k": 1}, {"k": 0}, {"k": 2**17}, {"spare": -1}, {"spare": 1.5}):
        with pytest.raises(ParameterError):
            BottomK(**options)
    with pytest.raises(ParameterError, match="bottomk"):
        BottomK(spec=Spec())


def test_invalid_contents_are_refused():
    sketch = of([*"abc"], k=2, spare=0)
    payload = sketch._payload()
    for wrong in (payload[:-3], payload[:12] + payload[20:] + payload[12:20], payload + bytes(8)):
        with pytest.raises(FormatError, match="BottomK"):
            BottomK.from_bytes(base.pack_sketch(sketch.spec, wrong))
    assert issubclass(StaleSketch, NeardupError)
