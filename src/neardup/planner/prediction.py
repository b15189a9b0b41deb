"""Predicts the quality and the cost of an operating point.

Of k full slots, each is equal with probability J: the estimate's variance is J (1 - J) / k. Slots
of b bits are also equal by chance, in C = 2^-b of the other cases: the share of equal slots is
P = J + (1 - J) C, and J is estimated by (P - C) / (1 - C), whose variance is
P (1 - P) / (k (1 - C)^2).

The bytes of an index are those of its tables, which grow in steps, and of rows in a file of pages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from neardup.index.lookup import ROOM
from neardup.index.postings import GROWTH, LEAST_NODES, LEAST_SLOTS, MOST_LOAD, first_slots
from neardup.index.store import PAGE
from neardup.lsh.curve import Curve, Curves, Meeting
from neardup.options import Options
from neardup.planner.costs import Costs
from neardup.planner.local_run import LocalRun, StageCost
from neardup.planner.requirements import FULL, Sla
from neardup.planner.workload import PairCounts, Workload
from neardup.sketch.bbit import collision_chance, packed_size

STEPS = 200


def standard_error(similarity: float, slots: int, bits: int = FULL) -> float:
    """Of the estimate of a similarity.

    >>> f"{standard_error(0.85, 128):.4f} {standard_error(0.85, 128, bits=1):.4f}"
    '0.0316 0.0466'
    """
    by_chance = collision_chance(bits) if bits < FULL else 0.0
    equal = similarity + (1.0 - similarity) * by_chance
    return math.sqrt(equal * (1.0 - equal) / slots) / (1.0 - by_chance)


def pass_probability(similarity: float, threshold: float, slots: int, bits: int = FULL) -> float:
    """The chance that the estimate of a similarity reaches the threshold: a binomial tail."""
    by_chance = collision_chance(bits) if bits < FULL else 0.0
    equal = similarity + (1.0 - similarity) * by_chance
    # The same rounding as in comparing: so many equal slots are enough.
    least = math.ceil(slots * (threshold * (1.0 - by_chance) + by_chance) - 1e-9)
    if equal >= 1.0 or least <= 0:
        return 1.0
    if equal <= 0.0:
        return 0.0
    logs = math.log(equal), math.log1p(-equal)
    return min(
        1.0,
        math.fsum(
            math.exp(_log_choose(slots, k) + k * logs[0] + (slots - k) * logs[1])
            for k in range(least, slots + 1)
        ),
    )


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def chance_collision_rate(curve: Curve | Curves, bits: int) -> float:
    """How often documents without anything in common would meet, were bands of slots of so few
    bits.

    >>> f"{chance_collision_rate(Curve(16, 8), 1):.3f}"
    '0.061'
    """
    return curve.probability(collision_chance(bits))


@dataclass(frozen=True)
class PredictedAnswers:
    """What an operating point finds of the similar pairs, and how much of what it finds is."""

    recall: float
    precision: float


def uniform_pairs() -> PairCounts:
    """Pairs of every similarity, equally many of each."""
    return [((step + 0.5) / STEPS, 1.0) for step in range(STEPS)]


def predict_answers(
    meeting: Meeting,
    threshold: float,
    pairs: PairCounts,
    judged: Callable[[float], float] | None = None,
) -> PredictedAnswers:
    """Over all pairs. `judged` is the chance that a pair that meets is called a duplicate; None if
    judging is exact."""
    found = right = similar = 0.0
    for similarity, count in pairs:
        good = similarity >= threshold
        called = count * meeting.probability(similarity)
        called *= float(good) if judged is None else judged(similarity)
        found += called
        right += called * good
        similar += count * good
    return PredictedAnswers(
        right / similar if similar else math.nan, right / found if found else math.nan
    )


SLOT: Final = 12
"""Bytes: a key of 8, a number of 4."""
NODE: Final = 8
ROW: Final = 20
"""What SQLite and a checksum add to a blob."""
BESIDES: Final = 62
"""Bytes of a document's row and of the change that added it, without its id."""


def tables_bytes(documents: float, removed: float, bands: int) -> float:
    """In memory, of so many documents, of which a share was a copy.

    Kept documents are in one table a band; all are in those of ids and of contents, copies in that
    of their witnesses. Documents that share a bucket take nodes instead of slots, which is about
    the same.
    """
    kept = (1.0 - removed) * documents
    in_bands = sum(_table(kept, first_slots(at, bands)) for at in range(bands))
    others = 2 * _table(documents) + _table(removed * documents)
    return in_bands + others + _marks(documents)


def _table(keys: float, slots: int = LEAST_SLOTS) -> int:
    while keys > int(slots * MOST_LOAD):
        slots = int(slots * GROWTH)
    return SLOT * slots + NODE * LEAST_NODES


def _marks(documents: float) -> int:
    """A byte each, which says whether it was removed."""
    room = ROOM
    while documents >= room:
        room *= 2
    return room


