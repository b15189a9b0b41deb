"""The pages of `neardup compare-sketches` and `neardup hashes`: a plot, and the table behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from neardup.evaluation.hash_functions import HashFigures, RandomFunction
from neardup.evaluation.sketch_comparison import SketchFigures
from neardup.report.html import Html, join, make_page, note, table, tag
from neardup.report.plots import bar, drawing, rule, spread, text

WIDTH: Final = 720
HEIGHT: Final = 400
LEFT: Final = 64
RIGHT: Final = 400
LABELS: Final = 470
LINE: Final = 22
TOP: Final = 40
BOTTOM: Final = 340
SKETCH_COLUMNS: Final = (
    "sketch",
    "bytes",
    "MB/s",
    "mean error",
    "meet",
    "candidates",
    "recall",
    "precision",
)
SKETCH_MEANING: Final = (
    "Bytes of a stored signature; MB of text per second from text to signature on one core; mean "
    "distance of the estimate from the exact similarity; share of the similar pairs that share a "
    "bucket (recall with exact verification); candidate pairs per document; recall and precision "
    "when signatures alone decide."
)


def sketches_page(rows: Sequence[SketchFigures], about: str) -> Html:
    """Return the complete page."""
    return make_page(
        "neardup: sketches compared",
        tag("p", "neardup", class_="brand"),
        tag("h1", "Sketches compared"),
        tag("p", about),
        plot_sketches(rows),
        table("Sketches", SKETCH_COLUMNS, map(sketch_cells, rows), SKETCH_COLUMNS[1:]),
        note(SKETCH_MEANING),
    )


def sketch_cells(row: SketchFigures) -> list[str]:
    """Return a row of the table, formatted."""
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


def plot_sketches(rows: Sequence[SketchFigures]) -> Html:
    """Plot the bytes of a signature (logarithmic) against the mean error of its estimate."""
    shown = sorted((row for row in rows if row.error is not None), key=lambda row: -_error(row))
    if not shown:
        return note("No pair is more than 0.1 similar: there is nothing to plot.")
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
    return drawing("Bytes of a signature against its error", marks, WIDTH, HEIGHT)


def _error(row: SketchFigures) -> float:
    return row.error or 0.0


HASH_COLUMNS: Final = (
    "function",
    "words, MB/s",
    "3 KB, MB/s",
    "avalanche",
    "worst bit",
    "collisions",
    "chain",
)
HASH_MEANING: Final = (
    "MB per second on short words and on 3 KB; the deviation from one half of the probability that "
    "an input bit flips an output bit, on average and at worst; words whose lower 32 bits another "
    "word shares; the longest chain in a table of half as many buckets as words.",
    "sha256, blake2b and Python's hash are called a word at a time, the others are compiled loops.",
    "fnv1a does not mix downwards: its lowest bit depends on the lowest bits of the bytes alone.",
    "siphash, with a key, is for texts of authors who could exploit a known hash function.",
    "Python's hash is never used: each process seeds it differently, so that hashes of two "
    "processes can't be compared.",
)


def hashes_page(found: Sequence[HashFigures], expected: RandomFunction, about: str) -> Html:
    """Return the complete page."""
    return make_page(
        "neardup: hash functions",
        tag("p", "neardup", class_="brand"),
        tag("h1", "Hash functions on this machine"),
        tag("p", about),
        _bars("Speed on short words, MB/s", found, lambda one: one.words_mb_s, ",.0f"),
        _bars("Speed on 3 KB, MB/s", found, lambda one: one.long_mb_s, ",.0f"),
        _bars("Worst bit, off one half by", found, lambda one: one.avalanche_worst, ".3f"),
        tag("h2", "All figures"),
        table("All figures", HASH_COLUMNS, hash_cells(found, expected), HASH_COLUMNS[1:]),
        *map(note, HASH_MEANING),
    )


def hash_cells(found: Sequence[HashFigures], expected: RandomFunction) -> list[list[str]]:
    """Return the rows of the table, formatted; the last is that of a random function."""
    rows = [
        [
            one.name,
            f"{one.words_mb_s:,.0f}",
            f"{one.long_mb_s:,.0f}",
            f"{one.avalanche_mean:.4f}",
            f"{one.avalanche_worst:.3f}",
            f"{one.collisions:,}",
            str(one.longest_chain),
        ]
        for one in found
    ]
    return [
        *rows,
        [
            "a random function",
            "",
            "",
            "0.0000",
            f"{expected.avalanche_worst:.3f}",
            f"{expected.collisions:,.1f}",
            f"{expected.longest_chain:.1f}",
        ],
    ]


def _bars(
    title: str, found: Sequence[HashFigures], value: Callable[[HashFigures], float], form: str
) -> Html:
    most = max(map(value, found)) or 1.0
    rows = ((one.name, format(value(one), form), bar(value(one) / most)) for one in found)
    return join([tag("h2", title), table(title, ("function", "figure", ""), rows, ("figure",))])
