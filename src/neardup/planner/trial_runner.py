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

BATCH = 100_000
"""Documents that are sketched at a time, to limit the memory of their shingles."""
FEW = 64
"""Documents that kernels are warmed up with before times are taken."""
SPREAD = np.uint64(0x9E3779B97F4A7C15)
"""An odd number: products with it spread small keys over the range and stay distinct."""
APART = np.uint64(0x9E3779B97F4A7C16)
"""An even number: x + APART * y differs where x or y do, also if x and y are always equal."""
REPEATS, ENOUGH = 25, 0.5
"""The most repetitions of a trial, and the seconds after which it is not repeated again."""
TIMES = ("t_sig", "t_rest", "t_compare")

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class TrialReference:
    """The truth that all trials are judged by.

    sets         the documents' sets of shingles
    content      their content hashes
    threshold    pairs at least this similar are true
    true_pairs   the number of true pairs
    floor        the truth has all pairs down to this similarity
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
        """Cut documents into the shingles of the reference."""
        cut = ShingleSets.of(documents, spec)
        return cls(cut.sets, cut.content, threshold, true_pairs, floor)

    def similar(self, a: Integers, b: Integers) -> NDArray[np.bool_]:
        """Return which pairs are true."""
        return self._reach(self.threshold, a, b)

    def far(self, a: Integers, b: Integers) -> int:
        """Return the number of pairs below the floor of the truth."""
        return len(a) - int(np.count_nonzero(self._reach(self.floor, a, b)))

    def _reach(self, least: float, a: Integers, b: Integers) -> NDArray[np.bool_]:
        similarity = Exact(self.sets.data, self.sets.offsets, least).pairs(a, b)
        reached: NDArray[np.bool_] = similarity >= 0.0
        return reached


@dataclass(frozen=True)
class TrialRunner:
    """Runs operating points on documents; `shared` are options that all points have."""

    documents: Documents
    reference: TrialReference
    shared: Mapping[str, Any]

    def warm_up(self, point: TrialPoint) -> None:
        """Compile and load all kernels that the point needs."""
        # In one bucket all documents are candidates, so that every step runs.
        self._first(min(FEW, len(self.documents)))._once(replace(point, buckets=1))

    def measure(self, point: TrialPoint) -> TrialOutcome:
        """Run the trial, repeatedly if it is short, and return its outcome with the least times."""
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
        """Run the trial once; without `judged`, only its times are measured."""
        options = point.options(**self.shared)
        begun = time.perf_counter()
        made = _sketch(self.documents.texts, point, options)
        signed = time.perf_counter()
        keys = _keys(made.signatures, point, options)
        compared = bulk.pack_signatures(made.signatures, options.spec)
        distinct = self._distinct(made)
        bucketed = BucketedSample.of(keys, distinct.first)
        verifier = _verifier(made, compared, bucketed.documents, options)
        verified = self._verify(bucketed, verifier, distinct, judged)
        ended = time.perf_counter()
        sizes = _bucket_sizes(bucketed.buckets, len(distinct.first))
        count = sum(sizes.values())
        return replace(
            verified,
            point=point,
            t_sig=signed - begun,
            t_rest=ended - signed - verified.t_rest,  # without the time of judging
            buckets=count,
            bucket_sizes=sizes,
            average_bucket=len(distinct.first) * keys.shape[1] / count if count else 0.0,
            memory=compared.nbytes + keys.nbytes,
        )

    def _first(self, count: int) -> TrialRunner:
        """Return a runner on the first documents only."""
        reference = self.reference
        sets = Ragged(reference.sets.data, reference.sets.offsets[: count + 1])
        few = replace(reference, sets=sets, content=reference.content[:count])
        return replace(
            self, documents=unnamed_documents(self.documents.texts[:count]), reference=few
        )

    def _distinct(self, made: _SketchedTexts) -> DistinctDocuments:
        """Return the documents that differ to the trial or to the reference, and their copies."""
        takes_part = np.flatnonzero(made.sizes > 0)
        same = made.content + self.reference.content * APART
        return DistinctDocuments.of(same, takes_part)

    def _verify(
        self, bucketed: BucketedSample, verifier: Any, distinct: DistinctDocuments, judged: bool
    ) -> TrialOutcome:
        """Verify all candidates and count them; `t_rest` is the time spent on judging."""
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
            weight = counts[a] * counts[b]
            candidates += len(u)
            far += self.reference.far(documents[u], documents[v])
            pairs += int(weight.sum())
            right += int(weight[self.reference.similar(documents[a], documents[b])].sum())
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
class _SketchedTexts:
    """Sketched documents; `shingles` only if candidates are verified by them."""

    signatures: bulk.Signatures
    content: Words
    sizes: Integers
    shingles: Ragged | None


def _sketch(texts: pa.Array, point: TrialPoint, options: Options) -> _SketchedTexts:
    """Cut texts into shingles and make their signatures."""
    sketcher = Sketcher(options.spec)
    rows, content, sizes, kept = [], [], [], []
    for start in range(0, len(texts), BATCH):
        cut = sketcher.cut(unnamed_documents(texts[start : start + BATCH]))
        data, offsets = cut.shingles.data, cut.shingles.offsets
        if point.vocabulary is not None:
            data = _hash_numbers(data % np.uint64(point.vocabulary), options.spec)
        rows.append(bulk.make_signatures(data, offsets, options.spec))
        content.append(cut.content)
        sizes.append(cut.shingles.sizes)
        if options.verify == "exact":
            kept.append(data)
    each = np.concatenate(sizes)
    offsets = np.concatenate([[0], np.cumsum(each)])
    shingles = Ragged(np.concatenate(kept), offsets) if kept else None
    return _SketchedTexts(np.concatenate(rows), np.concatenate(content), each, shingles)


def _hash_numbers(numbers: Words, spec: Spec) -> Words:
    """Return the element hashes of numbered words."""
    ends = np.arange(len(numbers) + 1, dtype=np.int64) * 8
    hashes: Words = kernels.element_hashes(numbers.view(np.uint8), ends, make_hasher(spec, None))
    return hashes


def _keys(signatures: bulk.Signatures, point: TrialPoint, options: Options) -> Words:
    """Return the keys in all tables, modulo `buckets` if the point limits them."""
    keys = options.hash_tables.keys(signatures)
    if point.buckets is None:
        return keys
    return keys % np.uint64(point.buckets) * SPREAD


def _verifier(made: _SketchedTexts, compared: Any, candidates: Integers, options: Options) -> Any:
    """Return the verifier of a run: by sorted shingles or by signatures."""
    if made.shingles is None:
        return options.estimated(compared[candidates])
    return exact_verifier(_take_rows(made.shingles, candidates), options, copy=False)


def _take_rows(rows: Ragged, chosen: Integers) -> Ragged:
    """Return a copy of the chosen rows."""
    sizes = rows.sizes[chosen]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    places = np.repeat(rows.offsets[chosen] - offsets[:-1], sizes) + np.arange(offsets[-1])
    return Ragged(rows.data[places], offsets)


def _bucket_sizes(buckets: Buckets, documents: int) -> dict[int, int]:
    """Return the number of buckets of each size, over all tables."""
    alone = documents * buckets.numbers.shape[1] - int(buckets.sizes.sum())
    sizes, counts = np.unique(buckets.sizes, return_counts=True)
    shared = dict(zip(sizes.tolist(), counts.tolist(), strict=True))
    return ({1: alone} if alone else {}) | shared
