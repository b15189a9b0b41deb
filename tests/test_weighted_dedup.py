"""dedup by weighted MinHash: the answer is the definition's, and templates weigh less."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import corpora

import neardup
from neardup import reference
from neardup.errors import NeardupError
from neardup.reference import weighted as frequencies
from neardup.reference.weighted import weighted_jaccard, weighted_signature
from neardup.spec import Spec

SPEC = Spec.of("word:2", sketch="weighted", slots=16)


def bags_of(texts: list[str], weights: str) -> list[dict[int, int]]:
    """Each document's shingles with their weights, by the twins."""
    hashes = [reference.unit_hashes(reference.units(text, SPEC), SPEC) for text in texts]
    found = [frequencies.bag(mine, SPEC.size) for mine in hashes]
    cells, count = frequencies.cells(found), sum(map(bool, found))

    def weight(x: int) -> int:
        usual = weights == "tf"
        return 2**16 if usual else frequencies.inverse_frequency(count, cells[x >> 42])

    return [{x: n * weight(x) for x, n in Counter(bag).items()} for bag in found]


def by_definition(texts, weights, threshold, verify):
    """None is kept, else the witness and the similarity; an empty text is its own witness."""
    bags = bags_of(texts, weights)
    signatures = [weighted_signature(bag, SPEC.slots, 0) for bag in bags]
    units = [tuple(reference.units(text, SPEC)) for text in texts]
    unique = [v for v, mine in enumerate(units) if mine and mine not in units[:v]]
    buckets = [list(enumerate(reference.band_keys(signatures[v], 8, 2))) for v in unique]

    def judged(u, v):
        if verify == "exact":
            return weighted_jaccard(bags[u], bags[v])
        return reference.estimate(signatures[u], signatures[v])

    similar = {(i, j): judged(u, v) for j, v in enumerate(unique) for i, u in enumerate(unique[:j])}
    decided = reference.keep_list(buckets, similar, threshold, 256)
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
            answer.append(None if first == v else (first, 1.0))
    return answer


@given(
    corpora(15),
    st.sampled_from(["tf", "tf-idf"]),
    st.sampled_from(["exact", "estimate"]),
    st.sampled_from([0.3, 0.5, 0.75, 1.0]),
)
@settings(max_examples=60)
def test_the_answer_is_the_definition_s(texts, weights, verify, threshold):
    result = neardup.dedup(
        texts,
        sketch="weighted",
        weights=weights,
        verify=verify,
        threshold=threshold,
        shingle="word:2",
        slots=16,
        bands=8,
        rows=2,
    )
    want = by_definition(texts, weights, threshold, verify)
    gone = {r.id: (r.witness, r.similarity) for r in result.removed}
    empty = {r.id: (r.id, 0.0) for r in result.rejected}
    assert [(gone | empty).get(row) for row in range(len(texts))] == want


def pages(count: int, template: int, article: int, seed: int = 4) -> list[str]:
    """Pages with one template and an article each; two of the articles are on one more page."""
    draw = random.Random(seed)
    menu = [f"menu{n}" for n in range(template)]
    articles = [[f"word{draw.randrange(10**6)}" for _ in range(article)] for _ in range(count)]
    copies = [[*articles[0][:-2], "edited"], [*articles[7], "more"]]
    return [" ".join(menu + words) for words in articles + copies]


def test_templates_weigh_less():
    """Different articles in one template are duplicates by Jaccard, not by tf-idf."""
    found = pages(100, template=200, article=40)
    asked = {"threshold": 0.6, "shingle": "word:3"}
    assert neardup.similarity(found[0], found[1], shingle="word:3") > 0.6
    assert len(neardup.dedup(found, **asked).kept) < 10
    assert len(neardup.dedup(found, sketch="weighted", **asked).kept) < 10
    weighed = neardup.dedup(found, sketch="weighted", weights="tf-idf", **asked)
    assert [(r.id, r.witness) for r in weighed.removed] == [(100, 0), (101, 7)]
    assert len(weighed.kept) == 100


def test_repeats_count():
    texts = ["one two " * 10, "one two " * 3, "one two " * 9]
    plain = neardup.dedup(texts, shingle="word:1", threshold=0.7)
    assert plain.kept == [0]
    bags = neardup.dedup(texts, shingle="word:1", threshold=0.7, sketch="weighted")
    assert bags.kept == [0, 1]
    assert bags.removed[0].similarity == 18 / 20
    assert "0.9000 similar to 0, which was kept (exact weighted Jaccard of word:1" in str(
        bags.why(2)
    )
    assert "exact weighted Jaccard >= 0.70 of word:1 shingles" in bags.summary()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"sketch": "bottomk"}, "for the library: use --sketch minhash"),
        ({"sketch": "hyperloglog"}, "for the library: use --sketch minhash"),
        ({"sketch": "weighted", "measure": "containment"}, "containment is that of sets"),
        ({"sketch": "weighted", "weights": "bm25"}, "weights 'bm25' is not known"),
        ({"sketch": "minhash", "weights": "tf-idf"}, "does not weigh its shingles"),
        ({"sketch": "weighted", "hamming": 3}, "no Hamming distance"),
    ],
)
def test_what_does_not_go_together_is_refused(asked, why):
    with pytest.raises(NeardupError, match=why):
        neardup.dedup(["a"], **asked)
