"""The page of a sweep says what to use and why, and shows every trial, whatever became of it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import browser

from neardup.evaluation.truth import Truth
from neardup.lsh.curve import Curve
from neardup.planner.tuning import TrialOutcome, TrialPoint, Tuning
from neardup.report import html, plots, sweep_plots
from neardup.report.tuning_page import tuning_page

SHAPES = ((16, 4, 4), (64, 16, 4), (64, 8, 8), (128, 21, 6), (128, 32, 4))


def trial(slots: int, bands: int, rows: int, recall: float | None, seconds: float) -> TrialOutcome:
    return TrialOutcome(
        TrialPoint(slots=slots, bands=bands, rows=rows),
        t_sig=seconds / 2,
        t_rest=seconds / 2,
        t_all=seconds,
        buckets=40,
        average_bucket=1.5,
        bucket_sizes={1: 30, 2: 9, 7: 1},
        candidates=1_234,
        all_candidates=56_071.0,
        pairs=99,
        true_pairs=100,
        recall=recall,
        precision=None if recall is None else 1.0,
        memory=2_000_000,
    )


def swept(
    *rows: TrialOutcome, similarities: Any = (0.45, 0.8, 0.85, 0.9), **changed: Any
) -> Tuning:
    """A sweep that ended so; its best is the second of several rows."""
    count = len(similarities)
    truth = Truth(
        50,
        0.4,
        np.zeros(count, np.int64),
        np.arange(1, count + 1),
        np.array(similarities, np.float64),
    )
    usual = {
        "about": "53 of 1,000 documents",
        "documents": 1_000,
        "sampled": 50,
        "copies": 3,
        "reference": rows[0].point,
        "recall": 0.99,
        "precision": 0.98,
        "truth": truth,
        "rows": list(rows),
        "pruned": {"a simhash has no bands": 7},
        "best": rows[min(1, len(rows) - 1)],
        "reasons": ["It is the cheapest.", "<b>The default</b> is dearer."],
        "met": True,
    }
    return Tuning(**usual | changed)


def usual_rows() -> list[TrialOutcome]:
    recalls = (0.7, 0.995, 0.5, 0.99, 1.0)
    seconds = (0.01, 0.03, 0.02, 0.05, 0.2)
    return [trial(*shape, recalls[n], seconds[n]) for n, shape in enumerate(SHAPES)]


def text_of(markup: str) -> str:
    return re.sub(r"<[^>]*>", " ", re.sub(r"(?s)<(style|script|title)>.*?</\1>", " ", markup))


def test_recommendation_and_reason_are_on_top() -> None:
    text = " ".join(text_of(tuning_page(swept(*usual_rows()))).split())
    top = text[: text.index("Recall against cost")]
    for part in (
        "Use minhash, 64 slots, 16 bands of 4",
        "It is the cheapest.",
        "0.9950",
        "of one core, all 1,000 documents 0.03 s",
        "pairs compared, all 1,000 documents 56,071",
        "&lt;b&gt;The default&lt;/b&gt;",
        "53 of 1,000 documents",
        "5 trials",
        "3 identical ones are left out",
        "3 pairs are at least 0.8 similar",
        "a recall of 0.99 and a precision of 0.98",
    ):
        assert part in top, part
    assert "does not reach the required recall" not in top
    assert "does not reach the required recall" in tuning_page(swept(*usual_rows(), met=False))


def test_every_trial_is_a_row_even_if_it_failed() -> None:
    rows = usual_rows()
    rows[3] = TrialOutcome(rows[3].point, "timeout")
    rows[4] = TrialOutcome(rows[4].point, "failed", error="MemoryError <i>")
    source = tuning_page(swept(*rows))
    body = re.findall(r"<tr><td.*?</tr>", source)
    assert len(body) == 5
    cells = [re.sub(r"<[^>]*>", " ", row).split() for row in body]
    assert cells[0][:4] == ["default", "16", "4", "4"] and "0.7000" in cells[0]
    assert cells[1][:4] == ["64", "8", "8", "0.0100"]  # the cheapest first
    assert cells[2][:2] == ["recommended", "64"]
    assert cells[3][:5] == ["timed", "out", "128", "21", "6"] and cells[3][5:] == ["—"] * 9
    assert "failed: MemoryError &lt;i&gt;" in body[4]


def test_columns_are_shown_only_if_trials_differ() -> None:
    rows = usual_rows()
    assert ">shingle</th>" not in tuning_page(swept(*rows))
    rows.append(replace(rows[0], point=replace(rows[0].point, shingle="char:4", buckets=1_000)))
    source = tuning_page(swept(*rows))
    for wanted in (">shingle</th>", ">buckets</th>", ">char:4</td>", ">1,000</td>"):
        assert wanted in source
    assert ">threshold</th>" not in source


def test_front_leaves_out_dominated_trials() -> None:
    rows = usual_rows()
    assert [row.recall for row in sweep_plots.pareto(rows)] == [0.7, 0.995, 1.0]
    tied = [trial(16, 4, 4, 0.5, 0.02), trial(16, 8, 2, 0.6, 0.02), trial(16, 2, 8, 0.6, 0.03)]
    assert sweep_plots.pareto(tied) == [tied[1]]
    assert sweep_plots.pareto([TrialOutcome(rows[0].point, "timeout")]) == []


def test_front_is_drawn_and_labelled() -> None:
    source = tuning_page(swept(*usual_rows()))
    line = re.search(r'<polyline points="([^"]*)" class="front">', source)
    assert line and len(line[1].split()) == 6  # three points, two corners, the end
    for label in (
        ">minhash 4 × 4: 0.7000<",
        ">minhash 16 × 4: 0.9950<",
        ">minhash 32 × 4: 1.0000<",
    ):
        assert label in source
    assert "minhash 8 × 8: 0.5000<" not in source


def test_plotted_rates_equal_those_of_the_curve() -> None:
    source = tuning_page(swept(*usual_rows()))
    for _, bands, rows in SHAPES:
        curve = Curve(bands, rows)
        assert (
            f"{curve}: false positives {curve.false_positive_rate(0.8):.4f}, "
            f"false negatives {curve.false_negative_rate(0.8):.4f}"
        ) in source
    for kind in ("dashed", "dotted"):  # a line for each number of slots
        assert len(re.findall(rf'class="line {kind} tint-\d"', source)) == 3
    assert re.findall(r"</span>([\d,]+ slots)</li>", source)[:3] == [
        "16 slots",
        "64 slots",
        "128 slots",
    ]


def test_sizes_of_buckets_of_the_recommended_and_the_default() -> None:
    source = tuning_page(swept(*usual_rows()))
    for name in (
        "recommended: minhash, 64 slots, 16 bands of 4",
        "default: minhash, 16 slots, 4 bands",
    ):
        assert name in source
    for bar in ("30 buckets of 1<", "9 buckets of 2<", "1 buckets of 5–8<"):
        assert bar in source


def test_sample_without_similar_pairs_has_a_note_and_no_plot() -> None:
    rows = [trial(*shape, None, 0.1) for shape in SHAPES]
    source = tuning_page(swept(*rows, similarities=(), met=None))
    assert "No trial has a recall" in source
    assert "no pair is at least 0.8 similar" in source
    assert "undefined" in text_of(source) and 'class="front"' not in source
    assert "nan" not in text_of(source).lower()


def test_page_when_all_trials_timed_out() -> None:
    rows = [TrialOutcome(TrialPoint(slots=s, bands=b, rows=r), "timeout") for s, b, r in SHAPES]
    source = tuning_page(
        swept(*rows, best=rows[0], met=None, reasons=["Use a longer --time-limit."])
    )
    for said in (
        "No trial came to its end",
        "No trial has a recall",
        "no buckets to count",
        "Use a longer --time-limit.",
    ):
        assert said in source
    assert source.count(">timed out</span>") == 5
    assert "recommended</span>" not in source


def test_page_when_only_unusable_trials_finished() -> None:
    only_for_sweeps = TrialPoint(slots=16, bands=4, rows=4, buckets=100)
    rows = [
        TrialOutcome(TrialPoint(slots=128, bands=21, rows=6), "timeout"),
        replace(usual_rows()[0], point=only_for_sweeps),
    ]
    source = tuning_page(swept(*rows, best=rows[0], met=None))
    assert 'class="front"' in source and 'class="chosen"' not in source


def test_page_of_one_trial() -> None:
    source = tuning_page(swept(usual_rows()[1]))
    assert " 1 trial;" in source
    assert 'class="chosen"' in source


def test_page_without_bands_has_no_sliders() -> None:
    row = replace(usual_rows()[0], point=TrialPoint(sketch="simhash", slots=64, bits=1))
    source = tuning_page(swept(row))
    assert "No trial has bands" in source
    assert "Use simhash, 64 bits" in source
    assert "<script" not in source and html.POLICY in source


def test_labels_of_many_trials_do_not_overlap() -> None:
    rows = [trial(128, n, 1, n / 100, n / 50) for n in range(1, 101)]
    source = tuning_page(swept(*rows, best=rows[0]))
    heights = [
        float(y) for y in re.findall(r'y="([\d.]+)" class="(?:strong)?">minhash \d+ × 1:', source)
    ]
    assert len(heights) == sweep_plots.MOST_LABELS
    assert min(np.diff(sorted(heights))) >= sweep_plots.LINE - 0.01


def test_table_of_trials_fits_a_usual_screen(tmp_path: Path) -> None:
    rows = [
        replace(row, candidates=12_345_678, pairs=1_234_567, t_all=1234.5, memory=10**9)
        for row in usual_rows()
    ]
    rows.append(replace(rows[0], point=replace(rows[0].point, sketch="oneperm")))
    path = tmp_path / "tuning.html"
    path.write_text(tuning_page(swept(*rows)), "utf-8")
    hidden = (
        "Math.max(...[...document.querySelectorAll('.scroll')]"
        ".map(each => each.scrollWidth - each.clientWidth))"
    )
    with browser(tmp_path / "browser") as seen:
        seen.open(path, width=1200, dark=False)
        assert seen.value(hidden) <= 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1000, 400])
def test_page_fits_the_browser_in_light_and_dark(tmp_path: Path, width: int, dark: bool) -> None:
    path = tmp_path / "tuning.html"
    path.write_text(tuning_page(swept(*usual_rows())), "utf-8")
    assert html.security_policy(plots.explorer_script()) in path.read_text()
    with browser(tmp_path / "browser") as seen:
        seen.open(path, width=width, dark=dark)
        assert seen.complaints == []
        assert seen.value("document.querySelector('fieldset').hidden") is False
        assert seen.value("document.querySelector('[data-value=slots]').textContent") == (
            "16 × 4 = 64"
        )
        # Nothing but the tables, which scroll by themselves, is wider than the screen.
        assert seen.value("document.documentElement.scrollWidth") <= width
