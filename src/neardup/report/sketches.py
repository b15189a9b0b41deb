"""How do sketches compare? A page with a plot and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from neardup.evaluation.contest import Measured
from neardup.report.frame import whole
from neardup.report.html import Html, note, table, tag
from neardup.report.plots import rule, text

WIDTH: Final = 720
HEIGHT: Final = 400
LEFT: Final = 64
RIGHT: Final = 400
LABELS: Final = 470
LINE: Final = 22
TOP: Final = 40
BOTTOM: Final = 340
COLUMNS: Final = (
    "sketch",
    "bytes",
    "MB/s",
    "mean error",
    "meet",
    "candidates",
    "recall",
    "precision",
)
MEANING: Final = (
    "Bytes of a stored signature; MB of text a second from text to signature on one core; mean "
    "distance of the estimate from the exact similarity; share of the similar pairs that meet "
    "(recall with exact verification); pairs that meet, by document; recall and precision when "
    "signatures alone decide."
)


def page(rows: Sequence[Measured], about: str) -> Html:
    """The whole page."""
    return whole(
        "neardup: sketches compared",
        tag("p", "neardup", class_="brand"),
        tag("h1", "Sketches compared"),
        tag("p", about),
        plot(rows),
        table("Sketches", COLUMNS, map(cells, rows), COLUMNS[1:]),
        note(MEANING),
    )


def cells(row: Measured) -> list[str]:
    """A row of the table, as people read numbers."""
    return [
        row.name,
        f"{row.size:,.0f}",
        _number(row.speed, ",.0f"),
        _number(row.error, ".4f"),
        _number(row.found, ".4f"),
        _number(row.candidates, ",.2f"),
        _number(row.recall, ".4f"),
        _number(row.precision, ".4f"),
    ]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def plot(rows: Sequence[Measured]) -> Html:
    """Bytes of a signature, logarithmic, against the mean error of its estimate."""
    shown = sorted((row for row in rows if row.error is not None), key=lambda row: -_error(row))
    if not shown:
        return note("There is no pair above 0.1: nothing to plot.")
    powers = range(
        math.floor(math.log2(min(row.size for row in shown))),
        math.ceil(math.log2(max(row.size for row in shown))) + 1,
    )
    low, high = powers[0], max(powers[-1], powers[0] + 1)
    worst = _error(shown[0]) or 1.0

    def x(size: float) -> float:
        return round(LEFT + (RIGHT - LEFT) * (math.log2(size) - low) / (high - low), 1)

    def y(error: float) -> float:
        return round(BOTTOM - (BOTTOM - TOP) * error / worst, 1)

    marks = [
        text(0, TOP - 16, "mean error"),
        text(LABELS, TOP - 16, "sketch: recall of its estimate"),
        text((LEFT + RIGHT) / 2, HEIGHT - 12, "bytes of a signature", "middle"),
    ]
    for power in powers:
        marks += [
            rule(x(2**power), TOP, x(2**power), BOTTOM),
            text(x(2**power), BOTTOM + 20, f"{2**power:,}", "middle"),
        ]
    for step in range(5):
        error = worst * step / 4
        marks += [
            rule(LEFT, y(error), RIGHT, y(error)),
            text(LEFT - 8, y(error) + 4, f"{error:.3f}", "end"),
        ]
    places = spread([y(_error(row)) for row in shown], LINE, BOTTOM)
    for row, place in zip(shown, places, strict=True):
        at = x(row.size), y(_error(row))
        marks += [
            rule(*at, LABELS - 6, place),
            tag("circle", tag("title", row.name), cx=at[0], cy=at[1], r=5, class_="point"),
            text(LABELS, place + 4, f"{row.name}: {row.recall:.2f}"),
        ]
    return tag(
        "svg",
        tag("title", "Bytes of a signature against its error"),
        *marks,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )


def _error(row: Measured) -> float:
    return row.error or 0.0


def spread(wanted: Sequence[float], apart: float, last: float) -> list[float]:
    """Ascending places close to those wanted, so far apart, none after the last if they fit.

    >>> spread([0, 1, 2, 50], 10, 55)
    [0, 10, 20, 50]
    >>> spread([48, 49, 50], 10, 55)
    [35, 45, 55]
    """
    places: list[float] = []
    for place in wanted:
        places.append(max(place, places[-1] + apart) if places else place)
    for back in range(len(places)):
        places[-1 - back] = min(places[-1 - back], last - apart * back)
    return places
