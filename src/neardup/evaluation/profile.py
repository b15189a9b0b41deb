"""The profile of a corpus: figures of a sample, small enough to store and to compare later."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, StaleSketch
from neardup.evaluation.lab import (
    BucketedSample,
    DistinctDocuments,
    as_documents,
    exact_verifier,
)
from neardup.evaluation.sample import Sample
from neardup.evaluation.truth import Truth
from neardup.options import Options
from neardup.sketch.bottomk import BottomK
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged

VOCABULARY: Final = 1_024
TENTHS: Final = 10
NUMBERS: Final = (
    "documents",
    "sampled",
    "identical",
    "halves",
    "met",
    "effective",
    "candidates",
)
QUANTILES: Final = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


@dataclass(frozen=True)
class Spread:
    """The distribution of a figure over documents."""

    mean: float
    deviation: float
    p10: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: NDArray[Any]) -> Spread:
        """Return the distribution of values."""
        at = {name: float(np.quantile(values, share)) for name, share in QUANTILES.items()}
        return cls(float(values.mean()), float(values.std()), **at)


@dataclass(frozen=True)
class BucketSpread:
    """The number and the sizes of buckets with two documents or more."""

    count: int
    p50: float
    p99: float
    largest: int

    @classmethod
    def of(cls, sizes: NDArray[np.int64]) -> BucketSpread:
        """Return the distribution of bucket sizes."""
        if not len(sizes):
            return cls(0, 0.0, 0.0, 0)
        p50, p99 = (float(np.quantile(sizes, share)) for share in (0.5, 0.99))
        return cls(len(sizes), p50, p99, int(sizes.max()))


@dataclass(frozen=True)
class CorpusProfile:
    """Figures of a sample of a corpus.

    Attributes:
        documents: Documents of the corpus.
        sampled: Documents of the sample, all chosen with the same chance.
        identical: The share of the sample that are copies; the other figures are without them.
        bytes: Bytes of a text.
        shingles: Distinct shingles of a text.
        vocabulary: The words of the sample, as a bottom-k sketch in base64.
        halves: The Jaccard similarity of the words of two halves of the sample: two samples of one
            corpus don't overlap more.
        empty_bins: The share of slots of a one-permutation sketch that were empty before they
            were filled; None for other sketches.
        buckets: The sizes of shared buckets.
        met: Pairs of the sample that share a bucket.
        effective: The number of independent pairs with the same information: the pairs of a large
            cluster are not independent.
        candidates: Candidates per document of the corpus, estimated.
        similarity: The share of the candidates in each tenth of similarity; empty if there are
            none.
    """

    documents: int
    sampled: int
    identical: float
    bytes: Spread
    shingles: Spread
    vocabulary: str
    halves: float
    empty_bins: float | None
    buckets: BucketSpread
    met: int
    effective: float
    candidates: float
    similarity: list[float]

    @classmethod
    def of(cls, sample: Sample, options: Options, sketcher: Sketcher) -> CorpusProfile:
        """Sketch a sample, group it and compare its candidates."""
        sketch = sketcher(as_documents(sample.texts))
        verifier = exact_verifier(sketch.shingles, options, sketcher.frequencies.weights)
        order = np.flatnonzero(sketch.shingles.sizes)
        unique = DistinctDocuments.of(sketch.content, order).first
        bucketed = BucketedSample.of(sketch.keys(options.hash_tables), unique)
        count = len(sample.texts)
        met, weight_of, similarity = 0, np.zeros(count), np.zeros(TENTHS)
        for left, right in bucketed.candidates():
            a, b = bucketed.documents[left], bucketed.documents[right]
            exact = verifier.pairs(a, b, least=0.0)
            weights = sample.weights(Truth(count, 0.0, a, b, exact))
            weight_of += np.bincount(a, weights, count) + np.bincount(b, weights, count)
            similarity += _tenths(exact, weights)
            met += len(a)
        total = float(similarity.sum())
        words = _words(sample.texts, options.spec)
        return cls(
            sample.documents,
            count,
            1 - len(unique) / max(len(order), 1),
            Spread.of(sketch.lengths),
            Spread.of(np.diff(verifier.offsets)),
            base64.b64encode(_vocabulary(words.data).to_bytes()).decode(),
            _halves(words),
            _empty_bins(sketch, options.spec),
            BucketSpread.of(bucketed.buckets.sizes),
            met,
            total**2 / float((weight_of**2).sum()) if met else 0.0,
            total / sample.documents,
            (similarity / total).tolist() if met else [],
        )

    @property
    def share(self) -> float:
        """The share of the documents that were sampled."""
        return self.sampled / max(self.documents, 1)

    def words(self) -> BottomK:
        """Return the sketch of the vocabulary."""
        return BottomK.from_bytes(base64.b64decode(self.vocabulary, validate=True))

    @property
    def record(self) -> dict[str, Any]:
        """The profile as evaluation.json has it."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any], where: str) -> CorpusProfile:
        """Return the profile of a record; raise FormatError if the record is damaged."""
        try:
            values = {field.name: record[field.name] for field in fields(cls)}
            values["bytes"] = Spread(**{k: _real(v) for k, v in values["bytes"].items()})
            values["shingles"] = Spread(**{k: _real(v) for k, v in values["shingles"].items()})
            values["buckets"] = BucketSpread(**{k: _real(v) for k, v in values["buckets"].items()})
            values["similarity"] = [_real(share) for share in values["similarity"]]
            for name in NUMBERS:
                values[name] = _real(values[name])
            if values["empty_bins"] is not None:
                values["empty_bins"] = _real(values["empty_bins"])
            if (
                len(values["similarity"]) != (TENTHS if values["met"] else 0)
                or not values["sampled"]
            ):
                raise ValueError("the similarities are not tenths")
            if values["met"] and not (values["effective"] and values["candidates"]):
                raise ValueError("pairs that count as none")
            profile = cls(**values)
            profile.words()
            return profile
        except (
            AttributeError,
            LookupError,
            TypeError,
            ValueError,
            OverflowError,
            binascii.Error,
            FormatError,
        ) as error:
            raise FormatError(
                f"{where} is damaged (profile: {type(error).__name__}): evaluate the earlier "
                "corpus again"
            ) from None


