"""A memory budget: past it tables are on disk, and every answer is the same."""

from __future__ import annotations

import random
import shutil
import tracemalloc

import numpy as np
import pytest
from support.disks import full_disk

import neardup
from neardup.errors import ParameterError

POINT = {"threshold": 0.5, "shingle": "word:2", "bands": 32, "rows": 4, "limit": 3}
BUDGET = 1_200_000
WORDS = [f"word{number}" for number in range(60)]


def corpus(size: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    texts = [" ".join(chance.choices(WORDS, k=12)) for _ in range(size)]
    for at in range(1, size):
        if chance.random() < 0.5:
            words = texts[chance.randrange(at)].split()
            words[chance.randrange(len(words))] = chance.choice(WORDS)
            texts[at] = " ".join(words)
    return texts


@pytest.fixture(scope="module")
def texts():
    return corpus(6_000, 3)


def fill(path, texts, **options):
    index = neardup.Index.open(path, **POINT, **options)
    said = []
    for start in range(0, len(texts), 500):
        some = texts[start : start + 500]
        said += index.add_batch([str(start + at) for at in range(len(some))], some)
    return index, said


def test_answers_are_those_of_an_index_in_memory(tmp_path, texts):
    warm, expected = fill(tmp_path / "warm", texts)
    cold, said = fill(tmp_path / "cold", texts, memory=BUDGET)
    assert said == expected
    state = cold.stats()
    assert state.disk_bytes["cold"] > 0 and state.memory_budget == BUDGET
    assert state.index_memory_bytes < BUDGET * 1.2 < warm.stats().index_memory_bytes
    assert cold.query_batch(texts[:300]) == warm.query_batch(texts[:300])
    chance = random.Random(1)
    for id in chance.sample(range(len(texts)), 200):
        assert cold.remove(str(id)) == warm.remove(str(id))
    for id in range(0, len(texts), 7):
        assert (
            cold.get(str(id)) is None
            if warm.get(str(id)) is None
            else (cold.get(str(id)).duplicate_of == warm.get(str(id)).duplicate_of)
        )
    assert cold.verify() == []
    asked = cold.query_batch(texts[:1000])
    assert asked == warm.query_batch(texts[:1000])
    cold.compact()
    assert cold.stats().buried == 0
    assert cold.query_batch(texts[:1000]) == asked
    cold.close()
    warm.close()


def test_started_again_from_the_snapshot_or_without_it(tmp_path, texts):
    index, _ = fill(tmp_path / "i", texts, memory=BUDGET)
    asked = index.query_batch(texts[::9])
    index.snapshot()
    index.close()
    for lost in (None, "snapshot", "cold"):
        generation = tmp_path / "i" / "g1"
        if lost == "snapshot":
            (generation / "snapshot").unlink()
        elif lost == "cold":
            for path in generation.glob("cold-*"):
                shutil.rmtree(path)
        with neardup.Index.open(tmp_path / "i", memory=BUDGET) as again:
            assert again.query_batch(texts[::9]) == asked
            assert again.stats().disk_bytes["cold"] > 0
            assert again.verify() == []
        with neardup.Index.open(tmp_path / "i", read_only=True) as reader:
            assert reader.query_batch(texts[::9]) == asked


def test_a_budget_may_be_dropped(tmp_path, texts):
    index, _ = fill(tmp_path / "i", texts[:3000], memory=BUDGET)
    index.close()
    with neardup.Index.open(tmp_path / "i") as again:
        assert again.stats().memory_budget is None
        assert again.query(texts[0]).status == "duplicate"


@pytest.mark.parametrize("memory", ["much", -1, 0])
def test_invalid_memory_budgets_are_refused(tmp_path, memory):
    with pytest.raises(ParameterError):
        neardup.Index.open(tmp_path, memory=memory)


def test_stats_count_documents_of_tables_on_disk(tmp_path, texts):
    index, said = fill(tmp_path / "i", texts, memory=BUDGET)
    state = index.stats()
    assert state.documents == len(texts) == state.kept + state.copies
    assert state.kept == np.count_nonzero([answer.status == "new" for answer in said])
    index.close()


def test_the_budget_holds_from_the_start(tmp_path, texts):
    """Tables that a process without a budget has left were in memory until the first add."""
    warm, _ = fill(tmp_path / "i", texts)
    expected = warm.query_batch(texts[::9])
    warm.snapshot()
    size = warm.stats().index_memory_bytes
    warm.close()
    neardup.Index.open(tmp_path / "i", memory=2 * size).close()  # loads what it needs
    tracemalloc.start()
    try:
        index = neardup.Index.open(tmp_path / "i", memory=BUDGET)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    with index:
        assert index.stats().index_memory_bytes < BUDGET < size
        assert peak < size, f"{peak:,} bytes, the tables have {size:,}"
        spilled = sorted((tmp_path / "i" / "g1").glob("cold-*/cold-*"))
        assert index.query_batch(texts[::9]) == expected
        assert index.verify() == []
    with neardup.Index.open(tmp_path / "i", memory=BUDGET) as again:
        assert sorted((tmp_path / "i" / "g1").glob("cold-*/cold-*")) == spilled, "not moved again"
        assert again.query_batch(texts[::9]) == expected
    with neardup.Index.open(tmp_path / "i", read_only=True) as reader:
        assert reader.query_batch(texts[::9]) == expected


def test_changes_since_the_snapshot_stay_within_the_budget(tmp_path, texts):
    index, _ = fill(tmp_path / "i", texts[:500], memory=BUDGET)
    index.snapshot()
    saved = (tmp_path / "i" / "g1" / "snapshot").read_bytes()
    index.close()
    index = neardup.Index.open(tmp_path / "i")
    index.add_batch([f"more{at}" for at in range(5_000)], texts[500:5_500])
    expected = index.query_batch(texts[::9])
    index.close()
    (tmp_path / "i" / "g1" / "snapshot").write_bytes(saved)
    with neardup.Index.open(tmp_path / "i", memory=BUDGET) as again:
        assert again.stats().index_memory_bytes < BUDGET
        assert again.query_batch(texts[::9]) == expected
        assert again.verify() == []


def test_a_full_disk_at_the_start_leaves_the_tables_in_memory(tmp_path, texts):
    warm, _ = fill(tmp_path / "i", texts[:2_000])
    expected = warm.query_batch(texts[:200])
    warm.snapshot()
    size = warm.stats().index_memory_bytes
    warm.close()
    with full_disk(100_000):
        index = neardup.Index.open(tmp_path / "i", memory=size // 4)
    with index:
        assert index.query_batch(texts[:200]) == expected
        assert index.verify() == []
