"""The cache of vectors: what a killed process has stored is found, what is damaged is not."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from neardup.errors import NeardupError
from neardup.formats import vector_cache
from neardup.formats.vector_cache import DIGEST, VectorCache

VECTORS = np.arange(30, dtype=np.float32).reshape(10, 3)
# One ends with the byte that NumPy's strings are padded with.
DIGESTS = [bytes(DIGEST - 1) + b"\1", b"\1" + bytes(DIGEST - 1), bytes(DIGEST)] + [
    blake2b(bytes([n]), digest_size=DIGEST).digest() for n in range(7)
]
RECORD = DIGEST + 12 + 8


def stored(cache: VectorCache) -> list[int]:
    found = cache.find(DIGESTS)
    for place, vector in found.items():
        assert np.array_equal(vector, VECTORS[place])
    return sorted(found)


def make(path: Path) -> bytes:
    with VectorCache(path, "a:f") as cache:
        assert stored(cache) == []
        cache.store(DIGESTS[:4], VECTORS[:4])
        assert stored(cache) == [0, 1, 2, 3]
        cache.store(DIGESTS[4:], VECTORS[4:])
    return path.read_bytes()


def test_what_was_stored_is_found_by_another(tmp_path: Path) -> None:
    path = tmp_path / "v"
    make(path)
    assert path.stat().st_mode & 0o777 == 0o600
    with VectorCache(path, "a:f") as cache:
        assert (len(cache), cache.dimension) == (10, 3)
        assert stored(cache) == list(range(10))
        assert cache.find([b"x" * DIGEST]) == {}
        assert cache.find([]) == {}


def test_a_file_that_ends_anywhere_has_its_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "v"
    data = make(path)
    head = len(data) - 10 * RECORD
    for size in range(len(data)):
        path.write_bytes(data[:size])
        with VectorCache(path, "a:f") as cache:
            whole = max(0, (size - head) // RECORD)
            assert stored(cache) == list(range(whole)), size
            cache.store(DIGESTS[whole:], VECTORS[whole:])
            assert stored(cache) == list(range(10))
        assert path.read_bytes() == data


def test_a_damaged_record_is_missing_until_it_is_stored_again(tmp_path: Path) -> None:
    path = tmp_path / "v"
    data = make(path)
    head = len(data) - 10 * RECORD
    for at in range(0, len(data), 5):
        changed = bytearray(data)
        changed[at] ^= 16
        path.write_bytes(changed)
        lost = list(range(10)) if at < head else [(at - head) // RECORD]
        with VectorCache(path, "a:f") as cache:
            assert stored(cache) == [n for n in range(10) if n not in lost], at
            cache.store([DIGESTS[n] for n in lost], VECTORS[lost])
            assert stored(cache) == list(range(10))
        with VectorCache(path, "a:f") as cache:
            assert stored(cache) == list(range(10))


def test_vectors_of_something_else_are_discarded(tmp_path: Path) -> None:
    path = tmp_path / "v"
    make(path)
    with VectorCache(path, "a:g") as cache:
        assert stored(cache) == []
        cache.store(DIGESTS[:1], VECTORS[:1])
        cache.store(DIGESTS[:2], np.ones((2, 5), np.float32))
        assert [vector.tolist() for vector in cache.find(DIGESTS).values()] == [[1] * 5] * 2
    with VectorCache(path, "a:g") as cache:
        assert (len(cache), cache.dimension) == (2, 5)


def test_recent_digests_move_to_the_sorted_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_cache, "_FEW", 2)
    with VectorCache(tmp_path / "v", "a:f") as cache:
        for row in [*range(10), 3, 3]:
            cache.store(DIGESTS[row : row + 1], VECTORS[row : row + 1])
            assert row in stored(cache)
        assert stored(cache) == list(range(10))
        cache.store(DIGESTS[3:6], VECTORS[3:6] + 1)
        found: Any = cache.find(DIGESTS)
        assert np.array_equal(found[4], VECTORS[4] + 1), "the last record counts"


def test_a_folder_in_its_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NeardupError, match="directory"):
        VectorCache(tmp_path, "a:f")
