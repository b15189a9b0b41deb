"""The workload of a plan: bytes, candidates and comparisons per document, assumed or sampled.

A sample chooses near-duplicates together: a pair of the corpus whose first document is chosen is in
the sample with a known chance q, so that each pair of the sample stands for 1 / q pairs.
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
"""The assumed share of removed documents."""
NEAR, NEAR_IN_A_BAND = 0.15, 0.06
"""The share of documents that share a bucket with a near-duplicate: in any band, and in each."""
CROWDING: Final = 0.09
"""Fitted to the same pages: candidates by chance come in crowds, they are not evenly spread."""
IN_A_BUCKET: Final = 2.3
"""Documents in a shared bucket, on average."""

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
"""Similarities, and the share of all pairs of different documents that have each.

Counted by brute force in 16,000 of 110,000 pages of RFCs without their near-duplicates: those of
0.8 and more; for the last three, which only a higher threshold leaves, those of 0.95 and more.
The first is the mean of the similarities below 0.01.
"""


@dataclass(frozen=True)
class Workload:
    """Amounts per document of the corpus, on average.

    stored        bytes in the input files
    removed       share of documents that are removed
    kept          bytes of the kept files
    candidates    share of documents that share a bucket with another, copies excluded
    sets          bytes of the candidates' sets of shingles
    compared      pairs that are compared
    false         those of them that are below the threshold
    members       places in shared buckets, over all bands
    buckets       shared buckets
    id            bytes of the id
    pairs         all pairs by their similarity; None if unknown
    met_by_planes      compared pairs that only bands of planes found
    members_of_planes  places in their shared buckets
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
    met_by_planes: float = 0.0
    members_of_planes: float = 0.0


def scale_workload(workload: Workload, times: float, most: float) -> Workload:
    """Return the workload of a larger corpus of the same kind.

    Pairs below the threshold that share a bucket, by chance or by a template, grow with the number
    of documents. The share of removed documents, and the comparisons that remove them, stay.

    Args:
        workload: The workload of the sampled corpus.
        times: How many times as many documents the larger corpus has.
        most: The most comparisons of one document.
    """
    false = max(min(workload.false * times, most), workload.false)
    return replace(workload, false=false, compared=workload.compared - workload.false + false)


