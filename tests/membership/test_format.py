"""A file of a filter has the bytes that version 1 of the format has, on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import xxhash

from neardup import (
    BloomFilter,
    CountingBloomFilter,
    CuckooFilter,
    ExactSet,
    ScalableBloomFilter,
    save_filter,
)

KEYS = [f"key {i}" for i in range(200)]
MADE = {
    "set": lambda: ExactSet(200, seed=7),
    "bloom": lambda: BloomFilter(200, 0.01, seed=7),
    "counting": lambda: CountingBloomFilter(200, 0.01, seed=7),
    "cuckoo": lambda: CuckooFilter(200, seed=7),
    "scalable": lambda: ScalableBloomFilter(50, 0.01, seed=7),
}
BYTES = {
    "set": "dd56ff73802c4ec8",
    "bloom": "7c4e32fd0ac37d1b",
    "counting": "62c41ce2a5a0bbb3",
    "cuckoo": "b9881ec1c5a34d4b",
    "scalable": "08544bbf2f4fa0b4",
}


@pytest.mark.parametrize("kind", MADE)
def test_a_filter_is_written_as_the_bytes_of_version_1(kind: str, tmp_path: Path) -> None:
    seen = MADE[kind]()
    seen.insert_many(KEYS)
    save_filter(seen, tmp_path / "f")
    assert xxhash.xxh3_64_hexdigest((tmp_path / "f").read_bytes()) == BYTES[kind]
