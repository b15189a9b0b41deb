"""MinHash with removals: its slots are those of what is left, or are said to be unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import MinHash, RemovableMinHash
from neardup.errors import FormatError, ParameterError, StaleSketch
from neardup.sketch import base

names = st.integers(0, 30).map(str)
steps = st.lists(st.tuples(st.sampled_from("+++-"), names), max_size=60)


def of(found, kind=RemovableMinHash, **options):
    sketch = kind(**options)
    sketch.update_batch(found)
    return sketch


@given(steps, st.integers(0, 4))
def test_slots_after_removals_are_right_or_stale(path, spare):
    sketch, truth = RemovableMinHash(16, spare), set()
    for sign, name in path:
        if sign == "+":
            sketch.update(name)
            truth.add(name)
        else:
            before = sketch.spare_left
            there = sketch.remove(name)
            assert there is None or there == (name in truth)
            truth.discard(name)
            assert sketch.spare_left >= before - 1
            assert before == 0 or sketch.stale_slots == 0, "fewer removals were certain"
        if sketch.stale_slots:
            assert sketch.spare_left == 0
            with pytest.raises(StaleSketch, match=f"{sketch.stale_slots} of 16 slots"):
                sketch.jaccard(sketch)
        else:
            assert sketch.minhash() == of(truth, MinHash, slots=16)


@given(steps, steps)
def test_merges_after_removals_are_right_or_stale(mine, theirs):
    sketches, union = [], set()
    for path in (mine, theirs):
        sketch, truth = RemovableMinHash(16, 2), set()
        for sign, name in path:
            sketch.update(name) if sign == "+" else sketch.remove(name)
            truth = truth | {name} if sign == "+" else truth - {name}
        sketches.append(sketch)
        union |= truth
    a, b = sketches
    a.merge(b)
    if not a.stale_slots:
        assert a.minhash() == of(union, MinHash, slots=16)


@given(st.sets(names, min_size=1), st.integers(0, 5))
def test_spare_values_allow_as_many_removals(found, spare):
    sketch = of(found, slots=32, spare=spare)
    assert sketch.spare_left == min(spare + (len(found) == spare + 1), len(found))
    for name in sorted(found)[:spare]:
        assert sketch.remove(name)
        found = found - {name}
    assert sketch.minhash() == of(found, MinHash, slots=32)


def test_usual_removals_exceed_the_guaranteed_number():
    names = [str(i) for i in range(1_000)]
    sketch = of(names, spare=8)
    gone = 0
    while not sketch.stale_slots:
        sketch.remove(names[gone])
        gone += 1
    assert gone > 200
    assert sketch.spare_left == 0
    sketch.merge(of(names[gone:], spare=8))
    with pytest.raises(StaleSketch, match="sketch the set again, or with more spare values"):
        sketch.count()


def test_jaccard_equals_that_of_minhash():
    a, b = [str(i) for i in range(100)], [str(i) for i in range(50, 150)]
    want = of(a, MinHash).jaccard(of(b, MinHash))
    assert of(a).jaccard(of(b)) == want
    assert of(a).count() == of(a, MinHash).count()


def test_a_merged_sketch_has_the_lesser_spare():
    names = [str(i) for i in range(100)]
    for a, b in ((2, 5), (5, 2)):
        sketch = of(names, spare=a)
        sketch.merge(of(names, spare=b))
        assert sketch == of(names, spare=2)


def test_parameters_out_of_range_are_refused():
    for options in ({"spare": -1}, {"spare": 1_024}, {"slots": 0}):
        with pytest.raises(ParameterError):
            RemovableMinHash(**options)


def test_invalid_contents_are_refused():
    sketch = of([*"abc"], slots=2, spare=1)
    payload = sketch._payload()
    swapped = payload[:20] + payload[28:36] + payload[20:28] + payload[36:]
    for wrong in (payload[:-8], b"\x09" + payload[1:], swapped):
        with pytest.raises(FormatError, match="RemovableMinHash"):
            RemovableMinHash.from_bytes(base.pack_sketch(sketch.spec, wrong))
