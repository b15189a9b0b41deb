"""Measure how a hash table probes for a free slot, and how it grows: two tables in Markdown.

    python benches/hash_table.py

Probes against load, of linear probing and of double hashing, beside what theory says, with the
time of a lookup; and the longest batch of inserts while a table grows, a few entries at a time
as ours does, beside moving all at once, in CPU time: other processes don't count.
See docs/decisions/012-hash-table.md.
"""

from __future__ import annotations

import argparse
import time
from math import log

import numpy as np
from numba import njit
from table import grid

from neardup.membership.exact import HashTable

LOADS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.9, 0.95)
BATCH = 256


@njit
def put_all(slots, keys, double):
    """Enter keys into a table of a power of two of slots; how many probes that took."""
    mask, probes = np.uint64(slots.size - 1), 0
    for key in keys:
        at = key & mask
        step = (key >> np.uint64(40)) | np.uint64(1) if double else np.uint64(1)
        probes += 1
        while slots[at] != 0:
            at = (at + step) & mask
            probes += 1
        slots[at] = key
    return probes


@njit
def look_up(slots, keys, double):
    """How many probes it takes to find these keys, or that they are not there."""
    mask, probes = np.uint64(slots.size - 1), 0
    for key in keys:
        at = key & mask
        step = (key >> np.uint64(40)) | np.uint64(1) if double else np.uint64(1)
        probes += 1
        while slots[at] != 0 and slots[at] != key:
            at = (at + step) & mask
            probes += 1
    return probes


def theory(load: float, double: bool) -> tuple[float, float]:
    """Probes to find a key, and to find that one is not there."""
    if double:
        return -log(1 - load) / load, 1 / (1 - load)
    return (1 + 1 / (1 - load)) / 2, (1 + 1 / (1 - load) ** 2) / 2


def probing(size: int, repeat: int) -> list[dict[str, str | float]]:
    chance, rows = np.random.Generator(np.random.PCG64(1)), []
    for double in (False, True):
        for load in LOADS:
            keys = chance.integers(1, 2**64, int(size * load), np.uint64)
            others = chance.integers(1, 2**64, size // 4, np.uint64)
            slots = np.zeros(size, np.uint64)
            put_all(slots, keys, double)
            some = chance.permutation(keys)[: size // 4]
            hit, miss = theory(load, double)
            rows.append(
                {
                    "probing": "double" if double else "linear",
                    "load": load,
                    "probes, there": look_up(slots, some, double) / len(some),
                    "theory": hit,
                    "ns, there": nanoseconds(slots, some, double, repeat),
                    "probes, not there": look_up(slots, others, double) / len(others),
                    "theory ": miss,
                    "ns, not there": nanoseconds(slots, others, double, repeat),
                }
            )
    return rows


def nanoseconds(slots: np.ndarray, keys: np.ndarray, double: bool, repeat: int) -> float:
    times = []
    for _ in range(repeat):
        start = time.process_time()
        look_up(slots, keys, double)
        times.append(time.process_time() - start)
    return min(times) / len(keys) * 1e9


def growing(most: int, repeat: int) -> list[dict[str, int | float]]:
    """The longest of many small batches while a table grows from n / 2 to n keys."""
    paused = [pauses(most) for _ in range(repeat)]
    rows = []
    for keys in paused[0]:
        ours, at_once = (min(run[keys][kind] for run in paused) for kind in (0, 1))
        rows.append(
            {"keys": keys, "longest batch, ms": ours * 1e3, "all at once, ms": at_once * 1e3}
        )
    return rows


def pauses(most: int) -> dict[int, tuple[float, float]]:
    """Keys -> the longest batch of our table, and how long it takes to move all of them."""
    chance, table, longest, found = np.random.Generator(np.random.PCG64(2)), HashTable(), 0.0, {}
    values, mark = np.zeros(BATCH, np.int64), 1 << 16
    while len(table) < most:
        keys = chance.integers(0, 2**64, (BATCH, 1), np.uint64)
        start = time.process_time()
        table.put_many(keys, values)
        longest = max(longest, time.process_time() - start)
        if len(table) >= mark:
            found[mark] = longest, at_once(table)
            mark, longest = mark * 4, 0.0
    return found


def at_once(table: HashTable) -> float:
    entries = table.entries.reshape(-1, 2)
    keys = np.ascontiguousarray(entries[entries[:, 1] != 0, :1])
    fresh, values = HashTable(2 * len(keys)), np.zeros(len(keys), np.int64)
    start = time.process_time()
    fresh.put_many(keys, values)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slots", type=int, default=1 << 24, help="a power of two")
    parser.add_argument("--keys", type=int, default=1 << 24, help="that a growing table gets")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many counts")
    args = parser.parse_args()
    look_up(np.zeros(8, np.uint64), np.ones(1, np.uint64), False)
    print("\n".join(grid(probing(args.slots, args.repeat))), "\n")
    print("\n".join(grid(growing(args.keys, args.repeat))))


if __name__ == "__main__":
    main()
