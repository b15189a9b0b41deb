"""A memory budget: past it tables are on disk, and every answer is the same."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest

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
