"""What neardup tune prints: a table of the trials that fits the terminal, and the advice."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neardup.cli.shared import console_of
from neardup.report.tuning import FIGURES

if TYPE_CHECKING:
    from neardup.planner.trial import Point
    from neardup.planner.tuning import Tuning

WIDTH = 100
"""Of a table that is not shown on a terminal."""
MOST = 1_000
"""Wider than any table."""
LEFT_OUT = ("bucket", "pairs", "t_sig s", "t_rest s", "candidates", "MB")
"""What is not shown where there is no room, the first of them first; sweep.csv has all of it."""
VARYING: dict[str, Callable[[Point], str]] = {
    "bits": lambda point: str(point.bits),
    "shingle": lambda point: point.shingle,
    "threshold": lambda point: f"{point.threshold:g}",
    "verify": lambda point: point.verify,
    "buckets": lambda point: "" if point.buckets is None else str(point.buckets),
    "vocabulary": lambda point: "" if point.vocabulary is None else str(point.vocabulary),
}
"""What is shown of points if they differ in it."""


def show(tuning: Tuning, out: Path | None, as_json: bool, quiet: bool) -> None:
    """The table and what follows from it, on standard output."""
    if as_json:
        import json

        print(json.dumps(tuning.to_json(), indent=2))
    elif not quiet:
        console = console_of(WIDTH)
        console.print(about(tuning))
        found, width = fitting(tuning, console)
        room, console.width = console.width, max(console.width, width)
        console.print(found)
        console.width = room
        console.print(legend(tuning))
        for line in tuning.reasons:
            console.print(line)
        if out is not None:
            console.print(f"{out / 'tuned.toml'} is for neardup dedup --config", soft_wrap=True)


def about(tuning: Tuning) -> str:
    """What was tried, on what."""
    reference = tuning.reference
    found = f"{tuning.true_pairs:,} pairs are" if tuning.true_pairs else "no pair is"
    copies = f"; {tuning.copies:,} identical ones are left out" if tuning.copies else ""
    lines = [
        f"{tuning.about}{copies}.",
        f"Of the {tuning.sampled:,} that are left, {found} at least {reference.threshold:g} "
        f"similar ({reference.shingle} shingles, every pair compared).",
        *(f"Not tried: {many:,} x {why}." for why, many in tuning.pruned.items()),
    ]
    return "\n".join(lines)


def legend(tuning: Tuning) -> str:
    """What the marks and the columns mean."""
    return (
        f"> recommended, d the default for a recall of {tuning.recall:g}; t_sig and t_rest of the "
        "sample, all s of all documents, on one core"
    )


def fitting(tuning: Tuning, console: Any) -> tuple[Any, int]:
    """The table with as many columns as there is room for, and its width.

    It is wider than the room only if nothing more can be left out: nothing is cut.
    """
    for count in range(len(LEFT_OUT) + 1):
        found = table(tuning, LEFT_OUT[:count])
        width = console.measure(found, options=console.options.update(max_width=MOST)).maximum
        if width <= console.width:
            break
    return found, width


def table(tuning: Tuning, left_out: Collection[str]) -> Any:
    """A row for each trial."""
    from rich.table import Table

    points = [row.point for row in tuning.rows]
    varying = [name for name, cell in VARYING.items() if len(set(map(cell, points))) > 1]
    shown = [name for name in FIGURES if name not in left_out]
    heads = ["", "sketch", "slots", "bands", *varying, *shown]
    found = Table(*heads, box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in found.columns:
        column.no_wrap = True
    for column in found.columns[2:]:
        column.justify = "right"
    for row in tuning.ordered:
        point, best = row.point, row is tuning.best
        mark = ">" if best else "d" if row is tuning.default else ""
        bands = "" if point.bands is None else f"{point.bands}x{point.rows}"
        cells = [mark, point.sketch, str(point.slots), bands]
        cells += [VARYING[name](point) for name in varying]
        cells += [FIGURES[name](row) for name in shown] if row.done else [row.status]
        found.add_row(*cells, style="bold" if best else None)
    return found
