"""The index gives the answer of a batch run over the same documents, in insertion order."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neardup

WORDS = [f"word{n}" for n in range(16)]


@st.composite
def corpora(draw: st.DrawFn) -> list[str]:
    """Texts that differ in a few words from earlier ones, so that there are chains."""
    chance = random.Random(draw(st.integers(0, 2**32)))
    texts = [" ".join(chance.choices(WORDS, k=30))]
    for _ in range(draw(st.integers(0, 40))):
        words = chance.choice(texts).split()
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3, 8])):
            words[chance.randrange(len(words))] = chance.choice(WORDS)
        texts.append(" ".join(words))
    return texts


def cuts(size: int, chance: random.Random) -> list[slice]:
    places = sorted({0, size, *(chance.randrange(size + 1) for _ in range(3))})
    return [slice(a, b) for a, b in pairwise(places)]


@pytest.mark.parametrize(
    "options",
    [
        {"threshold": 0.5, "shingle": "word:2", "bands": 32, "rows": 4},
        {"threshold": 0.5, "shingle": "word:2", "bands": 64, "rows": 2, "limit": 2},
        {"threshold": 0.5, "shingle": "word:2", "bands": 16, "rows": 2, "verify": "estimate"},
        {"threshold": 0.6, "shingle": "word:1", "measure": "containment", "bands": 64, "rows": 2},
        {"shingle": "word:2", "sketch": "simhash", "hamming": 6},
        {"threshold": 0.5, "shingle": "word:2", "sketch": "weighted"},
        {"threshold": 0.5, "shingle": "word:2", "bits": 8},
        {"threshold": 0.5, "shingle": "word:2", "bits": 8, "verify": "estimate"},
    ],
)
@given(corpora(), st.randoms(use_true_random=False))
@settings(max_examples=15)
def test_same_answer(options, tmp_path_factory, texts, chance):
    expected = neardup.dedup(texts, **options)
    removed = {one.id: (one.witness, one.similarity, one.exact) for one in expected.removed}
    said = {}
    with neardup.Index.open(tmp_path_factory.mktemp("index"), **options) as index:
        for some in cuts(len(texts), chance):
            ids = [str(at) for at in range(len(texts))[some]]
            for answer in index.add_batch(ids, texts[some]):
                if answer.status == "duplicate":
                    said[int(answer.id)] = (
                        int(answer.duplicate_of),
                        answer.similarity,
                        answer.exact,
                    )
        assert index.verify() == []
        for at, text in enumerate(texts):
            asked = index.query(text)
            witness = removed[at][0] if at in removed else at
            assert asked.status == "duplicate"
            assert int(asked.duplicate_of) == witness
    assert said == removed
