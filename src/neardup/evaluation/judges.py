"""Who says which documents are duplicates? An operating point; a finished run (runs.py); an index
(held.py).

Documents are golden ids by their number. Whoever can say that about pairs can be evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.lookup import Found
from neardup.in_memory import Corpus
from neardup.lsh.curve import format_layout
from neardup.options import Options
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.result import method_line
from neardup.runtime import map_in_order
from neardup.sketch import bulk
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import WEIGHTED
from neardup.text.arrays import Ragged
from neardup.text.frequencies import Frequencies
from neardup.verify import Exact, Weighed

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

PARAMETERS: Final = (
    "threshold",
    "tables",
    "hamming",
    "blocks",
    "verify",
    "measure",
    "strip",
    "weights",
)
"""What of the options matters besides the specification."""
AT_ONCE: Final = 1 << 16


def exact_judge(
    sketch: SketchedDocuments, options: Options, frequencies: Frequencies
) -> Exact | Weighed:
    """By the sets or bags of shingles of sketched documents, which stay as they are."""
    cut = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets.copy())
    sets = sort_bags(cut) if options.spec.of_bags else sort_sets(cut)
    return options.exact(sets.data, sets.offsets, frequencies.weights)


def together(cluster: Integers, a: Integers, b: Integers) -> Flags:
    """Which pairs are of one cluster, if documents that are in none have -1."""
    same: Flags = (cluster[a] == cluster[b]) & (cluster[a] >= 0)
    return same


def among_all(cluster: Integers) -> Integers:
    """The same clusters; documents that are in none are each in one of their own."""
    alone = cluster.max(initial=0) + 1 + np.arange(len(cluster))
    return np.where(cluster >= 0, cluster, alone)


class Judge(Protocol):
    """Says of golden documents which are duplicates, and which belong together."""

    @property
    def described(self) -> str:
        """What is judged by, in words."""

    @property
    def stated(self) -> dict[str, Any]:
        """The operating point, as evaluation.json has it: spec, fingerprint, parameters."""

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        """Of each pair: is it one?"""

    def clusters(self) -> Integers:
        """Of each golden document: a number that documents of one cluster share."""


@dataclass(frozen=True)
class OperatingPoint:
    """Golden documents' texts, sketched and compared as options say. Judges pair by pair.

    A document's row is its place among the texts; -1 has none, and is never asked about.
    """

    options: Options
    found: Found
    sketch: SketchedDocuments
    judge: Exact | Weighed
    frequencies: Frequencies
    workers: int

    @classmethod
    def of(cls, options: Options, found: Found, sketcher: Sketcher, workers: int) -> OperatingPoint:
        sketch = sketcher(found.documents)
        judge = exact_judge(sketch, options, sketcher.frequencies)
        return cls(options, found, sketch, judge, sketcher.frequencies, workers)

    @property
    def described(self) -> str:
        return method_line(self.options, self.options.meeting.probability(self.options.threshold))

    @property
    def stated(self) -> dict[str, Any]:
        spec = self.options.spec
        parameters = {name: getattr(self.options, name) for name in PARAMETERS} | {
            "tables": None if self.options.by_bits else format_layout(self.options.curve),
            "strip": str(self.options.strip),
            "weights": self.options.weights if spec.sketch in WEIGHTED else None,
        }
        return {"spec": spec.stated, "fingerprint": spec.fingerprint, "parameters": parameters}

    @property
    def empty(self) -> Integers:
        """The golden documents that are there, but have nothing to compare."""
        blank = np.append(self.sketch.shingles.sizes == 0, False)
        return np.flatnonzero(blank[self.found.row])

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self.sketch.keys(self.options.tables)

    def similarity(self, a: Integers, b: Integers) -> Reals:
        """Exact, whatever the options verify by."""
        return self._each(a, b, np.float64, lambda x, y: self.judge.pairs(x, y, least=0.0))

    def met(self, a: Integers, b: Integers) -> Flags:
        """Which pairs share a bucket, or are identical."""
        content, keys = self.sketch.content, self._keys

        def some(x: Integers, y: Integers) -> Flags:
            same: Flags = (content[x] == content[y]).all(axis=1)
            shared: Flags = (keys[x] == keys[y]).any(axis=1)
            return same | shared

        return self._each(a, b, np.bool_, some)

    def verified(self, a: Integers, b: Integers) -> Flags:
        """Which pairs are similar enough by what the options verify by, whether they met or not."""
        if self.options.verify == "exact":
            return self._each(a, b, np.bool_, lambda x, y: self.judge.pairs(x, y) >= 0.0)
        rows = bulk.compared(self.sketch.signatures, self.options.spec)
        judge = self.options.estimated(rows)
        return self._each(a, b, np.bool_, lambda x, y: judge.pairs(x, y) >= 0.0)

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        return self.met(a, b) & self.verified(a, b)

    def clusters(self) -> Integers:
        """The keep list of the golden documents by themselves."""
        corpus = Corpus(self.options, frequencies=self.frequencies)
        corpus.add(self.found.documents, self.sketch)
        witness = corpus.decide().witness
        star = np.where(witness >= 0, witness, np.arange(len(witness)))
        alone = len(star) + np.arange(len(self.found.row))
        return np.where(self.found.row >= 0, np.append(star, -1)[self.found.row], alone)

    def _each(self, a: Integers, b: Integers, kind: Any, judge: Any) -> NDArray[Any]:
        """Judge pairs, some at a time, in the order in which the corpus has their documents."""
        x, y = self.found.row[a], self.found.row[b]
        first, second = np.minimum(x, y), np.maximum(x, y)
        result = np.empty(len(a), kind)

        def some(start: int) -> None:
            here = slice(start, start + AT_ONCE)
            result[here] = judge(first[here], second[here])

        for _ in map_in_order(range(0, len(a), AT_ONCE), some, self.workers):
            pass
        return result
