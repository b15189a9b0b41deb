"""The plots of a sweep: S-curves, error rates, recall by cost, bucket sizes; colours by slots."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.lsh.curve import Curve
from neardup.planner.tuning import TrialOutcome, TrialPoint
from neardup.report import plots
from neardup.report.html import Html, tag
from neardup.report.plots import rule, spread, text

WIDTH: Final = 640
HEIGHT: Final = 364
LEFT: Final = 52
RIGHT: Final = 620
LABELLED: Final = 350
TOP: Final = 40
BOTTOM: Final = 308
LINE: Final = 20
STEPS: Final = 50
MOST_CURVES: Final = 60
MOST_LABELS: Final = 12
TINTS: Final = 6

Scale = Callable[[float], float]


def curve_of(point: TrialPoint) -> Curve | None:
    """Return the S-curve of an operating point; None if it has no bands."""
    return None if point.bands is None or point.rows is None else Curve(point.bands, point.rows)


def shape(point: TrialPoint) -> str:
    """Return the sketch and the bands and rows of a point, or its slots if it has no bands.

    >>> shape(TrialPoint(bands=21, rows=6)), shape(TrialPoint(sketch="simhash", slots=64))
    ('minhash 21 × 6', 'simhash 64')
    """
    layout = f"{point.slots}" if point.bands is None else f"{point.bands} × {point.rows}"
    return f"{point.sketch} {layout}"


class Tints:
    """A colour for each number of slots."""

    def __init__(self, points: Iterable[TrialPoint]) -> None:
        self.slots = sorted({point.slots for point in points})

    def __getitem__(self, slots: int) -> str:
        return f"tint-{self.slots.index(slots) % TINTS}"

    def legend(self) -> Html:
        items = (
            tag("li", tag("span", class_=f"swatch {self[slots]}"), f"{slots:,} slots")
            for slots in self.slots
        )
        return tag("ul", *items, class_="legend")


def s_curves(
    points: Sequence[TrialPoint],
    best: TrialPoint,
    threshold: float,
    counts: NDArray[np.int64],
    tints: Tints,
) -> Html:
    """Plot the S-curves of all trials, the best in bold, over the similarities of the sample."""
    shapes = {curve: point.slots for point in points if (curve := curve_of(point))}
    lines = [
        tag(
            "polyline",
            tag("title", f"{curve}, {slots:,} slots"),
            points=plots.points(curve, STEPS),
            class_=f"line {tints[slots]}",
        )
        for curve, slots in list(shapes.items())[:MOST_CURVES]
    ]
    if chosen := curve_of(best):
        bold = f"line best {tints[best.slots]}"
        lines.append(tag("polyline", points=plots.points(chosen), class_=bold))
        lines += plots.threshold_mark(threshold, chosen.probability(threshold))
    return _drawing(
        "S-curves of the bands that were tried",
        [*plots.frame(counts, "pairs of the sample"), *plots.histogram(counts), *lines],
    )


def rates(points: Sequence[TrialPoint], threshold: float, tints: Tints) -> Html | None:
    """Plot false positives (dashed) and false negatives (dotted) by rows; None without any bands.

    Lines go through all whole divisions of the slots into bands; rings are trials.
    """
    tried = {(point.slots, curve) for point in points if (curve := curve_of(point))}
    if not tried:
        return None
    widest = max(slots for slots, _ in tried)
    x = _scale(0, max(math.log2(widest), 1), LEFT, RIGHT)
    y = _scale(0, 1, BOTTOM, TOP)
    marks = [
        *_shares(y, "rate"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, "rows of a band, with slots / rows bands", "middle"),
    ]
    marks += [
        text(x(power), BOTTOM + 20, f"{2**power:,}", "middle")
        for power in range(int(math.log2(widest)) + 1)
    ]
    for slots in sorted({slots for slots, _ in tried}):
        divided = [Curve(slots // rows, rows) for rows in range(1, slots + 1) if not slots % rows]
        for kind, rate in RATES.items():
            line = " ".join(
                f"{x(math.log2(curve.rows))},{y(rate(curve, threshold))}" for curve in divided
            )
            marks.append(tag("polyline", points=line, class_=f"line {kind} {tints[slots]}"))
    for slots, curve in sorted(tried, key=str):
        both = [rate(curve, threshold) for rate in RATES.values()]
        label = f"{curve}: false positives {both[0]:.4f}, false negatives {both[1]:.4f}"
        marks += [_ring(x(math.log2(curve.rows)), y(each), label, tints[slots]) for each in both]
    return _drawing("False positives and false negatives by rows and slots", marks)


RATES: Final[Mapping[str, Callable[[Curve, float], float]]] = {
    "dashed": Curve.false_positive_rate,
    "dotted": Curve.false_negative_rate,
}


def pareto(rows: Iterable[TrialOutcome]) -> list[TrialOutcome]:
    """Those for which nothing that is as cheap finds more, the cheapest first."""
    front: list[TrialOutcome] = []
    measured = [row for row in rows if row.done and row.recall is not None]
    for row in sorted(measured, key=lambda row: (row.t_all, -(row.recall or 0.0))):
        if not front or (row.recall or 0.0) > (front[-1].recall or 0.0):
            front.append(row)
    return front


def recall_by_cost(rows: Sequence[TrialOutcome], best: TrialOutcome, tints: Tints) -> Html | None:
    """Every finished trial; the front, along which more recall costs more, is a line.

    None where no trial has a recall.
    """
    measured = [row for row in rows if row.done and row.recall is not None]
    if not measured:
        return None
    low, high = _decades([row.t_all for row in measured])
    least = math.floor(10 * min(row.recall or 0.0 for row in measured) - 1e-9) / 10
    x, y = _scale(low, high, LEFT, LABELLED), _scale(max(least, 0.0), 1, BOTTOM, TOP)

    def place(row: TrialOutcome) -> tuple[float, float]:
        return x(math.log10(max(row.t_all, 10.0**low))), y(row.recall or 0.0)

    front = pareto(rows)
    marks = [
        *_shares(y, "recall", max(least, 0.0), LABELLED),
        text((LEFT + LABELLED) / 2, HEIGHT - 8, "seconds for all documents (log)", "middle"),
        tag("polyline", points=_stairs([place(row) for row in front], LABELLED), class_="front"),
    ]
    for power in range(low, high + 1):
        marks += [
            rule(x(power), TOP, x(power), BOTTOM),
            text(x(power), BOTTOM + 20, f"{10.0**power:g}", "middle"),
        ]
    for row in measured:
        label = f"{row.point}: recall {row.recall:.4f}, {row.t_all:.3g} s"
        marks.append(_ring(*place(row), label, tints[row.point.slots]))
    named = front[-MOST_LABELS:]
    if best in measured:
        marks.append(tag("circle", cx=place(best)[0], cy=place(best)[1], r=9, class_="chosen"))
        named = [*[row for row in named if row != best][1 - MOST_LABELS :], best]
    return _drawing("Recall against cost", [*marks, *_labels(named, best, place)])


def _labels(
    named: list[TrialOutcome],
    best: TrialOutcome,
    place: Callable[[TrialOutcome], tuple[float, float]],
) -> Iterator[Html]:
    """Yield the labels of trials, in a column on the right."""
    named.sort(key=lambda row: place(row)[1])
    heights = spread([place(row)[1] for row in named], LINE, BOTTOM)
    for row, height in zip(named, heights, strict=True):
        kind = "strong" if row == best else ""
        yield rule(*place(row), LABELLED + 14, height)
        words = f"{shape(row.point)}: {row.recall or 0.0:.4f}"
        yield text(LABELLED + 18, height + 4, words, kind)


def bucket_sizes(series: Sequence[tuple[str, Mapping[int, int]]]) -> Html | None:
    """Plot the number of buckets with 1 document, 2, 3 to 4, 5 to 8, and so on.

    Args:
        series: by name, the number of buckets of each size; one line for each.

    Returns:
        The plot; None if no series has a bucket.
    """
    classes = [(name, _by_powers(sizes)) for name, sizes in series if sizes]
    if not classes:
        return None
    last = max(max(counts) for _, counts in classes)
    decades = _decades([max(counts.values()) for _, counts in classes])[1]
    x, y = _scale(0, max(last, 1), LEFT + 12, RIGHT - 40), _scale(0, decades, BOTTOM, TOP)
    marks = [
        text(0, TOP - 22, "buckets (log)", "start"),
        text((LEFT + RIGHT) / 2, HEIGHT - 8, "documents in a bucket", "middle"),
    ]
    for power in range(decades + 1):
        marks += [
            rule(LEFT, y(power), RIGHT, y(power)),
            text(LEFT - 8, y(power) + 4, plots.short(10**power), "end"),
        ]
    step = math.ceil((last + 1) / 8)
    marks += [
        text(x(power), BOTTOM + 20, _range(power), "middle") for power in range(0, last + 1, step)
    ]
    for tint, (name, counts) in enumerate(classes):
        places = [(x(power), y(math.log10(many))) for power, many in sorted(counts.items())]
        line = " ".join(f"{left},{height}" for left, height in places)
        marks.append(tag("polyline", points=line, class_=f"line tint-{tint}"))
        for (left, height), (power, many) in zip(places, sorted(counts.items()), strict=True):
            label = f"{name}: {many:,} buckets of {_range(power)}"
            marks.append(_ring(left, height, label, f"tint-{tint}"))
    legend = (
        tag("li", tag("span", class_=f"swatch tint-{tint}"), name)
        for tint, (name, _) in enumerate(classes)
    )
    return tag("div", _drawing("Sizes of buckets", marks), tag("ul", *legend, class_="legend"))


def _by_powers(sizes: Mapping[int, int]) -> dict[int, int]:
    """Count buckets by the power of two that their size is rounded up to.

    >>> _by_powers({1: 5, 2: 1, 3: 2, 4: 1, 5: 1})
    {0: 5, 1: 1, 2: 3, 3: 1}
    """
    counts: dict[int, int] = {}
    for size, count in sorted(sizes.items()):
        power = (size - 1).bit_length()
        counts[power] = counts.get(power, 0) + count
    return counts


def _range(power: int) -> str:
    """Return the sizes that are rounded up to a power of two.

    >>> [_range(power) for power in range(4)]
    ['1', '2', '3–4', '5–8']
    """
    return str(1 << power) if power < 2 else f"{(1 << power - 1) + 1:,}–{1 << power:,}"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Return the powers of ten below and above the values; the second is larger."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    return low, max(high, low + 1)


def _scale(low: float, high: float, start: float, stop: float) -> Scale:
    return lambda value: round(start + (stop - start) * (value - low) / (high - low), 1)


def _shares(y: Scale, name: str, least: float = 0.0, right: float = RIGHT) -> Iterator[Html]:
    """Yield the axis of a share, from `least` to 1."""
    yield text(0, TOP - 22, name, "start")
    for step in range(6):
        share = least + (1 - least) * step / 5
        yield rule(LEFT, y(share), right, y(share))
        yield text(LEFT - 8, y(share) + 4, f"{share:.2f}", "end")


def _stairs(places: Sequence[tuple[float, float]], right: float) -> str:
    """Return the points of a step line that rises at each place and ends at `right`."""
    line: list[str] = []
    for left, height in places:
        if line:
            line.append(f"{left},{line[-1].split(',')[1]}")
        line.append(f"{left},{height}")
    return " ".join([*line, f"{right},{line[-1].split(',')[1]}"])


def _ring(x: float, y: float, label: str, kind: str) -> Html:
    return tag("circle", tag("title", label), cx=x, cy=y, r=4, class_=f"ring {kind}")


def _drawing(title: str, marks: Iterable[Html]) -> Html:
    return plots.drawing(title, marks, WIDTH, HEIGHT)
