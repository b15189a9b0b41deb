"""Documents with vectors, and the answer about them by its definition: `reference.keep_list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from neardup import reference
from neardup.reference import sketches, vectors
from neardup.reference.text import units
from neardup.spec import Spec

Row = dict[str, Any]
Answer = list[tuple[int, float, float | None] | None]
"""For each document the witness, the similarity of texts or vectors, and the cosine beside it."""
SCHEMA = pa.schema([("id", pa.string()), ("text", pa.string()), ("v", pa.list_(pa.float32(), 3))])
WORDS = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6).map(" ".join)
NUMBERS = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.25])
VECTORS = st.lists(NUMBERS, min_size=3, max_size=3).filter(any)
CORPORA = st.lists(st.tuples(WORDS, VECTORS), min_size=1, max_size=16)


@dataclass(frozen=True)
class Signals:
    """What documents are asked: the role of their vectors, and how candidates are found.

    Attributes:
        role: `alone`, `also` or `unless`.
        cosine: The least cosine.
        threshold: The least similarity of texts.
        bands: Bands and rows of texts.
        planes: Bands and rows of vectors.
        limit: The kept documents of a bucket that count.
        slots: The slots of a signature of texts.
    """

    role: str
    cosine: float
    threshold: float = 0.5
    bands: tuple[int, int] = (6, 2)
    planes: tuple[int, int] = (3, 3)
    limit: int = 256
    slots: int = 12

    @property
    def options(self) -> Row:
        """The options that ask for it."""
        planes = {} if self.role == "unless" else {"planes": "{}x{}".format(*self.planes)}
        if self.role == "alone":
            return {"vectors": "v", "cosine": self.cosine, "limit": self.limit, **planes}
        bands, rows = self.bands
        of_texts = {"shingle": "word:2", "slots": self.slots, "bands": bands, "rows": rows}
        by_vector = {self.role: f"v:{self.cosine!r}", **planes}
        return {**of_texts, "threshold": self.threshold, "limit": self.limit, **by_vector}


ASKED = [
    Signals("alone", 0.9),
    Signals("alone", 0.5, planes=(2, 2), limit=1),
    Signals("also", 0.9),
    Signals("also", 0.6, threshold=0.3, limit=2),
    Signals("unless", 0.2),
    Signals("unless", 0.9, threshold=0.3, limit=1),
]


def rows_of(documents: Sequence[tuple[str, Sequence[float]]]) -> list[Row]:
    """Return documents, each a text and a vector, as rows with the ids d0, d1, d2, ..."""
    return [{"id": f"d{n}", "text": text, "v": v} for n, (text, v) in enumerate(documents)]


def many_documents(count: int) -> list[Row]:
    """Return up to so many documents, few of which are like no other one."""
    words, numbers = "abcd", (-1.0, 0.0, 0.5, 1.0)
    texts = (" ".join(words[n // at % 4] for at in (1, 4, 16, 3, 5)) for n in range(count))
    vectors = ([numbers[n // at % 4] for at in (1, 3, 7)] for n in range(count))
    return rows_of([(text, v) for text, v in zip(texts, vectors, strict=True) if any(v)])


class DefinedAnswer:
    """The answer about documents in rank order, all of which have a text and a vector."""

    def __init__(self, rows: Sequence[Row], asked: Signals) -> None:
        self.asked = asked
        self.spec = Spec(size=2, slots=asked.slots)
        self.vectors = [[float(np.float32(x)) for x in row["v"]] for row in rows]
        self.hashes = [
            sketches.unit_hashes(units(row["text"], self.spec), self.spec) for row in rows
        ]
        self.sets = [sketches.shingles(each, 2) for each in self.hashes]
        self.answer = self._answer()

    @property
    def are_similar(self) -> bool:
        """Whether the first two documents are similar, or identical."""
        return self._content(0) == self._content(1) or self._similarity(0, 1) >= 0.0

    def are_copies(self, u: int, v: int) -> bool:
        """Whether two documents are identical, or share a bucket and are similar.

        Args:
            u: The place of a document.
            v: That of another one.
        """
        if self._content(u) == self._content(v):
            return True
        centre = [0] * len(self.vectors[0])
        meet = not set(self._keys(u, centre)).isdisjoint(self._keys(v, centre))
        return meet and self._similarity(u, v) >= 0.0

    def numbers(self, witness: int, v: int) -> list[tuple[float, float | None]]:
        """The numbers that a copy of a witness may have: none if it is no copy.

        Args:
            witness: The place of the witness.
            v: That of the copy.
        """
        listed: list[tuple[float, float | None]] = []
        if self._content(witness) == self._content(v):
            listed.append((1.0, None))
        elif self.are_copies(witness, v):
            listed.append(self._removed(v, witness)[1:])
        return listed

    def _answer(self) -> Answer:
        first: dict[Any, int] = {}
        for v in range(len(self.vectors)):
            first.setdefault(self._content(v), v)
        unique = sorted(first.values())
        named: dict[Any, int] = {}
        centre = [0] * len(self.vectors[0])  # of few vectors
        buckets = [
            [named.setdefault(key, len(named)) for key in self._keys(v, centre)] for v in unique
        ]
        similar = {
            (i, j): self._similarity(unique[i], unique[j])
            for j in range(len(unique))
            for i in range(j)
        }
        # What is similar is decided by two thresholds: -1.0 stands for "not similar".
        decided = reference.keep_list(buckets, similar, -0.5, self.asked.limit)
        verdicts = dict(zip(unique, decided, strict=True))
        answer: Answer = []
        for v in range(len(self.vectors)):
            best = first[self._content(v)]
            verdict = verdicts[best]
            if verdict is not None:
                answer.append(self._removed(best, unique[verdict[0]]))
            else:
                answer.append(None if v == best else (best, 1.0, None))
        return answer

    def _content(self, v: int) -> Any:
        text, vector = tuple(self.hashes[v]), tuple(map(str, self.vectors[v]))
        return vector if self.asked.role == "alone" else (text, vector)

    def _keys(self, v: int, centre: Sequence[int]) -> list[Any]:
        keys: list[Any] = []
        if self.asked.role != "alone":
            slots = sketches.signature(self.sets[v], self.spec)
            keys += enumerate(sketches.band_keys(slots, *self.asked.bands))
        if self.asked.role != "unless":
            bands, rows = self.asked.planes
            signs = vectors.signs(self.vectors[v], centre, bands * rows, 0)
            keys += [("v", *key) for key in enumerate(vectors.plane_keys(signs, bands, rows))]
        return keys

    def _similarity(self, u: int, v: int) -> float:
        one, other = ((self.sets[d], self.vectors[d]) for d in (u, v))
        if self.asked.role == "alone":
            return vectors.cosine_similarity(one[1], other[1], self.asked.cosine)
        of_both = vectors.either if self.asked.role == "also" else vectors.both
        return of_both(one, other, self.asked.threshold, self.asked.cosine)

    def _removed(self, v: int, witness: int) -> tuple[int, float, float | None]:
        cosine = vectors.cosine(self.vectors[witness], self.vectors[v])
        if self.asked.role == "alone":
            return witness, cosine, None
        return witness, sketches.jaccard(self.sets[witness], self.sets[v]), cosine
