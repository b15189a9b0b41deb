"""The lab: documents of a sample, sketched, grouped into buckets, verified and timed.

Every measurement of an operating point takes these steps, so that a candidate and a similar pair
mean the same in `plan`, `tune`, `compare-sketches` and `evaluate`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import cluster
from neardup.corpus.documents import Documents
from neardup.lsh.buckets import Buckets, group_by_key
from neardup.options import Options
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.sketch import bulk
from neardup.sketcher import SketchedDocuments, Sketcher, append_vectors, pack_vectors
from neardup.spec import Spec
from neardup.text.arrays import Ragged
from neardup.verify import Comparison, Exact, Weighed

Integers = NDArray[np.int64]
Words = NDArray[np.uint64]
Result = TypeVar("Result")


def as_documents(texts: Sequence[str]) -> Documents:
    """Return Python strings as documents without names."""
    data = [text.encode("utf-8", "replace") for text in texts]
    ends = np.cumsum([0, *map(len, data)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(data))]
    return unnamed_documents(pa.Array.from_buffers(pa.large_string(), len(data), buffers))


def unnamed_documents(texts: pa.Array) -> Documents:
    """Return a column of texts as documents without names."""
    return Documents(texts, pa.nulls(len(texts), pa.large_string()), None, None, {})


@dataclass(frozen=True)
class ShingleSets:
    """Documents as sorted sets of shingles, with their content hashes."""

    sets: Ragged
    content: Words

    @classmethod
    def of(cls, documents: Documents, spec: Spec) -> ShingleSets:
        """Cut documents into the shingles of a specification."""
        cut = Sketcher(spec).cut(documents)
        return cls(sort_sets(cut.shingles), cut.content)


@dataclass(frozen=True)
class DistinctDocuments:
    """The first of each group of identical documents, ascending, and the sizes of the groups."""

    first: Integers
    copies: Integers

    @classmethod
    def of(cls, content: Words, documents: Integers) -> DistinctDocuments:
        """Group documents, which are in rank order, by their content hashes."""
        leaders = cluster.find_identical(content, documents)[documents]
        first, copies = np.unique(leaders, return_counts=True)
        return cls(first, copies.astype(np.int64))


@dataclass(frozen=True)
class BucketedSample:
    """The documents that share a bucket, and the buckets.

    documents   their numbers in the sample, ascending; pairs are places in this array
    """

    documents: Integers
    buckets: Buckets

    @classmethod
    def of(cls, keys: Words, rows: Integers | None = None) -> BucketedSample:
        """Group documents by their keys, a column for each table; `rows` selects documents."""
        buckets = group_by_key(keys, rows)
        members = buckets.documents
        return cls(members if rows is None else rows[members], buckets)

    def candidates(self, most: int = cluster.BUCKET_CAP) -> Iterator[tuple[Integers, Integers]]:
        """Yield every pair that shares a bucket, once, in blocks.

        Only the first `most` documents of a bucket are paired.
        """
        return cluster.pair_candidates(self.buckets, cap=most)

    def all_candidates(self, most: int = cluster.BUCKET_CAP) -> tuple[Integers, Integers]:
        """Return all candidates in one block."""
        blocks = [np.empty((2, 0), np.int64), *map(np.stack, self.candidates(most))]
        left, right = np.concatenate(blocks, axis=1)
        return left, right


def exact_verifier(
    shingles: Ragged, options: Options, weights: Any = None, copy: bool = True
) -> Exact | Weighed:
    """Return a verifier by the documents' sets or bags of shingles.

    Args:
        shingles: A row for each document, as the sketcher cut it.
        options: The operating point, of which threshold and measure are used.
        weights: The weight of each shingle, if there are document frequencies.
        copy: Whether the rows must stay as they are; sorting is in place otherwise.
    """
    rows = Ragged(shingles.data.copy(), shingles.offsets.copy()) if copy else shingles
    sets = sort_bags(rows) if options.spec.of_bags else sort_sets(rows)
    return options.exact(sets.data, sets.offsets, weights)


def full_verifier(sketch: SketchedDocuments, options: Options, weights: Any = None) -> Comparison:
    """Return an exact verifier by all that documents have: their shingles, their vectors, or both.

    Args:
        sketch: The documents.
        options: The operating point, of which thresholds and measure are used.
        weights: The weight of each shingle, if there are document frequencies.
    """
    if sketch.vectors is None:
        return exact_verifier(sketch.shingles, options, weights)
    rows = sketch.shingles
    if not options.spec.of_vectors:
        sets = sort_sets(Ragged(rows.data.copy(), rows.offsets.copy()))
        rows = append_vectors(sets, pack_vectors(sketch.vectors))
    return options.comparison(rows.data, rows.offsets, weights)


def estimate_verifier(signatures: bulk.Signatures, options: Options) -> Any:
    """Return a verifier by the signatures, as they are stored."""
    return options.estimated(bulk.pack_signatures(signatures, options.spec))


def time_best(work: Callable[[], Result], attempts: int = 3) -> tuple[Result, float]:
    """Run `work` several times; return its result and the seconds of the fastest attempt."""
    seconds = []
    for _ in range(attempts):
        begun = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - begun)
    return result, min(seconds)
