"""neardup hashes: how fast and how random hash functions are on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neardup.evaluation.hashes import Figures, Theory


def hashes(
    keys: Annotated[
        int,
        typer.Option(
            metavar="N", min=1_000, max=10_000_000, help="How many different words to hash."
        ),
    ] = 500_000,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Also write a page with the figures as bars.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure hash functions: speed, avalanche, collisions and the longest chain of a table.

    The first four are those of neardup dedup --hash; the others are there for comparison.
    """
    from neardup.evaluation.hashes import buckets_for, measure, theory
    from neardup.formats.tables import write_text

    found, expected = measure(keys), theory(keys)
    about = f"{keys:,} different words; a table of {buckets_for(keys):,} buckets"
    if plot is not None:
        from neardup.report.hashes import page

        write_text(plot, page(found, expected, about))
    show(found, expected, about, as_json)


def show(found: list[Figures], expected: Theory, about: str, as_json: bool) -> None:
    """The table, on standard output."""
    if as_json:
        import json
        from dataclasses import asdict

        record = {"functions": [asdict(one) for one in found], "theory": asdict(expected)}
        print(json.dumps({"about": about} | record, indent=2))
        return
    from textwrap import fill

    from neardup.report.hashes import COLUMNS, MEANING, cells

    for row in (COLUMNS, *cells(found, expected)):
        print(f"{row[0]:18}" + "".join(f"{cell:>13}" for cell in row[1:]))
    for text in ("", f"{about}.", *MEANING):
        print(fill(text, 100))
