"""The chain of similar pairs that puts two documents of a run into one connected component.

The tables of a run say which documents a component has, not how they are connected. So its
documents are read and sketched again, and linked as the run has linked them: two that share a
bucket and pass the verification, or are word for word the same. A run with --pairs has written the
links down; they are used if the texts can't be read, or are too many.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.explanation import REMOVED
from neardup.formatting import format_similarity
from neardup.report.run_comparison import RunComparison
from neardup.report.run_documents import Place, RunDocument
from neardup.sketcher import SketchedDocuments

MOST_MEMBERS: Final = 5_000
"""Documents of a component that are compared again: their pairs grow with the square."""
LINKS: Final = 40
"""The documents that are shown of a chain."""

Neighbours = Callable[[int, NDArray[np.bool_]], list[tuple[int, float]]]
"""The links of a document with others that were not seen yet, and how similar they are."""


@dataclass(frozen=True)
class ChainLink:
    """A document of a chain, and how similar it is to the one before it; None for the first."""

    id: str
    similarity: float | None


def find_chain(
    start: int, end: int, count: int, neighbours: Neighbours
) -> list[tuple[int, float | None]] | None:
    """Return a shortest chain of linked documents, each with its similarity to the one before.

    Args:
        start: The number of the first document.
        end: The number of the last one.
        count: The number of documents.
        neighbours: The links.

    >>> def linked(number, seen):
    ...     return [(other, 0.9) for other in (number + 1, number + 2) if other < len(seen)]
    >>> find_chain(0, 5, 9, linked)
    [(0, None), (1, 0.9), (3, 0.9), (5, 0.9)]
    """
    before: dict[int, tuple[int, float]] = {}
    seen = np.zeros(count, bool)
    seen[start] = True
    waiting = deque([start])
    while waiting and not seen[end]:
        number = waiting.popleft()
        for other, value in neighbours(number, seen):
            if not seen[other]:
                seen[other] = True
                before[other] = number, value
                waiting.append(other)
    if not seen[end]:
        return None
    chain: list[tuple[int, float | None]] = []
    at = end
    while at != start:
        previous, value = before[at]
        chain.append((at, value))
        at = previous
    return [(start, None), *reversed(chain)]


@dataclass(frozen=True)
class SketchedLinks:
    """The links of documents that were sketched again, in the order of the input."""

    compared: RunComparison
    sketches: Sequence[SketchedDocuments]

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        tables = self.compared.options.hash_tables
        return np.concatenate([sketch.keys(tables) for sketch in self.sketches])

    @cached_property
    def _content(self) -> NDArray[np.uint64]:
        """What documents have in common that are the same word for word, and not kept apart."""
        return np.concatenate(
            [
                sketch.content if sketch.apart is None else sketch.content ^ sketch.apart
                for sketch in self.sketches
            ]
        )

    @cached_property
    def _comparison(self) -> Any:
        return self.compared.comparison(self.sketches)

    def __call__(self, number: int, seen: NDArray[np.bool_]) -> list[tuple[int, float]]:
        others = np.flatnonzero(~seen)
        same = (self._content[others] == self._content[number]).all(axis=1)
        met = others[same | (self._keys[others] == self._keys[number]).any(axis=1)]
        each = np.full(len(met), number)
        similarity = self._comparison.pairs(np.minimum(met, each), np.maximum(met, each))
        similarity = np.where(np.isin(met, others[same]), 1.0, similarity)
        linked = similarity >= 0.0
        return list(zip(met[linked].tolist(), similarity[linked].tolist(), strict=True))


class WrittenLinks:
    """The links that a run with --pairs has written, of documents with these ids."""

    def __init__(self, pairs: Path, ids: Sequence[str]) -> None:
        place = {id: number for number, id in enumerate(ids)}
        self._links: dict[int, list[tuple[int, float]]] = {}
        with pa.OSFile(os.fsencode(pairs), "rb") as file:
            table = pq.read_table(
                file, filters=pc.field("a").isin(list(place)), use_threads=False
            ).to_pydict()
        for a, b, similarity in zip(table["a"], table["b"], table["similarity"], strict=True):
            if b in place:
                for one, other in ((place[a], place[b]), (place[b], place[a])):
                    self._links.setdefault(one, []).append((other, similarity))

    def __call__(self, number: int, _seen: NDArray[np.bool_]) -> list[tuple[int, float]]:
        return sorted(self._links.get(number, []))


def common_root(one: RunDocument, other: RunDocument) -> Place | None:
    """Return the place of the document that the component of both keeps; None if they have two."""
    roots = {
        (document.witness_file, document.witness_row)
        if document.status == REMOVED and not document.copies
        else document.place
        for document in (one, other)
    }
    root = roots.pop()
    return None if roots or not root[0] else root


def chain_lines(chain: Sequence[ChainLink]) -> Iterator[tuple[str, str]]:
    """Yield the lines that show a chain: its middle is left out if it is long."""
    most = LINKS // 2
    for place, link in enumerate(chain):
        if place == most and len(chain) > LINKS:
            yield "", f"... {len(chain) - LINKS:,} more ..."
        if place < most or place >= len(chain) - (LINKS - most):
            how = ""
            if link.similarity is not None:
                how = f"{format_similarity(link.similarity)} similar to "
            yield "" if place else "chain", f"{how}{link.id}"
