"""Figures of all pairs by drawn ones: unbiased, with intervals that cover the truth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neardup.errors import InputError
from neardup.evaluation.drawn_pairs import RANDOM, PairWeights, ScoreShares, estimate, intervals
from neardup.evaluation.golden import load_golden
from neardup.evaluation.scores import Scores, sweep_thresholds


class Population(NamedTuple):
    """Strata of pairs: how many, which share of them are duplicates; the first are predicted."""

    sizes: list[int]
    rates: list[float]
    predicted: int

    @property
    def duplicates(self) -> list[int]:
        return [round(n * p) for n, p in zip(self.sizes, self.rates, strict=True)]

    @property
    def truth(self) -> tuple[float, float]:
        """Recall and precision."""
        found = sum(self.duplicates[: self.predicted])
        return found / sum(self.duplicates), found / sum(self.sizes[: self.predicted])

    def allocate(self, labels: int) -> list[int]:
        """Return how many labels each stratum gets: more where labels differ, four at least."""
        expected = [0.9 if h < self.predicted else 0.1 for h in range(len(self.sizes))]
        wanted = [n * (p * (1 - p)) ** 0.5 for n, p in zip(self.sizes, expected, strict=True)]
        shares = [max(round(labels * one / sum(wanted)), 4) for one in wanted]
        return [min(pair) for pair in zip(shares, self.sizes, strict=True)]

    def draw(self, labels: int, times: int, chance: np.random.Generator) -> np.ndarray:
        """Return counts of labelled pairs, as often as that, by stratum, prediction and truth."""
        sizes, duplicates, drawn = map(
            np.array, (self.sizes, self.duplicates, self.allocate(labels))
        )
        right = chance.hypergeometric(
            duplicates, sizes - duplicates, drawn, size=(times, len(sizes))
        )
        counts = np.zeros((times, len(sizes), 2, 2), np.int64)
        for stratum in range(len(sizes)):
            row = int(stratum < self.predicted)
            counts[:, stratum, row, 1] = right[:, stratum]
            counts[:, stratum, row, 0] = drawn[stratum] - right[:, stratum]
        return counts


POPULATIONS = [
    Population(
        [200, 400, 1000, 4000, 30, 400, 1500, 4000], [0.7, 0.9, 0.97, 1, 0.9, 0.4, 0.1, 0.01], 4
    ),
    Population(
        [50, 300, 1000, 6000, 20, 100, 400, 1000], [0.9, 0.97, 0.99, 1, 0.9, 0.3, 0.05, 0.005], 4
    ),
    Population([500] * 4 + [50] + [500] * 3, [0.4, 0.6, 0.8, 0.95, 0.6, 0.3, 0.1, 0.02], 4),
    Population(
        [100, 300, 900, 3000, 20, 200, 900, 3000], [0.97, 0.99, 0.995, 1, 0.9, 0.1, 0.01, 0.001], 4
    ),
    Population([100_000] * 4, [0.95, 0.97, 0.2, 0.1], 2),
    Population([20_000, 60_000], [0.9, 0.1], 1),
]
LABELS = (60, 120, 300)


def coverage(times: int, draws: int) -> np.ndarray:
    """Return how often intervals of recall and precision cover the truth, by population, labels."""
    chance = np.random.default_rng(3)
    found = []
    for population in POPULATIONS:
        for labels in LABELS:
            hits = np.zeros(2)
            for _ in range(times // 250):
                counts = population.draw(labels, 250, chance)
                sizes, none = np.array(population.sizes, float), np.zeros(counts.shape[1], bool)
                known = np.full(counts.shape[1], np.inf)
                low, high = intervals(counts, sizes, none, known, chance, draws)
                truth = np.array(population.truth)
                hits += ((low[:, :2] <= truth) & (truth <= high[:, :2])).sum(axis=0)
            found.append(hits / (times // 250 * 250))
    return np.array(found)


def test_intervals_cover_the_truth() -> None:
    """95 % intervals cover 93 to 97 %; simulated 500 times, that is known to about 0.3 %."""
    covered = coverage(500, 400)
    assert covered.mean(axis=0) == pytest.approx(0.95, abs=0.02)
    assert covered.min() > 0.9


@pytest.mark.slow
def test_intervals_cover_the_truth_in_many_simulations() -> None:
    covered = coverage(4_000, 1_000)
    assert covered.mean(axis=0) == pytest.approx(0.95, abs=0.015)
    assert covered.min() > 0.925
    assert np.mean((covered > 0.93) & (covered < 0.975)) > 0.7


def test_estimates_are_unbiased() -> None:
    """The mean of many estimates of the duplicates is their number, whatever is drawn more often.

    Each of the 2,000 has a standard deviation of about 8 % here, their mean one of 0.2 %.
    """
    population, chance = POPULATIONS[0], np.random.default_rng(5)
    counts = population.draw(60, 2_000, chance)
    weights = np.array(population.sizes) / counts.sum(axis=(2, 3))
    found = (counts[..., 1].sum(axis=2) * weights).sum(axis=1)
    assert found.mean() == pytest.approx(sum(population.duplicates), rel=0.01)


def drawn(*strata: tuple[str, float, list[tuple[bool, bool]]]) -> tuple[PairWeights, list[bool]]:
    rows = [(n, w, pair) for n, (_, w, pairs) in enumerate(strata) for pair in pairs]
    weights = PairWeights(
        np.array([w for _, w, _ in rows], float),
        np.array([n for n, _, _ in rows], np.int64),
        [name for name, _, _ in strata],
        [np.inf] * len(strata),
    )
    return weights, [pair for _, _, pair in rows]


def scores(*strata: tuple[str, float, list[tuple[bool, bool]]]) -> ScoreShares:
    weights, pairs = drawn(*strata)
    predicted, truth = (np.array(column, bool) for column in zip(*pairs, strict=True))
    return weights.score(predicted, truth)


TP, FP, FN, TN = (True, True), (True, False), (False, True), (False, False)


def test_pairs_count_as_often_as_they_stand_for() -> None:
    found = scores(("found", 100, [TP] * 9 + [FP]), ("missed", 10, [FN] * 5 + [TN] * 15))
    assert found.precision.value == pytest.approx(0.9)
    assert found.recall.value == pytest.approx(900 / 950)
    assert found.f1.value == pytest.approx(1800 / (1800 + 100 + 50))


def test_one_large_stratum_has_the_interval_of_jeffreys() -> None:
    found = scores(("all", 1e9, [TP] * 45 + [FP] * 5)).precision
    assert (found.low, found.high) == pytest.approx((0.796, 0.961), abs=0.006)


@pytest.mark.parametrize("count", [100, 3_000])
def test_labels_of_which_each_has_its_own_weight_tell_as_much_as_others(count: int) -> None:
    """One label of a stratum tells nothing of how others differ: it is no certainty."""
    chance = np.random.default_rng(7)
    truth = chance.random(count) < 0.5
    predicted = truth ^ (chance.random(count) < 0.1)
    own = 10 + chance.random(count)
    names = [str(weight) for weight in own.tolist()]
    apart = PairWeights(own, np.arange(count), names, [np.inf] * count).score(predicted, truth)
    alike = PairWeights(np.full(count, 10.5), np.zeros(count, np.int64), ["10.5"], [np.inf])
    for mine, theirs in zip(apart, alike.score(predicted, truth), strict=True):
        assert mine.value == pytest.approx(theirs.value, abs=0.01)
        assert mine.low == pytest.approx(theirs.low, abs=0.02)
        assert mine.high == pytest.approx(theirs.high, abs=0.02)
    exact = own[predicted & truth].sum() / own[truth].sum()
    assert apart.recall.value == pytest.approx(exact)


def test_one_answer_of_each_stratum_is_no_certainty() -> None:
    """A queue begins with one pair of each stratum, of very different sizes."""
    sizes = np.array([300.0, 400, 600, 2_000, 5_000, 900, 300, 20])
    found, label = np.arange(8) < 4, np.array([1, 1, 1, 1, 0, 0, 0, 1], bool)
    names = [str(number) for number in range(8)]
    scores = PairWeights(sizes, np.arange(8), names, [np.inf] * 8).score(found, label)
    assert scores.recall.value == pytest.approx(3_300 / 3_320)
    assert (scores.recall.low or 1) < 0.6
    assert (scores.precision.low or 1) < 0.6


def test_no_error_seen_is_not_certainty() -> None:
    found = scores(("found", 50, [TP] * 60), ("missed", 50, [TN] * 60))
    assert found.precision.value == found.recall.value == 1
    assert found.precision.high == found.recall.high == 1
    assert 0.9 < (found.precision.low or 0) < 0.98
    assert 0.9 < (found.recall.low or 0) < 0.98


def test_all_labelled_is_certainty() -> None:
    found = scores(("found", 1, [TP] * 9 + [FP]), ("missed", 1, [FN] + [TN] * 9))
    assert found.precision == pytest.approx((0.9, 0.9, 0.9)) or (
        found.precision.low == pytest.approx(0.9) == found.precision.high
    )
    assert found.recall.low == pytest.approx(0.9) == found.recall.high


def test_random_pairs_count_only_if_one_is_a_duplicate() -> None:
    found = ("found", 10, [TP] * 50)
    missed = ("missed", 10, [FN] * 2 + [TN] * 40)
    without = scores(found, missed)
    none = scores(found, missed, (RANDOM, 1e7, [TN] * 20))
    assert none.recall.value == without.recall.value
    assert none.recall.low == pytest.approx(without.recall.low, abs=0.01)
    one = scores(found, missed, (RANDOM, 1e7, [TN] * 19 + [FN]))
    assert (one.recall.value or 0) < 0.001
    assert one.precision.value == 1


def test_undefined_figures_are_none() -> None:
    found = scores(("missed", 10, [TN] * 5))
    assert found.recall.value is found.precision.value is found.f1.low is found.recall.high is None


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 8), min_size=4, max_size=4).filter(any), st.floats(1, 1e6)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_intervals_are_around_the_figures(strata: list[tuple[list[int], float]]) -> None:
    counts = np.array([cells for cells, _ in strata]).reshape(-1, 2, 2)
    sizes = counts.sum(axis=(1, 2)) * np.array([weight for _, weight in strata])
    for share in estimate(counts, sizes, np.zeros(len(sizes), bool), np.full(len(sizes), np.inf)):
        if share.value is None:
            assert share.low is share.high is None
        else:
            assert share.low is not None
            assert share.high is not None
            assert 0 <= share.low <= share.high <= 1
            assert share.low - 0.05 <= share.value <= share.high + 0.05


def test_equal_weights_give_the_plain_figures() -> None:
    chance = np.random.default_rng(1)
    predicted, truth = chance.random(80) < 0.5, chance.random(80) < 0.5
    weights = PairWeights(np.full(80, 7.0), np.zeros(80, np.int64), ["all"], [np.inf])
    plain, weighted = Scores.of(predicted, truth), Scores.of(predicted, truth, weights=weights)
    for name in ("recall", "precision", "f1"):
        assert getattr(weighted, name).value == pytest.approx(getattr(plain, name).value)
        assert getattr(weighted, name).low == pytest.approx(getattr(plain, name).low, abs=0.03)
    assert weighted.record["tp"] == plain.tp


def test_the_best_threshold_is_that_of_all_pairs() -> None:
    """Ten pairs of 0.6 are no duplicates, but each stands for few; five that are, for many."""
    similarity = np.r_[np.full(10, 0.6), np.full(5, 0.6), np.full(10, 0.9), np.full(10, 0.2)]
    label = np.r_[np.zeros(10, bool), np.ones(15, bool), np.zeros(10, bool)]
    weight = np.r_[np.full(10, 1.0), np.full(5, 50.0), np.ones(20)]
    assert (sweep_thresholds(similarity, label).best or 0) > 0.6
    found = sweep_thresholds(similarity, label, weight)
    assert (found.best or 1) <= 0.6
    assert found.at(0.7)[0] == pytest.approx(10 / 260)
    assert found.at(0.5)[1] == pytest.approx(260 / 270)


def test_weights_of_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "golden.csv"
    file.write_text(
        "id1,id2,label,weight,stratum\na,b,1,2.5,near\nb,c,0,10,random\nc,d,0,2.5,near\n"
    )
    golden = load_golden(file)
    assert golden.weights is not None
    assert golden.weights.weight.tolist() == [2.5, 10, 2.5]
    assert [golden.weights.names[n] for n in golden.weights.stratum] == ["near", "random", "near"]
    file.write_text("id1,id2,label,weight\na,b,1,2.5\nb,c,0,10\nc,d,0,2.50\n")
    golden = load_golden(file, pairs="id1,id2,label")
    assert golden.weights is not None
    assert golden.weights.stratum.tolist() == [0, 1, 0]
    fewer = golden.without("unknown ids", np.array([golden.ids.index("a")]))
    assert fewer.weights is not None
    assert fewer.weights.weight.tolist() == [10, 2.5]


@pytest.mark.parametrize("weight", ["", "0", "-1", "nan", "inf", "many"])
def test_a_weight_is_a_positive_number(tmp_path, weight: str) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "golden.csv"
    file.write_text(f"id1,id2,label,weight\na,b,1,2.5\nb,c,0,{weight}\n")
    with pytest.raises(InputError, match=r"line 3: .* is no weight"):
        load_golden(file)


def test_weights_in_python() -> None:
    golden = load_golden([("a", "b", 1, 3.0), ("a", "c", 0, 3.0, "far")])
    assert golden.weights is not None
    assert golden.weights.names == ["3.0", "far"]
    with pytest.raises(InputError, match="give all of them one"):
        load_golden([("a", "b", 1, 3.0), ("a", "c", 0)])


def test_sizes_that_are_estimated_widen_the_intervals() -> None:
    """Two strata of ten independent pairs each: their sizes are known to a third."""
    weights, pairs = drawn(("found", 10, [TP] * 100), ("missed", 10, [FN] * 100))
    predicted, truth = (np.array(column, bool) for column in zip(*pairs, strict=True))
    sampled = PairWeights(weights.weight, weights.stratum, weights.names, [10.0, 10.0])
    known, guessed = (one.score(predicted, truth).recall for one in (weights, sampled))
    assert known.value == guessed.value == 0.5
    assert known.low is not None
    assert guessed.low is not None
    assert known.low > 0.48
    assert 0.25 < guessed.low < 0.35


def test_units_of_a_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "golden.csv"
    file.write_text("id1,id2,label,weight,stratum,units\na,b,1,2.5,near,30.5\nb,c,0,10,random,\n")
    golden = load_golden(file)
    assert golden.weights is not None
    assert golden.weights.units == [30.5, np.inf]
