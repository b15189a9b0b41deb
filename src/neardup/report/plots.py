"""Plots as inline SVG, and bars; colours and sizes are in page.css.

The S-curve has sliders for bands and rows. The page shows the curve of the bands that were used
without any script; curves.js redraws it. The script gets numbers alone, never a text of the data.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.curve import Curve, Meeting
from neardup.report.html import Html, tag
from neardup.report.run_folder import SIMILARITIES

WIDTH: Final = 640
HEIGHT: Final = 364
LEFT: Final = 52
RIGHT: Final = 572
TOP: Final = 58
BOTTOM: Final = 308
STEPS: Final = 200


def s_curve(
    curve: Meeting,
    threshold: float,
    counts: NDArray[np.int64],
    things: str,
    measure: str = "similarity",
) -> Html:
    """Plot the probability to share a bucket by similarity, and a histogram of similarities.

    Args:
        curve: the S-curve.
        threshold: the similarity to mark.
        counts: the number of things in each bin of `SIMILARITIES`.
        things: what is counted, as a plural.
        measure: what the axis has.
    """
    recall = curve.probability(threshold)
    bands = f"{curve} rows" if str(curve)[-1].isdigit() else str(curve)
    title = (
        f"With {bands}, two documents of {measure} {threshold:g} share a bucket with "
        f"probability {recall:.4f}{curve.condition}"
    )
    marks = [
        *frame(counts, things, measure),
        *histogram(counts),
        *_line(curve),
        *threshold_mark(threshold, recall),
    ]
    return drawing(title, marks, WIDTH, HEIGHT)


def drawing(title: str, marks: Iterable[Html], width: int, height: int) -> Html:
    """Return an SVG image; `title` is read to people who can't see it."""
    return tag(
        "svg",
        tag("title", title),
        *marks,
        viewBox=f"0 0 {width} {height}",
        role="img",
        class_="plot",
    )


def shares(parts: Sequence[tuple[str, int]]) -> Html:
    """Return one bar of all parts, by CSS class and count."""
    total = sum(count for _, count in parts) or 1
    pieces = (
        tag("span", class_=kind, style=f"flex-grow:{count / total:.6f}")
        for kind, count in parts
        if count
    )
    return tag("div", *pieces, class_="shares", aria_hidden="true")


def bar(share: float) -> Html:
    """Return a bar for the cell of a table; nothing for a share of 0."""
    if share <= 0:
        return Html()
    return tag("span", style=f"width:{100 * min(share, 1):.2f}%", class_="bar")


def log_share(count: int, largest: int) -> float:
    """Return the length of a bar on a logarithmic scale, on which a count of 1 is visible."""
    return math.log10(count + 1) / math.log10(largest + 1) if count > 0 else 0.0


def _x(similarity: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * similarity, 2)


def _y(share: float) -> float:
    return round(BOTTOM - (BOTTOM - TOP) * share, 2)


def _decades(counts: NDArray[np.int64]) -> int:
    """Return the power of ten at the top of the logarithmic axis."""
    return max(1, math.ceil(math.log10(max(int(counts.max()), 1) + 1)))


def text(x: float, y: float, words: str, kind: str = "") -> Html:
    """Return a text of a drawing."""
    return tag("text", words, x=x, y=y, class_=kind)


def rule(x1: float, y1: float, x2: float, y2: float, kind: str = "grid") -> Html:
    """Return a straight line of a drawing."""
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def frame(counts: NDArray[np.int64], things: str, measure: str = "similarity") -> list[Html]:
    """Return the axes: the measure below, probability on the left, things on the right."""
    decades = _decades(counts)
    marks = [
        text(0, 16, "chance to share a bucket", "curve-label start"),
        text(WIDTH, 16, f"{things} (log)", "count-label end"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, measure, "middle"),
    ]
    for tenth in range(0, 11, 2):
        share = tenth / 10
        marks += [
            rule(LEFT, _y(share), RIGHT, _y(share), "grid"),
            text(LEFT - 8, _y(share) + 4, f"{share:g}", "end"),
            text(_x(share), BOTTOM + 22, f"{share:g}", "middle"),
        ]
    step = math.ceil(decades / 6)
    for count in (1, *(10**power for power in range(step, decades + 1, step))):
        place = _y(log_share(count, 10**decades - 1)) + 4
        marks.append(text(RIGHT + 18, place, short(count), "start"))
    return marks


