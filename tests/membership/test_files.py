"""Filters as files: several who write one, and files that somebody made up."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from neardup import BloomFilter, CountingBloomFilter, CuckooFilter, load_filter, save_filter
from neardup.errors import FormatError, OutputError, ParameterError
from neardup.formats.filters import HEAD, LINE, MAGIC, VERSION
from neardup.framing import CHECKSUM


def made_up(path: Path, header: bytes, *arrays: np.ndarray[Any, Any]) -> Path:
    """A file with this header and right checksums."""
    front = HEAD.pack(MAGIC, VERSION, len(header)) + header
    front += CHECKSUM.pack(xxhash.xxh3_64_intdigest(front))
    parts = [front, *(values.tobytes() for values in arrays)]
    path.write_bytes(b"".join(part.ljust(-(-len(part) // LINE) * LINE, b"\0") for part in parts))
    return path


def header(kind: str, parameters: dict[str, Any], **arrays: np.ndarray[Any, Any]) -> bytes:
    described, at = [], 0
    for name, values in arrays.items():
        described.append(
            {
                "name": name,
                "type": values.dtype.str,
                "size": values.size,
                "at": at,
                "xxh3_64": xxhash.xxh3_64_intdigest(values.tobytes()),
            }
        )
        at += values.nbytes
    return json.dumps({"kind": kind, "parameters": parameters, "arrays": described}).encode()


WORDS = np.zeros(8, np.uint64)
BLOOM = {"seed": 0, "blocks": 1, "probes": 6, "keys": 0}
GENERATIONS = {"seed": 0, "n": 1, "fpr": 0.5, "generations": [BLOOM]}
FULL = np.full(192, 255, np.uint8)
FULL[-2:] = 0
DEAD = np.zeros(2048, np.uint64)
DEAD[:2] = 7, 2**64 - 1
MADE_UP = {
    "too many keys": ("bloom", BLOOM | {"keys": 2**63 - 1}, {"words": WORDS}),
    "an array too many": ("bloom", BLOOM, {"words": WORDS, "more": WORDS}),
    "full, without keys": (
        "cuckoo",
        {"seed": 0, "buckets": 32 - 1, "keys": 0},
        {"table": FULL[: 31 * 6 + 2]},
    ),
    "a removed entry": ("set", {"seed": 0, "bits": 64, "keys": 1}, {"entries": DEAD}),
    "a rate too low": ("scalable", GENERATIONS | {"fpr": 1e-300}, {"words 0": WORDS}),
    "generations by name": (
        "scalable",
        GENERATIONS | {"generations": {"a": 1}},
        {"words 0": WORDS},
    ),
}


def test_a_forged_valid_file_loads(tmp_path):
    path = made_up(tmp_path / "f", header("bloom", BLOOM, words=WORDS), WORDS)
    assert not load_filter(path).insert("a")


@pytest.mark.parametrize("kind, parameters, arrays", MADE_UP.values(), ids=MADE_UP)
def test_a_forged_file_is_refused(tmp_path, kind, parameters, arrays):
    text = header(kind, parameters, **arrays)
    path = made_up(tmp_path / "filter.nd", text, *arrays.values())
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - -sum(a.nbytes for a in arrays.values()) % LINE])
    with pytest.raises(FormatError, match=r"filter\.nd") as error:
        load_filter(path)
    assert "after its end" not in str(error.value), "it is refused for what is wrong with it"


def test_a_header_longer_than_the_file_is_refused(tmp_path):
    with pytest.raises(FormatError, match=r"filter\.nd"):
        load_filter(made_up(tmp_path / "filter.nd", b"[" * 400_000))


def test_an_unaligned_array_is_usable(tmp_path):
    text = header("bloom", BLOOM, words=WORDS).replace(b'"at": 0', b'"at": 4')
    path = made_up(tmp_path / "f", text)
    path.write_bytes(path.read_bytes() + bytes(4 + WORDS.nbytes))
    seen = load_filter(path)
    assert not seen.insert("a") and "a" in seen


def test_concurrent_saves_leave_a_complete_file(tmp_path):
    path, made = tmp_path / "f", [BloomFilter(100_000), CuckooFilter(70_000)]

    def save(seen: BloomFilter | CuckooFilter) -> None:
        for _ in range(20):
            save_filter(seen, path)
            load_filter(path)

    failed: list[Any] = []
    before, threading.excepthook = threading.excepthook, failed.append
    threads = [threading.Thread(target=save, args=(seen,)) for seen in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    threading.excepthook = before
    assert not failed
    assert [one.name for one in tmp_path.iterdir()] == ["f"]


def test_a_file_is_private_and_links_are_not_followed(tmp_path):
    other = tmp_path / "other"
    other.write_text("precious")
    for name in ("f", ".f.tmp"):
        (tmp_path / name).symlink_to(other)
    save_filter(BloomFilter(10), tmp_path / "f")
    assert other.read_text() == "precious" and len(load_filter(tmp_path / "f")) == 0
    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("path", ["", "/", "."])
def test_a_path_without_a_name_is_refused(path):
    with pytest.raises(ParameterError, match="names none"):
        save_filter(BloomFilter(10), path)


def test_a_failed_save_leaves_no_file(tmp_path, monkeypatch):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="folder"):
        save_filter(BloomFilter(10), tmp_path / "folder")
    with pytest.raises(OutputError, match="nowhere"):
        save_filter(BloomFilter(10), tmp_path / "nowhere" / "f")

    def full(_: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match="free some space"):
        save_filter(BloomFilter(10), tmp_path / "f")
    assert [one.name for one in tmp_path.iterdir()] == ["folder"]


def test_saturated_counters_survive_a_file(tmp_path):
    seen = CountingBloomFilter(100)
    seen.insert_many(["a"] * 20)
    seen.remove_many(["a"] * 40)
    save_filter(seen, tmp_path / "f")
    loaded = load_filter(tmp_path / "f")
    assert len(loaded) == len(seen) == 0 and "a" in loaded and "0 keys" in repr(loaded)
    assert loaded.remove("a") and len(loaded) == 0
