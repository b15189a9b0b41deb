"""Decide the keep list in rounds that end in the answer of `reference.keep_list`.

Each round pairs the leaders of each bucket, as the last round left them, with its later members,
verifies the pairs that are new, and decides all documents again in rank order. It considers twice
as many leaders as the round before, until no pair is new and no decision changes. Two bytes a
document are in memory; pairs are sorted on disk when there are many.

The end is the answer, by induction over ranks: once all better-ranked documents are decided
correctly, so are the leaders among them, and then the document itself in the next round.

Connected components of the similar pairs (`--cluster components`) are joined in rounds too, with
four bytes a document in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.cluster import BUCKET_CAP
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.pipeline.sorting import (
    HOT,
    PAIRS_AT_ONCE,
    PAIRS_KIND,
    Keys,
    Records,
    SortedStream,
    Sorter,
    Values,
    cut_windows,
    drop_repeats,
    merge_pairs,
    read_pairs,
    split_pairs,
)
from neardup.pipeline.stage_files import StageFiles, digest
from neardup.pipeline.stages.band import (
    BucketFiles,
    BucketSlice,
    BucketsWithSame,
    same_buckets,
)
from neardup.pipeline.stages.compare import LexicalComparer, PairComparer, PersonsComparer
from neardup.pipeline.stages.pairs import pair_members
from neardup.pipeline.stages.rank import RankedDocuments
from neardup.runtime import Progress

VERIFIED, VERDICTS = "verified", "verdicts"
BYTES_PER_DECIDED_PAIR = 160
"""About the memory for a pair while it is merged, verified and decided."""

LEAST_WARNED, WARNED_PER_DOCUMENT = 10_000_000, 20
"""Comparisons from which on a run warns of hot buckets, in all and for each document."""

HOT_WARNING = (
    "{:,} comparisons so far, of which {:,} found similar documents: many documents share a part "
    "that is not enough to be similar; --strip lines leaves out lines that many documents have, "
    "and a lower --limit compares with fewer documents of a bucket"
)

CHANGED = np.uint8(4)
"""The bit of a document's state that the last round has changed its decision."""

NO_LAST = np.iinfo(np.int64).max
"""A bound that no member of a bucket reaches."""

Bytes = NDArray[np.uint8]


@dataclass
class RoundTally:
    """How many rounds there were; how many pairs were verified, and were similar.

    Pairs that a stopped run has verified count, its rounds don't.
    """

    rounds: int = 0
    verified: int = 0
    similar: int = 0

    def is_wasteful(self, documents: int) -> bool:
        """Whether there are very many pairs a document, of which hardly any is similar."""
        least = max(LEAST_WARNED, WARNED_PER_DOCUMENT * documents)
        return self.verified >= least and self.similar < self.verified // 100


