"""The rounds end in the answer of the definition, also where buckets have more members than count.

The graphs are random, many of their buckets hot (of more members than the limit): there, who
counts as a leader changes from round to round.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support import batch_engine
from support.strategies import examples

from neardup import reference
from neardup.errors import FormatError
from neardup.formats.blocks import BlockReader, BlockWriter
from neardup.pipeline.run import run_job
from neardup.pipeline.sorting import split_pairs
from neardup.pipeline.stages import decide
from neardup.pipeline.stages.band import BUCKETS_KIND, BucketFiles
from neardup.pipeline.stages.decide import Rounds

THRESHOLD = 0.5


@dataclass
class Graph:
    """Documents by rank, in some buckets each; how similar they are."""

    buckets: list[list[int]]
    similarity: dict[tuple[int, int], float]
    absent: set[int]

    @classmethod
    def random(cls, seed: int, most: int) -> Graph:
        """Chains in few buckets, so that most are hot; copies, as it were, take no part."""
        chance = random.Random(seed)
        count = chance.randint(2, most)
        bands, width = chance.randint(1, 4), chance.randint(1, 6)
        near = chance.choice([0.05, 0.2, 0.5, 0.9])
        absent = {v for v in range(count) if chance.random() < 0.1}
        buckets = [
            [] if v in absent else [10 * band + chance.randrange(width) for band in range(bands)]
            for v in range(count)
        ]
        chained = chance.random() < 0.5
        similarity = {
            (u, v): chance.choice([0.5, 0.75, 1.0])
            for v in range(count)
            for u in range(v)
            if chance.random() < near * (v - u < 4 if chained else 1)
        }
        return cls(buckets, similarity, absent)

    @classmethod
    def of_chains(cls, seed: int) -> Graph:
        """Long chains through many buckets: leaders come and go while the rounds last."""
        chance = random.Random(seed)
        count, width, reach = chance.randint(60, 120), chance.choice([4, 8]), chance.randint(3, 10)
        buckets = [[10 * band + chance.randrange(width) for band in range(5)] for _ in range(count)]
        similarity = {
            (u, v): chance.choice([0.5, 0.75, 1.0])
            for v in range(count)
            for u in range(v)
            if chance.random() < (0.6 if v - u <= reach else 0.01)
        }
        return cls(buckets, similarity, set())

    def files(self, folder: Path, chance: random.Random) -> BucketFiles:
        """The buckets of two members or more, band by band, some blocks a file."""
        members: dict[int, list[int]] = {}
        for v, mine in enumerate(self.buckets):
            for bucket in mine:
                members.setdefault(bucket, []).append(v)
        readers = []
        for band in sorted({bucket // 10 for bucket in members}):
            here = [b for b in sorted(members) if b // 10 == band and len(members[b]) > 1]
            cut = chance.randint(0, len(here))
            path = folder / str(band)
            with BlockWriter(path, BUCKETS_KIND, key="", band=band) as writer:
                for some in (here[:cut], here[cut:]):
                    found = [members[b] for b in some]
                    writer.add(
                        {
                            "members": np.array([v for m in found for v in m], np.uint32),
                            "sizes": np.array([len(m) for m in found], np.int64),
                            "keys": np.array(some, np.uint64),
                        }
                    )
                writer.close()
            readers.append(BlockReader(path, BUCKETS_KIND))
        return BucketFiles(readers)

    def hot(self, limit: int) -> bool:
        flat = [bucket for mine in self.buckets for bucket in mine]
        return any(flat.count(bucket) > limit for bucket in set(flat))


class Verifier:
    """Looks similarities up, and writes down what it was asked; stops the run at some question."""

    def __init__(self, graph: Graph, stop: int | None = None) -> None:
        self._graph, self.stop = graph, stop
        self.asked: list[tuple[int, int]] = []

    def __call__(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        if self.stop is not None:
            self.stop -= 1
            if self.stop == 0:
                raise InterruptedError
        pairs = list(zip(left.tolist(), right.tolist(), strict=True))
        self.asked += pairs
        found = [self._graph.similarity.get(pair, 0.0) for pair in pairs]
        return np.array([s if s >= THRESHOLD else -1.0 for s in found])

    def sift(self, pairs: np.ndarray) -> np.ndarray:
        return pairs


def rounds_of(
    graph: Graph,
    folder: Path,
    limit: int,
    chance: random.Random,
    compare: Verifier,
    budget: batch_engine.Budget | None = None,
) -> Rounds:
    folder.mkdir(exist_ok=True)
    (folder / "pairs").mkdir(exist_ok=True)
    state = np.ones(len(graph.buckets), np.uint8)
    state[list(graph.absent)] = 0
    return Rounds(
        graph.files(folder, chance),
        state,
        limit,
        compare,
        folder / "pairs",
        "key",
        budget or batch_engine.Budget(1 << 30),
        lambda _: None,
    )


def answer(deciding: Rounds) -> list[tuple[int, float] | None]:
    found: list[tuple[int, float] | None] = [None] * len(deciding.state)
    for pairs, similarity in deciding.run():
        assert similarity is not None
        for u, v, value in zip(*split_pairs(pairs), similarity.tolist(), strict=True):
            assert found[v] is None
            found[int(v)] = (int(u), value)
    return found


def check(graph: Graph, deciding: Rounds, limit: int) -> None:
    want = reference.keep_list(graph.buckets, graph.similarity, THRESHOLD, limit)
    assert answer(deciding) == want
    kept = [v for v in range(len(want)) if want[v] is None and v not in graph.absent]
    assert np.flatnonzero(deciding.state & 1).tolist() == kept


@pytest.mark.sized
def test_rounds_on_random_graphs_end_in_the_answer_of_the_definition(tmp_path: Path) -> None:
    hot, count = 0, examples(300)
    for seed in range(count):
        chance = random.Random(seed)
        graph, limit = Graph.random(seed, 25), chance.randint(1, 4)
        verify = Verifier(graph)
        check(graph, rounds_of(graph, tmp_path / str(seed), limit, chance, verify), limit)
        assert len(verify.asked) == len(set(verify.asked)), "a pair is verified once"
        hot += graph.hot(limit)
    assert hot > count / 2


@pytest.mark.sized
def test_a_leader_that_was_removed_again_is_no_witness(tmp_path: Path) -> None:
    for seed in range(examples(40)):
        chance = random.Random(seed)
        graph, limit = Graph.of_chains(seed), chance.randint(1, 6)
        assert graph.hot(limit)
        check(graph, rounds_of(graph, tmp_path / str(seed), limit, chance, Verifier(graph)), limit)


@pytest.mark.parametrize("limit", [1, 2, 3, 7])
def test_rounds_on_graphs_of_more_than_256_documents(tmp_path: Path, limit: int) -> None:
    for seed in range(3):
        chance = random.Random(seed)
        graph = Graph.random(1_000 * limit + seed, 700)
        deciding = rounds_of(graph, tmp_path / f"{seed}", limit, chance, Verifier(graph))
        check(graph, deciding, limit)
    assert Graph.random(1_000 * limit, 700).hot(limit)


@pytest.mark.sized
def test_windows_and_spilled_pairs_give_the_same_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "PAIRS_AT_ONCE", 3)
    monkeypatch.setattr("neardup.pipeline.sorting.LEAST_BLOCK", 4)
    several, count = 0, examples(60)
    for seed in range(count):
        chance = random.Random(seed)
        graph, limit = Graph.random(seed, 25), chance.randint(1, 4)
        budget = batch_engine.Little(chance.choice([200, 500, 2_000]))
        deciding = rounds_of(graph, tmp_path / str(seed), limit, chance, Verifier(graph), budget)
        check(graph, deciding, limit)
        several += (
            len(BlockReader(tmp_path / str(seed) / "pairs" / decide.VERDICTS, decide.PAIRS_KIND))
            > 1
        )
    assert several > count / 2, "most were decided in several windows"


@pytest.mark.sized
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_stopped_rounds_resume_and_verify_nothing_twice(tmp_path: Path, limit: int) -> None:
    known, count = 0, examples(50)
    for seed in range(count):
        chance = random.Random(seed)
        graph = Graph.random(seed, 25)
        verify = Verifier(graph, stop=chance.randint(1, 4))
        folder = tmp_path / str(seed)
        try:
            answer(rounds_of(graph, folder, limit, chance, verify))
        except InterruptedError:
            known += len(verify.asked)
        verify.stop = None
        check(graph, rounds_of(graph, folder, limit, chance, verify), limit)
        assert len(verify.asked) == len(set(verify.asked))
    assert known > count / 2, "or none was stopped after it had verified something"


def test_damaged_pairs_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    graph = Graph.random(3, 25)
    chance = random.Random(1)
    answer(rounds_of(graph, tmp_path, 2, chance, Verifier(graph)))
    path = tmp_path / "pairs" / decide.VERIFIED
    whole = path.read_bytes()
    for place in range(0, len(whole), 3):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(FormatError, match=decide.VERIFIED):
            answer(rounds_of(graph, tmp_path, 2, chance, Verifier(graph)))


def test_a_run_says_when_hot_buckets_make_most_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "LEAST_WARNED", 500)
    shared = " ".join(f"s{word}" for word in range(30))
    hot = [{"text": f"{shared} {' '.join(f'd{n}w{k}' for k in range(30))}"} for n in range(150)]
    for name, documents in (("hot", hot), ("usual", batch_engine.rows(5, 150))):
        progress = batch_engine.Silent()
        inputs = batch_engine.write(tmp_path / f"{name}-in", documents)
        run_job(batch_engine.job(inputs, tmp_path / name), progress)
        warnings = [line for line in progress.said if "comparisons so far" in line]
        assert len(warnings) == (name == "hot"), progress.said
