"""Labels choose a shingle and a threshold, honestly, or say that they can't."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from neardup import evaluate, tune
from neardup.corpus.documents import Columns
from neardup.errors import ColumnError, InputError
from neardup.evaluation.golden import load_golden
from neardup.evaluation.operating_point import GoldenFinder, read_named_data
from neardup.evaluation.results import format_summary
from neardup.evaluation.scores import components
from neardup.evaluation.shares import Share
from neardup.planner.held_out import FOLDS, HeldOutPairs, deal_out
from neardup.planner.label_choice import LabelChoice, LabelledDocuments, choose_by_labels
from neardup.planner.shingle_comparison import ComparedShingle
from neardup.report.tuning_page import tuning_page
from neardup.runtime import SILENT

DEFAULT = ComparedShingle("word:5", 0.8)
Pair = tuple[str, str, int]


def posts(count: int, changed: int, seed: int = 0) -> tuple[list[dict[str, str]], list[Pair]]:
    """Texts of 20 words, a copy of each with some words changed, and the next one as another."""
    chance = random.Random(seed)

    def word() -> str:
        return "".join(chance.choices("abcdefghij", k=6))

    rows, pairs = [], []
    for number in range(count):
        words = [word() for _ in range(20)]
        copy = list(words)
        for place in chance.sample(range(20), changed):
            copy[place] = word()
        rows += [
            {"id": f"a{number}", "text": " ".join(words)},
            {"id": f"b{number}", "text": " ".join(copy)},
        ]
        pairs += [
            (f"a{number}", f"b{number}", 1),
            (f"a{number}", f"b{(number + 1) % count}", 0),
        ]
    return rows, pairs


def choose(rows: Any, golden: Any, **changed: Any) -> LabelChoice:
    labelled = load_golden(golden)
    finder = GoldenFinder(labelled.ids)
    for _ in finder.watch(read_named_data(rows, Columns(id="id"))):
        pass
    given = {
        "reference": DEFAULT,
        "recall": 0.99,
        "shingles": ("word:5", "char:5"),
        "thresholds": (0.3, 0.5, 0.7, 0.9),
        "shared": {},
        "workers": 1,
        "progress": SILENT,
    }
    return choose_by_labels(LabelledDocuments(labelled, finder.result()), **given | changed)


def test_labels_find_what_the_default_does_not():
    """Two of 20 words changed are 0.2 similar by five words, and 0.6 by five characters."""
    found = choose(*posts(60, changed=2))
    assert found.default.recall.value is not None and found.default.recall.value < 0.1
    assert found.changed and found.chosen.shingle == "char:5"
    [tried] = [one for one in found.tried if one.shingle == "char:5"]
    assert found.chosen.threshold == tried.as_good[1] > tried.as_good[0] == 0.3
    assert found.held_out is not None and (found.held_out.f1.low or 0) > 0.9
    assert found.better >= 50 and found.worse == 0
    assert found.held_out.tp + found.held_out.fn == found.duplicates == 60
    told = " ".join(found.sentences())
    assert "60 duplicates in 60 clusters and 60 other pairs, of 120 documents" in told
    assert f"So {found.chosen} is used" in told and "on the same pairs" in told
    record = found.to_json()
    assert record["changed"] and record["held_out"]["f1"]["value"] == found.held_out.f1.value


def test_tune_and_evaluate_agree_on_the_threshold_by_the_same_labels():
    """Of 20 words, 4 are changed: five words at 0.1 tell apart what 0.3 finds hardly any of."""
    rows, pairs = posts(60, changed=1)
    more, others = posts(60, changed=4, seed=1)
    for row in more:
        row["id"] += "x"
    pairs += [(a + "x", b + "x", label) for a, b, label in others]
    thresholds = [percent / 100 for percent in range(30, 101)]
    found = choose(rows + more, pairs, shingles=("word:5",), thresholds=thresholds)
    evaluated = evaluate(pairs, corpus=rows + more)
    [tried], sweep = found.tried, evaluated.sweep
    assert sweep is not None and sweep.best is not None and sweep.best < 0.3
    assert (tried.threshold, list(tried.as_good)) == (sweep.advised, sweep.advised_as_good)
    assert tried.sweep == sweep
    told = " ".join(found.sentences())
    assert "0.3 is the lowest threshold that was tried" in told
    assert f"best at {sweep.best:g}" in told
    summary = " ".join(format_summary(evaluated).split())
    assert f"of 0.3 and more, {sweep.advised:g} is advised" in summary


def test_precision_by_random_pairs_is_called_untested():
    """Held-out precision was 0.996, and the run removed half of the corpus."""
    found = choose(*posts(60, changed=2))
    assert found.held_out is not None and found.held_out.precision.value == 1.0
    told = " ".join(found.sentences())
    assert "Only 0 of the 60 pairs labelled as different" in told
    assert "hardly tested" in told
    least = f"{found.chosen.threshold - 0.2:.2g}"
    assert f"neardup dedup INPUT -o OUT --shingle char:5 --threshold {least} --pairs lists" in told
    assert found.to_json()["warnings"] == list(found.warnings)


def test_the_default_stays_where_it_is_as_good():
    found = choose(*posts(60, changed=0))
    assert not found.changed and found.chosen == DEFAULT
    assert found.held_out is not None and found.held_out.f1.value == 1.0
    assert "The default stays: what labels choose is not better" in " ".join(found.sentences())
    assert found.sentences()[-1].endswith("similar in the sample, not of labelled ones.")


def test_a_gain_that_chance_could_make_changes_nothing():
    """Eleven of 15 pairs are found either way, four only by another shingle: 1 in 16 by chance."""
    rows, pairs = posts(11, changed=0)
    more, others = posts(4, changed=2, seed=1)
    for row in more:
        row["id"] += "x"
    pairs += [(a + "x", b + "x", label) for a, b, label in others]
    found = choose(rows + more, pairs, thresholds=(0.3, 0.5))
    assert (found.better, found.worse) == (4, 0)
    assert found.held_out is not None
    assert (found.held_out.f1.value or 0) > (found.default.f1.value or 0)
    assert not found.changed
    assert "the test counts clusters" in " ".join(found.sentences())
    assert "label duplicates of more clusters" in " ".join(found.sentences())
    assert "With fewer than 30 labels of one kind, these figures are uncertain." in (
        found.sentences()
    )


def test_the_intervals_count_clusters_as_the_test_does():
    """Twelve clusters of six copies are 180 pairs, and twelve texts."""
    rows, pairs = [], []
    for number in range(12):
        (row, _), _ = posts(1, changed=0, seed=number)
        rows += [{"id": f"c{number}_{copy}", "text": row["text"]} for copy in range(6)]
        pairs += [(f"c{number}_{a}", f"c{number}_{b}", 1) for a in range(6) for b in range(a)]
        pairs.append((f"c{number}_0", f"c{(number + 1) % 12}_0", 0))
    found = choose(rows, pairs)
    assert found.duplicates == 180 and found.clusters == 12
    assert found.held_out is not None
    for scores in (found.default, found.held_out, found.tried[0].held_out):
        assert scores.recall == Share.of(12, 12)
    assert "intervals count clusters, not pairs" in " ".join(found.sentences())


def test_a_gain_that_is_not_worth_it_changes_nothing():
    """Six of 1,006 are found by another shingle alone: more than chance, and next to nothing."""
    rows, pairs = posts(1_000, changed=0)
    more, others = posts(6, changed=2, seed=1)
    for row in more:
        row["id"] += "x"
    pairs += [(a + "x", b + "x", label) for a, b, label in others]
    found = choose(rows + more, pairs, thresholds=(0.3, 0.5))
    assert (found.better, found.worse) == (6, 0)
    assert not found.changed


def test_labels_that_mean_nothing_change_nothing():
    rows, pairs = posts(80, changed=3)
    chance = random.Random(3)
    found = choose(rows, [(a, b, chance.randrange(2)) for a, b, _ in pairs])
    assert not found.changed


def test_random_labels_of_pairs_that_share_no_document_rarely_change_anything():
    """The documents of other pairs are clusters alone: no fold has only them.

    Two tests at 0.05 let chance through 2 or 3 times in 24.
    """
    changed = 0
    for seed in range(24):
        chance = random.Random(seed)
        rows, pairs = [], []
        for number in range(60):
            words = [f"w{chance.randrange(500)}" for _ in range(50)]
            copy = list(words)
            for _ in range(chance.randint(0, 30)):
                copy[chance.randrange(50)] = f"w{chance.randrange(500)}"
            rows += [
                {"id": f"a{number}", "text": " ".join(words)},
                {"id": f"b{number}", "text": " ".join(copy)},
            ]
            pairs.append((f"a{number}", f"b{number}", chance.randrange(2)))
        labelled = load_golden(pairs)
        a, b, label = labelled.a, labelled.b, labelled.label
        fold = deal_out(labelled, components(len(labelled.ids), a[label], b[label]))
        assert np.bincount(fold[a[~label]], minlength=FOLDS).max() < 0.6 * np.sum(~label)
        found = choose(rows, pairs, thresholds=tuple(np.linspace(0.2, 0.9, 15).round(2).tolist()))
        changed += found.changed
    assert changed <= 3


def test_no_document_is_on_both_sides():
    _, pairs = posts(40, changed=2)
    pairs += [(f"b{n}", f"a{n + 1}", 1) for n in range(0, 40, 4)]  # clusters of four
    labelled = load_golden(pairs)
    group = components(len(labelled.ids), labelled.a[labelled.label], labelled.b[labelled.label])
    fold = deal_out(labelled, group)
    for number in np.unique(group):
        assert len(set(fold[group == number].tolist())) == 1
    filled = np.bincount(fold[labelled.a[labelled.label]], minlength=FOLDS)
    assert filled.max() - filled.min() <= 3, "each fold has about the same number of duplicates"


def test_the_order_of_the_labels_has_no_meaning():
    rows, pairs = posts(40, changed=2)
    pairs = pairs[:-10]  # of several numbers of pairs
    shuffled = [(b, a, label) for a, b, label in random.Random(5).sample(pairs, len(pairs))]
    one, other = choose(rows, pairs), choose(rows, shuffled)
    assert one.to_json() == other.to_json()


class FixedSimilarities:
    """Stands for operating points: the similarities of pairs are given."""

    def __init__(self, values: list[float]) -> None:
        self.values = np.array(values)

    def similarity(self, _shingle: str, _threshold: float, _a: Any, _b: Any) -> Any:
        return self.values


def test_what_is_held_out_has_no_part_in_the_choice():
    """By the folds 2 to 4 a threshold of 0.5 is best; the labels of 0 and 1 call for 0.9."""
    apart = [(2 + n % 3, label, 0.6 if label else 0.1) for n in range(20) for label in (1, 0)]
    other = [(n % 2, 1, 0.95) for n in range(30)] + [(n % 2, 0, 0.6) for n in range(100)]
    rows = apart + other
    labelled = load_golden([(f"a{n}", f"b{n}", label) for n, (_, label, _) in enumerate(rows)])
    fold = np.repeat([place for place, _, _ in rows], 2)
    points: Any = FixedSimilarities([similarity for _, _, similarity in rows])
    judged = HeldOutPairs.of(labelled, fold, [0.5, 0.9], 0.8, ["word:5"], points, SILENT)
    assert judged.best(0 * FOLDS + 1, [0]) == (0, 0)
    assert judged.best(None, [0]) == (0, 1)
    assert judged.best(2 * FOLDS + 3, [0]) == (0, 1)


def test_a_higher_threshold_that_is_about_as_good_is_taken_because_it_costs_less():
    similarities = [0.31] + 500 * [0.47] + 500 * [0.1]
    labels = 501 * [1] + 500 * [0]
    labelled = load_golden([(f"a{n}", f"b{n}", label) for n, label in enumerate(labels)])
    fold = np.repeat(np.arange(len(labels)) % FOLDS, 2)
    points: Any = FixedSimilarities(similarities)
    judged = HeldOutPairs.of(labelled, fold, [0.3, 0.4, 0.45, 0.6], 0.8, ["word:5"], points, SILENT)
    assert judged.best(None, [0]) == (0, 2), "0.45 loses one pair of 501"


def test_of_thresholds_that_labels_can_not_tell_apart_the_one_that_removes_least_is_taken():
    """Four of 20 duplicates are less similar than 0.45: that may be chance. Five would not be."""
    rows = [(1, 0.42)] * 4 + [(1, 0.47)] * 16 + [(0, 0.1)] * 20
    labelled = load_golden([(f"a{n}", f"b{n}", label) for n, (label, _) in enumerate(rows)])
    fold = np.repeat(np.arange(len(rows)) // 2 % FOLDS, 2)
    points: Any = FixedSimilarities([similarity for _, similarity in rows])
    grid = [0.2, 0.3, 0.4, 0.45, 0.5]
    judged = HeldOutPairs.of(labelled, fold, grid, 0.8, ["word:5"], points, SILENT)
    assert judged.best(None, [0]) == (0, 3), "0.45, though 0.4 finds four more"


def test_too_few_labels_choose_nothing_and_say_so():
    for count in (3, 9):
        found = choose(*posts(count, changed=2))
        assert not found.changed and found.held_out is None and found.tried == []
        told = " ".join(found.sentences())
        assert "too few labels" in told and "label 10 or more pairs of each kind" in told
    rows, pairs = posts(40, changed=2)
    one_cluster = [("a0", f"a{n}", 1) for n in range(1, 40)] + pairs[1::2]
    assert "in 1 cluster " in choose(rows, one_cluster).sentences()[0]


def test_labels_of_one_kind_are_refused():
    rows, pairs = posts(12, changed=2)
    with pytest.raises(InputError, match=r"all 12 labelled pairs are duplicates.*label 10 or more"):
        choose(rows, [pair for pair in pairs if pair[2]])
    with pytest.raises(InputError, match="none of the 12 labelled pairs is a duplicate"):
        choose(rows, [pair for pair in pairs if not pair[2]])


def test_unusable_labels_are_counted():
    rows, pairs = posts(20, changed=2)
    wrong = [("a1", "b1", 0), ("a2", "a2", 1), ("a3", "gone", 1), ("b4", "a4", 1)]
    found = choose(rows, pairs + wrong)
    counts = {name: flaw.count for name, flaw in found.golden.flaws.items() if flaw.count}
    assert counts == {"contradictory": 1, "repeated": 1, "self-pairs": 1, "unknown ids": 1}
    assert (
        "left out: 1 contradictory, 1 repeated, 1 self-pairs, 1 unknown ids"
        in (found.sentences()[0])
    )


def test_labels_of_other_documents_are_refused(tmp_path):
    rows, pairs = posts(12, changed=2)
    with pytest.raises(InputError, match="the golden set has ids as xa0 and xb0, the corpus as a0"):
        tune(rows, golden=[("x" + a, "x" + b, label) for a, b, label in pairs])
    with pytest.raises(InputError, match="no pair that can be used"):
        tune(rows, golden=[])
    path = tmp_path / "empty.csv"
    path.write_text("")
    with pytest.raises(InputError, match="is empty"):
        tune(rows, golden=path)
    path.write_text("mine,theirs,verdict\nx,y,\n")
    with pytest.raises(InputError, match="not a label"):
        tune(rows, golden=path)
    path.write_text("mine,theirs,rate\nx,y,1\n")
    with pytest.raises(ColumnError, match="--pairs"):
        tune(rows, golden=path)


def test_clusters_are_labels_too():
    rows, _ = posts(40, changed=2)
    found = choose(rows, {row["id"]: row["id"][1:] for row in rows})
    assert found.changed and found.chosen.shingle == "char:5"
    assert (found.duplicates, len(found.golden)) == (40, 80 * 79 // 2)


def test_tune_recommends_what_labels_choose():
    rows, pairs = posts(60, changed=2)
    tuned = tune(
        rows,
        golden=pairs,
        shingles="char:5",
        thresholds=[0.4, 0.5],
        slots=128,
        sketches="minhash",
        workers=1,
    )
    assert tuned.labels is not None and tuned.labels.changed
    assert tuned.options["shingle"] == "char:5" and tuned.options["threshold"] in (0.4, 0.5)
    assert tuned.labels.missed == 0
    assert tuned.reference.shingle == "char:5", "trials are measured by what labels chose"
    assert tuned.advice.startswith(f"Use {tuned.labels.chosen}, minhash")
    assert str(tuned).splitlines()[1].startswith("Labels: 60 duplicates")
    assert tuned.to_json()["labels"] == tuned.labels.to_json()
    page = tuning_page(tuned)
    assert "By labels" in page and "no document has a part in the choice that judges it" in page


def test_pairs_that_stand_for_many_count_as_many():
    """At 0.5 all duplicates and some others reach it, at 0.7 few duplicates: what is more?"""
    rows, pairs = posts(60, changed=2)
    alike, golden = {a for a, *_ in pairs[::6]}, []
    for a, b, label in pairs:
        golden.append((a, b, label, 100.0 if a in alike else 1.0))
    weighted = choose(rows, golden, shingles=())
    plain = choose(rows, pairs, shingles=())
    assert weighted.golden.weights is not None and plain.golden.weights is None
    assert weighted.default.tp == plain.default.tp
    labels, weight = weighted.golden.label, weighted.golden.weights.weight
    found = weighted.default.estimated.recall.value
    assert found == pytest.approx(weighted.default.recall.value) and plain.default.estimated is None
    assert weight[labels].sum() == pytest.approx(20 * 100 + 40)
    assert "that the labelled ones stand for" in " ".join(weighted.sentences())
    assert "that the labelled ones stand for" not in " ".join(plain.sentences())
