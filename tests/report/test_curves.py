"""The page's S-curve is that of lsh/curve.py, moves with its sliders, and is all that runs."""

from __future__ import annotations

import json
from typing import Any

import dukpy
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support.browser import Page, browser

from neardup.lsh.curve import Curve
from neardup.report import plots
from neardup.report.plots import CurveExplorer
from neardup.report.run_page import write_report

MakeRun = Any

shapes = st.tuples(st.integers(1, 500), st.integers(1, 64))
thresholds = st.floats(0.01, 1.0)
counts = st.lists(st.integers(0, 10**9), min_size=100, max_size=101).map(np.array)

ENGINE = dukpy.JSInterpreter()
ENGINE.evaljs(f"{plots.explorer_script()}; globalThis.curves = curves; 0")


def by_script(expression: str, **values: Any) -> Any:
    """What the page's script makes of an expression."""
    return ENGINE.evaljs(expression, **values)


def explorer(shape: tuple[int, int], threshold: float, seen: Any) -> CurveExplorer:
    return CurveExplorer(Curve(*shape), threshold, seen, "pairs", 128)


@given(shapes, thresholds)
def test_script_computes_the_curve_of_the_library(shape: tuple[int, int], at: float) -> None:
    curve = Curve(*shape)
    found = by_script(
        "(([b, r, t]) => [curves.probability(t, b, r), curves.estimate(b, r), "
        "curves.inflection(b, r), curves.half(b, r), curves.falsePositiveRate(b, r, t), "
        "curves.falseNegativeRate(b, r, t)])(dukpy.given)",
        given=[*shape, at],
    )
    assert found == pytest.approx(
        [
            curve.probability(at),
            curve.estimate,
            curve.inflection,
            curve.half,
            curve.false_positive_rate(at),
            curve.false_negative_rate(at),
        ],
        rel=1e-9,
        abs=1e-12,
    )


@given(shapes, thresholds, counts)
def test_script_expects_the_pairs_of_the_library(
    shape: tuple[int, int], at: float, seen: Any
) -> None:
    one = explorer(shape, at, seen)
    meeting, recall = one.expected()
    found = by_script(
        "curves.expected(dukpy.found, dukpy.b, dukpy.r, dukpy.t)",
        found=one.found,
        b=shape[0],
        r=shape[1],
        t=at,
    )
    assert found["meeting"] == pytest.approx(meeting)
    assert found["recall"] == (None if recall is None else pytest.approx(recall))


@given(shapes, st.sampled_from([0.5, 0.7, 0.8, 0.85, 0.9, 1.0]))
@example((256, 2), 0.5)
def test_script_writes_the_numbers_of_the_static_page(shape: tuple[int, int], at: float) -> None:
    one = CurveExplorer(Curve(*shape), at, np.arange(100) ** 3, "pairs")
    written = by_script(
        "curves.written(JSON.parse(dukpy.data), dukpy.b, dukpy.r)",
        data=one.data,
        b=shape[0],
        r=shape[1],
    )
    assert written == {name: value for name, (_, value) in one.numbers().items()}


def test_script_states_when_bands_need_more_slots() -> None:
    one = explorer((20, 5), 0.8, np.zeros(100, np.int64))
    written = by_script("curves.written(JSON.parse(dukpy.data), 30, 5)", data=one.data)
    assert written["slots"] == "30 × 5 = 150, more than the 128 of the sketch"


def test_bins_stand_for_their_middle_and_exactly_1_for_itself() -> None:
    seen = np.zeros(101, np.int64)
    seen[[0, 80, 99, 100]] = 1, 2, 3, 4
    one = explorer((20, 5), 0.8, seen)
    assert one.found == [(0.005, 1), (0.805, 2), (0.995, 3), (1.0, 4)]
    curve = Curve(20, 5)
    similar = 2 * curve.probability(0.805) + 3 * curve.probability(0.995) + 4
    assert one.expected()[1] == pytest.approx(similar / 9)


