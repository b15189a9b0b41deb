"""How do a run's numbers look? Inline SVG and bars; colours and sizes are in page.css."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.curve import Meeting
from neardup.report.html import Html, tag
from neardup.report.tables import SIMILARITIES

WIDTH: Final = 640
HEIGHT: Final = 364
LEFT: Final = 52
RIGHT: Final = 572
TOP: Final = 58
BOTTOM: Final = 308
STEPS: Final = 200


def s_curve(curve: Meeting, threshold: float, counts: NDArray[np.int64], things: str) -> Html:
    """The chance to meet by similarity, and on the same axis how similar things were.

    `counts` are those of things in each bin of `SIMILARITIES`.
    """
    recall = curve.probability(threshold)
    title = (
        f"With {curve} rows, two documents of similarity {threshold:g} share a bucket with "
        f"probability {recall:.4f}{curve.condition}"
    )
    return tag(
        "svg",
        tag("title", title),
        *frame(counts, things),
        *histogram(counts),
        *_line(curve),
        *threshold_mark(threshold, recall),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="plot",
    )


def shares(parts: Sequence[tuple[str, int]]) -> Html:
    """One bar for all documents; each part's class gives its colour."""
    total = sum(count for _, count in parts) or 1
    pieces = (
        tag("span", class_=kind, style=f"flex-grow:{count / total:.6f}")
        for kind, count in parts
        if count
    )
    return tag("div", *pieces, class_="shares", aria_hidden="true")


def bar(share: float) -> Html:
    """A bar for a table's cell, where the number stands beside it; none for nothing."""
    if share <= 0:
        return Html()
    return tag("span", style=f"width:{100 * min(share, 1):.2f}%", class_="bar")


def log_share(count: int, largest: int) -> float:
    """How long the bar of a count is on a logarithmic scale; a single one can be seen."""
    return math.log10(count + 1) / math.log10(largest + 1) if count > 0 else 0.0


def _x(similarity: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * similarity, 2)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)


def _decades(counts: NDArray[np.int64]) -> int:
    """The logarithmic axis goes up to ten to this power."""
    return max(1, math.ceil(math.log10(max(int(counts.max()), 1) + 1)))


def text(x: float, y: float, words: str, kind: str = "") -> Html:
    """Words in a drawing."""
    return tag("text", words, x=x, y=y, class_=kind)


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> Html:
    """A line in a drawing."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def frame(counts: NDArray[np.int64], things: str) -> list[Html]:
    """The axes: similarity below, probability on the left, things on the right."""
    decades = _decades(counts)
    marks = [
        text(0, 16, "chance to meet", "curve-label start"),
        text(WIDTH, 16, f"{things} (log)", "count-label end"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, "similarity", "middle"),
    ]
    for tenth in range(0, 11, 2):
        share = tenth / 10
        marks += [
            rule(LEFT, _y(share), RIGHT, _y(share), "grid"),
            text(LEFT - 8, _y(share) + 4, f"{share:g}", "end"),
            text(_x(share), BOTTOM + 22, f"{share:g}", "middle"),
        ]
    step = math.ceil(decades / 6)
    for power in range(step, decades + 1, step):
        marks.append(text(RIGHT + 18, _y(power / decades) + 4, short(10**power), "start"))
    return marks


def short(number: int) -> str:
    """
    >>> [short(n) for n in (10, 1_000, 100_000, 10**8, 10**10)]
    ['10', '1k', '100k', '100M', '10G']
    """
    for power, unit in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number // 10**power}{unit}"
    return str(number)


def histogram(counts: NDArray[np.int64]) -> list[Html]:
    top = 10 ** _decades(counts)
    width = _x(0.01) - _x(0) - 0.8
    bars = []
    for low, count in zip(SIMILARITIES.tolist(), counts.tolist(), strict=False):
        if not count:
            continue
        height = round((BOTTOM - TOP) * log_share(count, top - 1), 2)
        # Identical documents stand beside the axis: they are not a range.
        start, wide, kind = (_x(low) + 0.4, width, "") if low < 1 else (RIGHT + 4, 9, "identical")
        label = f"{count:,} at {low:.2f} to {low + 0.01:.2f}" if low < 1 else f"{count:,} at 1"
        bars.append(
            tag(
                "rect",
                tag("title", label),
                x=start,
                y=BOTTOM - height,
                width=wide,
                height=height,
                class_=f"count {kind}",
            )
        )
    return bars


def points(curve: Meeting, steps: int = STEPS) -> str:
    """A curve as the points of a line."""
    shares = [step / steps for step in range(steps + 1)]
    return " ".join(f"{_x(share):g},{_y(curve.probability(share)):g}" for share in shares)


def _line(curve: Meeting) -> list[Html]:
    line = points(curve)
    area = f"{LEFT},{BOTTOM} {line} {RIGHT},{BOTTOM}"
    return [
        tag("polygon", points=area, class_="area"),
        tag("polyline", points=line, class_="curve"),
    ]


def threshold_mark(threshold: float, recall: float) -> list[Html]:
    """Where the threshold is, and what a curve finds there."""
    x, y = _x(threshold), _y(recall)
    label = f"threshold {threshold:g}: {recall:.4f} found"
    anchor = "end" if threshold > 0.5 else "start"
    return [
        rule(x, TOP - 12, x, BOTTOM, "threshold"),
        tag("circle", cx=x, cy=y, r=5, class_="point"),
        text(x + (-6 if anchor == "end" else 6), TOP - 10, label, f"{anchor} strong"),
    ]
