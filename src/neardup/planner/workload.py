"""The workload: bytes, candidates and comparisons for each document, assumed or measured.

In a sample, near-duplicates were chosen together: a document that is in it has each partner that
it has in the corpus with a chance q that is known, so that each such pair stands for 1 / q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.evaluation.lab import BucketedSample, DistinctDocuments, ShingleSets, as_documents
from neardup.evaluation.sample import Sample
from neardup.evaluation.truth import Truth, brute_force
from neardup.lsh.buckets import Buckets
from neardup.options import Options
from neardup.planner.requirements import Sla
from neardup.sketch import bulk
from neardup.spec import Spec
from neardup.text.arrays import Ragged

REMOVED: Final = 0.1
ALIKE, ALIKE_IN_A_BAND = 0.15, 0.06
"""Documents that share a bucket because they are near-duplicates: in any band, and in each."""
CROWDING: Final = 0.09
"""Fitted to the same pages: those that meet others by chance are in crowds, not evenly spread."""
IN_A_BUCKET: Final = 2.3
"""Documents, where there are at least two."""

USUAL: Final[PairCounts] = (
    (0.00009, 0.9959),
    (0.016, 1.3e-3),
    (0.024, 1.2e-3),
    (0.036, 5.0e-4),
    (0.062, 1.6e-4),
    (0.087, 1.2e-4),
    (0.124, 1.8e-4),
    (0.173, 1.2e-4),
    (0.225, 9.6e-5),
    (0.274, 8.6e-5),
    (0.322, 5.3e-5),
    (0.372, 2.6e-5),
    (0.423, 1.3e-5),
    (0.472, 7.0e-6),
    (0.523, 4.2e-6),
    (0.574, 2.5e-6),
    (0.625, 1.7e-6),
    (0.674, 8.7e-7),
    (0.722, 5.3e-7),
    (0.773, 4.3e-7),
    (0.819, 1.4e-6),
    (0.881, 1.6e-6),
    (0.915, 1.4e-6),
)
"""How many pairs of each similarity there are for a pair of different documents.

