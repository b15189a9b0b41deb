"""Runs the trial of one operating point on one core: sketch, group, verify, judge, and time it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import cluster, kernels
from neardup.corpus.documents import Documents
from neardup.evaluation.lab import (
    BucketedSample,
    DistinctDocuments,
    ShingleSets,
    exact_verifier,
    unnamed_documents,
)
from neardup.keys import make_hasher
from neardup.lsh.buckets import Buckets
from neardup.options import Options
from neardup.planner.tuning import TrialOutcome, TrialPoint
from neardup.sketch import bulk
from neardup.sketcher import Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged
from neardup.verify import Exact

AT_ONCE = 100_000
"""Documents that are sketched at a time: the shingles of more would only fill memory."""
FEW = 64
"""Documents that kernels are tried on before times are taken."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: small keys, multiplied by it, fall into all parts of the range, and stay apart."""
APART = np.uint64(0x9E3779B97F4A7C16)
"""An even one: x + APART * y differs where x or y do, also if x and y are always equal."""
REPEATS, ENOUGH = 25, 0.5
"""A trial is repeated so often, or for so many seconds: the least time counts."""
TIMES = ("t_sig", "t_rest", "t_compare")

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class TrialReference:
    """What all trials are judged by: the documents' sets of shingles, and a threshold.

    The truth knows pairs down to the floor, of which so many reach the threshold.
    """

    sets: Ragged
    content: Words
    threshold: float
    true_pairs: int
    floor: float

    @classmethod
    def of(
        cls, documents: Documents, spec: Spec, threshold: float, true_pairs: int, floor: float
    ) -> TrialReference:
        cut = ShingleSets.of(documents, spec)
        return cls(cut.sets, cut.content, threshold, true_pairs, floor)

    def similar(self, a: Integers, b: Integers) -> NDArray[np.bool_]:
        """Which of these pairs are true?"""
        return self._reach(self.threshold, a, b)

    def far(self, a: Integers, b: Integers) -> int:
        """How many of these pairs does the truth not know?"""
        return len(a) - int(np.count_nonzero(self._reach(self.floor, a, b)))

    def _reach(self, least: float, a: Integers, b: Integers) -> NDArray[np.bool_]:
        found = Exact(self.sets.data, self.sets.offsets, least).pairs(a, b)
        reached: NDArray[np.bool_] = found >= 0.0
        return reached


