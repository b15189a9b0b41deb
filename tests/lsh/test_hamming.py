"""The Hamming index: planted neighbours, online use, threads, wrong use."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from neardup import HammingIndex
from neardup.errors import ParameterError
from neardup.lsh import hamming
from neardup.lsh.blocks import Blocks
from neardup.lsh.hamming import choose_blocks


def planted(count: int, bits: int, distance: int, seed: int = 1):
    """Random fingerprints, and one neighbour of each at a distance from 0 to one too far."""
    rng = np.random.default_rng(seed)
    known = rng.integers(0, 2**64, (count, bits // 64), dtype=np.uint64)
    apart = np.arange(count) % (distance + 2)
    queries = known.copy()
    for row in range(count):
        for bit in rng.choice(bits, apart[row], replace=False).tolist():
            queries[row, bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
    return known, queries, apart


@pytest.mark.parametrize(("bits", "distance"), [(64, 0), (64, 3), (64, 7), (128, 3), (128, 10)])
def test_planted_neighbours_are_all_found(bits, distance):
    known, queries, apart = planted(3_000, bits, distance)
    index = HammingIndex(bits, distance)
    index.insert_many(np.arange(len(known)), known)
    query, id, found = index.query_many(queries)
    near = apart <= distance
    assert query.tolist() == id.tolist() == np.flatnonzero(near).tolist()
    assert found.tolist() == apart[near].tolist()


def test_insert_query_remove(monkeypatch):
    monkeypatch.setattr(hamming, "TAIL", 10)
    index = HammingIndex(64, 3)
    for id in range(100):
        index.insert(id, id << 40)
    assert len(index) == 100
    assert index.query(0)[:5] == [(0, 0), (1, 1), (2, 1), (4, 1), (8, 1)]
    assert index.remove(0)
    assert not index.remove(0)
    assert 0 not in index
    assert 99 in index
    assert index.query(0)[0] == (1, 1)
    index.insert(0, 1)
    assert index.query(1)[0] == (0, 0)
    assert index.remove(99)
    assert len(index) == 99
    assert all(id != 99 for id, _ in index.query(99 << 40))


def test_removed_fingerprints_are_not_found_after_sorting(monkeypatch):
    monkeypatch.setattr(hamming, "TAIL", 2)
    index = HammingIndex()
    index.insert_many([1, 2, 3], [5, 5, 5])
    index.remove(2)
    for id in range(10, 20):
        index.insert(id, 2**64 - 1)
    assert index.query(5) == [(1, 0), (3, 0)]
    assert len(index) == 12


def test_repeated_ids_are_refused():
    index = HammingIndex()
    index.insert(1, 7)
    for insert in (lambda: index.insert(1, 8), lambda: index.insert_many([1], [8])):
        with pytest.raises(ParameterError, match="id 1 is in the index already: remove it first"):
            insert()
    with pytest.raises(ParameterError, match="id 4 is in the index already"):
        index.insert_many([4, 4], [1, 2])
    assert index.query(7) == [(1, 0)]
    assert len(index) == 1


def test_threads_insert_and_query_at_once():
    index = HammingIndex(64, 1)
    known, _, _ = planted(2_400, 64, 1)

    def work(part: int) -> None:
        for id in range(part, len(known), 8):
            index.insert(id, int(known[id, 0]))
            assert (id, 0) in index.query(int(known[id, 0]))
            if id % 3 == 0:
                assert index.remove(id)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _, ids, _ = index.query_many(known)
    assert ids.tolist() == [id for id in range(len(known)) if id % 3]


def test_the_number_of_blocks_follows_the_number_of_fingerprints():
    assert [choose_blocks(64, 3, count).blocks for count in (10, 10**7, 10**8, 10**10)] == [
        4,
        4,
        5,
        6,
    ]
    assert HammingIndex(64, 3, blocks=6).blocks == Blocks(64, 3, 6)
    index = HammingIndex(64, 3)
    index.insert_many(range(1000), np.arange(1000, dtype=np.uint64))
    assert index.nbytes > 1000 * (8 + 8 + 4 * 12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((32, 3), "number of bits 32 is not known"),
        ((64, 64), "the Hamming distance of 64 bits must be a whole number from 0 to 63, not 64"),
        ((64, -1), "from 0 to 63"),
        ((64, 1.5), "from 0 to 63"),
        ((64, 3, 3), "the number of blocks for distance 3 must be a whole number from 4 to 64"),
        ((64, 3, 65), "from 4 to 64"),
        ((64, 8, 20), "make 125,970 tables, more than 128: use fewer blocks"),
    ],
)
def test_invalid_blocks_are_refused(arguments, message):
    with pytest.raises(ParameterError, match=message):
        HammingIndex(*arguments)


def test_invalid_fingerprints_are_refused():
    index = HammingIndex(128, 3)
    for wrong in (2**128, -1, "a", 1.0, True):
        with pytest.raises(ParameterError, match="a fingerprint of 128 bits"):
            index.query(wrong)
    for rows in (np.zeros(3, np.uint64), np.zeros((3, 2), np.int64), np.zeros((3, 3), np.uint64)):
        with pytest.raises(ParameterError, match="must be rows of 2 uint64"):
            index.query_many(rows)
    with pytest.raises(ParameterError, match="2 fingerprints have 1 ids"):
        index.insert_many([1], [2, 3])
    with pytest.raises(ParameterError, match="an id"):
        index.insert(-1, 0)


def test_repr():
    assert repr(HammingIndex()) == "HammingIndex(bits=64, distance=3, blocks=4, fingerprints=0)"