Counted by brute force in 16,000 of 110,000 pages of RFCs without their near-duplicates: those of
0.8 and more; for the last three, which only a higher threshold leaves, those of 0.95 and more.
The first is the mean of what is below 0.01.
"""


@dataclass(frozen=True)
class Workload:
    """Amounts for each document of the corpus, on average.

    stored        bytes in the input files
    removed       the share that is removed
    kept          bytes of the kept files
    candidates    the share that shares a bucket with another, once copies are set aside
    sets          bytes of the candidates' sets of shingles
    compared      pairs that are compared
    false         those of them that are not similar enough
    members       places in buckets that are shared, over all bands
    buckets       such buckets
    id            bytes of its id
    pairs         all pairs by their similarity; None if nobody knows
    """

    stored: float
    removed: float
    kept: float
    candidates: float
    sets: float
    compared: float
    false: float
    members: float
    buckets: float
    id: float = 12.0
    pairs: PairCounts | None = None


def scale_workload(profile: Workload, times: float, most: float) -> Workload:
    """The same for so many times the documents, of the same kind.

    Whatever is not similar enough and meets by chance, or because it is of the same template, is
    there so many times more often; a document is compared with `most` others at most. What is
    removed, and what that takes, is a share.
    """
    false = max(min(profile.false * times, most), profile.false)
    return replace(profile, false=false, compared=profile.compared - profile.false + false)


def assume_workload(sla: Sla, options: Options) -> Workload:
    """What is usual among pages of manuals: a tenth goes, the others meet as often as those do."""
    parts, most = options.curve.parts, options.hash_tables.count * options.limit
    met = sum(share * options.curve.probability(similarity) for similarity, share in _below(sla))
    false = min(sla.documents * met / 2, most)
    candidates = _sharing(ALIKE, sla.documents * met)
    members = sum(
        part.bands * _sharing(ALIKE_IN_A_BAND, sla.documents * _meeting_in_a_band(sla, part.rows))
        for part in parts
    )
    return Workload(
        stored=sla.size,
        removed=REMOVED,
        kept=(1 - REMOVED) * sla.size,
        candidates=candidates,
        sets=candidates * 8 * sla.shingles,
        compared=REMOVED + false,
        false=false,
        members=members,
        buckets=members / IN_A_BUCKET,
    )


def _below(sla: Sla) -> PairCounts:
    return [(similarity, share) for similarity, share in USUAL if similarity < sla.threshold]


def _meeting_in_a_band(sla: Sla, rows: int) -> float:
    return sum(share * similarity**rows for similarity, share in _below(sla))


def _sharing(alike: float, met: float) -> float:
    """The share of documents that share a bucket, if each meets so many that are not alike."""
    return 1 - (1 - alike) * math.exp(-CROWDING * math.sqrt(met))


PairCounts = Sequence[tuple[float, float]]
"""Similarities, and how many pairs have each."""


Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Chosen = NDArray[np.bool_]
FLOOR = 0.3
"""Estimates let pairs pass that are a little below a threshold; hardly any from below this."""


@dataclass(frozen=True)
class SampleCandidates:
    """Of some documents, copies set aside: the buckets and the pairs that share one.

    stands     for how many pairs of its documents in the corpus each stands
    none       the chance that a document would show none of those
    removing   which pairs are of a kept document and of one that goes for its sake
    compared   which are compared
    """

    unique: Integers
    buckets: Buckets
    left: Integers
    right: Integers
    similarity: Reals
    stands: Reals
    none: Reals
    removing: Chosen
    compared: Chosen


@dataclass(frozen=True)
class SampledCorpus:
    """A corpus as a sample shows it. `stored` is what its files hold of a document, in bytes."""

    sample: Sample
    stored: float
    content: NDArray[np.uint64]
    sets: Ragged
    pairs: PairCounts

    @classmethod
    def of(
        cls, sample: Sample, spec: Spec, stored: float, workers: int, threshold: float = FLOOR
    ) -> SampledCorpus:
        """Cut the sample into shingles, and compare everything in it."""
        cut = ShingleSets.of(as_documents(sample.texts), spec)
        pairs = _pairs(sample, cut.sets, workers, min(threshold, FLOOR))
        return cls(sample, stored, cut.content, cut.sets, pairs)

    @property
    def documents(self) -> float:
        """Of the whole corpus that the sample's files are, about."""
        return self.sample.documents * self.sample.stored / self.sample.read

    @cached_property
    def lengths(self) -> Reals:
        """Bytes of the sample's texts."""
        return np.array([len(text.encode("utf-8", "replace")) for text in self.sample.texts], float)

    @property
    def size(self) -> float:
        """Bytes of a text, on average."""
        return float(self.lengths.mean())

    @property
    def shingles(self) -> float:
        """Distinct ones of a document, on average."""
        return float(self.sets.sizes.mean())

    def profile(self, options: Options) -> Workload:
        """What would be compared and removed, by these options."""
        met, count = self._met(options), len(self.sets)
        candidates = _stand_for(count, np.r_[met.left, met.right], np.r_[met.none, met.none])
        gone = _stand_for(count, met.right[met.removing], met.none[met.removing])
        gone[np.setdiff1d(np.arange(count), met.unique)] = 1.0
        more = candidates.sum() / max(len(met.buckets.documents), 1)
        similar = met.similarity >= options.threshold
        # Some are kept here that would not be in the corpus; both of a pair have to be.
        kept = max(count - gone.sum(), 0.0) / np.count_nonzero(gone == 0.0)
        false = float(met.stands[met.compared & ~similar].sum() / count * kept**2)
        # However many a removed document is similar to, it is compared with the first.
        right = float(gone[met.right[met.compared & similar]].sum()) / count
        return Workload(
            stored=self.stored,
            id=float(np.mean([len(name.encode("utf-8", "replace")) for name in self.sample.ids])),
            removed=min(float(gone.sum()) / count, 1.0),
            kept=self.stored * max(1.0 - float(gone @ self.lengths / self.lengths.sum()), 0.0),
            candidates=min(float(candidates.sum()) / count, 1.0),
            sets=float(candidates @ self.sets.sizes) * 8 / count,
            compared=right + false,
            false=false,
            members=float(met.buckets.sizes.sum() * more) / count,
            buckets=float(len(met.buckets.sizes) * more) / count,
            pairs=self.pairs,
        )

    def _met(self, options: Options) -> SampleCandidates:
        """What would happen to the sample alone."""
        count = len(self.sets)
        unique = DistinctDocuments.of(self.content, np.arange(count)).first
        signatures = bulk.make_signatures(self.sets.data, self.sets.offsets, options.spec)
        bucketed = BucketedSample.of(options.hash_tables.keys(signatures), unique)
        left, right = bucketed.all_candidates()
        first = _with_the_first(bucketed.buckets, left, right)
        left, right = bucketed.documents[left], bucketed.documents[right]
        similarity = kernels.exact_pairs(self.sets.data, self.sets.offsets, left, right, 0.0)
        removing, compared = _decided(count, left, right, similarity, options.threshold)
        found = Truth(count, 0.0, left, right, similarity)
        stands = np.maximum(self.sample.weights(found) * self.sample.share, 1.0)
        # In a crowd, there are as many partners as one stands for; otherwise the one is likely all.
        crowded = self.sample.crowded[left] | self.sample.crowded[right]
        none = (1.0 - 1.0 / stands) ** np.where(crowded, stands, 1.0)
        return SampleCandidates(
            unique,
            bucketed.buckets,
            left,
            right,
            similarity,
            stands,
            none,
            removing,
            compared | first,
        )


