"""Filters and the hash table: the kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels
from neardup.membership.exact import HashTable
from neardup.reference import filters as slow

# Few and close hashes too: they must be mixed as well as others, and collide often.
hashes = st.lists(st.integers(0, 12) | st.integers(0, 2**64 - 1), max_size=60)
seeds = st.integers(0, 2**64 - 1)
probes = st.integers(1, 32)
blocks = st.integers(1, 3)


def array(values: list[int]) -> np.ndarray:
    return np.array(values, np.uint64)


def salt(seed: int) -> np.uint64:
    return np.uint64(slow.salt(seed))


@given(hashes, hashes, blocks, probes, seeds)
def test_bloom_equals_its_twin(keys, asked, blocks, probes, seed):
    twin, words = slow.Bloom(blocks, probes, seed), np.zeros(blocks * 8, np.uint64)
    there = kernels.bloom_insert(words, probes, array(keys), salt(seed), 1000)
    assert there.tolist() == [twin.insert(key) for key in keys]
    bits = np.unpackbits(words.view(np.uint8), bitorder="little")
    assert set(np.flatnonzero(bits).tolist()) == set(+twin.places)
    found = kernels.bloom_contains(words, probes, array(asked), salt(seed))
    assert found.tolist() == [twin.contains(key) for key in asked]
    fills = kernels.block_fills(words)
    assert fills.sum() == blocks and fills @ np.arange(513) == bits.sum()


@given(hashes, st.integers(0, 5), seeds)
def test_bloom_stops_when_there_is_no_more_room(keys, room, seed):
    words = np.zeros(800, np.uint64)  # so large that nothing seems to be there
    there = kernels.bloom_insert(words, 7, array(keys), salt(seed), room).tolist()
    assert there.count(False) == min(room, len(set(keys)))
    assert len(there) == len(keys) or there.count(False) == room


@given(hashes, hashes, blocks, probes, seeds, st.booleans())
def test_counting_bloom_equals_its_twin(keys, gone, blocks, probes, seed, once):
    twin, counters = slow.CountingBloom(blocks, probes, seed), np.zeros(blocks * 256, np.uint8)
    there = kernels.counting_insert(counters, probes, array(keys), salt(seed), once)
    assert there.tolist() == [
        True if once and twin.contains(key) else twin.insert(key) for key in keys
    ]
    removed = kernels.counting_remove(counters, probes, array(gone), salt(seed))
    assert removed.tolist() == [twin.remove(key) for key in gone]
    values = np.stack([counters & 15, counters >> 4], axis=1).reshape(-1)
    assert {place: int(values[place]) for place in np.flatnonzero(values).tolist()} == +twin.places
    found = kernels.counting_contains(counters, probes, array(keys), salt(seed))
    assert found.tolist() == [twin.contains(key) for key in keys]


def in_buckets(table: np.ndarray, buckets: int) -> list[list[int]]:
    numbers = [
        int.from_bytes(table[at * 6 : at * 6 + 6].tobytes(), "little") for at in range(buckets)
    ]
    return [[number >> shift & 4095 for shift in (0, 12, 24, 36)] for number in numbers]


@given(hashes, hashes, st.integers(1, 15), seeds)
def test_cuckoo_equals_its_twin(keys, gone, buckets, seed):
    twin, table = slow.Cuckoo(buckets, seed), np.zeros(buckets * 6 + 2, np.uint8)
    was_there, full = [], False
    for key in keys:
        known = twin.contains(key)
        full = not twin.insert(key)
        if full:
            break
        was_there.append(known)
    there = kernels.cuckoo_insert(table, buckets, array(keys), salt(seed), False)
    assert there.tolist() == was_there
    assert in_buckets(table, buckets) == twin.buckets, "also if it was full: nothing is lost"
    assert kernels.cuckoo_contains(table, buckets, array(keys), salt(seed)).tolist() == [
        twin.contains(key) for key in keys
    ]
    removed = kernels.cuckoo_remove(table, buckets, array(gone), salt(seed))
    assert removed.tolist() == [twin.remove(key) for key in gone]
    assert in_buckets(table, buckets) == twin.buckets


@given(hashes, st.integers(1, 15), seeds)
def test_cuckoo_once_skips_present_keys(keys, buckets, seed):
    table = np.zeros(buckets * 6 + 2, np.uint8)
    there = kernels.cuckoo_insert(table, buckets, array(keys), salt(seed), True).tolist()
    assert there.count(False) == np.count_nonzero(in_buckets(table, buckets))


keys_of = {
    1: st.tuples(st.integers(0, 400)),
    2: st.tuples(st.integers(0, 20), st.integers(0, 20)),
}


@given(st.sampled_from([1, 2]), st.data())
def test_the_hash_table_equals_a_dict(words, data):
    table, twin = HashTable(words=words), dict[tuple[int, ...], int]()
    # So small that it grows several times, and is asked in the middle of it.
    table._new = table._array(4)
    for step in range(data.draw(st.integers(0, 12))):
        keys = data.draw(st.lists(keys_of[words], max_size=40))
        rows = np.array(keys, np.uint64).reshape(-1, words)
        values = np.arange(len(keys)) + 1000 * step
        done = data.draw(st.sampled_from(["put", "replace", "get", "remove"]))
        expected = []
        for key, value in zip(keys, values.tolist(), strict=True):
            expected.append(twin.get(key, -1))
            if done == "replace":
                twin[key] = value
            elif done == "put":
                twin.setdefault(key, value)
            elif done == "remove":
                twin.pop(key, None)
        if done == "get":
            got = table.get_many(rows)
        elif done == "remove":
            got = table.remove_many(rows)
        else:
            got = table.put_many(rows, values, replace=done == "replace")
        assert got.tolist() == expected
        assert len(table) == len(twin)
    rows = np.array(list(twin), np.uint64).reshape(-1, words)
    assert table.get_many(rows).tolist() == list(twin.values())
    entries = table.entries.reshape(-1, words + 1)
    held = entries[entries[:, words] != 0]
    assert {tuple(row[:words]): row[words] - 1 for row in held.tolist()} == twin
