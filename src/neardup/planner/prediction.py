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
    """Return the standard error of the estimate of a similarity.

    Args:
        similarity: The true similarity of two documents.
        slots: The number of slots of a signature.
        bits: The stored bits of a slot.

    >>> f"{standard_error(0.85, 128):.4f} {standard_error(0.85, 128, bits=1):.4f}"
    '0.0316 0.0466'
    """
    by_chance = collision_chance(bits) if bits < FULL else 0.0
    equal = similarity + (1.0 - similarity) * by_chance
    return math.sqrt(equal * (1.0 - equal) / slots) / (1.0 - by_chance)


def pass_probability(similarity: float, threshold: float, slots: int, bits: int = FULL) -> float:
    """Return the chance that the estimate of a similarity reaches the threshold (binomial tail)."""
    by_chance = collision_chance(bits) if bits < FULL else 0.0
    equal = similarity + (1.0 - similarity) * by_chance
    # The least number of equal slots that passes, with the same rounding as in verification.
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
    """Return the chance that unrelated documents share a bucket if bands are made of narrow slots.

    >>> f"{chance_collision_rate(Curve(16, 8), 1):.3f}"
    '0.061'
    """
    return curve.probability(collision_chance(bits))


@dataclass(frozen=True)
class PredictedAnswers:
    """Recall and precision of an operating point over a distribution of similarities."""

    recall: float
    precision: float


def uniform_pairs() -> PairCounts:
    """Return pairs of every similarity from 0 to 1, the same number of each."""
    return [((step + 0.5) / STEPS, 1.0) for step in range(STEPS)]


def predict_answers(
    meeting: Meeting,
    threshold: float,
    pairs: PairCounts,
    judged: Callable[[float], float] | None = None,
) -> PredictedAnswers:
    """Predict recall and precision over pairs of known similarities.

    Args:
        meeting: The chance that a pair of a similarity shares a bucket.
        threshold: Pairs at least this similar are duplicates.
        pairs: Similarities, and the number of pairs of each.
        judged: The chance that a candidate of a similarity is called a duplicate; None if
            verification is exact.
    """
    reported = right = similar = 0.0
    for similarity, count in pairs:
        good = similarity >= threshold
        called = count * meeting.probability(similarity)
        called *= float(good) if judged is None else judged(similarity)
        reported += called
        right += called * good
        similar += count * good
    return PredictedAnswers(
        right / similar if similar else math.nan, right / reported if reported else math.nan
    )


SLOT: Final = 12
"""Bytes: a key of 8, a number of 4."""
NODE: Final = 8
ROW: Final = 20
"""What SQLite and a checksum add to a blob."""
BESIDES: Final = 62
"""Bytes of a document's row and of the change that added it, without its id."""


def tables_bytes(documents: float, removed: float, bands: int) -> float:
    """Return the bytes of an index's tables in memory.

    Args:
        documents: The number of documents.
        removed: The share of them that were removed.
        bands: The number of bands.

    Kept documents are in one table a band; all are in those of ids and of contents, copies in that
    of their witnesses. Documents that share a bucket take nodes instead of slots, which is about
    the same.
    """
    kept = (1.0 - removed) * documents
    in_bands = sum(_table(kept, first_slots(at, bands)) for at in range(bands))
    others = 2 * _table(documents) + _table(removed * documents)
    return in_bands + others + _marks(documents)


def _table(keys: float, slots: int = LEAST_SLOTS) -> int:
    """Return the bytes of a hash table that has grown to hold these keys."""
    while keys > int(slots * MOST_LOAD):
        slots = int(slots * GROWTH)
    return SLOT * slots + NODE * LEAST_NODES


def _marks(documents: float) -> int:
    """Return the bytes of the array that marks removed documents, one byte each."""
    room = ROOM
    while documents >= room:
        room *= 2
    return room


def row_bytes(signature: float, shingles: float, id: float) -> float:
    """Return the bytes of one document in the SQLite file."""
    return BESIDES + id + _in_pages(signature) + (_in_pages(shingles) if shingles else 0.0)


def _in_pages(blob: float) -> float:
    """Return the bytes that a blob takes in pages: on average half a row of each page is empty."""
    size = blob + ROW
    return size / (1.0 - size / (2 * PAGE)) if size < PAGE else size + PAGE / 2


