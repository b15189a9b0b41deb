"""The index's tables are equal to their slow twin: growth, long chains, the dead, any order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

from neardup.index.postings import Postings, PostingTable
from neardup.reference import filters as slow

KEYS = st.integers(0, 40).map(lambda k: (k * 0x9E3779B97F4A7C15) % 2**64)
ENTRIES = st.lists(st.tuples(KEYS, st.integers(0, 300)), max_size=200)


def dead_array(dead: set[int], size: int = 2048) -> np.ndarray:
    array = np.zeros(size, np.uint8)
    array[list(dead)] = 1
    return array


def filled(
    entries: list[tuple[int, int]], slots: int = 8
) -> tuple[PostingTable, dict[int, list[int]]]:
    table, twin = PostingTable(slots), {}
    keys = np.array([key for key, _ in entries], np.uint64)
    numbers = np.array([number for _, number in entries], np.uint32)
    table.put(keys, numbers)
    slow.put_posting(twin, keys.tolist(), numbers.tolist())
    return table, twin


@given(ENTRIES, st.sets(st.integers(0, 300)), st.integers(1, 9))
@settings(max_examples=examples(80))
def test_postings_equal_their_twin(entries, dead, limit):
    table, twin = filled(entries)
    asked = sorted({key for key, _ in entries} | {7, 2**64 - 1})
    counts, found = table.find(np.array(asked, np.uint64), dead_array(dead), limit)
    expected = [slow.find_postings(twin, key, dead, limit) for key in asked]
    assert counts.tolist() == [len(some) for some in expected]
    assert found.tolist() == [number for some in expected for number in some]


@given(ENTRIES, st.sets(st.integers(0, 300)))
def test_all_postings_are_listed_and_buckets_counted(entries, dead):
    table, twin = filled(entries)
    keys, numbers = table.everything(dead_array(dead))
    living = sorted((key, n) for key, bucket in twin.items() for n in bucket if n not in dead)
    assert sorted(zip(keys.tolist(), numbers.tolist(), strict=True)) == living
    assert table.postings == sum(map(len, twin.values()))
    assert table.buckets == len(twin)
    shared = sorted(len([n for n in b if n not in dead]) for b in twin.values() if len(b) > 1)
    assert sorted(table.shared(dead_array(dead)).tolist()) == shared


@given(ENTRIES, st.sets(st.integers(0, 300)), st.integers(2, 90))
@settings(max_examples=examples(80))
def test_compacted_is_the_same_without_the_dead_and_never_larger(entries, dead, slots):
    table, twin = filled(entries, slots)
    smaller = table.compacted(dead_array(dead))
    living = sorted((key, n) for key, bucket in twin.items() for n in bucket if n not in dead)
    keys, numbers = smaller.everything(dead_array(set()))
    assert sorted(zip(keys.tolist(), numbers.tolist(), strict=True)) == living
    assert len(smaller.keys) <= len(table.keys) and len(smaller.numbers) <= len(table.numbers)


def test_compacted_tables_shrink():
    table, _ = filled([(key, number) for number, key in enumerate(range(20_000))])
    dead = dead_array(set(range(19_000)), 20_000)
    assert len(table.compacted(dead).keys) < len(table.keys) / 8


def test_inserting_postings_again_changes_nothing():
    entries = [(key % 13, number) for number, key in enumerate(range(500))]
    table, _ = filled(entries)
    before = [part.copy() for part in table.parts]
    table.put(
        np.array([k for k, _ in entries], np.uint64), np.array([n for _, n in entries], np.uint32)
    )
    for was, now in zip(before[1:], table.parts[1:], strict=True):
        assert np.array_equal(was, now)


@pytest.mark.parametrize("documents", [1, 5000])
def test_several_tables_are_searched_in_one_call(documents):
    random = np.random.default_rng(5)
    postings = Postings(4)
    keys = random.integers(0, 700, (documents, 4)).astype(np.uint64)
    for start in range(0, documents, 700):
        some = slice(start, start + 700)
        postings.put(keys[some], np.arange(start, min(start + 700, documents), dtype=np.uint32))
    counts, rows, numbers = postings.find(keys[:50], dead_array(set(), documents + 1), 3)
    place = 0
    for table in range(4):
        for row in range(min(50, documents)):
            expected = np.flatnonzero(keys[:, table] == keys[row, table])[:3]
            assert counts[table, row] == len(expected)
            here = slice(place, place + len(expected))
            assert numbers[here].tolist() == expected.tolist()
            assert (rows[here] == row).all()
            place += len(expected)


def test_free_slots_are_zero_because_snapshots_store_them():
    rng = np.random.default_rng(5)
    table = PostingTable()
    for _ in range(3):
        dirty = [np.full(1 << 12, 0xA5, np.uint8) for _ in range(64)]  # what malloc gives again
        del dirty
        keys = rng.integers(1, 2**63, 900, np.uint64)
        table.put(keys, rng.integers(1, 1 << 20, 900).astype(np.uint32))
    assert not table.keys[table.values == 0].any()
    used = int(table.state[1])
    assert not table.numbers[used:].any()
