"""Units to shingles, to signatures, to band keys; and what two of them say.

Also one-permutation MinHash, slot by slot; slots with spare values, as sets; and multi-probing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from struct import pack

from neardup.reference.hashes import MASK, constants_seed, element_hash, mix, xxh64
from neardup.spec import Spec

EMPTY_SLOT = 2**32 - 1


def unit_hashes(found: Sequence[bytes], spec: Spec, key: bytes = b"") -> list[int]:
    return [element_hash(unit, spec, key) for unit in found]


def content_hash(hashes: Sequence[int]) -> tuple[int, int]:
    """128 bits over the sequence of units: equal for identical documents."""
    data = pack(f"<{len(hashes)}Q", *hashes)
    return xxh64(data, 1), xxh64(data, 2)


SHINGLE_BASE = 0x9E3779B97F4A7C15
SHINGLE_LENGTH = 0xD6E8FEB86659FD93


def shingle_hash(hashes: Sequence[int]) -> int:
    """One shingle from its units' hashes: a polynomial mod 2^64, the length, a finaliser."""
    h = 0
    for unit in hashes:
        h = (h * SHINGLE_BASE + unit) & MASK
    return mix((h + len(hashes) * SHINGLE_LENGTH) & MASK)


def shingles(hashes: Sequence[int], size: int) -> set[int]:
    """Every run of `size` units; fewer units than that are one whole shingle."""
    if not hashes:
        return set()
    last = max(len(hashes) - size, 0)
    return {shingle_hash(hashes[at : at + size]) for at in range(last + 1)}


def permutation(slot: int, seed: int) -> tuple[int, int]:
    """The constants of one slot, from the seed alone."""
    a = xxh64(f"a:{slot}".encode(), seed) % 2**32 | 1
    b = xxh64(f"b:{slot}".encode(), seed) % 2**32
    return a, b


PRIME = 2**61 - 1


def wide_permutation(slot: int, seed: int) -> tuple[int, int]:
    """The same for arithmetic modulo 2^61 - 1."""
    a = 1 + xxh64(f"a:{slot}".encode(), seed) % (PRIME - 1)
    b = xxh64(f"b:{slot}".encode(), seed) % PRIME
    return a, b


def signature(elements: set[int], spec: Spec, key: bytes = b"") -> list[int]:
    """k-hash MinHash: slot i is the least (a_i x + b_i) mod 2^32 over the elements' low halves.

    Or modulo 2^61 - 1 over the whole elements, in the family affine-m61.
    """
    seed = constants_seed(spec, key)
    if spec.family == "affine-m61":
        wide = (wide_permutation(slot, seed) for slot in range(spec.slots))
        return [min(((a * x + b) % PRIME for x in elements), default=2**64 - 1) for a, b in wide]
    rows = (permutation(slot, seed) for slot in range(spec.slots))
    return [min(((a * x + b) % 2**32 for x in elements), default=EMPTY_SLOT) for a, b in rows]


def b_bits(sig: Sequence[int], spec: Spec) -> bytes:
    """The highest b bits of each slot times a constant; slot 0 in the lowest bits of byte 0."""
    constant = 0x9E3779B1 if spec.width == 32 else 0x9E3779B97F4A7C15
    bits = 0
    for place, slot in enumerate(sig):
        top = slot * constant % 2**spec.width >> (spec.width - spec.bits)
        bits |= top << (place * spec.bits)
    return bits.to_bytes(-(-len(sig) * spec.bits // 8), "little")


def b_bit_estimate(a: Sequence[int], b: Sequence[int], bits: int) -> float:
    """Different values agree in b bits by chance, once in 2^b times."""
    chance = 2.0**-bits
    return max((estimate(a, b) - chance) / (1 - chance), 0.0)


def band_keys(sig: Sequence[int], bands: int, rows: int) -> list[int]:
    """The key of band j is the xxHash64, with seed j, of its slots as little-endian bytes."""
    return table_keys(sig, [(bands, rows)])


def table_keys(sig: Sequence[int], curves: Sequence[tuple[int, int]]) -> list[int]:
    """The same for bands of several sizes, counted through, over consecutive slots."""
    sizes = [rows for bands, rows in curves for _ in range(bands)]
    starts = [sum(sizes[:band]) for band in range(len(sizes))]
    return [
        xxh64(pack(f"<{rows}I", *sig[start : start + rows]), band)
        for band, (start, rows) in enumerate(zip(starts, sizes, strict=True))
    ]


def jaccard(a: set[int], b: set[int]) -> float:
    return len(a & b) / len(a | b) if a or b else 1.0


def containment(a: set[int], b: set[int]) -> float:
    """The share of a that is inside b."""
    return len(a & b) / len(a) if a else 1.0


MEASURES: dict[str, Callable[[set[int], set[int]], float]] = {
    "jaccard": jaccard,
    "containment": containment,
}
"""The measures of sets that --measure chooses between: of a document in an earlier one."""


def estimate(a: Sequence[int], b: Sequence[int]) -> float:
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


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


def fill_slots(found: list[int]) -> list[int]:
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


NOTHING_MISSING = 2**64 - 1


@dataclass
class Slot:
    """The set's keys below the limit: a value of 32 bits, then the element's upper half."""

    a: int
    b: int
    room: int
    keys: set[int] = field(default_factory=set)
    limit: int = NOTHING_MISSING

    def key(self, x: int) -> int:
        return (self.a * x + self.b) % 2**32 << 32 | x >> 32

    def add(self, key: int) -> None:
        self.keys = {known for known in self.keys | {key} if known < self.limit}
        if len(self.keys) > self.room:
            self.limit = max(self.keys)
            self.keys.discard(self.limit)

    def merge(self, other: Slot) -> None:
        self.limit = min(self.limit, other.limit)
        self.keys = {key for key in self.keys if key < self.limit}
        for key in other.keys:
            self.add(key)

    def remove(self, key: int) -> None:
        self.keys.discard(key)

    @property
    def value(self) -> int | None:
        """The least value, or None if it is not known."""
        if self.keys:
            return min(self.keys) >> 32
        return EMPTY_SLOT if self.limit == NOTHING_MISSING else None


def seconds(elements: set[int], spec: Spec) -> list[int]:
    """Each slot's value of k-hash MinHash without the element of its least one."""
    found = []
    for slot in range(spec.slots):
        a, b = permutation(slot, spec.seed)
        values = sorted((a * x + b) % 2**32 for x in elements)
        found.append(values[1] if len(values) > 1 else EMPTY_SLOT)
    return found


def probe_keys(
    sig: Sequence[int], second: Sequence[int], bands: int, rows: int
) -> list[tuple[int, int]]:
    """Every probe, a band and a key: one slot's value replaced by the second. In the order of the
    sum of the band's values; ties by slot."""
    found = []
    for slot in range(bands * rows):
        if second[slot] != EMPTY_SLOT:
            band = slot // rows
            probe = [*sig[:slot], second[slot], *sig[slot + 1 :]]
            total = sum(probe[band * rows : (band + 1) * rows])
            found.append((total, slot, band, band_keys(probe, bands, rows)[band]))
    return [(band, key) for _, _, band, key in sorted(found)]
