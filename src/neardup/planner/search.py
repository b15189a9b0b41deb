"""Searches the operating point: the first that meets the requirements, in order of preference.

Whole slots are preferred to narrow ones, exact verification to estimates. The defaults are kept
unless they miss a requirement, or a run would be much faster with more slots, which make steeper
bands. Where no operating point is fast enough for the required rate, the fastest is chosen.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

from neardup.lsh.curve import Curve, choose_curve
from neardup.options import Options
from neardup.pipeline.stages.rank import MAX_DOCUMENTS
from neardup.planner.prediction import Prediction, Predictor
from neardup.planner.requirements import FULL, MOST_SLOTS, VERIFIED, WIDTHS, FixedOptions, Sla
from neardup.planner.vector_plan import PlannedVectors

SLOTS: Final = 128
FEWEST_SLOTS: Final = 16
MANY_SLOTS: Final = 1024
"""From here on, one permutation costs a small part of what k hashes do."""
STEEPEST: Final = 1024
"""The most slots that are tried for steeper bands."""
TOO_LONG: Final = 1.5
"""Slots are rejected if a run takes this many times as long as with more slots; and exact
verification and whole slots, if the required rate is missed all the same."""


@dataclass(frozen=True)
class Solution:
    """An operating point and its prediction.

    point      the operating point as keyword arguments of `neardup.dedup`
    slower     the solution with fewer slots that was rejected because it takes too long
    """

    options: Options
    predicted: Prediction
    point: dict[str, Any]
    slower: Solution | None = None

    @property
    def bits(self) -> int:
        """Stored bits of a slot."""
        return self.options.spec.bits if self.options.spec.narrow else FULL


@dataclass(frozen=True)
class Search:
    """Searches the operating point for requirements.

    sla       the requirements
    fixed     options that the caller has fixed
    predict   predicts quality and cost of an operating point
    vectors   the vectors of the documents, which are in every operating point
    """

    sla: Sla
    fixed: FixedOptions
    predict: Predictor
    vectors: PlannedVectors | None = None

    def run(self) -> Solution:
        """Return the first solution that misses nothing, with more slots if it takes too long."""
        if self.vectors is not None and self.vectors.are_all:
            options, point = self.vectors.at({"recall": self.sla.recall})
            return Solution(options, self.predict(options), point)
        first = self._first()
        if self.fixed.slots is not None or find_missed(self.sla, first.predicted):
            return first
        solutions = [first, *self._steeper(first)]
        enough = TOO_LONG * min(one.predicted.seconds for one in solutions)
        chosen = next(one for one in solutions if one.predicted.seconds <= enough)
        return chosen if chosen is first else replace(chosen, slower=first)

    def _steeper(self, first: Solution) -> Iterator[Solution]:
        """Yield solutions with two, four, ... times the slots that miss nothing."""
        slots = 2 * first.options.spec.slots
        while slots <= STEEPEST:
            tried = (
                self.at(slots, first.bits, sketch, first.options.verify)
                for sketch in self._sketches(slots)
            )
            yield from islice((one for one in tried if not find_missed(self.sla, one.predicted)), 1)
            slots *= 2

    def _first(self) -> Solution:
        """Return the first solution that misses nothing, or the first of those that miss least."""
        tried: list[tuple[tuple[float, ...], Solution]] = []
        for verify, slots, bits, sketch in self._in_order():
            solution = self.at(slots, bits, sketch, verify)
            missed = find_missed(self.sla, solution.predicted)
            if not missed:
                return solution
            # In doublings: slightly fewer bytes are not worth a worse operating point.
            bytes_over = sum(math.ceil(missed.get(name, 0.0)) for name in ("memory", "disk"))
            seconds = solution.predicted.seconds if "rate" in missed else 0.0
            if verify == "estimate" or bits < FULL:
                seconds *= TOO_LONG
            tried.append(((len(missed), bytes_over, seconds), solution))
        return min(tried, key=lambda one: one[0])[1]

    def _in_order(self) -> Iterator[tuple[str, int, int, str]]:
        """Yield verification, slots, bits and sketch, in order of preference."""
        fixed, first = self.fixed, self.slots
        narrow = WIDTHS if fixed.bits is None else (fixed.bits,)
        verified = VERIFIED if fixed.verify is None else (fixed.verify,)
        if self.vectors is not None:  # which are compared exactly, beside whole slots
            narrow, verified = narrow[:1], verified[:1]
        for verify in verified:
            # A better estimate needs more slots, and so does a rate: steeper bands are faster. If
            # memory is short, fewer are better than none.
            steeper = verify == "estimate" or self.sla.rate is not None
            more = (first * 2, first * 4, first * 8) if steeper else ()
            fewer = (first // 2, first // 4, first // 8)
            others = [slots for slots in (*more, *fewer) if self._enough(slots)]
            for slots in (first, *([] if fixed.slots else others)):
                for bits in narrow:
                    for sketch in self._sketches(slots):
                        yield verify, slots, bits, sketch

    def _sketches(self, slots: int) -> tuple[str, ...]:
        """Return the sketches to try with this many slots, in order of preference."""
        if self.fixed.sketch is not None:
            return (self.fixed.sketch,)
        if self.sla.shingles < slots:
            return ("minhash",)  # most slots of one permutation would be empty
        return ("oneperm", "minhash") if slots >= MANY_SLOTS else ("minhash", "oneperm")

    @property
    def slots(self) -> int:
        """The fixed number, or the default, or the least power of two that reaches the recall."""
        fixed = self.fixed
        if fixed.slots is not None:
            return fixed.slots
        needed = least_slots(self.sla.threshold, self.sla.recall)
        if fixed.curve is not None:
            needed = fixed.curve.slots
        return max(SLOTS, 1 << (needed - 1).bit_length())

    def _enough(self, slots: int) -> bool:
        """Return whether this many slots reach the recall, or hold the fixed bands."""
        if not FEWEST_SLOTS <= slots <= MOST_SLOTS:
            return False
        if self.fixed.curve is not None:
            return slots >= self.fixed.curve.slots
        return slots >= least_slots(self.sla.threshold, self.sla.recall)

    def at(
        self, slots: int, bits: int, sketch: str, verify: str, curve: Curve | None = None
    ) -> Solution:
        """Predict one operating point; without a curve, with the best bands for its slots."""
        curve = curve or self.fixed.curve or best_curve(slots, self.sla.threshold, self.sla.recall)
        point: dict[str, Any] = {
            "threshold": self.sla.threshold,
            "recall": self.sla.recall,
            "shingle": self.fixed.shingle or "word:5",
            "sketch": sketch,
            "slots": slots,
            "bits": bits if bits < FULL else None,
            "bands": curve.bands,
            "rows": curve.rows,
            "verify": verify,
        }
        point = {name: value for name, value in point.items() if value is not None}
        if self.vectors is None:
            options = Options.of(**point)
        else:
            options, point = self.vectors.at(point)
        return Solution(options, self.predict(options), point)


def find_missed(sla: Sla, predicted: Prediction) -> dict[str, float]:
    """Return each missed limit and by how many doublings; empty if all are met."""
    ratios = {
        "recall": _ratio(1 - predicted.recall, 1 - sla.recall),
        "precision": _ratio(1 - predicted.precision, 1 - (sla.precision or 0.0)),
        "memory": _ratio(predicted.memory, sla.memory),
        "disk": _ratio(predicted.disk, sla.disk),
        "rate": _ratio(sla.rate or 0.0, predicted.rate),
        "documents": _ratio(sla.documents, MAX_DOCUMENTS if sla.purpose == "files" else None),
    }
    return {name: math.log2(ratio) for name, ratio in ratios.items() if ratio > 1.0}


def _ratio(value: float, most: float | None) -> float:
    """Return value / most if the limit is exceeded, else 1."""
    if most is None or value <= most:
        return 1.0
    return value / max(most, 1e-9)


def least_slots(threshold: float, recall: float) -> int:
    """Return the fewest slots that reach a recall at the threshold: bands of one row.

    1 - (1 - t)^k >= recall, so k >= log(1 - recall) / log(1 - t).
    """
    least = max(math.floor(math.log1p(-recall) / math.log1p(-threshold)), 1)
    # Rounding can make the quotient one too small.
    return least if Curve(least, 1).probability(threshold) >= recall else least + 1


def best_curve(slots: int, threshold: float, recall: float) -> Curve:
    """Return the steepest curve that reaches the recall; bands of one row if none does."""
    if slots < least_slots(threshold, recall):
        return Curve(slots, 1)
    return choose_curve(slots, threshold, recall)
