"""dedup by SimHash: the answer is the definition's, and is told in its own words."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import corpora

import neardup
from neardup import reference
from neardup.errors import NeardupError
from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.reference import weighted as twin
from neardup.sketch.simhash import simhash_signatures as made
from neardup.spec import Spec

SPEC = Spec.of("word:2", sketch="simhash")


def fingerprints(texts: list[str], bits: int, weights: str) -> list[int | None]:
    """By the twins; None for a text with nothing in it."""
    hashes = [reference.unit_hashes(reference.units(text, SPEC), SPEC) for text in texts]
    bags = [twin.bag(found, SPEC.size) for found in hashes]
    cells, count = twin.cells(bags), sum(map(bool, bags))

    def weight(element: int) -> int:
        return twin.inverse_frequency(count, cells[element >> 42]) if weights == "tf-idf" else 1

    return [
        twin.sign(twin.sums([(twin.words(x, bits), weight(x)) for x in bag], bits)) if bag else None
        for bag in bags
    ]


def by_definition(texts, bits, distance, weights, limit):
    """None is kept, else the witness and the similarity; an empty text is its own witness."""
    found = fingerprints(texts, bits, weights)
    units = [tuple(reference.units(text, SPEC)) for text in texts]
    unique = [v for v, mine in enumerate(units) if mine and mine not in units[:v]]
    blocks = Blocks.usual(bits, distance).blocks
    buckets = [list(enumerate(twin.block_keys(found[v], bits, distance, blocks))) for v in unique]
    similar = {
        (i, j): 1 - twin.hamming(found[u], found[v]) / bits
        for j, v in enumerate(unique)
        for i, u in enumerate(unique[:j])
    }
    decided = reference.keep_list(buckets, similar, 1 - distance / bits, limit)
    standing = dict(zip(unique, decided, strict=True))
    answer: list[tuple[int, float] | None] = []
    for v, mine in enumerate(units):
        first = units.index(mine)
        verdict = standing.get(first)
        if not mine:
            answer.append((v, 0.0))
        elif verdict is not None:
            answer.append((unique[verdict[0]], verdict[1]))
        else:
            answer.append(None if v == first else (first, 1.0))
    return answer


@settings(max_examples=60, deadline=None)
@given(
    corpora(most=12),
    st.sampled_from([(64, 3), (64, 12), (128, 8)]),
    st.sampled_from(["tf", "tf-idf"]),
    st.integers(1, 3),
)
def test_the_answer_is_the_definition(texts, scheme, weights, limit):
    bits, distance = scheme
    result = neardup.dedup(
        list(texts),
        sketch="simhash",
        slots=bits,
        hamming=distance,
        shingle="word:2",
        weights=weights,
        limit=limit,
    )
    got = [None] * len(texts)
    for removed in result.removed:
        got[removed.id] = (removed.witness, removed.similarity)
    for rejected in result.rejected:
        got[rejected.row] = (rejected.row, 0.0)
    assert got == by_definition(list(texts), bits, distance, weights, limit)


def edited(*places: int) -> str:
    return " ".join(f"x{n}" if n in places else f"w{n}" for n in range(300))


TEXTS = [edited(), edited(20), edited(*range(150)), edited().upper()]


def test_it_is_told_in_its_own_words():
    result = neardup.dedup(TEXTS, sketch="simhash", hamming=8)
    assert result.kept == [0, 2]
    assert result.summary().splitlines()[1] == (
        "Hamming distance <= 8 of 64-bit SimHash of word:5 shingles, 45 tables of 10 blocks: "
        "all pairs within it meet"
    )
    near, same = result.removed
    assert near.similarity == 1 - round((1 - near.similarity) * 64) / 64 < 1
    assert not near.exact
    assert str(result.why(1)).endswith(
        "similar to 0, which was kept (64-bit SimHash of word:5 shingles, at most 8 bits differ)"
    )
    assert (same.similarity, same.exact) == (1.0, True)


def test_candidates_can_be_verified_exactly():
    result = neardup.dedup(TEXTS, sketch="simhash", hamming=8, verify="exact", threshold=0.9)
    assert [(r.id, r.exact) for r in result.removed] == [(1, True), (3, True)]
    assert result.removed[0].similarity == 291 / 301
    assert (
        "exact Jaccard >= 0.90 of word:5 shingles, 45 tables of 10 blocks: predicted recall at the "
        "threshold for documents of equal size" in result.summary()
    )
    none = neardup.dedup(TEXTS, sketch="simhash", hamming=8, verify="exact", threshold=0.99)
    assert [r.id for r in none.removed] == [3]


def test_weights_change_the_fingerprints_and_the_specification():
    plain, weighted = (
        neardup.dedup(TEXTS, sketch="simhash", weights=weights).options.spec
        for weights in ("tf", "tf-idf")
    )
    assert plain.weights == ""
    assert weighted.weights.startswith("tf-idf:")
    assert plain.fingerprint != weighted.fingerprint
    assert Spec.from_json(weighted.canonical) == weighted


@pytest.mark.parametrize("weights", ["tf", "tf-idf"])
def test_a_key_changes_all_fingerprints(weights):
    made = [
        neardup.dedup(TEXTS, sketch="simhash", verify="none", weights=weights, **keyed)
        for keyed in (
            {},
            {"hash": "siphash", "key": bytes(16)},
            {"hash": "siphash", "key": b"k" * 16},
        )
    ]
    assert all(3 not in result.kept for result in made)
    assert len({result.options.spec.fingerprint for result in made}) == 3
    sketches = [neardup.SimHash(), neardup.SimHash(hash="siphash", key=bytes(16))]
    for sketch in sketches:
        sketch.update("a")
    assert sketches[0].fingerprint != sketches[1].fingerprint
    assert neardup.SimHash.from_bytes(sketches[1].to_bytes()).hamming(sketches[1]) == 0


def test_a_stream_can_not_be_read_twice():
    with pytest.raises(NeardupError, match="can be read only once"):
        neardup.dedup(iter(TEXTS), sketch="simhash", weights="tf-idf")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"sketch": "simhash", "threshold": 0.9}, "use --hamming instead of --threshold"),
        ({"sketch": "simhash", "hamming": 64}, "from 0 to 63"),
        ({"sketch": "simhash", "hamming": 3, "blocks": 3}, "from 4 to 64"),
        ({"sketch": "simhash", "blocks": 0}, "from 4 to 64"),
        ({"sketch": "simhash", "slots": 32}, "number of bits"),
        ({"sketch": "simhash", "bands": 4, "rows": 4}, "neither bands"),
        ({"sketch": "simhash", "measure": "containment", "verify": "exact"}, "neither bands"),
        ({"sketch": "simhash", "weights": "bm25"}, "weights 'bm25' is not known"),
        ({"hamming": 3}, "a minhash has no Hamming distance"),
        ({"blocks": 6}, "a minhash has no Hamming distance"),
        ({"weights": "tf-idf"}, "a minhash does not weigh its shingles"),
    ],
)
def test_what_does_not_fit_together(asked, message):
    with pytest.raises(NeardupError, match=message):
        neardup.dedup(["a"], **asked)


def test_the_chance_to_meet_is_that_of_trials():
    """d random bits of 64 lie in at most 3 of 6 blocks; the share in 20,000 trials, +- 0.015."""
    rng, blocks = random.Random(4), Blocks(64, 3, 6)
    for differing in (3, 4, 6, 9):
        met = 0
        for _ in range(20_000):
            flipped = sum(1 << bit for bit in rng.sample(range(64), differing))
            met += any(not flipped & mask for mask in blocks.whole_masks)
        assert abs(met / 20_000 - blocks.probability(1 - differing / 64)) < 0.015


def test_the_chance_to_meet_by_jaccard():
    """Pairs of sets of 300 that share 95 %: their share that meets, of 3,000, +- 0.03."""
    rng, blocks, pairs = np.random.default_rng(8), Blocks(64, 3, 6), 3_000
    rows = rng.integers(0, 2**64, (pairs, 308), dtype=np.uint64)
    both = np.concatenate([rows[:, :300], rows[:, 8:]], axis=1)
    found = made(both.ravel(), np.arange(2 * pairs + 1) * 300, SPEC, None)
    keys = blocks.keys(found)
    met = (keys[0::2] == keys[1::2]).any(axis=1).mean()
    assert abs(met - ByJaccard(blocks).probability(292 / 308)) < 0.03
