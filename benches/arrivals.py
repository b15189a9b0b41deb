"""Documents of 2 KB as they might arrive at an index: word-like text, with planted copies.

A document is a function of its number: phrases of four words, drawn by Zipf's law from a
vocabulary. Each tenth document is a copy of an earlier one: by turns the same, with a word more,
with 1, 3 and 20 of the 93 phrases replaced. The last kind is not similar at 0.8, the others are.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import orjson
from numpy.typing import NDArray
from synthetic import Numbers, table

COPY_EVERY = 10
VOCABULARY = 50_000
PHRASES, WORDS = 93, 4
"""In a document, in a phrase."""
REPLACED = (0, 0, 1, 3, 20)
"""So many phrases of a copy are others, by turns; the second kind has a word more."""
DRAWS = 1 << 16


@cache
def vocabulary() -> list[str]:
    """Words of two to five syllables; the frequent ones are short."""
    chance = np.random.default_rng(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
    words: dict[str, None] = {}
    while len(words) < VOCABULARY:
        size = min(1 + len(words) // 60, int(chance.integers(2, 5)))
        words["".join(syllables[at] for at in chance.integers(0, len(syllables), size))] = None
    return list(words)


@cache
def phrases() -> list[str]:
    """So many that two bytes draw one; the n-th word has a share as 1 / n."""
    shares = 1.0 / np.arange(1, VOCABULARY + 1)
    chance, words = np.random.default_rng(2), vocabulary()
    drawn = chance.choice(VOCABULARY, (DRAWS, WORDS), p=shares / shares.sum())
    return [" ".join([words[at] for at in row]) for row in drawn.tolist()]


def drawn(numbers: Numbers, salt: int = 0) -> NDArray[np.uint16]:
    """The phrases of documents that are no copies, a row each."""
    return table(numbers, salt, PHRASES // 4 + 1).view(np.uint16)[:, :PHRASES]


def joined(row: NDArray[np.uint16]) -> str:
    every = phrases()
    return " ".join([every[at] for at in row.tolist()])


def source(number: int) -> int:
    """Of which earlier document a copy is one; those are no copies, and have one at most."""
    turn = number // COPY_EVERY
    return turn // 2 * COPY_EVERY + turn % 2


def expected(number: int) -> str | None:
    """The id of the document that this one is a copy of at 0.8."""
    if number % COPY_EVERY != COPY_EVERY - 1 or kind(number) == len(REPLACED) - 1:
        return None
    return id_of(source(number))


def kind(copied: int) -> int:
    """Which kind of copy a document is."""
    return copied // COPY_EVERY % len(REPLACED)


def id_of(number: int) -> str:
    return f"doc-{number}"


def texts(first: int, count: int) -> list[str]:
    """The documents from a number on."""
    numbers = np.arange(first, first + count)
    found = list(map(joined, drawn(numbers)))
    for at in np.flatnonzero(numbers % COPY_EVERY == COPY_EVERY - 1).tolist():
        found[at] = copy(first + at)
    return found


def copy(number: int) -> str:
    row = drawn(np.array([source(number)]))[0]
    if many := REPLACED[kind(number)]:
        row[:: PHRASES // many][:many] = drawn(np.array([number]), 1)[0][:many]
    return f"{joined(row)} again" if kind(number) == 1 else joined(row)


def batches(first: int, count: int, size: int) -> Iterator[tuple[list[str], list[str]]]:
    """Ids and texts of the documents from a number on, some at a time."""
    for start in range(first, first + count, size):
        some = min(size, first + count - start)
        yield list(map(id_of, range(start, start + some))), texts(start, some)


def write(path: Path, first: int, count: int) -> Path:
    """The documents as JSONL; whole, or not there."""
    if not path.exists():
        part = path.with_suffix(".part")
        with part.open("wb") as lines:
            for ids, some in batches(first, count, 1000):
                rows = zip(ids, some)
                lines.writelines(orjson.dumps({"id": id, "text": t}) + b"\n" for id, t in rows)
        part.rename(path)
    return path
