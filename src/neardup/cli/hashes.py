"""neardup hashes: how fast and how random hash functions are on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neardup.evaluate.hashes import Figures, Theory

HEADS = ("", "words", "3 KB", "avalanche", "worst bit", "32-bit", "longest")
UNITS = ("", "MB/s", "MB/s", "off by", "off by", "collisions", "chain")

NOTES = (
    "sha256, blake2b and Python's hash are called a word at a time, the others are compiled loops.",
    "fnv1a does not mix downwards: its lowest bit depends on nothing but the bytes' lowest bits.",
    "siphash, with a key, is for texts by people who could plan around a hash that they know.",
)


def hashes(
    keys: Annotated[int, typer.Option(
        metavar="N", min=1_000, max=10_000_000,
        help="How many different words to hash.")] = 500_000,
    plot: Annotated[Path | None, typer.Option(
        metavar="FILE", help="Also draw the figures: .png, .svg or .pdf. Needs neardup[plot].",
        show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:  # fmt: skip
    """Measure hash functions: speed, avalanche, collisions and the longest chain of a table.

    The first four are those of `neardup dedup --hash`; the others are there for comparison.
    """
    from dataclasses import asdict

    from neardup.evaluate.hashes import WHY_NOT_HASH, measure, theory

    if plot is not None:
        from neardup.evaluate.plots import require_plot_library

        require_plot_library(plot)
    found, expected = measure(keys), theory(keys)
    if plot is not None:
        from neardup.evaluate.plots import plot_hashes

        plot_hashes(found, expected, plot)
    if as_json:
        record = {"keys": keys, "functions": [*map(asdict, found)], "theory": asdict(expected)}
        print(json.dumps(record | {"why_not_hash": WHY_NOT_HASH}, indent=2))
        return
    print("\n".join(table(found, expected)))
    for note in ("", f"{keys:,} different words; a table of {keys // 2:,} buckets.", *NOTES):
        print(fill(note, 100))
    print(fill(WHY_NOT_HASH, 100))


def table(found: list[Figures], expected: Theory) -> list[str]:
    rows = [HEADS, UNITS]
    rows += [
        (one.name, f"{one.words_mb_s:,.0f}", f"{one.long_mb_s:,.0f}", f"{one.avalanche_mean:.4f}",
         f"{one.avalanche_worst:.3f}", f"{one.collisions:,}", f"{one.longest_chain}")
        for one in found
    ]  # fmt: skip
    rows.append(("a random function", "", "", "0.0000", f"{expected.avalanche_worst:.3f}",
                 f"{expected.collisions:,.1f}", f"{expected.longest_chain:.1f}"))  # fmt: skip
    return [f"{row[0]:18}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows]
