"""How wrong is an estimate, and what follows for the answers that rest on it?

Of k full slots, each is equal with probability J: the estimate's variance is J (1 - J) / k. Slots
of b bits are also equal by chance, in C = 2^-b of the other cases: the share of equal slots is
P = J + (1 - J) C, and J is estimated by (P - C) / (1 - C), whose variance is
P (1 - P) / (k (1 - C)^2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from neardup.lsh.curve import Curve, Curves, Meeting
from neardup.sketch.bbit import chance

FULL = 32
"""Bits of a whole slot; wider ones don't estimate better."""
STEPS = 200

Pairs = Sequence[tuple[float, float]]
"""Similarities, and how many pairs have each."""


def standard_error(similarity: float, slots: int, bits: int = FULL) -> float:
    """Of the estimate of a similarity.

    >>> f"{standard_error(0.85, 128):.4f} {standard_error(0.85, 128, bits=1):.4f}"
    '0.0316 0.0466'
    """
    by_chance = chance(bits) if bits < FULL else 0.0
    equal = similarity + (1.0 - similarity) * by_chance
    return math.sqrt(equal * (1.0 - equal) / slots) / (1.0 - by_chance)


def pass_probability(similarity: float, threshold: float, slots: int, bits: int = FULL) -> float:
    """The chance that the estimate of a similarity reaches the threshold: a binomial tail."""
    by_chance = chance(bits) if bits < FULL else 0.0
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


def chance_meeting(curve: Curve | Curves, bits: int) -> float:
    """How often documents without anything in common would meet, were bands of slots of so few
    bits.

    >>> f"{chance_meeting(Curve(16, 8), 1):.3f}"
    '0.061'
    """
    return curve.probability(chance(bits))


@dataclass(frozen=True)
class Answers:
    """What an operating point finds of the similar pairs, and how much of what it finds is."""

    recall: float
    precision: float


def all_alike() -> Pairs:
    """Pairs of every similarity, equally many of each."""
    return [((step + 0.5) / STEPS, 1.0) for step in range(STEPS)]


def answers(
    meeting: Meeting,
    threshold: float,
    pairs: Pairs,
    judged: Callable[[float], float] | None = None,
) -> Answers:
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
    return Answers(right / similar if similar else math.nan, right / found if found else math.nan)
