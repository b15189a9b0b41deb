"""Decide again only the documents whose verdict may differ from that of an earlier answer.

A document's verdict depends on the kept ones among the better-ranked documents of its buckets
alone. So the documents that decisions name, and all that share a key with one of them, are judged
again. Where that keeps a document that was removed, or removes one that was kept, the documents of
its buckets are judged too, until no more change. All others keep their verdict: the answer is that
of a run which decides everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.bands import Tables
from neardup.pipeline.earlier_answer import EarlierAnswer
from neardup.pipeline.job import Job
from neardup.pipeline.output import discard
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.sorting import Sorter
from neardup.pipeline.stages.band import (
    CANDIDATE,
    BucketFiles,
    BucketsWithSame,
    TouchedBuckets,
    same_buckets,
)
from neardup.pipeline.stages.compare import PairComparer
from neardup.pipeline.stages.decide import VERIFIED, DecidedPairs, decide_documents
from neardup.pipeline.stages.match import CandidateMatcher
from neardup.pipeline.stages.rank import RankedDocuments
from neardup.runtime import Progress, map_in_order

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
KEPT = np.uint8(1)
FILTER_BITS = 1 << 20


def decide_again(
    job: Job,
    folder: Path,
    ranked: RankedDocuments,
    buckets: BucketFiles,
    earlier: EarlierAnswer,
    progress: Progress,
) -> tuple[DecidedPairs, PairComparer]:
    """Decide the documents that decisions touch, the others as before; return also what compares.

    Args:
        job: The job with the decisions.
        folder: For the files of the stages.
        ranked: The documents, with the decisions.
        buckets: The buckets of all documents.
        earlier: The answer of the run that has been.
        progress: Told of the stages.
    """
    state, rank_of = ranked.state, ranked.ranking.of
    takes_part = state != 0
    ranks = rank_of(earlier.removed)
    # Copies take no part: they get the verdict of the best one.
    own = takes_part[ranks] & (earlier.witness >= 0)
    gone = np.zeros(len(state), bool)
    gone[ranks[own]] = True
    every = BucketsWithSame(buckets, same_buckets(ranked))
    judged = find_touched(job, ranked, every, earlier.named)
    # Those of a run that was stopped are about documents that are not judged yet.
    discard(folder / "pairs" / VERIFIED)
    while True:
        touched = TouchedBuckets(buckets, judged).hold(job.budget.share(4))
        near = TouchedBuckets(BucketsWithSame(touched, every.same), judged).members()
        state[:] = (takes_part & (judged | ~gone)) * KEPT
        state[near & takes_part] |= CANDIDATE
        sets = CandidateMatcher(job, folder, ranked, progress).run()
        compare = PairComparer(job, sets, ranked.ranking, progress)
        decided = decide_documents(job, folder, ranked, touched, compare, progress, judged)
        changed = judged & takes_part & ((state & KEPT == KEPT) == gone)
        grown = judged | TouchedBuckets(every, changed).members()
        if (grown == judged).all():
            break
        judged = grown
    verdicts = Sorter(folder / "verdicts-again", job.budget.share(4), carries=True)
    for keys, values in decided.pairs:
        verdicts.add(keys, values)
    same = own & ~judged[ranks]
    removed, witness = ranks[same].astype(np.uint64), rank_of(earlier.witness[same])
    before = removed << np.uint64(32) | witness.astype(np.uint64) << np.uint64(1)
    verdicts.add(before, earlier.similarity[same])
    count = int(np.count_nonzero(judged & takes_part))
    return DecidedPairs(iter(verdicts), decided.tally, judged=count), compare


def find_touched(
    job: Job, ranked: RankedDocuments, buckets: BucketsWithSame, before: Integers
) -> Mask:
    """Return the documents that decisions name, or that share a bucket with one of these.

    Args:
        job: The job, with the tables of keys.
        ranked: The documents, with the decisions.
        buckets: The buckets of all documents that take part.
        before: The documents that earlier decisions named.
    """
    now = ranked.overrides.documents if ranked.overrides is not None else before
    named = np.union1d(now, before)
    touched = np.zeros(len(ranked.state), bool)
    touched[ranked.ranking.of(named)] = True
    touched = TouchedBuckets(buckets, touched).members()
    # Documents that are dropped now, or copies again, are in no bucket: their keys tell.
    outside = named[ranked.state[ranked.ranking.of(named)] == 0]
    tables = job.options.hash_tables
    work = KeyMatcher(ranked.sketches, tables, outside, job.budget.share(2 * job.workers))
    for _, found in map_in_order(range(tables.count if len(outside) else 0), work, job.workers):
        touched[ranked.ranking.of(found)] = True
    return touched


@dataclass(frozen=True)
class KeyMatcher:
    """Finds the documents that have a key of a table in common with one of some documents."""

    sketches: Sketches
    tables: Tables
    documents: Integers
    room: int
    """Bytes for the keys of a table; more are read twice."""

    def __call__(self, table: int) -> Integers:
        """Return the documents for a table."""
        held = list(self._keys(table)) if 8 * len(self.sketches) < self.room else None
        parts = [np.empty(0, np.uint64)]
        for start, keys in held or self._keys(table):
            begin, end = np.searchsorted(self.documents, [start, start + len(keys)])
            parts.append(keys[self.documents[begin:end] - start])
        wanted = np.unique(np.concatenate(parts))
        # Hardly any document passes the bits of a filter, and only those are looked up.
        passing = np.zeros(FILTER_BITS, bool)
        passing[wanted & np.uint64(FILTER_BITS - 1)] = True
        found = [np.empty(0, np.int64)]
        for start, keys in held or self._keys(table):
            rows = np.flatnonzero(passing[keys & np.uint64(FILTER_BITS - 1)])
            found.append(start + rows[np.isin(keys[rows], wanted)])
        return np.concatenate(found)

    def _keys(self, table: int) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield the keys of each block in a table, with the number of its first document."""
        for block in self.sketches.blocks:
            yield block.start, block.keys(self.tables, table)
