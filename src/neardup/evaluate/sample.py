"""Some documents of a corpus, and edited copies of them, so that there are pairs to find."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import xxhash

from neardup.corpus.documents import Documents
from neardup.errors import InputError

MOST_EDITED = 0.15
"""Up to this share of a copy's words is replaced: five-word shingles are then 0.3 similar."""
FEW_WORDS = 5
LONGEST = 1 << 20
"""Longer texts are cut: a sample has to fit into memory."""


def sample(batches: Iterable[Documents], count: int, seed: int) -> list[str]:
    """So many usable texts, all equally likely, in input order; all of them if there are fewer."""
    chosen: list[tuple[int, int, str]] = []
    number = 0
    worst = 2**64
    for documents in batches:
        texts = documents.texts
        for row in range(len(documents)):
            rank = xxhash.xxh64_intdigest((number + row).to_bytes(8, "little"), seed)
            if rank < worst and row not in documents.rejected:
                text = texts[row].as_py()[:LONGEST]
                if text.strip():
                    chosen.append((rank, number + row, text))
        number += len(documents)
        chosen = sorted(chosen)[:count]
        worst = chosen[-1][0] if len(chosen) == count else worst
    if len(chosen) < 2:
        raise InputError("there are fewer than two documents with a text: nothing to compare")
    return [text for _, _, text in sorted(chosen, key=lambda one: one[1])]


def with_copies(texts: Sequence[str], seed: int) -> list[str]:
    """The texts, and of each a copy in which a share of the words, up to 0.15, is replaced."""
    return [*texts, *_copies(texts, random.Random(seed))]  # noqa: S311  # not for security


def _copies(texts: Sequence[str], chance: random.Random) -> Iterator[str]:
    for text in texts:
        rate = MOST_EDITED * chance.random()
        other = texts[int(chance.random() * len(texts))]
        yield edited(text, other, rate, chance)


def edited(text: str, other: str, rate: float, chance: random.Random) -> str:
    """The text with a share of its words replaced by words of another, by characters if it has
    few words."""
    between = " " if len(text.split()) >= FEW_WORDS else ""
    parts, others = (text.split(), other.split()) if between else (list(text), list(other))
    for place in range(len(parts)):
        if chance.random() < rate:
            parts[place] = others[int(chance.random() * len(others))]
    return between.join(parts)


def as_documents(texts: Sequence[str]) -> Documents:
    """The texts as the sketcher takes them."""
    data = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    column = pa.Array.from_buffers(pa.large_string(), len(data), buffers)
    return Documents(column, pa.nulls(len(data), pa.large_string()), None, None, {})
