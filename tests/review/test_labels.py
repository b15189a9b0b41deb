"""Pairs are drawn of a run, answered blind one after the other, and give honest figures."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import pytest
from support.command_line import dedup
from support.labelled_run import DOCUMENTS, draw_more, make_labelled_run, truth
from support.reviewer import PORT, Reviewer

from neardup import evaluate
from neardup.errors import FormatError, UsageError
from neardup.evaluation.label_figures import DrawnPair
from neardup.formatting import format_similarity
from neardup.review.desk import ReviewDesk
from neardup.review.label_desk import LABELS_FILE, LabelDesk
from neardup.review.label_files import write_labels
from neardup.review.run_subject import RunSubject


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_labelled_run(tmp_path)


@pytest.fixture
def labels(run: Path) -> LabelDesk:
    return LabelDesk(RunSubject(run))


def person(run: Path, who: str = "ann", blind: bool = True) -> Reviewer:
    subject = RunSubject(run)
    return Reviewer(ReviewDesk(subject, who, PORT, labels=LabelDesk(subject, blind)))


def answer_all(labels: LabelDesk, who: str = "ann") -> None:
    labels.journal.answer([(pair.number, truth(pair)) for pair in labels.draw.pairs], who)


# -- drawing ---------------------------------------------------------------------------------------


def test_strata_have_all_pairs_of_the_corpus(labels: LabelDesk) -> None:
    documents = len(DOCUMENTS)
    assert sum(one.pairs for one in labels.draw.sizes.values()) == documents * (documents - 1) / 2
    assert len(labels.draw.pairs) == 60
    assert {pair.stratum for pair in labels.draw.pairs} == labels.draw.sizes.keys()


def test_pairs_that_never_met_are_drawn_too(labels: LabelDesk) -> None:
    missed = [p for p in labels.draw.pairs if not labels.found[p.number]]
    assert any(p.similarity > 0.5 for p in missed)
    assert any(p.stratum == "random" for p in missed)


def test_more_pairs_come_after_those_that_are_stored(run: Path, labels: LabelDesk) -> None:
    before = list(labels.draw.pairs)
    assert draw_more(run, 60).draw.pairs == before
    assert draw_more(run, 90).draw.pairs[:60] == before
    assert len(draw_more(run, 90).draw.pairs) == 90


def test_a_sample_of_a_corpus_stands_for_all_of_it(run: Path) -> None:
    """Of 120 documents 80 are compared: sizes are estimated, that of all pairs to 20 % or so."""
    (run / "review" / LABELS_FILE).unlink()
    desk = draw_more(run, 60, sample=80)
    assert "80 of 120 documents" in desk.draw.about
    every = sum(one.pairs for one in desk.draw.sizes.values())
    assert every == pytest.approx(120 * 119 / 2, rel=0.25)
    assert all(name == "random" or size.units < 1e6 for name, size in desk.draw.sizes.items())


def test_changed_inputs_are_refused(run: Path) -> None:
    with (run.parent / "texts.jsonl").open("a") as file:
        file.write('{"id": "new", "text": "another one"}\n')
    with pytest.raises(UsageError, match=r"no pairs can be drawn: .*changed"):
        draw_more(run, 100)


def test_labels_of_other_documents_are_refused(run: Path) -> None:
    (run.parent / "texts.jsonl").write_text('{"id": "a", "text": "one"}\n')
    dedup(run.parent / "texts.jsonl", "-o", run, "--force")
    with pytest.raises(UsageError, match="labels of other documents"):
        LabelDesk(RunSubject(run))


def test_another_run_on_the_same_documents_is_judged_by_the_same_labels(run: Path) -> None:
    """The labels stay; what is found, and so recall, is that of the run that is there."""
    strict = LabelDesk(RunSubject(run))
    answer_all(strict)
    before = strict.figures().scores
    dedup(run.parent / "texts.jsonl", "-o", run, "--force", "--threshold", "0.5")
    after = LabelDesk(RunSubject(run)).figures().scores
    assert before is not None
    assert after is not None
    assert (after.recall.value or 0) > (before.recall.value or 1)
    with pytest.raises(UsageError, match="another one than when the pairs"):
        draw_more(run, 100)


def test_a_damaged_file_is_refused(run: Path) -> None:
    (run / "review" / LABELS_FILE).write_bytes(b"no database" * 500)
    with pytest.raises(FormatError, match="no file of labels"):
        LabelDesk(RunSubject(run))


# -- figures ---------------------------------------------------------------------------------------


def exact_figures(run: Path) -> tuple[float | None, float | None]:
    """Return recall and precision of a run by the answers to all pairs."""
    pairs = combinations([row["id"] for row in DOCUMENTS], 2)
    golden = [(a, b, int(truth(DrawnPair(0, a, b, "", 0.0)) == "same")) for a, b in pairs]
    found = evaluate(golden, run=run).labels
    return found.recall.value, found.precision.value


def test_the_intervals_have_the_figures_of_all_pairs(run: Path, labels: LabelDesk) -> None:
    answer_all(labels)
    scores = labels.figures("ann").scores
    assert scores is not None
    for share, exact in zip((scores.recall, scores.precision), exact_figures(run), strict=True):
        assert exact is not None
        assert share.low is not None
        assert share.high is not None
        assert share.low - 1e-9 <= exact <= share.high + 1e-9


def test_evaluate_says_the_same_of_the_golden_set(run: Path, labels: LabelDesk) -> None:
    answer_all(labels)
    labels.journal.answer([(3, "unsure")], "ann")
    scores = labels.figures("ann").scores
    assert scores is not None
    for name in ("golden.csv", "golden.parquet"):
        write_labels(labels, run.parent / name, None)
        found = evaluate(run.parent / name, run=run)
        assert found.labels.record == scores.record
        assert found.golden.weights is not None
        assert any("random pairs is a duplicate" in note for note in found.notes)


def test_figures_wait_for_an_answer_of_each_stratum(labels: LabelDesk) -> None:
    assert "no answer yet" in str(labels.figures("ann"))
    labels.journal.answer([(0, "same")], "ann")
    assert re.search(r"After 1 answer: \d parts of all pairs have no answer", str(labels.figures()))
    answer_all(labels)
    told = str(labels.figures())
    assert re.match(r"After 60 answers: precision 0\.\d\d to 1\.00, recall 0\.\d\d to", told)
    assert re.search(r"about [\d,]+ more for ± 0\.0\d", told)


def test_answers_ask_for_a_threshold(run: Path) -> None:
    labels = draw_more(run, 400)
    answer_all(labels)
    threshold = labels.figures().threshold
    assert threshold is not None
    assert threshold < 0.75


@pytest.mark.parametrize("other", [["--measure", "containment"], ["--sketch", "simhash"]])
def test_no_threshold_is_asked_for_that_the_run_has_not(run: Path, other: list[str]) -> None:
    """Pairs are as similar as their sets of shingles are; other measures have other thresholds."""
    labels = draw_more(run, 400)
    answer_all(labels)
    dedup(run.parent / "texts.jsonl", "-o", run, "--force", *other)
    figures = LabelDesk(RunSubject(run)).figures()
    assert figures.scores is not None
    assert figures.threshold is None


# -- two people ------------------------------------------------------------------------------------


def test_people_who_differ_are_listed_and_count_nowhere(labels: LabelDesk) -> None:
    answer_all(labels, "ann")
    answer_all(labels, "ben")
    labels.journal.answer([(4, "different"), (5, "same"), (6, "unsure")], "ben")
    wrong = [p for p in labels.draw.pairs if labels.answers("ann") != labels.answers("ben")]
    (two,) = labels.people()
    differing = {pair.number for pair in two.differing}
    assert differing <= {4, 5, 6}
    assert 6 in differing
    assert wrong
    assert two.agreement.pairs == 59
    assert two.agreement.agreed == 60 - len(differing)
    assert {one.pair.number for one in labels.labels()} == set(range(60)) - differing
    assert len(labels.labels("ann")) == 60


# -- pages -----------------------------------------------------------------------------------------


def test_pairs_are_answered_one_after_the_other(run: Path, labels: LabelDesk) -> None:
    ann = person(run)
    page = ann.get("/label")
    assert "0 of 60 answered" in page
    assert "Pair 1 " in page
    page = ann.send("/label", pair=0, answer="same")
    assert "1 of 60 answered" in page
    assert "Pair 2 " in page
    assert labels.answers("ann") == {0: "same"}
    page = ann.send("/label-undo")
    assert "0 of 60 answered" in page
    assert "Pair 1 " in page
    ann.send("/label-redo")
    assert labels.answers("ann") == {0: "same"}
    ann.send("/label-redo", 409)
    ann.send("/label", 400, pair=1, answer="keep")
    ann.send("/label", 404, pair=60, answer="same")
    ann.get("/label/60", 404)


def test_the_page_is_blind(run: Path, labels: LabelDesk) -> None:
    pair = next(p for p in labels.draw.pairs if p.stratum.startswith("found"))
    blind = person(run).get(f"/label/{pair.number}")
    seen = person(run, blind=False).get(f"/label/{pair.number}")
    said = (pair.a, pair.b, format_similarity(pair.similarity), "the run has found them")
    assert [text in seen for text in said] == [True] * 4
    assert [text in blind for text in said] == [False] * 4
    assert pair.stratum not in blind
    shown = re.sub("<[^>]*>", "", blind.partition("<main")[2].partition("<dialog")[0])
    assert not re.search("kept|removed|found", shown)


def test_sides_are_swapped_at_random_and_always_alike(run: Path, labels: LabelDesk) -> None:
    swapped = [labels.sides(pair) == (pair.b, pair.a) for pair in labels.draw.pairs]
    assert 15 < sum(swapped) < 45
    again = LabelDesk(RunSubject(run))
    assert [labels.sides(pair) for pair in labels.draw.pairs] == [
        again.sides(pair) for pair in again.draw.pairs
    ]


def test_each_person_has_all_pairs(run: Path) -> None:
    ann, ben = person(run), person(run, "ben")
    ann.send("/label", pair=0, answer="same")
    assert "0 of 60 answered" in ben.get("/label")
    ben.send("/label", pair=0, answer="different")
    page = ann.get("/labels")
    assert "0 of 1 pair alike; kappa" in page
    assert 'href="/label/0"' in page


def test_the_last_answer_leads_to_the_figures(run: Path, labels: LabelDesk) -> None:
    answer_all(labels)
    page = person(run).get("/label")
    assert "What the answers say" in page
    assert "After 60 answers" in page
    assert "drawn at random, is the same" in page


@pytest.mark.parametrize("kind", ["golden", "golden-parquet", "label-studio", "splink"])
def test_files_are_sent(run: Path, labels: LabelDesk, kind: str) -> None:
    answer_all(labels)
    ann = person(run)
    assert f'href="/labels/export/{kind}"' in ann.get("/labels")
    answer = ann.client.get(f"/labels/export/{kind}")
    assert answer.status_code == 200
    assert "attachment" in answer.headers["content-disposition"]
    ann.get("/labels/export/other", 404)


def test_without_drawn_pairs_there_is_no_page(run: Path) -> None:
    subject = RunSubject(run)
    Reviewer(ReviewDesk(subject, "ann", PORT)).get("/label", 404)


def test_the_page_needs_no_inputs(run: Path) -> None:
    (run.parent / "texts.jsonl").unlink()
    assert "w1" in person(run).get("/label/0")


def test_answers_survive_a_kill(run: Path) -> None:
    """A process that ends at once, without closing anything, loses no answer."""
    script = (
        "import os, sys; from pathlib import Path\n"
        "from neardup.review.label_desk import LabelDesk\n"
        "from neardup.review.run_subject import RunSubject\n"
        "desk = LabelDesk(RunSubject(Path(sys.argv[1])))\n"
        "for n in range(20): desk.journal.answer([(n, 'same')], 'ann')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(run)], check=False)
    assert ended.returncode == -9
    desk = LabelDesk(RunSubject(run))
    assert desk.answers("ann") == dict.fromkeys(range(20), "same")
    pair = desk.next("ann")
    assert pair is not None
    assert pair.number == 20