def assume_workload(sla: Sla, options: Options) -> Workload:
    """Return the workload of pages of manuals: a tenth is removed, the others meet as they do."""
    parts, most = options.curve.parts, options.hash_tables.count * options.limit
    met = sum(share * options.curve.probability(similarity) for similarity, share in _below(sla))
    false = min(sla.documents * met / 2, most)
    candidates = _share_of_candidates(NEAR, sla.documents * met)
    members = sum(
        part.bands
        * _share_of_candidates(NEAR_IN_A_BAND, sla.documents * _meeting_in_a_band(sla, part.rows))
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
    """Return the usual similarities below the threshold."""
    return [(similarity, share) for similarity, share in USUAL if similarity < sla.threshold]


def _meeting_in_a_band(sla: Sla, rows: int) -> float:
    """Return the share of the pairs below the threshold that share a bucket in one band."""
    return sum(share * similarity**rows for similarity, share in _below(sla))


def _share_of_candidates(near: float, met: float) -> float:
    """Return the share of documents that share a bucket with another.

    Args:
        near: The share that have a near-duplicate.
        met: How many documents below the threshold each one meets, on average.
    """
    return 1 - (1 - near) * math.exp(-CROWDING * math.sqrt(met))


PairCounts = Sequence[tuple[float, float]]
"""Similarities, and the number of pairs that have each."""


Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
Chosen = NDArray[np.bool_]
FLOOR = 0.3
"""Pairs are counted down to this similarity: estimates let hardly any pair below it pass."""


@dataclass(frozen=True)
class SampleCandidates:
    """The buckets of a sample's distinct documents, and the pairs that share one.

    unique       the first of each group of identical documents
    left, right  the documents of each pair
    similarity   of each pair, exact
    weight       how many pairs of the corpus each pair stands for
    unseen       the chance that none of those pairs is in the sample
    removing     whether the pair is of a kept document and a document removed for it
    compared     whether the pair is compared
    """

    unique: Integers
    buckets: Buckets
    left: Integers
    right: Integers
    similarity: Reals
    weight: Reals
    unseen: Reals
    removing: Chosen
    compared: Chosen


@dataclass(frozen=True)
class SampledCorpus:
    """A corpus as its sample shows it.

    sample    the chosen documents
    stored    bytes of a document in the input files, on average
    content   content hashes of the chosen documents
    sets      their sets of shingles
    pairs     all pairs of the corpus by similarity, estimated
    """

    sample: Sample
    stored: float
    content: NDArray[np.uint64]
    sets: Ragged
    pairs: PairCounts

    @classmethod
    def of(
        cls, sample: Sample, spec: Spec, stored: float, workers: int, threshold: float = FLOOR
    ) -> SampledCorpus:
        """Cut the sample into shingles and compare all pairs."""
        cut = ShingleSets.of(as_documents(sample.texts), spec)
        pairs = _pairs(sample, cut.sets, workers, min(threshold, FLOOR))
        return cls(sample, stored, cut.content, cut.sets, pairs)

    @property
    def documents(self) -> float:
        """The number of documents in the whole corpus, estimated."""
        return self.sample.documents * self.sample.stored / self.sample.read

    @cached_property
    def lengths(self) -> Reals:
        """Bytes of the sample's texts."""
        return np.array([len(text.encode("utf-8", "replace")) for text in self.sample.texts], float)

    @property
    def size(self) -> float:
        """Mean bytes of a text."""
        return float(self.lengths.mean())

    @property
    def shingles(self) -> float:
        """Mean number of distinct shingles of a document."""
        return float(self.sets.sizes.mean())

    def workload(self, options: Options) -> Workload:
        """Estimate the workload of the corpus at an operating point."""
        met, count = self._met(options), len(self.sets)
        candidates = _weigh_documents(
            count, np.r_[met.left, met.right], np.r_[met.unseen, met.unseen]
        )
        removed = _weigh_documents(count, met.right[met.removing], met.unseen[met.removing])
        removed[np.setdiff1d(np.arange(count), met.unique)] = 1.0
        more = candidates.sum() / max(len(met.buckets.documents), 1)
        similar = met.similarity >= options.threshold
        # The sample keeps documents that the corpus removes; both documents of a pair must be kept.
        kept = max(count - removed.sum(), 0.0) / np.count_nonzero(removed == 0.0)
        false = float(met.weight[met.compared & ~similar].sum() / count * kept**2)
        # A removed document is compared with the first similar one only.
        right = float(removed[met.right[met.compared & similar]].sum()) / count
        return Workload(
            stored=self.stored,
            id=float(np.mean([len(name.encode("utf-8", "replace")) for name in self.sample.ids])),
            removed=min(float(removed.sum()) / count, 1.0),
            kept=self.stored * max(1.0 - float(removed @ self.lengths / self.lengths.sum()), 0.0),
            candidates=min(float(candidates.sum()) / count, 1.0),
            sets=float(candidates @ self.sets.sizes) * 8 / count,
            compared=right + false,
            false=false,
            members=float(met.buckets.sizes.sum() * more) / count,
            buckets=float(len(met.buckets.sizes) * more) / count,
            pairs=self.pairs,
        )

    def _met(self, options: Options) -> SampleCandidates:
        """Group the sample and decide its candidates, as a run over the sample alone would."""
        count = len(self.sets)
        unique = DistinctDocuments.of(self.content, np.arange(count)).first
        signatures = bulk.make_signatures(self.sets.data, self.sets.offsets, options.spec)
        bucketed = BucketedSample.of(options.hash_tables.keys(signatures), unique)
        left, right = bucketed.all_candidates()
        first = _pairs_with_leader(bucketed.buckets, left, right)
        left, right = bucketed.documents[left], bucketed.documents[right]
        similarity = kernels.exact_pairs(self.sets.data, self.sets.offsets, left, right, 0.0)
        removing, compared = _decide(count, left, right, similarity, options.threshold)
        truth = Truth(count, 0.0, left, right, similarity)
        weight = np.maximum(self.sample.weights(truth) * self.sample.share, 1.0)
        # In a crowd, a pair stands for that many partners; otherwise for one that might be missing.
        crowded = self.sample.crowded[left] | self.sample.crowded[right]
        unseen = (1.0 - 1.0 / weight) ** np.where(crowded, weight, 1.0)
        return SampleCandidates(
            unique,
            bucketed.buckets,
            left,
            right,
            similarity,
            weight,
            unseen,
            removing,
            compared | first,
        )


def _pairs(sample: Sample, sets: Ragged, workers: int, floor: float) -> PairCounts:
    """Return the pairs of the corpus by similarity, estimated from those of the sample."""
    truth = brute_force(sets, floor, workers)
    values, where = np.unique(np.round(truth.similarity, 3), return_inverse=True)
    counts = np.bincount(where, sample.weights(truth))
    return list(zip(values.tolist(), counts.tolist(), strict=True))


def _weigh_documents(count: int, documents: Integers, unseen: Reals) -> Reals:
    """Return how many documents of the corpus each document with a partner stands for.

    Args:
        count: The number of documents of the sample; those without a partner weigh 0.
        documents: A document for each of its partners in the sample.
        unseen: The chance that this partner would not be in the sample.
    """
    alone = np.ones(count)
    np.multiply.at(alone, documents, unseen)
    weights = np.zeros(count)
    paired = np.unique(documents)
    weights[paired] = 1.0 / (1.0 - alone[paired])
    return weights


def _pairs_with_leader(buckets: Buckets, left: Integers, right: Integers) -> Chosen:
    """Mark the pairs with the first document of a bucket, which are always compared."""
    members, starts = buckets.members()
    first = np.repeat(members[starts[:-1]], buckets.sizes)
    count = len(buckets.documents)
    return np.isin(left * count + right, first * count + members)


def _decide(
    count: int, left: Integers, right: Integers, similarity: Reals, threshold: float
) -> tuple[Chosen, Chosen]:
    """Decide documents in rank order; mark the pairs that remove one, and those compared."""
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
