"""Corpora of made-up words, on which no model was fitted: long texts, posts, and Chinese.

Words are drawn by Zipf's law. Every tenth document is a copy of an earlier one with a share of its
words replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson
from grown import writing

SEED = 7
COPY_EVERY = 10
EXPONENT = 1.07
REPLACED = (0.0, 0.005, 0.01, 0.03, 0.1)
"""The shares of replaced words, by turns."""


@dataclass(frozen=True)
class Recipe:
    """How many documents, of how many words each, and what is between words."""

    documents: int
    least: int
    most: int
    vocabulary: int
    between: str
    chinese: bool = False


RECIPES = {
    "made_long": Recipe(3_000, 4_000, 16_000, 60_000, " "),
    "made_posts": Recipe(400_000, 8, 30, 40_000, " "),
    "made_chinese": Recipe(40_000, 200, 900, 6_000, "", chinese=True),
}


def generate(name: str, target: Path) -> Path:
    """A corpus of `RECIPES`, as JSON lines."""
    if not target.exists():
        with writing(target) as out:
            for number, text in enumerate(_texts(RECIPES[name])):
                out.write(orjson.dumps({"id": str(number), "text": text}) + b"\n")
    return target


def _texts(recipe: Recipe) -> Iterator[str]:
    rng = np.random.default_rng(SEED)
    words = _vocabulary(recipe, rng)
    weights = 1 / np.arange(1, len(words) + 1) ** EXPONENT
    ends = np.cumsum(weights / weights.sum())

    def draw(count: int) -> np.ndarray:
        return np.minimum(np.searchsorted(ends, rng.random(count)), len(words) - 1)

    earlier: list[np.ndarray] = []
    for number in range(recipe.documents):
        if number % COPY_EVERY == COPY_EVERY - 1:
            drawn = earlier[int(rng.integers(len(earlier)))].copy()
            share = REPLACED[number // COPY_EVERY % len(REPLACED)]
            places = np.flatnonzero(rng.random(len(drawn)) < share)
            drawn[places] = draw(len(places))
        else:
            drawn = draw(int(rng.integers(recipe.least, recipe.most)))
            earlier.append(drawn.astype(np.uint16))
        yield recipe.between.join(words[drawn].tolist())


def _vocabulary(recipe: Recipe, rng: np.random.Generator) -> np.ndarray:
    if recipe.chinese:
        return np.array([chr(0x4E00 + place) for place in rng.permutation(recipe.vocabulary)])
    letters = np.array(list("etaoinshrdlucmfwypvbgkjqxz"))
    lengths = rng.integers(2, 11, recipe.vocabulary)
    return np.array(["".join(rng.choice(letters, length)) for length in lengths])
