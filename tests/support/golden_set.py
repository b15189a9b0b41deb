"""A corpus with edited copies of known similarity, and labels for some of its pairs."""

from __future__ import annotations

import random
from typing import NamedTuple

from neardup.evaluation.sample import edit_text

WORDS = [f"word{number}" for number in range(2_000)]


class Planted(NamedTuple):
    rows: list[dict[str, str]]
    golden: list[tuple[str, str, int]]

    @property
    def tsv(self) -> str:
        return "".join(f"{a}\t{b}\t{label}\n" for a, b, label in self.golden)


def planted(
    count: int = 60, length: int = 80, most: float = 0.12, seed: int = 0, words: list[str] = WORDS
) -> Planted:
    """`count` texts, a copy of each with up to `most` of its words replaced, and others."""
    chance = random.Random(seed)
    texts = [
        " ".join(chance.choices(words, k=int(length * (0.5 + chance.random()))))
        for _ in range(count)
    ]
    copies = [edit_text(text, texts[0], most * chance.random(), chance) for text in texts]
    rows = [{"id": f"a{n}", "text": text} for n, text in enumerate(texts)]
    rows += [{"id": f"b{n}", "text": text} for n, text in enumerate(copies)]
    golden = [(f"a{n}", f"b{n}", 1) for n in range(count)]
    golden += [(f"a{n}", f"b{(n + 1) % count}", 0) for n in range(count)]
    return Planted(rows, golden)