def row_bytes(signature: float, shingles: float, id: float) -> float:
    """In the file, of one document."""
    return BESIDES + id + _in_pages(signature) + (_in_pages(shingles) if shingles else 0.0)


def _in_pages(blob: float) -> float:
    """A page is left when the next row does not fit: half a row of each is empty, on average."""
    size = blob + ROW
    return size / (1.0 - size / (2 * PAGE)) if size < PAGE else size + PAGE / 2


@dataclass(frozen=True)
class Prediction:
    """What an operating point is expected to do.

    recall       of pairs exactly at the threshold
    recall_above of all pairs from the threshold on; where an estimate judges them, only those
                 count that it lets pass
    precision    of what is called a duplicate
    error        standard error of an estimate at the threshold
    compared     pairs a document that are compared
    false        those of them that are not similar enough
    memory, disk bytes at the peak
    signatures   bytes of all signatures
    operations   slot updates a second, if documents arrive at a rate
    rate         documents a second that one machine takes
    seconds      for all documents on one machine
    work         seconds of all its cores
    machines     how many are needed for memory, disk and rate
    tables       bytes of an index's tables, of the memory
    """

    recall: float
    recall_above: float
    precision: float
    error: float
    compared: float
    false: float
    memory: float
    disk: float
    signatures: float
    operations: float | None
    rate: float
    seconds: float
    work: float
    machines: int
    tables: float | None = None
    stages: tuple[StageCost, ...] = ()


@dataclass(frozen=True)
class Predictor:
    """Everything that a prediction rests on but the operating point."""

    sla: Sla
    costs: Costs
    profile_at: Callable[[Options], Workload]

    def __call__(self, options: Options) -> Prediction:
        profile = self.profile_at(options)
        spent = self._index if self.sla.purpose == "index" else self._files
        found = self._quality(options, profile) | spent(options, profile)
        rate = self.sla.documents / found["seconds"]
        operations = None
        if self.sla.rate is not None:
            operations = self.sla.rate * self.sla.shingles * options.spec.slots
        return Prediction(
            **found,
            rate=rate,
            operations=operations,
            signatures=self.sla.documents * stored_bytes(options),
            machines=self._machines(found["memory"], found["disk"], rate),
        )

    def _quality(self, options: Options, profile: Workload) -> dict[str, Any]:
        threshold, slots, bits = options.threshold, options.spec.slots, stored_bits(options)
        judged = None
        if options.verify == "estimate":
            judged = partial(pass_probability, threshold=threshold, slots=slots, bits=bits)
        pairs = uniform_pairs() if profile.pairs is None else profile.pairs
        found = predict_answers(options.curve, threshold, pairs, judged)
        return {
            "recall": options.curve.probability(threshold),
            "recall_above": found.recall,
            "precision": 1.0 if judged is None else found.precision,
            "error": standard_error(threshold, slots, bits),
            "compared": profile.compared,
            "false": profile.false,
        }

    def _index(self, options: Options, profile: Workload) -> dict[str, Any]:
        """Tables in memory, signatures in what the system remembers of files; for exact answers,
        shingles on disk."""
        sla, costs, spec = self.sla, self.costs, options.spec
        count, tables = sla.documents, options.hash_tables.count
        shingles = 8 * sla.shingles if options.verify == "exact" else 0.0
        keys = 8 * tables if spec.narrow else 0
        each = costs.sketch(spec.sketch, spec.slots, sla.shingles, sla.size)
        each += tables * costs.lookup + profile.compared * costs.pair
        held = tables_bytes(count, profile.removed, tables)
        return {
            "memory": costs.base + held + count * stored_bytes(options),
            "tables": held,
            # The tables are there once more, to start from.
            "disk": held + count * row_bytes(stored_bytes(options) + keys, shingles, profile.id),
            "work": count * each,
            "seconds": count * each / costs.cores(sla.cores),
        }

    def _files(self, options: Options, profile: Workload) -> dict[str, Any]:
        run = LocalRun(self.sla, self.costs, profile, options, stored_bytes(options))
        stages = run.stages()
        return {
            "memory": max(stage.memory for stage in stages),
            # Everything that is written stays until the end.
            "disk": sum(stage.written for stage in stages),
            "work": sum(stage.work for stage in stages),
            "seconds": sum(stage.seconds for stage in stages),
            "stages": stages,
        }

    def _machines(self, memory: float, disk: float, rate: float) -> int:
        sla = self.sla
        needed = [1.0, (sla.rate or 0.0) / rate]
        if sla.purpose == "index" and sla.memory is not None:
            needed.append(memory / sla.memory)
        if sla.disk is not None:
            needed.append(disk / sla.disk)
        return math.ceil(max(needed))


def stored_bytes(options: Options) -> int:
    """Bytes of a document's slots."""
    spec = options.spec
    return packed_size(spec) if spec.narrow else spec.slots * spec.width // 8


def stored_bits(options: Options) -> int:
    """Bits of a slot."""
    return options.spec.bits if options.spec.narrow else FULL
