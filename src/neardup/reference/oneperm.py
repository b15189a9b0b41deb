"""One-permutation MinHash, slot by slot."""

from __future__ import annotations

from collections.abc import Iterable

from neardup.reference.hashes import MASK, mix, xxh64
from neardup.reference.sketches import EMPTY_SLOT

ROUNDS, SHIFTS = 16, 64


def multiplier(round_: int, seed: int) -> int:
    return xxh64(f"r:{round_}".encode(), seed) | 1


def shift(number: int, slots: int) -> int:
    """Which slot helps out, counted from the empty one; the last is its neighbour."""
    if number == SHIFTS - 1:
        return 1
    return 1 + xxh64(f"s:{number}".encode(), 0) % (slots - 1)


def fall(x: int, round_: int, slots: int, seed: int) -> tuple[int, int]:
    """The slot that an element falls into in a round, and its value there.

    The first round has the lower half of all values, later ones 2^27 values each.
    """
    y = mix(x ^ xxh64(b"oneperm", seed)) * multiplier(round_, seed) & MASK
    high, low = y >> 32, y % 2**32
    value = low >> 1 if round_ == 0 else 2**31 + (round_ - 1) * 2**27 + (low >> 5)
    return high * slots >> 32, value


def bins(elements: Iterable[int], slots: int, seed: int) -> list[int]:
    """Each slot has the least value that falls into it in any round."""
    found = [EMPTY_SLOT] * slots
    for x in elements:
        for round_ in range(ROUNDS):
            at, value = fall(x, round_, slots, seed)
            found[at] = min(found[at], value)
    return found


def filled(found: list[int]) -> list[int]:
    """Each empty slot takes the first that is not empty, of those that its shifts lead to.

    What none of them fills starts again with the slots as they are then.
    """
    slots = len(found)
    while EMPTY_SLOT in found and any(value != EMPTY_SLOT for value in found):
        shifts = [0, *(shift(number, slots) for number in range(SHIFTS))]
        found = [
            next(
                (
                    found[(slot + s) % slots]
                    for s in shifts
                    if found[(slot + s) % slots] != EMPTY_SLOT
                ),
                EMPTY_SLOT,
            )
            for slot in range(slots)
        ]
    return found
