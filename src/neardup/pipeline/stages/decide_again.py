"""Decide again only the documents whose verdict may differ from that of an earlier answer.

A document's verdict depends on the kept ones among the better-ranked documents of its buckets
alone. So the documents that decisions name, and all that share a key with one of them, are judged
again. Where that keeps a document that was removed, or removes one that was kept, the documents of
its buckets are judged too, until no more change. All others keep their verdict: the answer is that
of a run which decides everything.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup.pipeline.earlier_answer import EarlierAnswer
from neardup.pipeline.job import Job
from neardup.pipeline.output import discard
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
    judged = find_touched(job, ranked, earlier.named)
    # Those of a run that was stopped are about documents that are not judged yet.
    discard(folder / "pairs" / VERIFIED)
    while True:
        touched = TouchedBuckets(every, judged)
        state[:] = (takes_part & (judged | ~gone)) * KEPT
        state[touched.members() & takes_part] |= CANDIDATE
        sets = CandidateMatcher(job, folder, ranked, progress).run()
        compare = PairComparer(job, sets, ranked.ranking, progress)
        decided = decide_documents(
            job, folder, ranked, TouchedBuckets(buckets, judged), compare, progress, judged
        )
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


def find_touched(job: Job, ranked: RankedDocuments, before: Integers) -> Mask:
    """Return the documents that decisions name, or that have a key in common with one of these.

    Args:
        job: The job, with the tables of keys.
        ranked: The documents, with the decisions.
        before: The documents that earlier decisions named.
    """
    tables, blocks = job.options.hash_tables, ranked.sketches.blocks
    now = ranked.overrides.documents if ranked.overrides is not None else before
    named = np.union1d(now, before)

    def find_in(table: int) -> Integers:
        wanted = [np.empty(0, np.uint64)]
        for block in blocks:
            begin, end = np.searchsorted(named, [block.start, block.end])
            if begin < end:
                wanted.append(block.keys(tables, table)[named[begin:end] - block.start])
        keys = np.unique(np.concatenate(wanted))
        found = [np.empty(0, np.int64)]
        for block in blocks if len(keys) else ():
            own = block.keys(tables, table)
            place = np.minimum(np.searchsorted(keys, own), len(keys) - 1)
            found.append(block.start + np.flatnonzero(keys[place] == own))
        return np.concatenate(found)

    touched = np.zeros(len(ranked.state), bool)
    touched[ranked.ranking.of(named)] = True
    for _, found in map_in_order(range(tables.count), find_in, job.workers):
        touched[ranked.ranking.of(found)] = True
    return touched
