"""The keep list, by rounds that end in the answer of `reference.keep_list`.

Each round pairs the leaders of each bucket, as the last round left them, with its later members,
verifies the pairs that are new, and decides everything again in rank order. It looks at twice as
many leaders as the round before, until nothing is new and nothing changes. Two bytes a document
are in memory; pairs are sorted on disk when there are many.

That the end is the answer, by induction over ranks: once all better-ranked documents are decided
rightly, so are the leaders among them, and then the document itself in the next round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.pipeline.banding import BucketFiles
from neardup.pipeline.budget import Budget
from neardup.pipeline.sorting import Keys, Records, Sorter, Stream, Values

KIND = "pairs"
VERIFIED, VERDICTS = "verified", "verdicts"
PAIRS_AT_ONCE = 1 << 20
BYTES_EACH = 160
"""What a pair takes in memory while it is merged, verified and decided, about."""

CHANGED = np.uint8(4)
"""The bit of a document's state that says that the last round has decided it anew."""

HOT = np.uint64(1)
"""The lowest bit of a pair: its documents share only buckets with more members than the limit."""

Verify = Callable[[NDArray[np.int64], NDArray[np.int64]], Values]
Bytes = NDArray[np.uint8]


@dataclass
class Tally:
    """What the rounds did."""

    rounds: int = 0
    verified: int = 0
    similar: int = 0


@dataclass
class Rounds:
    """Everything that the rounds need. Documents are known by their rank.

    state     a byte each: bit 0 says that it is kept; 0 that it takes no part
    verify    the similarity of pairs (u, v), -1.0 where it is below the threshold
    folder    for sorting, and for the pairs that have been verified: a killed run goes on with them
    new       ranks before this one are of an earlier corpus: kept, whatever happens
    """

    buckets: BucketFiles
    state: Bytes
    limit: int
    verify: Verify
    folder: Path
    key: str
    budget: Budget
    step: Callable[[int], None]
    new: int = 0

    def __post_init__(self) -> None:
        self.bound = np.zeros(len(self.state), np.uint8)
        self.shift = max((len(self.state) - 1).bit_length() - 8, 0)
        self.tally = Tally()

    def run(self) -> Iterator[Records]:
        """Decide; then the pairs of witness and removed document, by the latter's rank."""
        most, fresh = 1, 0
        while True:
            needed, leaders = self._needed(fresh, most)
            new, changed = self._sweep(needed)
            self.tally.rounds += 1
            self.step(1)
            if not new and not changed and leaders <= most:
                return stored(self.folder / VERDICTS)
            fresh, most = most, min(2 * most, self.limit)

    def _needed(self, fresh: int, most: int) -> tuple[Sorter, int]:
        """Pairs of leaders and later members, and how many leaders a bucket has at most."""
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
                sorter.add(pairs)
                longest = max(longest, leaders)
                self.step(0)
        self.state &= ~CHANGED
        return sorter, longest

    def _sweep(self, needed: Sorter) -> tuple[int, bool]:
        """Merge, verify and decide, a window of documents at a time, in rank order."""
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
                verified.close()
            verdicts.close()
        needed.close()
        return new, changed

    def _windows(self, needed: Sorter) -> Iterator[tuple[Keys, Values, int, NDArray[np.bool_]]]:
        """All known pairs, with the needed ones among them verified: pairs, similarities, how many
        are new or count in a new way, which are needed now."""
        earlier = self.folder / VERIFIED
        wanted = Stream(iter(needed))
        known = Stream(stored(earlier) if earlier.exists() else iter(()))
        for bound in windows([wanted, known], self.budget.share() // BYTES_EACH):
            pairs, similarity = known.until(bound)
            yield self._merged(once(wanted.until(bound)[0]), pairs, similarity)

    def _writer(self, name: str) -> BlockWriter:
        return BlockWriter(self.folder / name, KIND, key=self.key)

    def _merged(
        self, wanted: Keys, pairs: Keys, similarity: Values | None
    ) -> tuple[Keys, Values, int, NDArray[np.bool_]]:
        merged = merge(wanted, pairs)
        found = np.empty(len(merged.pairs))
        found[merged.known] = np.empty(0) if similarity is None else similarity
        found[~merged.known] = self._similarity(merged.pairs[~merged.known])
        return merged.pairs, found, int(np.count_nonzero(merged.fresh)), merged.current

    def _similarity(self, pairs: Keys) -> Values:
        if not pairs.size:
            return np.empty(0)
        found = self.verify(*split(pairs))
        self.tally.verified += len(pairs)
        self.tally.similar += int(np.count_nonzero(found >= 0.0))
        return found


@dataclass(frozen=True)
class Merged:
    """Pairs in order: which were known, which are wanted now, which are new or count anew."""

    pairs: Keys
    known: NDArray[np.bool_]
    current: NDArray[np.bool_]
    fresh: NDArray[np.bool_]


def merge(wanted: Keys, known: Keys) -> Merged:
    """Wanted pairs among those that are known; both are in order, each pair is there once."""
    place = np.searchsorted(known | HOT, wanted & ~HOT)
    there = place < len(known)
    there[there] = (known[place[there]] | HOT) == (wanted[there] | HOT)
    mine, new = place[there], place[~there]
    pairs = known.copy()
    pairs[mine] &= wanted[there] | ~HOT
    current = np.zeros(len(known), bool)
    current[mine] = True
    return Merged(
        np.insert(pairs, new, wanted[~there]),
        np.insert(np.ones(len(known), bool), new, False),
        np.insert(current, new, True),
        np.insert(pairs != known, new, True),
    )


def stored(path: Path) -> Iterator[Records]:
    """The pairs in a file, and their similarities."""
    file = BlockReader(path, KIND)
    for block in range(len(file)):
        yield file.read(block, "keys"), file.read(block, "values")


def split(pairs: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The better-ranked and the other document of each pair."""
    left = (pairs & np.uint64(0xFFFFFFFF)) >> np.uint64(1)
    return left.astype(np.int64), (pairs >> np.uint64(32)).astype(np.int64)


def once(wanted: Keys) -> Keys:
    """Each pair once; it counts always if it is once in a bucket that is not hot."""
    fresh = np.ones(len(wanted), bool)
    fresh[1:] = (wanted[1:] | HOT) != (wanted[:-1] | HOT)
    return wanted[fresh]


def windows(streams: list[Stream], most: int) -> Iterator[int | None]:
    """Bounds that cut the streams between documents, with about `most` pairs of each in between."""
    last = 0
    while True:
        ahead = [bound for stream in streams if (bound := stream.reach(most)) is not None]
        if not ahead:
            yield None
            return
        bound = min(ahead) >> 32 << 32
        if bound > last:
            yield (last := bound)
        else:
            most *= 2  # a single document has so many