@dataclass
class Rounds:
    """Decides documents by rounds. Documents are identified by their rank.

    state     a byte for each rank: bit 0 is set if it is kept; 0 if it takes no part
    limit     how many leaders of a bucket count
    compare   returns the similarity of pairs (u, v), -1.0 where it is below the threshold, and
              rules out most of them before
    folder    for sorting, and for the verified pairs, with which a stopped run resumes
    key       of the file of verified pairs
    step      called with 1 after each round, and with 0 where signals may take effect
    new       ranks before this one are of an earlier corpus, and are never removed
    judged    the ranks that are decided, if the others keep the decision that `state` has
    """

    buckets: Iterable[BucketSlice]
    state: Bytes
    limit: int
    compare: PairComparer | LexicalComparer | PersonsComparer
    folder: Path
    key: str
    budget: Budget
    step: Callable[[int], None]
    new: int = 0
    judged: NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        self.bound = np.zeros(len(self.state), np.uint8)
        self.shift = max((len(self.state) - 1).bit_length() - 8, 0)
        self.tally = RoundTally()

    def run(self) -> Iterator[Records]:
        """Decide; return the pairs of witness and removed document, by the rank of the latter."""
        most, fresh = 1, 0
        if (self.folder / VERIFIED).exists():
            before = BlockReader(self.folder / VERIFIED, PAIRS_KIND).note
            verified, similar = before.get("verified"), before.get("similar")
            if isinstance(verified, int) and isinstance(similar, int):
                self.tally = RoundTally(0, verified, similar)
        while True:
            needed, leaders = self._pair_leaders(fresh, most)
            new, changed = self._decide_pairs(needed)
            self.tally.rounds += 1
            self.step(1)
            if not new and not changed and leaders <= most:
                return read_pairs(self.folder / VERDICTS)
            fresh, most = most, min(2 * most, self.limit)

    def _pair_leaders(self, fresh: int, most: int) -> tuple[Sorter, int]:
        """Pair leaders number `fresh` to `most` of each bucket with its later members.

        Of a hot bucket, or one that the last round has changed, all leaders up to `most`. Return
        the pairs, and the largest number of leaders of any bucket.
        """
        sorter = Sorter(self.folder / "needed", self.budget.share(4))
        longest = 0
        for buckets in self.buckets:
            limit = min(self.limit, int(buckets.sizes.max(initial=1)))
            bucket = place = 0
            while bucket < len(buckets.sizes):
                pairs, bucket, place, leaders = kernels.leader_pairs(
                    buckets.members,
                    buckets.starts,
                    self.state,
                    self.bound,
                    self.shift,
                    self.new,
                    limit,
                    fresh,
                    most,
                    bucket,
                    place,
                    PAIRS_AT_ONCE,
                )
                if self.judged is not None:
                    pairs = pairs[self.judged[pairs >> np.uint64(32)]]
                sorter.add(self.compare.sift(pairs))
                longest = max(longest, leaders)
                self.step(0)
        self.state &= ~CHANGED
        return sorter, longest

    def _decide_pairs(self, needed: Sorter) -> tuple[int, bool]:
        """Merge, verify and decide pairs, a window of documents at a time, in rank order.

        Return how many pairs are new, and whether any decision has changed.
        """
        new, changed = 0, False
        with self._writer(VERIFIED) as verified, self._writer(VERDICTS) as verdicts:
            for pairs, similarity, fresh, current in self._windows(needed):
                new += fresh
                marks = ((pairs & HOT) == 0) | current
                deciding, different = kernels.decide(
                    pairs, similarity, marks.view(np.uint8), self.state, self.bound, self.shift
                )
                changed |= different
                verified.add({"keys": pairs, "values": similarity})
                verdicts.add({"keys": pairs[deciding], "values": similarity[deciding]})
            if new:
                verified.close(verified=self.tally.verified, similar=self.tally.similar)
            verdicts.close()
        needed.close()
        return new, changed

    def _windows(self, needed: Sorter) -> Iterator[tuple[Keys, Values, int, NDArray[np.bool_]]]:
        """Yield windows of known and needed pairs, all of them verified.

        A window has the pairs, their similarities, how many are new or hot no more, and for each
        whether it is needed now.
        """
        earlier = self.folder / VERIFIED
        wanted = SortedStream(iter(needed))
        known = SortedStream(read_pairs(earlier) if earlier.exists() else iter(()))
        for bound in cut_windows([wanted, known], self.budget.share() // BYTES_PER_DECIDED_PAIR):
            pairs, similarity = known.until(bound)
            yield self._merge(drop_repeats(wanted.until(bound)[0]), pairs, similarity)

    def _writer(self, name: str) -> BlockWriter:
        return BlockWriter(self.folder / name, PAIRS_KIND, key=self.key, file=name)

    def _merge(
        self, wanted: Keys, pairs: Keys, similarity: Values | None
    ) -> tuple[Keys, Values, int, NDArray[np.bool_]]:
        merged = merge_pairs(wanted, pairs)
        similarities = np.empty(len(merged.pairs))
        similarities[merged.known] = np.empty(0) if similarity is None else similarity
        similarities[~merged.known] = self._similarity(merged.pairs[~merged.known])
        return merged.pairs, similarities, int(np.count_nonzero(merged.fresh)), merged.current

    def _similarity(self, pairs: Keys) -> Values:
        if not pairs.size:
            return np.empty(0)
        similarities = self.compare(*split_pairs(pairs))
        self.tally.verified += len(pairs)
        self.tally.similar += int(np.count_nonzero(similarities >= 0.0))
        return similarities


def connect_components(
    buckets: BucketFiles,
    state: NDArray[np.uint8],
    new: int,
    compare: PairComparer | LexicalComparer,
    folder: Path,
    budget: Budget,
) -> tuple[Iterator[Records], RoundTally, NDArray[np.uint32]]:
    """Return each removed document with the best-ranked one that it is connected with, the tally,
    and the root of every document.

    A document is compared with the first BUCKET_CAP documents of its bucket.
    """
    parent = np.arange(len(state), dtype=np.uint32)
    tally, fresh, most = RoundTally(), 0, 1
    largest = max((int(batch.sizes.max(initial=0)) for batch in buckets), default=0)
    while fresh < min(largest, BUCKET_CAP):
        for pairs in pair_members(
            buckets, parent, new, fresh, most, NO_LAST, compare, folder, budget
        ):
            left, right = split_pairs(pairs)
            similar = compare(left, right) >= 0.0
            kernels.join_all(parent, left[similar], right[similar])
            tally.verified += len(pairs)
            tally.similar += int(np.count_nonzero(similar))
        kernels.to_roots(parent)
        tally.rounds += 1
        fresh, most = most, min(2 * most, BUCKET_CAP)
    return _list_removed(parent, state, new, compare), tally, parent


def _list_removed(
    parent: NDArray[np.uint32],
    state: NDArray[np.uint8],
    new: int,
    compare: PairComparer | LexicalComparer,
) -> Iterator[Records]:
    """Yield the removed documents with their roots and similarities; clear their kept bits."""
    for start in range(new, len(parent), PAIRS_AT_ONCE):
        roots = parent[start : start + PAIRS_AT_ONCE].astype(np.int64)
        removed = start + np.flatnonzero(roots != np.arange(start, start + len(roots)))
        witness = roots[removed - start]
        state[removed] &= np.uint8(0xFE)
        keys = removed.astype(np.uint64) << np.uint64(32) | witness.astype(np.uint64) << np.uint64(
            1
        )
        yield keys, compare(witness, removed, least=0.0)


@dataclass(frozen=True)
class DecidedPairs:
    """The pairs of witness and removed document, by the rank of the latter; and the tally."""

    pairs: Iterator[Records]
    tally: RoundTally
    roots: NDArray[np.uint32] | None = None
    """For connected components: the best-ranked document that each one is connected with."""
    judged: int | None = None
    """How many documents were decided, if the others keep an earlier decision."""


def decide_documents(
    job: Job,
    folder: Path,
    ranked: RankedDocuments,
    buckets: BucketFiles | Iterable[BucketSlice],
    compare: PairComparer | LexicalComparer,
    progress: Progress,
    judged: NDArray[np.bool_] | None = None,
) -> DecidedPairs:
    """Decide which documents are kept: by stars, or by connected components.

    Args:
        job: The job.
        folder: For the files of the stage.
        ranked: The documents.
        buckets: Their buckets.
        compare: Compares pairs of ranks.
        progress: Told of the rounds.
        judged: The ranks that are decided; None for all. The others stay as they are.
    """
    progress.stage("deciding", None, "rounds")
    options = job.options
    key = digest(
        ranked.basis,
        options.keep,
        options.hash_tables.stated,
        options.threshold,
        options.verify,
        options.measure,
        options.cluster,
        options.limit,
        None if options.vectors is None else options.vectors.stated,
    )
    new = ranked.sketches.first_new
    stage = StageFiles(folder / "pairs", PAIRS_KIND)
    stage.remove_others([VERIFIED] if stage.find(VERIFIED, key, file=VERIFIED) else [])
    if options.cluster == "components" and isinstance(buckets, BucketFiles):
        return DecidedPairs(
            *connect_components(buckets, ranked.state, new, compare, stage.folder, job.budget)
        )
    warned = False

    def advance(count: int) -> None:
        nonlocal warned
        progress.advance(count)
        if not warned and rounds.tally.is_wasteful(len(ranked.state)):
            progress.say(HOT_WARNING.format(rounds.tally.verified, rounds.tally.similar))
            warned = True

    said = ranked.overrides
    rounds = Rounds(
        buckets if said is None else BucketsWithSame(buckets, same_buckets(ranked)),
        ranked.state,
        options.limit,
        compare if said is None else PersonsComparer(compare, ranked.ranking, said),
        stage.folder,
        key,
        job.budget,
        advance,
        new,
        judged,
    )
    return DecidedPairs(rounds.run(), rounds.tally)
