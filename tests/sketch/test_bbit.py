"""b-bit signatures: how they are packed, what they estimate, what they refuse."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup import BBitMinHash, MinHash, Spec
from neardup.errors import FormatError, ParameterError, SpecMismatch
from neardup.reference import sketches as reference
from neardup.sketch import base
from neardup.sketch.bbit import pack_slots, unpack_slots
from neardup.sketch.bulk import make_signatures

BITS = st.sampled_from([1, 2, 4, 8, 16])


@given(BITS, st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=40))
def test_packing_equals_its_twin(bits, slots):
    spec = Spec(slots=len(slots), bits=bits)
    got = pack_slots(np.array([slots, slots], np.uint32), bits)
    assert [row.tobytes() for row in got] == [reference.b_bits(slots, spec)] * 2
    back = unpack_slots(got, bits, len(slots))[0].tolist()
    assert back == [slot * 0x9E3779B1 % 2**32 >> (32 - bits) for slot in slots]


@given(BITS, st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_packing_of_wide_slots_equals_its_twin(bits, slots):
    spec = Spec.of(family="affine-m61", slots=len(slots), bits=bits)
    got = pack_slots(np.array([slots], np.uint64), bits)
    assert got.tobytes() == reference.b_bits(slots, spec)


FAMILIES = {
    "affine32": {},
    "affine-m61": {"family": "affine-m61"},
    "oneperm": {"sketch": "oneperm"},
}


@pytest.mark.parametrize("how", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("size", [20, 400])
@pytest.mark.parametrize(("bits", "similarity"), [(1, 0.85), (1, 0.3), (4, 0.85), (16, 0.5)])
def test_standard_errors_are_as_in_theory(how, size, bits, similarity):
    """The standard error of theory, or less for one permutation, within 5 % and chance."""
    trials, slots, chance = 4_000, 128, 2.0**-bits
    common = round(2 * size * similarity / (1 + similarity))
    truth = common / (2 * size - common)
    union = np.random.default_rng([size, bits]).integers(
        0, 2**64, (trials, 2 * size - common), dtype=np.uint64
    )
    offsets = np.arange(trials + 1, dtype=np.int64) * size
    left, right = (
        pack_slots(
            make_signatures(np.ascontiguousarray(half).reshape(-1), offsets, Spec.of(**how)), bits
        )
        for half in (union[:, :size], union[:, size - common :])
    )
    equal = (unpack_slots(left, bits, slots) == unpack_slots(right, bits, slots)).mean(axis=1)
    estimates = (equal - chance) / (1 - chance)
    share = chance + (1 - chance) * truth
    theory = np.sqrt(share * (1 - share) / slots) / (1 - chance)
    assert abs(estimates.mean() - truth) < 5 * theory / np.sqrt(trials)
    assert estimates.std() < theory * (1.05 + 2 / np.sqrt(2 * trials))
    if how.get("sketch") != "oneperm":
        assert estimates.std() > theory * (0.95 - 2 / np.sqrt(2 * trials))


def test_errors_at_jaccard_085_are_the_published_ones():
    """170 of 200 elements shared, 4,000 pairs: the published figures, within 6 %."""
    union = np.random.default_rng(5).integers(0, 2**64, (4_000, 200), np.uint64)
    offsets = np.arange(len(union) + 1, dtype=np.int64) * 185
    left, right = (
        make_signatures(np.ascontiguousarray(half).reshape(-1), offsets, Spec())
        for half in (union[:, :185], union[:, 15:])
    )
    full = (left == right).mean(axis=1)
    one_bit = [unpack_slots(pack_slots(rows, 1), 1, 128) for rows in (left, right)]
    assert full.std() == pytest.approx(0.0316, rel=0.06)
    assert (2 * (one_bit[0] == one_bit[1]).mean(axis=1) - 1).std() == pytest.approx(
        0.0466, rel=0.06
    )


def test_128_slots_of_one_bit_are_16_bytes():
    assert len(MinHash().b_bit(1).packed) == 16


def sketch_of(*found) -> MinHash:
    sketch = MinHash()
    sketch.update_batch(found)
    return sketch


def test_estimates_are_never_below_zero():
    a, b = sketch_of("a").b_bit(1), sketch_of("b").b_bit(1)
    assert a.jaccard(b) == max(reference.b_bit_estimate(a.slots, b.slots, 1), 0.0)
    many = [sketch_of(str(i)).b_bit(1) for i in range(20)]
    assert min(a.jaccard(other) for other in many) == 0.0


def test_bytes_round_trip():
    small = sketch_of("a", "b").b_bit(2)
    assert BBitMinHash.from_bytes(small.to_bytes()) == small == pickle.loads(pickle.dumps(small))
    for at in range(0, len(small.to_bytes()), 7):
        with pytest.raises(FormatError):
            BBitMinHash.from_bytes(small.to_bytes()[:at])
    with pytest.raises(FormatError, match="bits of a slot 32"):
        BBitMinHash.from_bytes(sketch_of("a").to_bytes())
    with pytest.raises(FormatError, match="sketch of a BBitMinHash 'simhash'"):
        BBitMinHash.from_bytes(base.pack_sketch(Spec.of(sketch="simhash"), bytes(8)))
    with pytest.raises(FormatError, match="b_bit"):
        MinHash.from_bytes(small.to_bytes())


def test_updates_and_other_sketches_are_refused():
    small = sketch_of("a").b_bit(1)
    for act in (small.update, small.update_batch, small.update_hashes, small.merge):
        with pytest.raises(ParameterError, match="keep the MinHash"):
            act(["x"])
    with pytest.raises(SpecMismatch, match="bits"):
        small.jaccard(sketch_of("a").b_bit(2))
    with pytest.raises(ParameterError, match="make one with b_bit"):
        small.jaccard(sketch_of("a"))
    for bits in (0, 3, 32, "1", True):
        with pytest.raises(ParameterError, match="1, 2, 4, 8, 16"):
            sketch_of("a").b_bit(bits)
    with pytest.raises(ParameterError, match="16 bytes"):
        BBitMinHash(small.spec, b"x")