def test_recall_is_undefined_without_similar_pairs() -> None:
    seen = np.zeros(100, np.int64)
    seen[10] = 5
    assert explorer((20, 5), 0.8, seen).numbers()["found"][1] == "none is"
    assert "found" not in explorer((20, 5), 0.8, np.zeros(100, np.int64)).numbers()


def test_script_does_not_break_the_markup() -> None:
    script = plots.explorer_script()
    assert not any(ends in script.lower() for ends in ("</script", "<!--", "<script", "\r"))


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


def shown(page: Page, name: str) -> str:
    return str(page.value(f"document.querySelector('[data-value={name}]').textContent"))


def attribute(page: Page, selector: str, name: str) -> str:
    return str(page.value(f"document.querySelector('{selector}').getAttribute('{name}')"))


def test_sliders_move_the_curve(make_run: MakeRun, page: Page) -> None:
    path = write_report(make_run(similarities=(0.8, 0.85, 0.9, 1.0)))
    page.open(path)
    assert page.complaints == []
    assert page.value("document.querySelector('fieldset').hidden") is False
    one = CurveExplorer(Curve(21, 6), 0.8, similarity_bins(80, 85, 90, 100), "removed documents")
    assert {name: shown(page, name) for name in one.numbers()} == {
        name: value for name, (_, value) in one.numbers().items()
    }
    line = attribute(page, ".curve", "points")
    page.value("document.querySelectorAll('input')[1].focus()")
    for _ in range(3):
        page.press("ArrowRight")
    moved = CurveExplorer(Curve(21, 9), 0.8, one.counts, one.things)
    assert {name: shown(page, name) for name in moved.numbers()} == {
        name: value for name, (_, value) in moved.numbers().items()
    }
    assert page.value("document.querySelectorAll('output')[1].value") == "9"
    assert attribute(page, ".curve", "points") != line
    assert f"{Curve(21, 9).probability(0.8):.4f} found" in page.value(
        "document.querySelector('svg .strong').textContent"
    )
    page.value("document.querySelector('fieldset button').focus()")
    page.press(" ")
    assert shown(page, "slots") == "21 × 6 = 126"
    assert attribute(page, ".curve", "points") == line


def similarity_bins(*places: int) -> Any:
    seen = np.zeros(101, np.int64)
    seen[list(places)] = 1
    return seen


def test_script_draws_the_curve_of_the_static_page(make_run: MakeRun, page: Page) -> None:
    path = write_report(make_run())
    plain = path.read_text().split('<polyline points="')[1].split('"')[0]
    page.open(path)
    drawn = attribute(page, ".curve", "points")
    both = [np.array([*map(float, points.replace(",", " ").split())]) for points in (plain, drawn)]
    assert np.allclose(*both, atol=0.011)


HOSTILE = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
    "<svg onload=\"document.title='taken'\"></svg>"
)


def test_scripts_in_documents_stay_text(make_run: MakeRun, page: Page) -> None:
    page.open(write_report(make_run(id=HOSTILE, file=HOSTILE, texts=(f"{HOSTILE} a", "b"))))
    assert page.value("document.title") == "run: neardup report"
    assert page.value("document.scripts.length") == 1
    assert page.complaints == []


def test_injected_script_is_blocked_by_the_policy(make_run: MakeRun, page: Page) -> None:
    """The policy holds even if escaping failed: markup of a document is put in on purpose."""
    path = write_report(make_run(id="PLACE"))
    path.write_text(path.read_text().replace("PLACE", HOSTILE))
    page.open(path)
    assert page.value("document.scripts.length") > 1
    assert page.value("document.title") != "taken"
    assert any("Content Security Policy" in text for text in page.complaints)
    assert page.value("document.querySelector('fieldset').hidden") is False


def test_plot_and_numbers_are_shown_without_scripts(make_run: MakeRun, page: Page) -> None:
    path = write_report(make_run())
    page.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        page.open(path)
        tree = json.dumps(page.ask("DOMSnapshot.captureSnapshot", computedStyles=["display"]))
    finally:
        page.ask("Emulation.setScriptExecutionDisabled", value=False)
    assert "21 \\u00d7 6 = 126" in tree
    assert 'class="curve"' in path.read_text()
    assert "<fieldset hidden>" in path.read_text()