@dataclass(frozen=True)
class TrialRunner:
    """Documents to try operating points on. `shared` are options that all points have."""

    documents: Documents
    reference: TrialReference
    shared: Mapping[str, Any]

    def warm_up(self, point: TrialPoint) -> None:
        """Have everything compiled and loaded that the point needs."""
        # In one bucket they all meet, so that nothing is left out.
        self._some(min(FEW, len(self.documents)))._once(replace(point, buckets=1))

    def measure(self, point: TrialPoint) -> TrialOutcome:
        """The trial itself."""
        best, spent = self._once(point), 0.0
        for _ in range(1, REPEATS):
            spent += best.seconds
            if spent >= ENOUGH:
                break
            again = self._once(point, judged=False)
            least = {name: min(getattr(best, name), getattr(again, name)) for name in TIMES}
            best = replace(best, **least)
        return best

    def _once(self, point: TrialPoint, judged: bool = True) -> TrialOutcome:
        """The trial, once; to know its times alone, what it found need not be judged again."""
        options = point.options(**self.shared)
        begun = time.perf_counter()
        made = _sketch(self.documents.texts, point, options)
        signed = time.perf_counter()
        keys = _keys(made.signatures, point, options)
        compared = bulk.pack_signatures(made.signatures, options.spec)
        distinct = self._distinct(made)
        bucketed = BucketedSample.of(keys, distinct.first)
        verifier = _verifier(made, compared, bucketed.documents, options)
        found = self._verify(bucketed, verifier, distinct, judged)
        ended = time.perf_counter()
        sizes = _bucket_sizes(bucketed.buckets, len(distinct.first))
        many = sum(sizes.values())
        return replace(
            found,
            point=point,
            t_sig=signed - begun,
            t_rest=ended - signed - found.t_rest,  # where the time of judging is
            buckets=many,
            bucket_sizes=sizes,
            average_bucket=len(distinct.first) * keys.shape[1] / many if many else 0.0,
            memory=compared.nbytes + keys.nbytes,
        )

    def _some(self, count: int) -> TrialRunner:
        """The same with the first documents only."""
        reference = self.reference
        sets = Ragged(reference.sets.data, reference.sets.offsets[: count + 1])
        few = replace(reference, sets=sets, content=reference.content[:count])
        return replace(
            self, documents=unnamed_documents(self.documents.texts[:count]), reference=few
        )

    def _distinct(self, made: _Made) -> DistinctDocuments:
        """Documents that are the same to the trial and to the reference are looked at once."""
        takes_part = np.flatnonzero(made.sizes > 0)
        same = made.content + self.reference.content * APART
        return DistinctDocuments.of(same, takes_part)

    def _verify(
        self, bucketed: BucketedSample, verifier: Any, distinct: DistinctDocuments, judged: bool
    ) -> TrialOutcome:
        """Counts of pairs; `t_rest` is the time that went into judging them."""
        documents = bucketed.documents
        counts = distinct.copies[bucketed.buckets.documents]
        candidates, far, comparing, judging = 0, 0, 0.0, 0.0
        pairs = right = int((distinct.copies * (distinct.copies - 1) // 2).sum())
        most = min(len(documents), cluster.PAIRS_AT_ONCE)
        for u, v in bucketed.candidates(most):
            started = time.perf_counter()
            good = verifier.pairs(u, v) >= 0.0
            begun = time.perf_counter()
            comparing += begun - started
            if not judged:
                continue
            a, b = u[good], v[good]
            stand_for = counts[a] * counts[b]
            candidates += len(u)
            far += self.reference.far(documents[u], documents[v])
            pairs += int(stand_for.sum())
            right += int(stand_for[self.reference.similar(documents[a], documents[b])].sum())
            judging += time.perf_counter() - begun
        true = self.reference.true_pairs
        return TrialOutcome(
            TrialPoint(),
            candidates=candidates,
            far=far,
            pairs=pairs,
            true_pairs=true,
            recall=right / true if true else None,
            precision=right / pairs if pairs else None,
            t_rest=judging,
            t_compare=comparing,
        )


@dataclass(frozen=True)
class _Made:
    """What documents come down to; their shingles only if candidates are verified by them."""

    signatures: bulk.Signatures
    content: Words
    sizes: Integers
    shingles: Ragged | None


def _sketch(texts: pa.Array, point: TrialPoint, options: Options) -> _Made:
    """Texts to signatures."""
    sketcher = Sketcher(options.spec)
    rows, content, sizes, kept = [], [], [], []
    for start in range(0, len(texts), AT_ONCE):
        cut = sketcher.cut(unnamed_documents(texts[start : start + AT_ONCE]))
        data, offsets = cut.shingles.data, cut.shingles.offsets
        if point.vocabulary is not None:
            data = _words(data % np.uint64(point.vocabulary), options.spec)
        rows.append(bulk.make_signatures(data, offsets, options.spec))
        content.append(cut.content)
        sizes.append(cut.shingles.sizes)
        if options.verify == "exact":
            kept.append(data)
    each = np.concatenate(sizes)
    offsets = np.concatenate([[0], np.cumsum(each)])
    shingles = Ragged(np.concatenate(kept), offsets) if kept else None
    return _Made(np.concatenate(rows), np.concatenate(content), each, shingles)


def _words(numbers: Words, spec: Spec) -> Words:
    """The hashes of numbered words."""
    ends = np.arange(len(numbers) + 1, dtype=np.int64) * 8
    found: Words = kernels.element_hashes(numbers.view(np.uint8), ends, make_hasher(spec, None))
    return found


def _keys(signatures: bulk.Signatures, point: TrialPoint, options: Options) -> Words:
    """The keys in all tables, of a limited number if the point says so."""
    keys = options.hash_tables.keys(signatures)
    if point.buckets is None:
        return keys
    return keys % np.uint64(point.buckets) * SPREAD


def _verifier(made: _Made, compared: Any, candidates: Integers, options: Options) -> Any:
    """How candidates are judged, as in a run: by their sorted shingles or their signatures."""
    if made.shingles is None:
        return options.estimated(compared[candidates])
    return exact_verifier(_rows(made.shingles, candidates), options, copy=False)


def _rows(rows: Ragged, chosen: Integers) -> Ragged:
    """A copy of some rows."""
    sizes = rows.sizes[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(rows.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Ragged(rows.data[places], offsets)


def _bucket_sizes(buckets: Buckets, documents: int) -> dict[int, int]:
    """How many buckets have how many documents, in all tables."""
    alone = documents * buckets.numbers.shape[1] - int(buckets.sizes.sum())
    sizes, many = np.unique(buckets.sizes, return_counts=True)
    shared = dict(zip(sizes.tolist(), many.tolist(), strict=True))
    return ({1: alone} if alone else {}) | shared