def short(number: int) -> str:
    """Abbreviate a number for an axis.

    >>> [short(n) for n in (10, 1_000, 100_000, 10**8, 10**10)]
    ['10', '1k', '100k', '100M', '10G']
    """
    for power, unit in ((9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number // 10**power}{unit}"
    return str(number)


def histogram(counts: NDArray[np.int64]) -> list[Html]:
    """Return the bars of the counts in each bin of `SIMILARITIES`, on a logarithmic scale."""
    top = 10 ** _decades(counts)
    width = _x(0.01) - _x(0) - 0.8
    bars = []
    for low, count in zip(SIMILARITIES.tolist(), counts.tolist(), strict=False):
        if not count:
            continue
        height = round((BOTTOM - TOP) * log_share(count, top - 1), 2)
        # Identical documents are drawn beside the plot: they are not a range of similarities.
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
    """Return the points of a curve, as an SVG polyline takes them."""
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
    """Return the marks of the threshold and of the share that a curve finds there."""
    x, y = _x(threshold), _y(recall)
    label = f"threshold {threshold:g}: {recall:.4f} found"
    anchor = "end" if threshold > 0.5 else "start"
    return [
        rule(x, TOP - 12, x, BOTTOM, "threshold"),
        tag("circle", cx=x, cy=y, r=5, class_="point"),
        text(x + (-6 if anchor == "end" else 6), TOP - 10, label, f"{anchor} strong"),
    ]


def spread(places: Sequence[float], apart: float, last: float) -> list[float]:
    """Move ascending places so that they are `apart`, and none is after `last` if they fit.

    >>> spread([0, 1, 2, 50], 10, 55)
    [0, 10, 20, 50]
    >>> spread([48, 49, 50], 10, 55)
    [35, 45, 55]
    """
    moved: list[float] = []
    for place in places:
        moved.append(max(place, moved[-1] + apart) if moved else place)
    for back in range(len(moved)):
        moved[-1 - back] = min(moved[-1 - back], last - apart * back)
    return moved


FEWEST_BANDS: Final = 64
FEWEST_ROWS: Final = 16
"""The sliders go at least this far."""


def explorer_script() -> Html:
    """Return the script of a page with a `CurveExplorer`."""
    return Html(Path(__file__).with_name("curves.js").read_text("utf-8"))


@dataclass(frozen=True)
class CurveExplorer:
    """An S-curve with sliders for bands and rows.

    Args:
        curve: the bands and rows to begin with.
        threshold: the similarity to mark.
        counts: the number of things in each bin of `SIMILARITIES`.
        things: what is counted, as a plural.
        slots: the slots of a sketch; more bands and rows would need a larger one.
    """

    curve: Curve
    threshold: float
    counts: NDArray[np.int64]
    things: str
    slots: int | None = None

    def shown(self, caption: str) -> Html:
        """Return the plot, its sliders and its numbers."""
        curve = self.curve
        plot = s_curve(curve, self.threshold, self.counts, self.things)
        controls = tag(
            "fieldset",
            tag("legend", "Try other bands"),
            _slider("bands", curve.bands, max(2 * curve.bands, FEWEST_BANDS)),
            _slider("rows", curve.rows, max(2 * curve.rows, FEWEST_ROWS)),
            tag("button", "reset", type="button"),
            hidden=True,
        )
        figure = tag("figure", plot, tag("figcaption", caption))
        return tag("div", figure, controls, self._numbers(), class_="curves", data_curves=self.data)

    @property
    def data(self) -> str:
        """The data of the script, as JSON."""
        frame = {
            "left": LEFT,
            "right": RIGHT,
            "top": TOP,
            "bottom": BOTTOM,
            "steps": STEPS,
        }
        numbers = {"threshold": self.threshold, "slots": self.slots, "found": self.found}
        return json.dumps(numbers | {"frame": frame})

    @property
    def found(self) -> list[tuple[float, int]]:
        """The similarities with their counts; a bin stands for its middle, 1 for itself."""
        return [
            (min(round(place / 100 + 0.005, 3), 1.0), count)
            for place, count in enumerate(self.counts.tolist())
            if count
        ]

    def expected(self) -> tuple[float, float | None]:
        """Return how many things are expected to share a bucket, and which share of those above the
        threshold."""
        chances = [(s, n, n * self.curve.probability(s)) for s, n in self.found]
        similar = sum(n for s, n, _ in chances if s >= self.threshold)
        meeting = sum(chance for s, _, chance in chances if s >= self.threshold)
        return sum(chance for *_, chance in chances), meeting / similar if similar else None

    def _numbers(self) -> Html:
        shown = (
            tag("div", tag("dt", term), _followed(name, value))
            for name, (term, value) in self.numbers().items()
        )
        return tag("dl", *shown)

    def numbers(self) -> dict[str, tuple[str, str]]:
        """Return the numbers beside the plot: by name, the term and the value."""
        curve, at = self.curve, self.threshold
        meeting, recall = self.expected()
        shown = {
            "slots": ("bands × rows = slots", f"{curve.bands} × {curve.rows} = {curve.slots}"),
            "recall": (f"share found at similarity {at:g}", _fixed(curve.probability(at), 4)),
            "estimate": ("threshold estimate, (1/b)^(1/r)", _fixed(curve.estimate, 3)),
            "inflection": ("steepest at similarity (inflection)", _fixed(curve.inflection, 3)),
            "half": ("half are found at similarity", _fixed(curve.half, 3)),
            "false-positives": (
                f"mean chance to share a bucket below {at:g} (false positives)",
                _fixed(curve.false_positive_rate(at), 4),
            ),
            "false-negatives": (
                f"mean chance to be missed from {at:g} on (false negatives)",
                _fixed(curve.false_negative_rate(at), 4),
            ),
        }
        if self.found:
            total = sum(count for _, count in self.found)
            shown["meeting"] = (
                f"expected to share a bucket, of {total:,} {self.things}",
                f"{int(meeting + 0.5):,}",
            )
            share = "none is" if recall is None else _fixed(recall, 4)
            shown["found"] = (f"expected share of those at least {at:g} similar", share)
        return shown


def _fixed(value: float, digits: int) -> str:
    """Round as the script does: halves go up."""
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))


def _followed(name: str, value: str) -> Html:
    """Return a number that the sliders change; a screen reader announces the recall alone."""
    spoken = {"aria_live": "polite"} if name == "recall" else {}
    return tag("dd", value, data_value=name, **spoken)


def _slider(name: str, value: int, most: int) -> Html:
    """Return a slider with its label, and its value as text."""
    slider = Html(f'<input type="range" min="1" max="{most}" value="{value}">')
    return tag("label", tag("span", name), slider, tag("output", str(value)))