def overlap(mine: BottomK, theirs: BottomK) -> float:
    """Return the Jaccard similarity of two vocabularies; 0 if they can't be compared."""
    try:
        return mine.jaccard(theirs)
    except StaleSketch:
        return 0.0


def _real(value: Any) -> Any:
    """Return a value if it is a finite number from 0 on; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError("not a number")
    if value < 0:
        raise ValueError("a negative number")
    return value


def _tenths(similarity: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the weight of the pairs in each tenth of similarity."""
    place = np.minimum((similarity * TENTHS).astype(np.int64), TENTHS - 1)
    return np.bincount(place, weights, TENTHS).astype(np.float64)


def _words(texts: Sequence[str], spec: Spec) -> Ragged:
    """Return the hashes of the words of each text, for any shingle."""
    single = Spec.of("word:1", **spec.reading)
    return Sketcher(single).cut(as_documents(texts)).shingles


def _vocabulary(words: NDArray[np.uint64]) -> BottomK:
    """Return a sketch of the distinct words."""
    sketch = BottomK(VOCABULARY, spare=0)
    sketch.update_hashes(words)
    return sketch


def _halves(words: Ragged) -> float:
    """Return the similarity of the words of documents with odd and even numbers."""
    odd = np.repeat(np.arange(len(words)) % 2 == 1, words.sizes)
    return overlap(_vocabulary(words.data[odd]), _vocabulary(words.data[~odd]))


def _empty_bins(sketch: SketchedDocuments, spec: Spec) -> float | None:
    """Return the share of slots that were empty; None if the sketch fills none."""
    if spec.sketch != "oneperm":
        return None
    return sketch.empty_slots / max(int(np.count_nonzero(sketch.shingles.sizes)) * spec.slots, 1)
