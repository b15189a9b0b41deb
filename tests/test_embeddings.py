"""The embeddings that other tests and the benches measure with are what they are said to be."""

from __future__ import annotations

import numpy as np
import pytest
from support.embeddings import (
    WordVectors,
    crowd,
    hashed_vectors,
    mean_cosine,
    passages,
    plant_copies,
    similar_pairs,
    unit,
)

SYNONYMS = [
    "the cat sat on the warm mat near the fire",
    "the kitten sat on the warm mat near the fire",
    "a loan from the bank costs interest every month",
    "a loan from the lender costs interest every month",
]


@pytest.fixture(scope="module")
def word_vectors():
    return WordVectors.fit(passages(), 64, words=2_000).embed(passages())


def test_equal_arguments_give_equal_bits(word_vectors):
    again = WordVectors.fit(passages(), 64, words=2_000).embed(passages())
    assert again.tobytes() == word_vectors.tobytes()
    assert hashed_vectors(SYNONYMS, 16).tobytes() == hashed_vectors(SYNONYMS, 16).tobytes()
    assert hashed_vectors(SYNONYMS, 16).tobytes() != hashed_vectors(SYNONYMS, 16, 2).tobytes()


def test_hashed_vectors_of_texts_without_a_common_word_are_nearly_orthogonal():
    cosines = np.triu(unit_products(hashed_vectors(["a b c d", "e f g h", "i j k l"], 384)), 1)
    assert np.abs(cosines).max() < 0.25
    assert unit_products(hashed_vectors(["a b c d", "d c b a"], 384)).min() > 0.9999


def test_word_vectors_bring_words_with_equal_neighbours_together():
    found = WordVectors.fit(SYNONYMS * 5, 8, words=30)
    rows = found.vectors[[found.places[word] for word in ("cat", "kitten", "bank", "lender")]]
    cosines = unit_products(rows)
    assert cosines[0, 1] > 0.9 < cosines[2, 3]
    assert np.abs(cosines[:2, 2:]).max() < 0.6


def test_text_without_a_known_word_gets_zeros():
    found = WordVectors.fit(SYNONYMS, 8, words=30).embed(["?!", "zzz", "cat"])
    assert found.any(axis=1).tolist() == [False, False, True]
    assert hashed_vectors(["?!"], 8).any(axis=1).tolist() == [False]


@pytest.mark.parametrize("mean", [0.3, 0.5, 0.7])
def test_crowd_plants_the_mean_cosine(word_vectors, mean):
    assert mean_cosine(crowd(word_vectors, mean)) == pytest.approx(mean, abs=0.01)


def test_copies_have_the_planted_cosines(word_vectors):
    wanted = np.linspace(0.5, 1.0, 100)
    copies = plant_copies(word_vectors[:100], wanted)
    cosines = np.sum(unit(copies) * unit(word_vectors[:100]), axis=1)
    assert np.abs(cosines - wanted).max() < 1e-6
    assert np.linalg.norm(copies, axis=1) == pytest.approx(
        np.linalg.norm(word_vectors[:100], axis=1), rel=1e-5
    )


def test_similar_pairs_are_those_of_one_product(word_vectors):
    products = np.triu(unit_products(word_vectors[:300]), 1)
    wanted = {(a, b) for a, b in np.argwhere(products >= 0.9).tolist()}
    assert similar_pairs(word_vectors[:300], 0.9, block=64) == wanted


def unit_products(vectors):
    return unit(vectors) @ unit(vectors).T
