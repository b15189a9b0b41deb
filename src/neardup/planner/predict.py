"""What will an operating point find, and what will it cost?"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from neardup.options import Options
from neardup.planner.accuracy import FULL, all_alike, answers, pass_probability, standard_error
from neardup.planner.costs import Costs
from neardup.planner.index_bytes import row_bytes, tables_bytes
from neardup.planner.profile import Profile
from neardup.planner.run_over_files import RunOverFiles, Stage
from neardup.planner.sla import Sla
from neardup.sketch.bbit import packed_size


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
    stages: tuple[Stage, ...] = ()


@dataclass(frozen=True)
class Predictor:
    """Everything that a prediction rests on but the operating point."""

    sla: Sla
    costs: Costs
    profile_at: Callable[[Options], Profile]

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

    def _quality(self, options: Options, profile: Profile) -> dict[str, Any]:
        threshold, slots, bits = options.threshold, options.spec.slots, stored_bits(options)
        judged = None
        if options.verify == "estimate":
            judged = partial(pass_probability, threshold=threshold, slots=slots, bits=bits)
        pairs = all_alike() if profile.pairs is None else profile.pairs
        found = answers(options.curve, threshold, pairs, judged)
        return {
            "recall": options.curve.probability(threshold),
            "recall_above": found.recall,
            "precision": 1.0 if judged is None else found.precision,
            "error": standard_error(threshold, slots, bits),
            "compared": profile.compared,
            "false": profile.false,
        }

    def _index(self, options: Options, profile: Profile) -> dict[str, Any]:
        """Tables in memory, signatures in what the system remembers of files; for exact answers,
        shingles on disk."""
        sla, costs, spec = self.sla, self.costs, options.spec
        count, tables = sla.documents, options.tables.count
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

    def _files(self, options: Options, profile: Profile) -> dict[str, Any]:
        run = RunOverFiles(self.sla, self.costs, profile, options, stored_bytes(options))
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
