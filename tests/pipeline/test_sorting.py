"""The sorter returns all numbers in order, whether they fit into memory or not."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from neardup.errors import FormatError
from neardup.pipeline import sorting
from neardup.pipeline.sorting import Records, SortedRun, SortedStream, Sorter, cut_windows


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "LEAST_BLOCK", 4)
    monkeypatch.setattr(sorting, "MERGED_AT_ONCE", 5)


def filled(sorter: Sorter, chance: random.Random, carries: bool) -> list[tuple[int, float]]:
    """Add random numbers, with repeats, in pieces; what was added."""
    added: list[tuple[int, float]] = []
    top = chance.choice([10, 200, 2**64])
    for _ in range(chance.randint(0, 30)):
        keys = [chance.randrange(top) for _ in range(chance.randint(0, 12))]
        values = [chance.random() for _ in keys]
        added += zip(keys, values, strict=True)
        sorter.add(np.array(keys, np.uint64), np.array(values) if carries else None)
    return added


def given_back(sorter: Sorter) -> list[tuple[int, float | None]]:
    found: list[tuple[int, float | None]] = []
    for keys, values in sorter:
        carried = [None] * len(keys) if values is None else values.tolist()
        found += zip(keys.tolist(), carried, strict=True)
    return found


@pytest.mark.parametrize("memory", [0, 1_000, 1 << 20])
def test_numbers_are_returned_sorted_without_repeats(tmp_path: Path, memory: int) -> None:
    spilled = 0
    for seed in range(60):
        sorter = Sorter(tmp_path / "s", memory)
        added = filled(sorter, random.Random(seed), carries=False)
        want = sorted({key for key, _ in added})
        spilled += (tmp_path / "s-1").exists()
        for _ in range(2):
            assert [key for key, _ in given_back(sorter)] == want
        sorter.close()
        assert list(tmp_path.iterdir()) == []
    assert (spilled > 10) == (memory < 1 << 20), "small memory spills several runs"


@pytest.mark.parametrize("memory", [0, 1_000, 1 << 20])
def test_every_number_keeps_its_value(tmp_path: Path, memory: int) -> None:
    for seed in range(60):
        sorter = Sorter(tmp_path / "s", memory, carries=True)
        added = filled(sorter, random.Random(seed), carries=True)
        found = given_back(sorter)
        assert [key for key, _ in found] == sorted(key for key, _ in added)
        assert sorted(found) == sorted(added)
        sorter.close()


def test_reading_repeatedly_makes_no_more_files(tmp_path: Path) -> None:
    sorter = Sorter(tmp_path / "s", 0)
    sorter.add(np.arange(100, dtype=np.uint64))
    given_back(sorter)
    files = len(list(tmp_path.iterdir()))
    given_back(sorter)
    given_back(sorter)
    assert len(list(tmp_path.iterdir())) == files


def test_a_damaged_run_is_an_error_that_names_it(tmp_path: Path) -> None:
    sorter = Sorter(tmp_path / "s", 0, carries=True)
    for start in (0, 50, 25):
        sorter.add(np.arange(start, start + 9, dtype=np.uint64), np.ones(9))
    given_back(sorter)
    path = tmp_path / "s-1"
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(FormatError, match="s-1"):
            given_back(sorter)
        path.write_bytes(whole[:place])
        with pytest.raises(FormatError, match="s-1"):
            given_back(sorter)
    path.unlink()
    with pytest.raises(FormatError, match="s-1"):
        given_back(sorter)


@pytest.mark.parametrize("carries", [False, True])
def test_hundreds_of_runs_are_merged_few_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, carries: bool
) -> None:
    merge, opened = sorting._merge_runs, []

    def noted_merge(runs: list[SortedRun], carries: bool) -> Iterator[Records]:
        opened.append(len(runs))
        return merge(runs, carries)

    monkeypatch.setattr(sorting, "_merge_runs", noted_merge)
    sorter = Sorter(tmp_path / "s", 0, carries)
    numbers = np.random.default_rng(1).permutation(5_000).astype(np.uint64)
    for part in np.split(numbers, 500):
        sorter.add(part, part / 2 if carries else None)
    assert len(list(tmp_path.iterdir())) == 500
    for _ in range(2):
        found = given_back(sorter)
        assert found == [(n, n / 2 if carries else None) for n in range(5_000)]
    assert max(opened) == 5 and opened[-1] <= 5
    assert len(list(tmp_path.iterdir())) <= 5
    sorter.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("most", [1, 3, 1_000])
def test_windows_that_end_anywhere_have_no_more_than_asked(tmp_path: Path, most: int) -> None:
    for seed in range(80):
        chance = random.Random(seed)
        sides = [
            sorted({chance.randrange(3) << 32 | chance.randrange(99) for _ in range(count)})
            for count in (chance.randrange(80), chance.randrange(80))
        ]
        streams = [SortedStream(blocks(side, chance)) for side in sides]
        seen: list[list[int]] = [[], []]
        for bound in cut_windows(streams, most, bits=0):
            for side, stream in zip(seen, streams, strict=True):
                taken = stream.until(bound)[0].tolist()
                assert len(taken) <= most
                side += taken
        assert seen == sides


@pytest.mark.parametrize("most", [1, 3, 1_000])
def test_windows_cut_streams_between_documents(tmp_path: Path, most: int) -> None:
    """Every number comes once, in order, and those of one document come together."""
    for seed in range(80):
        chance = random.Random(seed)
        sides = []
        for _ in range(2):
            numbers = {chance.randrange(8) << 32 | chance.randrange(9) for _ in range(40)}
            sides.append(sorted(numbers)[: chance.randrange(41)])
        streams = [SortedStream(blocks(side, chance)) for side in sides]
        seen: list[list[int]] = [[], []]
        for bound in cut_windows(streams, most):
            for side, stream in zip(seen, streams, strict=True):
                taken = stream.until(bound)[0].tolist()
                assert not side or not taken or side[-1] >> 32 < taken[0] >> 32
                side += taken
            last = [side[-1] >> 32 for side in seen if side]
            assert bound is None or all(document < bound >> 32 for document in last)
        assert seen == sides


def blocks(numbers: list[int], chance: random.Random):
    at = 0
    while at < len(numbers):
        step = chance.randint(1, 7)
        yield np.array(numbers[at : at + step], np.uint64), None
        at += step
