"""What every sketch of a set or bag must do, whichever it is."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import (
    BBitMinHash,
    BottomK,
    HyperLogLog,
    MinHash,
    RemovableMinHash,
    SimHash,
    Spec,
    WeightedMinHash,
    reference,
)
from neardup.errors import FormatError, ParameterError, SpecMismatch
from neardup.keys import Key
from neardup.sketch import base


@dataclass(frozen=True)
class Case:
    """A sketch, how elements get into it, and what makes one that must not meet it."""

    make: Callable[..., Any]
    other_size: dict[str, int]
    batch: Callable[[list[str]], Any] = list
    numbers: tuple[str, ...] = ("count",)
    of_bags: bool = False
    """Whether what comes again counts again."""

    def of(self, elements: list[str], **options: Any) -> Any:
        sketch = self.make(**options)
        sketch.update_batch(self.batch(elements))
        return sketch


def minhash_by(**how: str) -> Callable[..., MinHash]:
    """MinHash with another way to make slots."""

    def make(*, key: bytes | None = None, **given: Any) -> MinHash:
        spec = Spec.of(key=Key(key).id if key else "", **how, **given)
        return MinHash(spec=spec, key=key)

    return make


CASES = {
    "MinHash, 64 bits": Case(
        minhash_by(family="affine-m61"), {"slots": 64}, numbers=("count", "jaccard")
    ),
    "MinHash, one permutation": Case(
        minhash_by(sketch="oneperm"), {"slots": 64}, numbers=("count", "jaccard")
    ),
    "MinHash": Case(MinHash, {"slots": 64}, numbers=("count", "jaccard")),
    "RemovableMinHash": Case(RemovableMinHash, {"slots": 64}, numbers=("count", "jaccard")),
    "BottomK": Case(BottomK, {"k": 64}, numbers=("count", "jaccard", "containment")),
    "BottomK, full": Case(
        lambda **given: BottomK(**{"k": 4, "spare": 2, **given}),
        {"k": 5},
        numbers=("count", "jaccard", "containment"),
    ),
    "HyperLogLog": Case(HyperLogLog, {"registers": 256}),
    "WeightedMinHash": Case(
        WeightedMinHash,
        {"slots": 64},
        batch=lambda found: dict.fromkeys(found, 1.0),
        numbers=("total", "jaccard"),
    ),
    "SimHash": Case(SimHash, {"bits": 128}, numbers=("total", "cosine"), of_bags=True),
}

COMPARING = ("jaccard", "containment", "cosine")
every_sketch = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
elements = st.lists(st.text(max_size=5), max_size=20)


def merged(*sketches):
    whole = sketches[0].copy()
    for other in sketches[1:]:
        whole.merge(other)
    return whole


def said(case, sketch):
    """All numbers that a sketch says of itself."""
    return [
        getattr(sketch, name)(*([sketch] if name in COMPARING else [])) for name in case.numbers
    ]


@every_sketch
@given(elements)
def test_single_updates_equal_a_batch(case, found):
    sketch = case.make()
    for element in found:
        sketch.update(element)
    assert sketch == case.of(found)
    assert sketch.to_bytes() == case.of(found[::-1]).to_bytes()
    assert said(case, sketch) == said(case, case.of(found[::-1]))


@every_sketch
@given(elements, elements, elements)
def test_a_merge_is_the_sketch_of_the_union(case, a, b, c):
    x, y, z = case.of(a), case.of(b), case.of(c)
    assert merged(x, y) == merged(y, x) == case.of(a + b)
    assert merged(merged(x, y), z) == merged(x, merged(y, z))
    assert merged(x, x) == (case.of(a + a) if case.of_bags else x)
    assert merged(x, case.make()) == merged(case.make(), x) == x
    assert said(case, merged(x, y)) == said(case, case.of(a + b))


@every_sketch
def test_a_string_and_its_utf8_are_one_element(case):
    assert case.of(["é", "\ud800"]) == case.of([b"\xc3\xa9", b"\xed\xa0\x80"])


@every_sketch
def test_a_copy_does_not_change_with_the_original(case):
    sketch = case.of(["a"])
    snapshot = sketch.copy()
    sketch.update("b")
    assert snapshot == case.of(["a"]) != sketch
    snapshot.update("c")
    assert sketch == case.of(["a", "b"])


@every_sketch
def test_the_empty_set(case):
    empty = case.make()
    assert empty.is_empty()
    assert not case.of(["x"]).is_empty()
    assert said(case, empty)[0] == 0
    assert case.make().from_bytes(empty.to_bytes()) == empty == case.of([])
    if "jaccard" in case.numbers:
        assert empty.jaccard(case.make()) == 1.0
        assert empty.jaccard(case.of(["x"])) == 0.0


@every_sketch
@given(elements)
def test_bytes_and_pickles_round_trip(case, found):
    sketch = case.of(found, seed=9)
    for twin in (sketch.from_bytes(sketch.to_bytes()), pickle.loads(pickle.dumps(sketch))):
        assert twin == sketch
        assert said(case, twin) == said(case, sketch)
        twin.update("one more")
        assert twin == case.of([*found, "one more"], seed=9)


@every_sketch
def test_truncated_and_altered_bytes_are_refused(case):
    data = case.of(["a", "b"], **case.other_size).to_bytes()
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(FormatError):
            case.make().from_bytes(bytes(changed))
        with pytest.raises(FormatError):
            case.make().from_bytes(data[:at])
    with pytest.raises(FormatError):
        case.make().from_bytes(data + b"x")
    with pytest.raises(FormatError):
        case.make().from_bytes("text")


@every_sketch
def test_the_bytes_of_another_sketch_are_refused(case):
    kinds = {type(other.make()) for other in CASES.values()} - {type(case.make())}
    for kind in kinds:
        with pytest.raises(FormatError):
            kind.from_bytes(case.of(["a"]).to_bytes())


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (HyperLogLog, Spec.of(sketch="hyperloglog", slots=1)),
        (HyperLogLog, Spec.of(sketch="hyperloglog", slots=1_000)),
        (RemovableMinHash, Spec.of(family="affine-m61")),
        (RemovableMinHash, Spec(bits=1)),
        (BottomK, Spec.of(sketch="bottomk", slots=1)),
        (WeightedMinHash, Spec.of(sketch="weighted", slots=1)),
        (MinHash, Spec(bits=1)),
        (MinHash, Spec.of(sketch="weighted")),
        (BBitMinHash, Spec()),
        (BBitMinHash, Spec.of(sketch="simhash")),
    ],
)
def test_an_invalid_specification_is_refused_given_or_read(kind, spec):
    with pytest.raises(ParameterError) as given:
        kind(spec, b"") if kind is BBitMinHash else kind(spec=spec)
    with pytest.raises(FormatError) as read:
        kind.from_bytes(base.pack_sketch(spec, b""))
    assert str(given.value) in str(read.value)


@every_sketch
def test_different_specifications_are_not_compared(case):
    for options in (case.other_size, {"seed": 1}):
        sketch, other = case.make(), case.make(**options)
        acts = [sketch.merge, *(getattr(sketch, name) for name in case.numbers[1:])]
        for act in acts:
            with pytest.raises(SpecMismatch, match=r"(slots|seed) \d+ against \d+: make both with"):
                act(other)
        with pytest.raises(ParameterError):
            sketch.merge("a sketch")


@every_sketch
def test_a_key_changes_the_sketch_and_is_not_stored(case):
    options, found = {"hash": "siphash", "key": bytes(range(16))}, ["a", "b"]
    keyed = case.of(found, **options)
    assert keyed == case.of(found, **options) == merged(keyed, case.make(**options))
    with pytest.raises(SpecMismatch):
        keyed.merge(case.of(found))
    read = keyed.from_bytes(keyed.to_bytes())
    assert said(case, read) == said(case, keyed)
    with pytest.raises(ParameterError, match="key 616a7e8911622fde is missing"):
        read.update("c")
    if hasattr(read, "update_hashes"):
        with pytest.raises(ParameterError, match="key 616a7e8911622fde is missing"):
            read.update_hashes(np.ones(1, np.uint64))
    read = keyed.from_bytes(keyed.to_bytes(), bytes(range(16)))
    read.update("c")
    assert read == case.of([*found, "c"], **options)
    assert bytes(range(16)) not in keyed.to_bytes() + pickle.dumps(keyed)


@every_sketch
def test_invalid_elements_are_refused(case):
    for wrong in (3, None, ["a"]):
        with pytest.raises(ParameterError, match="strings or bytes"):
            case.make().update(wrong)
    with pytest.raises(ParameterError, match="update_batch takes"):
        case.make().update_batch("text")


@every_sketch
def test_updates_and_merges_from_threads_are_not_lost(case):
    sketch = case.make()
    parts = [[f"{t}-{i}" for i in range(100)] for t in range(8)]

    def add(part):
        for element in part[:60]:
            sketch.update(element)
        sketch.merge(case.of(part[60:]))

    threads = [threading.Thread(target=add, args=[part]) for part in parts]
    for thread in threads:
        thread.start()
    for _ in range(20):  # readers see whole states only
        assert sketch.from_bytes(sketch.to_bytes()).spec == sketch.spec
    for thread in threads:
        thread.join()
    assert sketch == case.of([element for part in parts for element in part])


@pytest.mark.parametrize("kind", [MinHash, RemovableMinHash, BottomK, HyperLogLog])
def test_hashes_equal_their_elements(kind):
    sketch, other = kind(), kind()
    sketch.update_hashes(np.array([reference.xxh64(b"x")], np.uint64))
    other.update("x")
    assert sketch == other
    with pytest.raises(ParameterError, match="uint64"):
        sketch.update_hashes(np.array([1.5]))
