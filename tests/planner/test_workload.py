"""The workload that is assumed, and the one that a sample shows, beside a real run."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.command_line import dedup, write_jsonl

from neardup.corpus.documents import Columns
from neardup.corpus.inputs import find_inputs
from neardup.options import Options
from neardup.planner.planner import plan, sample_corpus
from neardup.planner.requirements import FixedOptions, Sla
from neardup.planner.workload import SampledCorpus, Workload, assume_workload

GROWING = ("candidates", "sets", "compared", "false", "members", "buckets")


def at(bands: int, rows: int, documents: int = 110_000, threshold: float = 0.8) -> Workload:
    options = Options.of(threshold=threshold, slots=bands * rows, bands=bands, rows=rows)
    return assume_workload(Sla(documents, shingles=368, threshold=threshold), options)


def test_assumed_false_comparisons_are_near_measured_ones() -> None:
    """110,000 pages of RFCs: 0.70, 12.1 and 33.8 pairs a document were compared in vain; large
    buckets are compared only in part, which the table does not know."""
    assert at(21, 6).false == pytest.approx(0.70, rel=0.2)
    assert 12.1 < at(16, 2).false < 2 * 12.1
    assert 33.8 < at(8, 1).false < 3.5 * 33.8


def test_assumed_candidates_and_places_are_near_measured_ones() -> None:
    """Documents that share a bucket, and their places: a sample of the same pages has 0.224 and
    1.7, 0.516 and 3.6, of 8 x 1 bands 3.9 places."""
    usual, flat = at(21, 6), at(16, 2)
    assert (usual.candidates, usual.members) == (
        pytest.approx(0.224, rel=0.2),
        pytest.approx(1.7, rel=0.2),
    )
    assert (flat.candidates, flat.members) == (
        pytest.approx(0.516, rel=0.2),
        pytest.approx(3.6, rel=0.3),
    )
    assert at(8, 1).members == pytest.approx(3.9, rel=0.3)


@given(st.integers(1, 60), st.integers(1, 12), st.integers(2, 10**9))
def test_flatter_bands_and_more_documents_increase_the_workload(
    bands: int, rows: int, documents: int
) -> None:
    mine = at(bands, rows, documents)
    more_bands, more = at(bands + 1, rows, documents), at(bands, rows, 2 * documents)
    fewer_rows = at(bands, max(rows - 1, 1), documents)
    for name in GROWING:
        for other in (more_bands, more, fewer_rows):
            assert getattr(mine, name) <= getattr(other, name) * (1 + 1e-9)
    assert mine.candidates <= 1.0
    assert mine.members <= bands


def test_comparisons_are_limited_to_256_leaders_a_bucket() -> None:
    assert at(8, 1, 10**10).false == 8 * 256


def test_higher_threshold_has_more_false_comparisons() -> None:
    assert at(21, 6, threshold=0.9).false > at(21, 6).false > at(21, 6, threshold=0.5).false


def test_too_many_comparisons_are_noted_in_the_words_of_a_run() -> None:
    """A run over as many documents warned of them, and its plan did not."""
    (note,) = plan("300M", cores=4, calibrate=False).notes
    assert note.startswith("about ") and "comparisons a document are expected: at --thresh" in note
    assert plan("1M", cores=4, calibrate=False).notes == []


def test_flat_bands_are_noted() -> None:
    made = plan(110_000, shingles=368, recall=0.999, slots=8, cores=1, calibrate=False)
    assert (made.options["bands"], made.options["rows"]) == (8, 1)
    assert made.predicted.compared > 30
    assert made.met
    [note] = made.notes
    assert note.startswith("bands of 1 row make unrelated documents candidates")
    assert made.to_json()["notes"] == [note]
    assert "assumed to be like pages of manuals" in made.sources["documents"]


def test_steep_bands_and_small_corpora_are_not_noted() -> None:
    assert plan(110_000, cores=1, calibrate=False).notes == []
    assert plan(10_000, slots=8, recall=0.999, cores=1, calibrate=False).notes == []


DOCUMENTS, SAMPLED = 4_000, 1_500


def corpus(seed: int = 2) -> Iterator[dict[str, Any]]:
    """Texts in three kinds: alone, with edited copies, and with a common half."""
    chance = random.Random(seed)
    words = [f"w{number}" for number in range(5_000)]
    common = chance.choices(words, k=40)
    texts: list[list[str]] = []
    while len(texts) < DOCUMENTS:
        own = chance.choices(words, k=chance.randint(40, 80))
        texts.append(own)
        if chance.random() < 0.2:
            copy = list(own)
            copy[chance.randrange(len(copy))] = "edited"
            texts += [copy, own][: chance.randint(1, 2)]
        if chance.random() < 0.05:
            texts.append([*common, *chance.choices(words, k=chance.randint(20, 140))])
    for number, text in enumerate(texts[:DOCUMENTS]):
        yield {"id": f"d{number}", "text": " ".join(text)}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("corpus")
    file = write_jsonl(folder / "c.jsonl", list(corpus()))
    return file, dedup(file, "-o", folder / "out", "--pairs")


def seen_of(file: Path, count: int, seed: int) -> SampledCorpus:
    return sample_corpus(find_inputs([file]), Columns(), FixedOptions(), count, seed, 1)


def test_workload_of_the_whole_corpus_equals_its_run(ran: tuple[Path, dict[str, Any]]) -> None:
    file, record = ran
    profile = seen_of(file, DOCUMENTS, seed=1).workload(Options())
    counts = record["counts"]
    assert profile.removed * DOCUMENTS == pytest.approx(counts["removed"])
    assert profile.buckets * DOCUMENTS == pytest.approx(record["metrics"]["buckets"])
    # The rounds compare a few pairs more, before a leader is known to go.
    assert profile.compared * DOCUMENTS == pytest.approx(counts["comparisons"], rel=0.05)


def test_workloads_of_samples_equal_the_run_on_average(ran: tuple[Path, dict[str, Any]]) -> None:
    file, record = ran
    profiles = [seen_of(file, SAMPLED, seed).workload(Options()) for seed in range(8)]
    removed = np.mean([profile.removed for profile in profiles])
    assert removed == pytest.approx(record["counts"]["removed"] / DOCUMENTS, rel=0.1)
    compared = np.mean([profile.compared for profile in profiles])
    wanted = record["counts"]["comparisons"] / DOCUMENTS
    assert compared == pytest.approx(wanted, rel=0.25)


def test_weighted_pairs_of_a_sample_equal_those_of_the_corpus(
    ran: tuple[Path, dict[str, Any]],
) -> None:
    file, _ = ran
    everything = sum(n for s, n in seen_of(file, DOCUMENTS, 1).pairs if s >= 0.8)
    samples = [
        sum(n for s, n in seen_of(file, SAMPLED, seed).pairs if s >= 0.8) for seed in range(8)
    ]
    assert np.mean(samples) == pytest.approx(everything, rel=0.1)


def test_plan_from_a_sample_is_close_to_the_run(ran: tuple[Path, dict[str, Any]]) -> None:
    file, _ = ran
    made = plan(sample=file, sample_size=SAMPLED, cores=1, calibrate=False)
    assert made.sla.documents == DOCUMENTS
    assert made.sla.shingles == pytest.approx(56, abs=3)
    assert "1,500 of 4,000 documents" in made.sources["documents"]
    assert made.predicted.recall_above == pytest.approx(1.0, abs=0.001)
    stages = {stage.name: stage for stage in made.predicted.stages}
    assert stages["sketch"].read == file.stat().st_size
    kept = sum(path.stat().st_size for path in (file.parent / "out" / "kept").iterdir())
    assert stages["filter"].written == pytest.approx(kept, rel=0.1)


def test_plan_for_a_larger_corpus_extrapolates_the_sample(ran: tuple[Path, dict[str, Any]]) -> None:
    file, _ = ran
    small, large = (
        plan(many, sample=file, sample_size=SAMPLED, cores=1, memory="8GB", calibrate=False)
        for many in (DOCUMENTS, 1000 * DOCUMENTS)
    )
    assert large.sla.shingles == small.sla.shingles
    more_pairs = 16 * large.sla.documents * (large.predicted.compared - small.predicted.compared)
    assert large.predicted.disk == pytest.approx(1000 * small.predicted.disk + more_pairs, rel=0.01)


def test_false_comparisons_grow_with_the_documents(ran: tuple[Path, dict[str, Any]]) -> None:
    few, many, most = (
        plan(number, sample=ran[0], calibrate=False, cores=1)
        for number in (4_000, 40_000, 2_000_000_000)
    )
    assert few.predicted.false > 0.05
    assert many.predicted.false == pytest.approx(10 * few.predicted.false, rel=1e-6)
    apart = many.predicted.compared - few.predicted.compared
    assert apart == pytest.approx(9 * few.predicted.false, rel=1e-6)
    assert most.predicted.false == 21 * 256  # the first 256 of a bucket are compared, no more
    assert "10 times as many" in many.sources["documents"]
    assert "times as many" not in few.sources["documents"]


def test_sample_without_similar_pairs_has_no_recall_above(tmp_path: Path) -> None:
    chance = random.Random(1)
    texts = [" ".join(str(chance.random()) for _ in range(9)) for _ in range(30)]
    file = write_jsonl(tmp_path / "c.jsonl", [{"text": text} for text in texts])
    made = plan(sample=file, cores=1, calibrate=False)
    assert made.to_json()["predicted"]["recall_above"] is None
    assert made.predicted.recall > 0.99
    assert made.predicted.compared == 0.0


def test_low_threshold_counts_all_pairs_above_it(ran: tuple[Path, dict[str, Any]]) -> None:
    file, _ = ran
    low = plan(sample=file, sample_size=400, threshold=0.1, recall=0.9, cores=1, calibrate=False)
    files = find_inputs([file])
    seen = sample_corpus(files, Columns(), FixedOptions(), 400, 1, 1, threshold=0.1)
    assert min(similarity for similarity, _ in seen.pairs) < 0.3
    curve = Options.of(**low.options).curve
    many = sum(count for similarity, count in seen.pairs if similarity >= 0.1)
    met = sum(count * curve.probability(s) for s, count in seen.pairs if s >= 0.1)
    assert low.predicted.recall_above == pytest.approx(met / many)
