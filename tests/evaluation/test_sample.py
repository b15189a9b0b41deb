"""A sample: near-duplicates together, every document as likely as any other."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.command_line import write_jsonl
from support.sizes import full

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.shards import SHARD, Reading
from neardup.errors import InputError, ParameterError
from neardup.evaluation import sample as sampling
from neardup.evaluation.lab import as_documents
from neardup.evaluation.sample import Sample, choose_among, choose_from_files
from neardup.evaluation.truth import Truth, brute_force
from neardup.pipeline.set_files import sort_sets
from neardup.sketcher import Sketcher
from neardup.spec import Spec

WORDS = [f"word{number}" for number in range(5_000)]
SPEC = Spec.of("word:2")


def texts(count: int, length: int = 40, seed: int = 0) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(WORDS, k=length)) for _ in range(count)]


def written(path: Path, corpus: list[str]) -> Path:
    return write_jsonl(path, [{"text": text} for text in corpus])


def sample(path: Path, count: int, seed: int = 0, **others) -> Sample:
    return choose_from_files(
        find_inputs([str(path)], "auto"), Columns(), count, seed, SPEC, **others
    )


def same(one: Sample, other: Sample) -> bool:
    return (one.texts, one.ids, one.read) == (other.texts, other.ids, other.read)


def truth_of(corpus: list[str], floor: float) -> Truth:
    return brute_force(sort_sets(Sketcher(SPEC).cut(as_documents(corpus)).shingles), floor, 1)


def test_sample_is_in_input_order_and_reproducible(tmp_path):
    corpus = texts(500)
    path = written(tmp_path / "in.jsonl", corpus)
    chosen = sample(path, 50, seed=3)
    places = [corpus.index(text) for text in chosen.texts]
    assert places == sorted(places) and len(places) == 50
    assert chosen.ids == [f"{path}:{place}" for place in places]
    assert (chosen.documents, chosen.share) == (500, 0.1)
    assert chosen.about.startswith("50 of 500 documents; near-duplicates")
    assert same(sample(path, 50, seed=3, workers=2), chosen)
    among = choose_among(
        (as_documents(corpus[at : at + 7]) for at in range(0, 500, 7)), 50, 3, SPEC
    )
    assert (among.texts, among.ids[0]) == (chosen.texts, f"row:{places[0]}")
    assert sample(path, 50, seed=4).texts != chosen.texts
    halves = tmp_path / "halves"
    halves.mkdir()
    written(halves / "a.jsonl", corpus[:123])
    written(halves / "b.jsonl", corpus[123:])
    assert sample(halves, 50, seed=3).texts == chosen.texts


@pytest.mark.parametrize("draws", [100, full(400)])
def test_every_document_has_the_same_chance(tmp_path, draws):
    # Long ones are no more likely than short ones.
    corpus = [text for length in (3, 300) for text in texts(20, length, seed=length)]
    path = written(tmp_path / "in.jsonl", corpus)
    counts = np.zeros(40)
    for seed in range(draws):
        for text in sample(path, 10, seed).texts:
            counts[corpus.index(text)] += 1
    # Each draw has a chance of 1/4: five standard deviations.
    assert abs(counts - draws / 4).max() < 5 * (draws * 3 / 16) ** 0.5
    assert abs(counts[:20].sum() - 5 * draws) < 5 * (20 * draws * 3 / 16) ** 0.5


def test_weighted_pairs_of_samples_equal_those_of_the_corpus(tmp_path):
    chance = random.Random(7)
    corpus = texts(1_000)
    for text in corpus[:600]:
        words = text.split()
        for place in chance.sample(range(40), chance.choice([0, 2, 5, 12])):
            words[place] = chance.choice(WORDS)
        corpus.append(" ".join(words))
    truth = truth_of(corpus, 0.2)
    path = written(tmp_path / "in.jsonl", corpus)
    bins = [0.2, 0.5, 0.8, 1.01]
    want, _ = np.histogram(truth.similarity, bins)
    assert want.min() > 100
    got = np.zeros(3)
    for seed in range(40):
        chosen = sample(path, 200, seed)
        found = truth_of(chosen.texts, 0.2)
        got += np.histogram(found.similarity, bins, weights=chosen.weights(found))[0] / 40
    # At least 10 pairs a bin and sample, 400 in all: four standard deviations are 0.2.
    assert abs(got / want - 1).max() < 0.2
    assert abs(got.sum() / want.sum() - 1) < 0.1


def test_crowd_is_sampled_in_proportion(tmp_path):
    chance, template = random.Random(9), texts(1)[0].split()
    crowd = []
    for _ in range(500):
        words = list(template)
        for place in chance.sample(range(40), 2):
            words[place] = chance.choice(WORDS)
        crowd.append(" ".join(words))
    corpus = [*texts(1_500, seed=1), *crowd]
    path = written(tmp_path / "in.jsonl", corpus)
    want = len(truth_of(corpus, 0.5).a)
    assert want > 100_000
    for seed in range(5):
        chosen = sample(path, 500, seed)
        found = truth_of(chosen.texts, 0.5)
        # 125 of the crowd: 2 / sqrt(125) is one standard deviation, twice that is the limit.
        assert abs(chosen.weights(found).sum() / want - 1) < 0.36


def test_copies_are_chosen_together(tmp_path):
    same, other = "the same text again", texts(95)
    path = written(tmp_path / "in.jsonl", [*other[:40], *[same] * 5, *other[40:]])
    numbers = [sample(path, 50, seed).texts.count(same) for seed in range(60)]
    # All or none with a chance of nearly 1/2 each; a part only if the sample is full by then.
    assert min(numbers.count(0), numbers.count(5)) > 15
    assert numbers.count(0) + numbers.count(5) > 50
    crowd = written(tmp_path / "crowd.jsonl", [same] * 60)
    assert sample(crowd, 20).texts == [same] * 20


def test_rejected_and_empty_rows_are_not_chosen(tmp_path):
    rows = [{"text": text, "id": id} for id, text in enumerate(["  ", "a b", "", "c d"])]
    path = write_jsonl(tmp_path / "in.jsonl", [*rows, {"text": 7}, {"text": None}])
    chosen = sample(path, 10)
    assert (chosen.texts, chosen.ids, chosen.documents) == (["a b", "c d"], ["1", "3"], 2)
    assert chosen.share == 1.0
    assert chosen.weights(Truth(2, 0.1, *np.array([[0], [1]]), np.array([0.5]))).tolist() == [1.0]
    assert chosen.about == "2 of 2 documents"
    for few in ([], ["only one"], ["", " "]):
        with pytest.raises(InputError, match=r"fewer than two .* another --text column"):
            sample(written(tmp_path / "few.jsonl", few), 10)


@pytest.mark.parametrize(("documents", "shard"), [(80, 2 << 20), full(2_000, SHARD)])
def test_large_inputs_are_read_in_part(tmp_path, monkeypatch, documents, shard):
    monkeypatch.setattr(sampling, "Reading", partial(Reading, shard=shard))
    for number in range(40):
        written(tmp_path / f"{number:02}.jsonl", texts(documents, 200, seed=number))
    total = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert total > 2 * shard, "more than two shards"
    chosen = sample(tmp_path, 50, most_read=total // 2)
    assert 0 < chosen.read < total == chosen.stored
    assert chosen.documents == pytest.approx(40 * documents * chosen.read / total, rel=0.01)
    assert chosen.share == pytest.approx(50 / (40 * documents), rel=0.01)
    copies = Truth(50, 0.1, *np.array([[0], [1]]), np.ones(1))
    assert chosen.weights(copies)[0] == pytest.approx(
        40 * documents / 50 * total / chosen.read, rel=0.01
    )
    assert "randomly chosen pieces" in chosen.about
    assert same(sample(tmp_path, 50, most_read=total // 2), chosen)


def test_large_compressed_file_is_read_in_part(tmp_path):
    path = written(tmp_path / "in.jsonl", texts(20_000, 30))
    packed = tmp_path / "in.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes(), 1))
    chosen = sample(packed, 50, most_read=packed.stat().st_size // 2)
    assert 5_000 < chosen.documents < 20_000


def test_sample_of_long_documents_is_smaller(monkeypatch):
    """As many of those with the least hashes as fit, however the input is cut into pieces."""
    corpus = [text * (1 + 5 * (number % 2)) for number, text in enumerate(texts(600))]
    enough = choose_among([as_documents(corpus)], 300, 3, SPEC)
    room = sum(map(len, enough.texts)) // 3
    monkeypatch.setattr(sampling, "MOST_TEXT", room)
    fewer = [
        choose_among(
            (as_documents(corpus[at : at + step]) for at in range(0, 600, step)), 300, 3, SPEC
        )
        for step in (7, 100, 600)
    ]
    assert fewer[0].texts == fewer[1].texts == fewer[2].texts
    assert set(fewer[0].texts) < set(enough.texts)
    assert room * 0.9 < sum(map(len, fewer[0].texts)) <= room
    assert fewer[0].share == len(fewer[0].texts) / 600


LOADED = """
import sys
from neardup import kernels
from neardup.runtime import Silent
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.corpus.shards import SHARD, Reading
from neardup.evaluation.sample import choose_from_files
from neardup.spec import Spec

def loaded():
    names = [name for names in kernels.KERNELS.values() for name in names]
    print(*sorted(name for name in names if name in vars(kernels)))

class Watched(Silent):
    def stage(self, name, total, unit):
        loaded()

choose_from_files(find_inputs(sys.argv[1:], "auto"), Columns(), 3, 0, Spec(), Watched())
loaded()
"""


def test_kernels_are_loaded_before_the_progress_begins(tmp_path):
    path = written(tmp_path / "in.jsonl", texts(20))
    command = [sys.executable, "-c", LOADED, str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    begun, ended = ran.stdout.splitlines()
    assert begun == ended
    assert "read_records" in begun


def test_token_shingles_are_refused(tmp_path):
    files = find_inputs([str(written(tmp_path / "in.jsonl", texts(3)))], "auto")
    with pytest.raises(ParameterError, match="not token"):
        choose_from_files(files, Columns(), 2, 0, Spec.of("token:3"))
