"""Searches the operating point: the first that meets the requirements, in order of preference.

Whole slots are preferred to narrow ones, exact verification to estimates. The defaults stand unless
something speaks against them: the requirements, or a run that takes much longer than it would with
more slots, which make steeper bands.
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

SLOTS: Final = 128
FEWEST_SLOTS: Final = 16
MANY_SLOTS: Final = 1024
"""From here on, one permutation costs a small part of what k hashes do."""
STEEPEST: Final = 1024
"""So many slots are tried for the sake of steeper bands."""
TOO_LONG: Final = 1.5
"""A run that takes so many times as long as it could speaks against its slots."""


@dataclass(frozen=True)
class Solution:
    """An operating point and what is expected of it.

    slower     the one with fewer slots that does what is asked too, but takes too long
    """

    options: Options
    predicted: Prediction
    point: dict[str, Any]
    slower: Solution | None = None

    @property
    def bits(self) -> int:
        return self.options.spec.bits if self.options.spec.narrow else FULL


@dataclass(frozen=True)
class Search:
    """Looks for the operating point of an SLA."""

    sla: Sla
    given: FixedOptions
    predict: Predictor

    def run(self) -> Solution:
        """The first that misses nothing, with more slots if it takes too long with these."""
        first = self._first()
        if self.given.slots is not None or find_missed(self.sla, first.predicted):
            return first
        found = [first, *self._steeper(first)]
        enough = TOO_LONG * min(one.predicted.seconds for one in found)
        chosen = next(one for one in found if one.predicted.seconds <= enough)
        return chosen if chosen is first else replace(chosen, slower=first)

    def _steeper(self, first: Solution) -> Iterator[Solution]:
        """The same with twice the slots and so on, as far as nothing is missed."""
        slots = 2 * first.options.spec.slots
        while slots <= STEEPEST:
            tried = (
                self.at(slots, first.bits, sketch, first.options.verify)
                for sketch in self._sketches(slots)
            )
            yield from islice((one for one in tried if not find_missed(self.sla, one.predicted)), 1)
            slots *= 2

    def _first(self) -> Solution:
        """The first that misses nothing; if all do, the first of those that miss least."""
        tried: list[tuple[tuple[int, int], Solution]] = []
        for verify, slots, bits, sketch in self._in_order():
            found = self.at(slots, bits, sketch, verify)
            missed = find_missed(self.sla, found.predicted)
            if not missed:
                return found
            # In doublings: a little less to buy is not worth a worse operating point.
            bytes_over = sum(math.ceil(missed.get(name, 0.0)) for name in ("memory", "disk"))
            tried.append(((len(missed), bytes_over), found))
        return min(tried, key=lambda one: one[0])[1]

    def _in_order(self) -> Iterator[tuple[str, int, int, str]]:
        given, first = self.given, self.slots
        narrow = WIDTHS if given.bits is None else (given.bits,)
        for verify in VERIFIED if given.verify is None else (given.verify,):
            # A better estimate needs more slots; if memory is short, fewer are better than none.
            more = (first * 2, first * 4, first * 8) if verify == "estimate" else ()
            fewer = (first // 2, first // 4, first // 8)
            others = [slots for slots in (*more, *fewer) if self._enough(slots)]
            for slots in (first, *([] if given.slots else others)):
                for bits in narrow:
                    for sketch in self._sketches(slots):
                        yield verify, slots, bits, sketch

    def _sketches(self, slots: int) -> tuple[str, ...]:
        if self.given.sketch is not None:
            return (self.given.sketch,)
        if self.sla.shingles < slots:
            return ("minhash",)  # most slots of one permutation would be empty
        return ("oneperm", "minhash") if slots >= MANY_SLOTS else ("minhash", "oneperm")

    @property
    def slots(self) -> int:
        """As given, the usual number, or the least power of two that reaches the recall."""
        given = self.given
        if given.slots is not None:
            return given.slots
        needed = least_slots(self.sla.threshold, self.sla.recall)
        if given.curve is not None:
            needed = given.curve.slots
        return max(SLOTS, 1 << (needed - 1).bit_length())

    def _enough(self, slots: int) -> bool:
        if not FEWEST_SLOTS <= slots <= MOST_SLOTS:
            return False
        if self.given.curve is not None:
            return slots >= self.given.curve.slots
        return slots >= least_slots(self.sla.threshold, self.sla.recall)

    def at(
        self, slots: int, bits: int, sketch: str, verify: str, curve: Curve | None = None
    ) -> Solution:
        """What is expected at one point; without a curve, with the bands that fit it best."""
        curve = curve or self.given.curve or best_curve(slots, self.sla.threshold, self.sla.recall)
        point: dict[str, Any] = {
            "threshold": self.sla.threshold,
            "recall": self.sla.recall,
            "shingle": self.given.shingle or "word:5",
            "sketch": sketch,
            "slots": slots,
            "bits": bits if bits < FULL else None,
            "bands": curve.bands,
            "rows": curve.rows,
            "verify": verify,
        }
        point = {name: value for name, value in point.items() if value is not None}
        options = Options.of(**point)
        return Solution(options, self.predict(options), point)


def find_missed(sla: Sla, predicted: Prediction) -> dict[str, float]:
    """What is missed, and by how many doublings; empty if everything is met."""
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
    if most is None or value <= most:
        return 1.0
    return value / max(most, 1e-9)


def least_slots(threshold: float, recall: float) -> int:
    """The fewest slots that find this share of pairs at the threshold: bands of one row.

    1 - (1 - t)^k >= recall, so k >= log(1 - recall) / log(1 - t).
    """
    least = max(math.floor(math.log1p(-recall) / math.log1p(-threshold)), 1)
    # The quotient may be off by its last digit.
    return least if Curve(least, 1).probability(threshold) >= recall else least + 1


def best_curve(slots: int, threshold: float, recall: float) -> Curve:
    """The steepest that reaches the recall; one row a band, if none does."""
    if slots < least_slots(threshold, recall):
        return Curve(slots, 1)
    return choose_curve(slots, threshold, recall)