@dataclass(frozen=True)
class Prediction:
    """The predicted quality and cost of an operating point.

    Attributes:
        recall: The share of the pairs exactly at the threshold that are found.
        recall_above: The share of all pairs at or above the threshold that are found; with
            `verify="estimate"`, those that the estimate lets pass. NaN if there are none.
        precision: The share of the reported duplicates that are duplicates.
        error: The standard error of an estimate at the threshold; NaN of vectors alone.
        compared: Pairs that are compared, per document.
        false: Those of them that are below the threshold, per document.
        memory: Bytes of memory at the peak.
        disk: Bytes on disk at the peak.
        signatures: Bytes of all signatures.
        operations: Slot updates per second at the required rate; None without a rate.
        rate: Documents per second that one machine processes.
        seconds: Time for all documents on one machine.
        work: The same in seconds of one core.
        machines: Machines that are needed for the required memory, disk and rate.
        tables: Bytes of an index's tables, a part of `memory`; None for a run over files.
        stages: The stages of a run over files; empty for an index.

    >>> from neardup import plan
    >>> predicted = plan("1M", calibrate=False, cores=4).predicted
    >>> f"{predicted.recall:.4f}", predicted.precision, predicted.machines
    ('0.9983', 1.0, 1)
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
    """Predicts quality and cost of operating points for one workload.

    sla           the requirements
    costs         seconds of each kind of work
    workload_at   the workload at an operating point
    """

    sla: Sla
    costs: Costs
    workload_at: Callable[[Options], Workload]

    def __call__(self, options: Options) -> Prediction:
        workload = self.workload_at(options)
        predict_cost = self._index if self.sla.purpose == "index" else self._files
        figures = self._quality(options, workload) | predict_cost(options, workload)
        rate = self.sla.documents / figures["seconds"]
        operations = None
        if self.sla.rate is not None:
            operations = self.sla.rate * self.sla.shingles * options.spec.slots
        return Prediction(
            **figures,
            rate=rate,
            operations=operations,
            signatures=self.sla.documents * stored_bytes(options),
            machines=self._machines(figures["memory"], figures["disk"], rate),
        )

    def _quality(self, options: Options, workload: Workload) -> dict[str, Any]:
        if options.spec.of_vectors:
            return {
                "recall": options.meeting.probability(options.threshold),
                "recall_above": math.nan,
                "precision": 1.0,
                "error": math.nan,
                "compared": workload.compared,
                "false": workload.false,
            }
        threshold, slots, bits = options.threshold, options.spec.slots, stored_bits(options)
        judged = None
        if options.verify == "estimate":
            judged = partial(pass_probability, threshold=threshold, slots=slots, bits=bits)
        pairs = uniform_pairs() if workload.pairs is None else workload.pairs
        answers = predict_answers(options.curve, threshold, pairs, judged)
        return {
            "recall": options.curve.probability(threshold),
            "recall_above": answers.recall,
            "precision": 1.0 if judged is None else answers.precision,
            "error": standard_error(threshold, slots, bits),
            "compared": workload.compared,
            "false": workload.false,
        }

    def _index(self, options: Options, workload: Workload) -> dict[str, Any]:
        """Return the cost of an index: tables in memory, signatures in the page cache, and on disk
        the shingles if verification is exact."""
        sla, costs, spec = self.sla, self.costs, options.spec
        count, tables = sla.documents, options.hash_tables.count
        shingles = 8 * sla.shingles if options.verify == "exact" else 0.0
        keys = 8 * tables if spec.narrow else 0
        each = costs.sketch(spec.sketch, spec.slots, sla.shingles, sla.size)
        each += tables * costs.lookup + workload.compared * costs.verify
        held = tables_bytes(count, workload.removed, tables)
        return {
            "memory": costs.base + held + count * stored_bytes(options),
            "tables": held,
            # The snapshot has a copy of the tables.
            "disk": held + count * row_bytes(stored_bytes(options) + keys, shingles, workload.id),
            "work": count * each,
            "seconds": count * each / costs.cores(sla.cores),
        }

    def _files(self, options: Options, workload: Workload) -> dict[str, Any]:
        """Return the cost of a run over files: the sum of its stages."""
        run = LocalRun(self.sla, self.costs, workload, options, stored_bytes(options))
        stages = run.stages()
        return {
            "memory": max(stage.memory for stage in stages),
            # Work files are removed only when the run ends.
            "disk": sum(stage.written for stage in stages),
            "work": sum(stage.work for stage in stages),
            "seconds": sum(stage.seconds for stage in stages),
            "stages": stages,
        }

    def _machines(self, memory: float, disk: float, rate: float) -> int:
        """Return the number of machines that memory, disk and rate require."""
        sla = self.sla
        needed = [1.0, (sla.rate or 0.0) / rate]
        if sla.purpose == "index" and sla.memory is not None:
            needed.append(memory / sla.memory)
        if sla.disk is not None:
            needed.append(disk / sla.disk)
        return math.ceil(max(needed))


def stored_bytes(options: Options) -> int:
    """Return the bytes of a document's stored slots, and of the signs of its vector."""
    spec = options.spec
    if spec.of_vectors:
        return spec.planes // 8
    return packed_size(spec) if spec.narrow else spec.slots * spec.width // 8 + spec.planes // 8


def stored_bits(options: Options) -> int:
    """Return the stored bits of a slot."""
    return options.spec.bits if options.spec.narrow else FULL
