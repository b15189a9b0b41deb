"""Measures every sketch on the same documents: cost, recall, and the error of its estimate.

The baseline without a sketch is sorted neighbourhood: sort by a key, compare neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.evaluation.lab import BucketedSample, ShingleSets, as_documents, time_best
from neardup.evaluation.truth import Truth, brute_force
from neardup.options import Options
from neardup.sketch import bulk
from neardup.sketch.bottomk import BottomK
from neardup.sketcher import SketchedDocuments, Sketcher

KEY = 64
WINDOW = 10

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]


def keys_of(text: str) -> tuple[str, str]:
    """Return the sort keys: the beginning of a text, and its end reversed, in lower case."""
    plain = " ".join(text.lower().split())
    return plain[:KEY], plain[: -KEY - 1 : -1]


def neighbours(texts: Sequence[str], window: int = WINDOW) -> Pairs:
    """Return the pairs a < b that are fewer than `window` places apart, sorted by either key."""
    keys = [keys_of(text) for text in texts]
    codes: list[NDArray[np.int64]] = []
    for which in range(2):
        order = np.array(sorted(range(len(keys)), key=lambda row: (keys[row][which], row)))
        for distance in range(1, min(window, len(order))):
            near = np.sort(np.stack([order[:-distance], order[distance:]]), axis=0)
            codes.append(near[0] * len(texts) + near[1])
    code = np.unique(np.concatenate([np.empty(0, np.int64), *codes]))
    return code // len(texts), code % len(texts)


FLOOR = 0.1
"""Pairs below this similarity, which are almost all, are not measured."""

LEAST = 128
"""Values of a bottom-k sketch."""

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SketchVariant:
    """A sketch to measure: its name and its options."""

    name: str
    options: dict[str, Any]


BY_BITS = {"threshold": None, "recall": None}
"""Fingerprints are compared by Hamming distance, not by threshold and bands."""
VARIANTS = (
    SketchVariant("minhash 128 x 32", {}),
    SketchVariant("minhash 128 x 64", {"family": "affine-m61"}),
    SketchVariant("minhash 128 x 1", {"bits": 1}),
    SketchVariant("minhash 128 x 8", {"bits": 8}),
    SketchVariant("oneperm 128 x 32", {"sketch": "oneperm"}),
    SketchVariant("oneperm 1024 x 1", {"sketch": "oneperm", "slots": 1024, "bits": 1}),
    SketchVariant("weighted 128 x 32, tf", {"sketch": "weighted"}),
    SketchVariant("simhash 64 x 1, 3 differ", {"sketch": "simhash", **BY_BITS}),
    SketchVariant(
        "simhash 128 x 1, 7 differ", {"sketch": "simhash", **BY_BITS, "slots": 128, "hamming": 7}
    ),
)


@dataclass(frozen=True)
class SketchFigures:
    """The figures of one variant.

    size         bytes of a stored signature
    speed        MB of text a second, from text to signature, on one core
    error        mean distance of the estimate from the exact similarity, over pairs above 0.1
    found        share of the similar pairs that are candidates: the recall with exact verification
    candidates   candidates per document: the pairs that exact verification compares
    recall       share of the similar pairs that are found by signatures alone
    precision    share of those found by signatures alone that are similar
    """

    name: str
    size: float
    speed: float | None
    error: float | None
    found: float | None
    candidates: float | None
    recall: float | None
    precision: float | None


@dataclass(frozen=True)
class SketchComparison:
    """Compares sketches on documents whose similar pairs are known.

    texts      the documents
    truth      all pairs above 0.1
    threshold  pairs at least this similar are to be found
    shared     options that all variants have
    """

    texts: Sequence[str]
    truth: Truth
    threshold: float
    shared: dict[str, Any]

    @classmethod
    def of(
        cls, texts: Sequence[str], threshold: float, workers: int, **shared: Any
    ) -> SketchComparison:
        """Compare all pairs of texts; `shared` are options that all variants have."""
        options = Options.of(threshold=threshold, **shared)
        sets = ShingleSets.of(as_documents(texts), options.spec).sets
        truth = brute_force(sets, min(FLOOR, threshold), workers)
        return cls(texts, truth, threshold, shared)

    def results(self, variants: Sequence[SketchVariant] = VARIANTS) -> Iterator[SketchFigures]:
        """Yield the figures of all variants, of bottom-k, and of the baseline."""
        for variant in variants:
            yield self.measure(variant)
        yield self.bottom_k()
        yield self.baseline()

    def measure(self, variant: SketchVariant) -> SketchFigures:
        """Sketch, group and verify the documents with one variant."""
        options = Options.of(
            **{"threshold": self.threshold, "verify": "estimate", **self.shared, **variant.options}
        )
        sketch, speed = self._sketch(options)
        bucketed = BucketedSample.of(sketch.keys(options.hash_tables))
        left, right = bucketed.all_candidates(most=len(self.texts))
        a, b = bucketed.documents[left], bucketed.documents[right]
        stored = bulk.pack_signatures(sketch.signatures, options.spec)
        verifier = options.estimated(stored)
        exact = self.truth.of(a, b)
        verdict = verifier.pairs(a, b) >= 0.0
        estimates = verifier.pairs(self.truth.a, self.truth.b, least=0.0)
        if options.by_bits:
            estimates = _jaccard(estimates)
        error = np.abs(estimates - self.truth.similarity)
        return self._score(
            variant.name,
            stored.nbytes / len(self.texts),
            speed,
            exact,
            float(error.mean()) if len(error) else None,
            verdict,
        )

    def bottom_k(self) -> SketchFigures:
        """Measure bottom-k sketches. They have no tables: all pairs above 0.1 are judged."""
        spec = Options.of(**self.shared).spec
        documents, sketcher = as_documents(self.texts), Sketcher(spec)

        def sketch() -> list[BottomK]:
            cut = sketcher.cut(documents).shingles
            return [_least(cut.data[a:b]) for a, b in pairwise(cut.offsets.tolist())]

        sketches, seconds = time_best(sketch)
        pairs = zip(self.truth.a.tolist(), self.truth.b.tolist(), strict=True)
        estimates = np.array([sketches[a].jaccard(sketches[b]) for a, b in pairs])
        errors = np.abs(estimates - self.truth.similarity)
        verdict, exact = estimates >= self.threshold, self.truth.similarity
        error = float(errors.mean()) if len(errors) else None
        speed = self._size / seconds / 1e6
        judged = self._score(f"bottomk {LEAST} x 64", 8 * LEAST, speed, exact, error, verdict)
        return replace(judged, found=None, candidates=None)

    def baseline(self) -> SketchFigures:
        """Measure sorted neighbourhood: no sketch, neighbours are compared exactly."""
        a, b = neighbours(self.texts)
        name = "sorted neighbourhood"
        return self._score(name, 2 * KEY, None, self.truth.of(a, b), None, None)

    @property
    def _size(self) -> int:
        """Bytes of all texts."""
        return sum(len(text.encode("utf-8", "replace")) for text in self.texts)

    def _sketch(self, options: Options) -> tuple[SketchedDocuments, float]:
        """Return the sketches, and the speed in MB of text per second."""
        documents, sketcher = as_documents(self.texts), Sketcher(options.spec)
        sketcher(documents.take(np.arange(1)))  # compile before the clock starts
        sketch, seconds = time_best(lambda: sketcher(documents))
        return sketch, self._size / seconds / 1e6

    def _score(
        self,
        name: str,
        size: float,
        speed: float | None,
        exact: NDArray[np.float64],
        error: float | None,
        verdict: NDArray[np.bool_] | None,
    ) -> SketchFigures:
        """Return the figures.

        Args:
            name: The variant.
            size: Bytes of a stored signature.
            speed: MB of text per second.
            exact: The similarities of the candidates.
            error: The mean error of estimates.
            verdict: Which candidates are similar by their signatures; None without signatures.
        """
        similar, all_similar = exact >= self.threshold, self.truth.similar(self.threshold)
        recall = precision = None
        if verdict is not None:
            right = np.count_nonzero(similar & verdict)
            recall = _share(right, all_similar)
            precision = _share(right, np.count_nonzero(verdict))
        return SketchFigures(
            name,
            size,
            speed,
            error,
            _share(np.count_nonzero(similar), all_similar),
            len(exact) / len(self.texts),
            recall,
            precision,
        )


def _share(part: Any, whole: Any) -> float | None:
    """Return part / whole; None if the whole is 0."""
    return int(part) / int(whole) if whole else None


def _least(shingles: NDArray[np.uint64]) -> BottomK:
    """Return the bottom-k sketch of a set."""
    sketch = BottomK(LEAST, spare=0)
    sketch.update_hashes(shingles)
    return sketch


def _jaccard(equal_bits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Jaccard similarity of sets of equal size, from the share of equal simhash bits."""
    cosine = np.cos(np.pi * (1 - equal_bits))
    return np.maximum(cosine, 0.0) / (2 - cosine)  # type: ignore[no-any-return]