def _pairs(sample: Sample, sets: Ragged, workers: int, floor: float) -> PairCounts:
    """All pairs of the corpus by their similarity, as far as they are in the sample."""
    truth = brute_force(sets, floor, workers)
    values, where = np.unique(np.round(truth.similarity, 3), return_inverse=True)
    counts = np.bincount(where, sample.weights(truth))
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _stand_for(count: int, documents: Integers, none: Reals) -> Reals:
    """For how many documents of its kind each stands that has some partner in the sample: `none`
    are the chances that it would have been without each."""
    alone = np.ones(count)
    np.multiply.at(alone, documents, none)
    found = np.zeros(count)
    there = np.unique(documents)
    found[there] = 1.0 / (1.0 - alone[there])
    return found


def _with_the_first(buckets: Buckets, left: Integers, right: Integers) -> Chosen:
    """Which pairs are of the first document of a bucket and another: they are always compared."""
    members, starts = buckets.members()
    first = np.repeat(members[starts[:-1]], buckets.sizes)
    count = len(buckets.documents)
    return np.isin(left * count + right, first * count + members)


def _decided(
    count: int, left: Integers, right: Integers, similarity: Reals, threshold: float
) -> tuple[Chosen, Chosen]:
    """Which pairs are of a kept and a removed document, and which are compared, in rank order."""
    order = np.lexsort((left, right))
    ends = np.searchsorted(right[order], np.arange(count + 1))
    kept = np.ones(count, bool)
    removing, compared = np.zeros(len(left), bool), np.zeros(len(left), bool)
    for document in np.unique(right).tolist():
        pairs = order[ends[document] : ends[document + 1]]
        pairs = pairs[kept[left[pairs]]]
        similar = np.flatnonzero(similarity[pairs] >= threshold)
        if len(similar):
            kept[document] = False
            removing[pairs[similar]] = True
            pairs = pairs[: similar[0] + 1]
        compared[pairs] = True
    return removing, compared
