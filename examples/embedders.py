"""Vectors of texts by wordllama, a small model that needs no network: `pip install wordllama`.

From the command line, in this folder:

    neardup dedup pages.parquet -o clean --embed embedders:embed --also embed:0.9
"""

from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import neardup


@cache
def load_model():
    """Return the model that comes with the package; nothing is downloaded."""
    import wordllama

    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


def embed(texts: list[str]) -> NDArray[np.float32]:
    """Return a vector of 256 numbers for each text."""
    return load_model().embed(texts, norm=True)


def main() -> None:
    texts = [
        "The council approved the new budget for road repairs on Tuesday evening.",
        "On Tuesday evening, a new budget for repairs of roads was approved by the council.",
        "Heavy rain is expected in the north, with floods in low valleys.",
    ]
    by_words = neardup.dedup(texts)
    assert by_words.kept == [0, 1, 2], "no five words in a row are the same"

    vectors = embed(texts)
    print("cosines\n", np.round(vectors @ vectors.T, 2))
    result = neardup.dedup(texts, matrix=vectors, also="matrix:0.8")
    for removed in result.removed:
        print(f"{removed.id} is like {removed.witness}, by {removed.by}: {removed.cosine:.2f}")
    assert result.kept == [0, 2]


if __name__ == "__main__":
    main()
