"""Slow filters and postings: sets of places instead of packed bits, dicts instead of tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from neardup.reference.hashes import MASK, mix, xxh64

ODD = 0x9E3779B97F4A7C15
STEP = 0xD1342543DE82EF95
BLOCK, DRAWS, MOST_COUNT = 512, 7, 15
PLACES, MOST_MOVES = 4, 500


def salt(seed: int) -> int:
    return xxh64(b"filter", seed)


def scaled(value: int, size: int) -> int:
    """Scale a 64-bit number to one below `size`."""
    return value * size >> 64


def bloom_places(hashed: int, salt: int, blocks: int, probes: int) -> list[int]:
    """Return the bits of a key, all in one block of 512; they may repeat."""
    key = mix(hashed ^ salt)
    first, state, found = scaled(key, blocks) * BLOCK, key, list[int]()
    while len(found) < probes:
        state = (state ^ state >> 32) * ODD & MASK
        found += [first + (state >> shift & 511) for shift in range(55, 55 - 9 * DRAWS, -9)]
    return found[:probes]


class Bloom:
    """A Bloom filter as the set of its bits."""

    def __init__(self, blocks: int, probes: int, seed: int) -> None:
        self.blocks, self.probes, self.salt = blocks, probes, salt(seed)
        self.places: Counter[int] = Counter()

    def of(self, hashed: int) -> list[int]:
        return bloom_places(hashed, self.salt, self.blocks, self.probes)

    def contains(self, hashed: int) -> bool:
        return all(self.places[place] for place in self.of(hashed))

    def insert(self, hashed: int) -> bool:
        there = self.contains(hashed)
        for place in self.of(hashed):
            self.places[place] = 1
        return there


class CountingBloom(Bloom):
    """A counting Bloom filter: a number from 0 to 15 for each place; at 15 it stays."""

    def insert(self, hashed: int) -> bool:
        there = self.contains(hashed)
        for place in self.of(hashed):
            self.places[place] = min(self.places[place] + 1, MOST_COUNT)
        return there

    def remove(self, hashed: int) -> bool:
        if not self.contains(hashed):
            return False
        for place in self.of(hashed):
            if 0 < self.places[place] < MOST_COUNT:
                self.places[place] -= 1
        return True


class Cuckoo:
    """A cuckoo filter: buckets of four fingerprints, 0 for an empty place."""

    def __init__(self, buckets: int, seed: int) -> None:
        self.salt = salt(seed)
        self.buckets = [[0] * PLACES for _ in range(buckets)]

    def other(self, bucket: int, mark: int) -> int:
        total = scaled(mark * ODD & MASK, len(self.buckets))
        return (total - bucket) % len(self.buckets)

    def of(self, hashed: int) -> tuple[int, int, int, int]:
        """Return the mixed key, its fingerprint and its two buckets."""
        key = mix(hashed ^ self.salt)
        mark, first = (key % 2**32 * 4095 >> 32) + 1, scaled(key, len(self.buckets))
        return key, mark, first, self.other(first, mark)

    def contains(self, hashed: int) -> bool:
        _, mark, first, second = self.of(hashed)
        return mark in self.buckets[first] + self.buckets[second]

    def replace(self, bucket: int, old: int, new: int) -> bool:
        """Replace the first place of a bucket that holds `old`; return False if none does."""
        if old not in self.buckets[bucket]:
            return False
        self.buckets[bucket][self.buckets[bucket].index(old)] = new
        return True

    def insert(self, hashed: int) -> bool:
        """Insert a key; return False, and change nothing, if it does not fit."""
        key, mark, first, second = self.of(hashed)
        if self.replace(first, 0, mark) or self.replace(second, 0, mark):
            return True
        before = [list(bucket) for bucket in self.buckets]
        bucket, state = (second if key >> 63 else first), key
        for _ in range(MOST_MOVES):
            if self.move_one(bucket, mark):
                return True
            state = (state * STEP + ODD) & MASK
            place = state >> 62
            mark, self.buckets[bucket][place] = self.buckets[bucket][place], mark
            bucket = self.other(bucket, mark)
        self.buckets = before
        return False

    def move_one(self, bucket: int, mark: int) -> bool:
        """Move the last fingerprint whose other bucket has room, and take its place."""
        for place in reversed(range(PLACES)):
            moving = self.buckets[bucket][place]
            if self.replace(self.other(bucket, moving), 0, moving):
                self.buckets[bucket][place] = mark
                return True
        return False

    def remove(self, hashed: int) -> bool:
        _, mark, first, second = self.of(hashed)
        return self.replace(first, mark, 0) or self.replace(second, mark, 0)


Posting = tuple[int, int]


def first_page(
    key: int, bits: Collection[int], blocks: int, probes: int, lasts: Sequence[int]
) -> int | None:
    """Return the first page whose last key is not below the key; None if the filter lacks it."""
    if not all(place in bits for place in bloom_places(key, 0, blocks, probes)):
        return None
    return next((page for page, last in enumerate(lasts) if last >= key), None)


def taken(
    page: Sequence[Posting], key: int, room: int, dead: Collection[int]
) -> tuple[list[int], bool]:
    """Return the first numbers of a key on a page that are not dead; whether it may continue."""
    alive = [number for held, number in page if held == key and number not in dead]
    goes_on = len(alive) < room and (not page or page[-1][0] <= key)
    return alive[:room], goes_on


def put_posting(table: dict[int, list[int]], keys: Iterable[int], numbers: Iterable[int]) -> None:
    """Insert postings; existing ones stay. Buckets are in ascending order."""
    for key, number in zip(keys, numbers, strict=True):
        table[key] = sorted({*table.get(key, ()), number})


def find_postings(
    table: dict[int, list[int]], key: int, dead: Collection[int], limit: int
) -> list[int]:
    """Return the first `limit` documents of a key that are not dead."""
    return [number for number in table.get(key, ()) if number not in dead][:limit]


def exact_entries(keys: Sequence[tuple[int, ...]], slots: int, words: int) -> list[int]:
    """Return the slots of an exact set: the words of the key that each has, and 1; else zeros."""
    table: list[tuple[int, ...]] = [(0,) * (words + 1)] * slots
    for key in keys:
        at = scaled(mix(key[0]), slots)
        while table[at][-1] and table[at][:-1] != key:
            at = (at + 1) % slots
        table[at] = (*key, 1)
    return [word for slot in table for word in slot]


def packed_buckets(buckets: Sequence[Sequence[int]]) -> bytes:
    """Return the fingerprints of a cuckoo filter, 12 bits each, and two bytes behind them."""
    rows = (sum(mark << 12 * place for place, mark in enumerate(each)) for each in buckets)
    return b"".join(row.to_bytes(6, "little") for row in rows) + bytes(2)
