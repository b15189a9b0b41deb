"""MinHash: from the units of a text to shingles, signature and band keys, and the measures.

Further down: one-permutation MinHash, slot by slot; slots that keep spare values, so that elements
can be removed; and the keys of multi-probe queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from struct import pack

from neardup.reference.hashes import MASK, constants_seed, element_hash, mix, murmur3, xxh64
from neardup.spec import Spec

EMPTY_SLOT = 2**32 - 1
"""The value of a slot of an empty set."""


def unit_hashes(units: Sequence[bytes], spec: Spec, key: bytes = b"") -> list[int]:
    """Return the hash of each unit: a word, a character, a line or a token."""
    return [element_hash(unit, spec, key) for unit in units]


def content_hash(hashes: Sequence[int]) -> tuple[int, int]:
    """Return 128 bits over the sequence of units, equal for identical documents."""
    data = pack(f"<{len(hashes)}Q", *hashes)
    return xxh64(data, 1), xxh64(data, 2)


SHINGLE_BASE = 0x9E3779B97F4A7C15
SHINGLE_LENGTH = 0xD6E8FEB86659FD93


def shingle_hash(hashes: Sequence[int]) -> int:
    """Return the hash of one shingle from the hashes of its units.

    It is a polynomial in the hashes modulo 2^64, plus a multiple of the length, mixed.
    """
    h = 0
    for unit in hashes:
        h = (h * SHINGLE_BASE + unit) & MASK
    return mix((h + len(hashes) * SHINGLE_LENGTH) & MASK)


def shingles(hashes: Sequence[int], size: int) -> set[int]:
    """Return the set of shingles: every run of `size` units.

    A text of fewer units is one shingle, an empty text has none.
    """
    if not hashes:
        return set()
    last = max(len(hashes) - size, 0)
    return {shingle_hash(hashes[at : at + size]) for at in range(last + 1)}


def permutation(slot: int, seed: int) -> tuple[int, int]:
    """Return the constants (a, b) of one slot of the family affine32; a is odd."""
    a = xxh64(f"a:{slot}".encode(), seed) % 2**32 | 1
    b = xxh64(f"b:{slot}".encode(), seed) % 2**32
    return a, b


PRIME = 2**61 - 1
"""The modulus of the family affine-m61."""


def wide_permutation(slot: int, seed: int) -> tuple[int, int]:
    """Return the constants (a, b) of one slot of the family affine-m61; a is not 0."""
    a = 1 + xxh64(f"a:{slot}".encode(), seed) % (PRIME - 1)
    b = xxh64(f"b:{slot}".encode(), seed) % PRIME
    return a, b


def signature(elements: set[int], spec: Spec, key: bytes = b"") -> list[int]:
    """Return the k-hash MinHash signature of a set.

    Slot i is the least value of (a_i x + b_i) mod 2^32 over the elements x, of which only the lower
    32 bits count; in the family affine-m61 it is modulo 2^61 - 1, over whole elements.
    """
    seed = constants_seed(spec, key)
    if spec.family == "affine-m61":
        pairs = [wide_permutation(slot, seed) for slot in range(spec.slots)]
        return [min(((a * x + b) % PRIME for x in elements), default=2**64 - 1) for a, b in pairs]
    pairs = [permutation(slot, seed) for slot in range(spec.slots)]
    return [min(((a * x + b) % 2**32 for x in elements), default=EMPTY_SLOT) for a, b in pairs]


def b_bits(sig: Sequence[int], spec: Spec) -> bytes:
    """Return a b-bit signature as bytes: the highest b bits of each slot times a constant.

    Slot 0 is in the lowest bits of byte 0.
    """
    constant = 0x9E3779B1 if spec.width == 32 else 0x9E3779B97F4A7C15
    bits = 0
    for place, slot in enumerate(sig):
        top = slot * constant % 2**spec.width >> (spec.width - spec.bits)
        bits |= top << (place * spec.bits)
    return bits.to_bytes(-(-len(sig) * spec.bits // 8), "little")


def b_bit_estimate(a: Sequence[int], b: Sequence[int], bits: int) -> float:
    """Return the similarity that two b-bit signatures estimate.

    Slots of different values agree in b bits once in 2^b times; that chance is subtracted.
    """
    chance = 2.0**-bits
    return max((estimate(a, b) - chance) / (1 - chance), 0.0)


def band_keys(sig: Sequence[int], bands: int, rows: int) -> list[int]:
    """Return a key for each band of `rows` consecutive slots.

    The key of band j is the xxHash64, with seed j, of its slots as little-endian 32-bit integers.
    """
    return table_keys(sig, [(bands, rows)])


def table_keys(sig: Sequence[int], curves: Sequence[tuple[int, int]], width: int = 32) -> list[int]:
    """Return the band keys of several tables, given as (bands, rows).

    Bands are numbered across the tables, and each has slots of its own, of 32 or 64 bits.
    """
    word = "I" if width == 32 else "Q"
    sizes = [rows for bands, rows in curves for _ in range(bands)]
    starts = [sum(sizes[:band]) for band in range(len(sizes))]
    return [
        xxh64(pack(f"<{rows}{word}", *sig[start : start + rows]), band)
        for band, (start, rows) in enumerate(zip(starts, sizes, strict=True))
    ]


def jaccard(a: set[int], b: set[int]) -> float:
    """Return the number of elements of both, divided by the number of elements of either."""
    return len(a & b) / len(a | b) if a or b else 1.0


def containment(a: set[int], b: set[int]) -> float:
    """Return the share of the elements of `a` that are elements of `b` too."""
    return len(a & b) / len(a) if a else 1.0


MEASURES: dict[str, Callable[[set[int], set[int]], float]] = {
    "jaccard": jaccard,
    "containment": containment,
}
"""The measures of --measure, each called with the sets of a document and of an earlier one."""


def estimate(a: Sequence[int], b: Sequence[int]) -> float:
    """Return the share of slots that are equal: the estimate of the Jaccard similarity."""
    return sum(x == y for x, y in zip(a, b, strict=True)) / len(a)


ROUNDS, SHIFTS = 16, 64
"""Of one-permutation MinHash: the rounds of each element, and the shifts that fill empty slots."""


def multiplier(round_: int, seed: int) -> int:
    """Return the odd number that elements are multiplied by in a round."""
    return xxh64(f"r:{round_}".encode(), seed) | 1


def shift(number: int, slots: int) -> int:
    """Return the distance from an empty slot to one that may fill it; the last shift is 1."""
    if number == SHIFTS - 1:
        return 1
    return 1 + xxh64(f"s:{number}".encode(), 0) % (slots - 1)


def fall(x: int, round_: int, slots: int, seed: int) -> tuple[int, int]:
    """Return the slot that an element falls into in a round, and its value there.

    Values of the first round are below 2^31, values of each later round in the next 2^27: a later
    round counts only in slots that no earlier one reached.
    """
    y = mix(x ^ xxh64(b"oneperm", seed)) * multiplier(round_, seed) & MASK
    high, low = y >> 32, y % 2**32
    value = low >> 1 if round_ == 0 else 2**31 + (round_ - 1) * 2**27 + (low >> 5)
    return high * slots >> 32, value


def bins(elements: Iterable[int], slots: int, seed: int) -> list[int]:
    """Return for each slot the least value that falls into it in any round."""
    values = [EMPTY_SLOT] * slots
    for x in elements:
        for round_ in range(ROUNDS):
            at, value = fall(x, round_, slots, seed)
            values[at] = min(values[at], value)
    return values


def fill_slots(values: list[int]) -> list[int]:
    """Return the slots with the empty ones filled from others.

    An empty slot takes the value of the first slot that is not empty, in the order of its shifts.
    If slots remain empty, the next pass starts from the slots that this one filled.
    """
    slots = len(values)
    while EMPTY_SLOT in values and any(value != EMPTY_SLOT for value in values):
        shifts = [0, *(shift(number, slots) for number in range(SHIFTS))]
        values = [
            next(
                (
                    values[(slot + s) % slots]
                    for s in shifts
                    if values[(slot + s) % slots] != EMPTY_SLOT
                ),
                EMPTY_SLOT,
            )
            for slot in range(slots)
        ]
    return values


NOTHING_MISSING = 2**64 - 1
"""The limit of a slot that holds the keys of all its elements."""


@dataclass
class Slot:
    """A slot that holds the least keys of a set, so that elements can be removed.

    A key is the value of an element in the upper 32 bits and the upper half of the element in the
    lower ones. The slot holds exactly the keys of the set that are below the limit.
    """

    a: int
    b: int
    room: int
    """The most keys that it holds."""
    keys: set[int] = field(default_factory=set)
    limit: int = NOTHING_MISSING

    def key(self, x: int) -> int:
        """Return the key of an element."""
        return (self.a * x + self.b) % 2**32 << 32 | x >> 32

    def add(self, key: int) -> None:
        """Add a key; if there are too many, drop the greatest and lower the limit to it."""
        self.keys = {held for held in self.keys | {key} if held < self.limit}
        if len(self.keys) > self.room:
            self.limit = max(self.keys)
            self.keys.discard(self.limit)

    def merge(self, other: Slot) -> None:
        """Make this the slot of the union of both sets."""
        self.limit = min(self.limit, other.limit)
        self.keys = {key for key in self.keys if key < self.limit}
        for key in other.keys:
            self.add(key)

    def remove(self, key: int) -> None:
        """Remove a key; one above the limit is not held anyway."""
        self.keys.discard(key)

    @property
    def value(self) -> int | None:
        """The least value of the set; None if all keys below the limit were removed."""
        if self.keys:
            return min(self.keys) >> 32
        return EMPTY_SLOT if self.limit == NOTHING_MISSING else None


def seconds(elements: set[int], spec: Spec) -> list[int]:
    """Return for each slot of k-hash MinHash the second least value, for multi-probing."""
    second = []
    for slot in range(spec.slots):
        a, b = permutation(slot, spec.seed)
        values = sorted((a * x + b) % 2**32 for x in elements)
        second.append(values[1] if len(values) > 1 else EMPTY_SLOT)
    return second


def probe_keys(
    sig: Sequence[int], second: Sequence[int], bands: int, rows: int
) -> list[tuple[int, int]]:
    """Return all probes of a query in the order in which they are looked up, as (band, key).

    A probe is a band in which the value of one slot is replaced by its second least one. The least
    sum of the values of the band comes first; ties are ordered by slot.
    """
    probes = []
    for slot in range(bands * rows):
        if second[slot] != EMPTY_SLOT:
            band = slot // rows
            probe = [*sig[:slot], second[slot], *sig[slot + 1 :]]
            total = sum(probe[band * rows : (band + 1) * rows])
            probes.append((total, slot, band, band_keys(probe, bands, rows)[band]))
    return [(band, key) for _, _, band, key in sorted(probes)]


def registers(elements: Iterable[int], count: int) -> list[int]:
    """Return the registers of a HyperLogLog, as Apache DataSketches fills them.

    The lower bits of the first half of the MurmurHash3 of an element, with seed 9001, are its
    register; the zeros in front of the second half, and one more, its value.
    """
    held = [0] * count
    for x in elements:
        low, high = murmur3(x.to_bytes(8, "little"), 9001)
        place = low % count
        held[place] = max(held[place], min(64 - high.bit_length(), 62) + 1)
    return held
