"""Somebody who knows the hash writes a copy that is not found; with a key it is.

The attacker has a page and everything that is public: the specification, the bands, this program.
One place at a time, they try other words there and keep the edit after which the copy shares the
fewest bands with the page, until it shares none.
"""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import neardup
from neardup.corpus.documents import Documents
from neardup.lsh.curve import Curve
from neardup.options import Options
from neardup.sketcher import Sketcher

PUBLIC = Options.of()
FEW = Curve(bands=4, rows=13)
WORDS = [f"word{number}" for number in range(3_000)]
KEYS = 300


def band_keys(texts: list[str]) -> np.ndarray:
    column = pa.array(texts, pa.large_string())
    documents = Documents(column, [], None, None, {})
    return Sketcher(PUBLIC.spec)(documents).keys(PUBLIC.hash_tables)


def evading(page: list[str], chance: random.Random) -> list[str]:
    copy, target = list(page), band_keys([" ".join(page)])[0]
    shared = PUBLIC.curve.bands
    while shared:
        tries = [list(copy) for _ in range(200)]
        for one in tries:
            one[chance.randrange(len(page))] = chance.choice(WORDS)
        left = (band_keys([" ".join(one) for one in tries]) == target).sum(axis=1)
        copy, shared = tries[int(left.argmin())], int(left.min())
    return copy


@pytest.fixture(scope="module")
def pair() -> tuple[str, str]:
    chance = random.Random(4)
    page = chance.choices(WORDS, k=400)
    return " ".join(page), " ".join(evading(page, chance))


def test_an_evasion_against_the_public_hash_succeeds(pair):
    similarity = neardup.similarity(*pair)
    assert similarity > 0.85
    assert PUBLIC.curve.probability(similarity) > 0.99999, "chance alone would not miss it"
    assert neardup.dedup(pair).kept == [0, 1], "the copy is not seen"


def test_the_same_evasion_fails_against_the_keyed_hash(pair):
    for number in range(20):
        assert neardup.dedup(pair, hash="siphash", key=number.to_bytes(16, "big")).kept == [0]


def test_with_keys_it_is_found_as_often_as_the_s_curve_says(pair):
    """With few bands, so that it is missed at times; up to four standard errors."""
    chance = random.Random(5)
    removed = 0
    for _ in range(KEYS):
        found = neardup.dedup(
            pair, bands=FEW.bands, rows=FEW.rows, hash="siphash", key=chance.randbytes(16)
        )
        removed += found.kept == [0]
    expected = FEW.probability(neardup.similarity(*pair))
    assert 0.3 < expected < 0.9
    error = (expected * (1 - expected) / KEYS) ** 0.5
    assert abs(removed / KEYS - expected) < 4 * error
