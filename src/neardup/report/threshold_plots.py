"""How do recall and precision change with the threshold? Two drawings of a sweep over labels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from neardup.evaluation.scores import Sweep
from neardup.report.html import Html, tag
from neardup.report.plots import rule, text

WIDTH: Final = 640
HEIGHT: Final = 340
LEFT: Final = 52
RIGHT: Final = 600
TOP: Final = 40
BOTTOM: Final = 284


def _x(share: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * share, 2)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)


def _frame(title: str, below: str, *marks: Html) -> Html:
    grid = [text((LEFT + RIGHT) / 2, HEIGHT - 14, below, "middle")]
    for fifth in range(6):
        share = fifth / 5
        grid += [
            rule(LEFT, _y(share), RIGHT, _y(share)),
            text(LEFT - 8, _y(share) + 4, f"{share:g}", "end"),
            text(_x(share), BOTTOM + 20, f"{share:g}", "middle"),
        ]
    return tag(
        "svg",
        tag("title", title),
        *grid,
        *marks,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )


def _line(points: Iterable[tuple[float | None, float | None]], kind: str) -> Html:
    known = (f"{_x(x):g},{_y(y):g}" for x, y in points if x is not None and y is not None)
    return tag("polyline", points=" ".join(known), class_=kind)


def by_threshold(sweep: Sweep, threshold: float | None, precise: bool) -> Html:
    """Recall; precision and F1 too if there is a precision to speak of."""
    thresholds = sweep.thresholds
    shown = "Recall, precision and F1" if precise else "Recall"
    marks = [
        _line(zip(thresholds, sweep.recall, strict=True), "curve"),
        text(LEFT, TOP - 20, "recall", "curve-label start"),
    ]
    if precise:
        marks += [
            _line(zip(thresholds, sweep.precision, strict=True), "curve second"),
            _line(zip(thresholds, sweep.f1, strict=True), "curve third"),
            text(LEFT + 60, TOP - 20, "precision", "second-label start"),
            text(LEFT + 136, TOP - 20, "F1", "third-label start"),
        ]
    if sweep.best is not None:
        marks.append(rule(_x(sweep.best), TOP, _x(sweep.best), BOTTOM, "threshold"))
        marks.append(text(_x(sweep.best) + 6, BOTTOM - 28, f"best {sweep.best:g}", "start strong"))
    if threshold is not None:
        marks.append(rule(_x(threshold), TOP, _x(threshold), BOTTOM, "threshold"))
        marks.append(text(_x(threshold) - 6, BOTTOM - 8, f"now {threshold:g}", "end strong"))
    return _frame(f"{shown} by threshold", "threshold", *marks)


def precision_recall(sweep: Sweep) -> Html:
    """One against the other, at all thresholds; the best one is marked."""
    points = list(zip(sweep.recall, sweep.precision, strict=True))
    marks = [text(0, TOP - 20, "precision", "curve-label start"), _line(points, "curve")]
    if sweep.best is not None:
        recall, precision, _ = sweep.at_best
        if recall is not None and precision is not None:
            marks.append(tag("circle", cx=_x(recall), cy=_y(precision), r=5, class_="point"))
            marks.append(text(_x(recall) - 8, _y(precision) + 18, f"{sweep.best:g}", "end strong"))
    return _frame("Precision against recall", "recall", *marks)
