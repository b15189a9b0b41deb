"""Documents for tests of the index: texts that are similar to one another, and what is said."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import neardup

WORDS = [f"word{at}" for at in range(16)]


def chained(chance: random.Random, size: int) -> list[str]:
    """Texts that differ in a few words from earlier ones, so that there are chains."""
    texts = [" ".join(chance.choices(WORDS, k=30))]
    for _ in range(size - 1):
        words = chance.choice(texts).split()
        for _ in range(chance.choice([0, 0, 1, 1, 2, 3, 8])):
            words[chance.randrange(len(words))] = chance.choice(WORDS)
        texts.append(" ".join(words))
    return texts


@st.composite
def corpora(draw: st.DrawFn, least: int, most: int) -> list[str]:
    return chained(random.Random(draw(st.integers(0, 2**32))), draw(st.integers(least, most)))


def ids_of(texts: Sequence[str], first: int = 0) -> list[str]:
    return [str(first + at) for at in range(len(texts))]


def filled(path: Path, texts: Sequence[str], **options: Any) -> neardup.Index:
    """An index with texts, whose ids are their places."""
    index = neardup.Index.open(path, **options)
    index.add_batch(ids_of(texts), texts)
    return index


def decided(index: neardup.Index, ids: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """What is said of the documents that are there."""
    found = {id: index.get(id) for id in ids}
    return {
        id: (one.status, one.duplicate_of, one.similarity, one.exact)
        for id, one in found.items()
        if one is not None
    }


def asked(index: neardup.Index, texts: Sequence[str]) -> list[tuple[Any, ...]]:
    """What is said of texts."""
    return [
        (one.status, one.duplicate_of, one.similarity, one.exact)
        for one in index.query_batch(texts)
    ]


def in_step(index: neardup.Index) -> None:
    """Wait until the shadow has taken in all that happened."""
    assert index.shadow.wait(60)
    while index.shadow.report().behind:
        time.sleep(0.005)
