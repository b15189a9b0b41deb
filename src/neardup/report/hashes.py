"""How do hash functions compare? A page with bars and the table behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from neardup.evaluation.hashes import Figures, Theory
from neardup.report.frame import whole
from neardup.report.html import Html, joined, note, table, tag
from neardup.report.plots import bar

COLUMNS: Final = (
    "function",
    "words, MB/s",
    "3 KB, MB/s",
    "avalanche",
    "worst bit",
    "collisions",
    "chain",
)
MEANING: Final = (
    "MB a second on short words and on 3 KB; how far from one half the chance is that an input bit "
    "turns an output bit over, on average and at worst; words whose lower 32 bits another has too; "
    "the longest chain in a table of half as many buckets as words.",
    "sha256, blake2b and Python's hash are called a word at a time, the others are compiled loops.",
    "fnv1a does not mix downwards: its lowest bit depends on nothing but the bytes' lowest bits.",
    "siphash, with a key, is for texts by people who could plan around a hash that they know.",
    "Python's hash is never used: each process seeds it anew, so what one process has made, "
    "another could not compare.",
)


def page(found: Sequence[Figures], expected: Theory, about: str) -> Html:
    """The whole page."""
    return whole(
        "neardup: hash functions",
        tag("p", "neardup", class_="brand"),
        tag("h1", "Hash functions on this machine"),
        tag("p", about),
        _bars("Speed on short words, MB/s", found, lambda one: one.words_mb_s, ",.0f"),
        _bars("Speed on 3 KB, MB/s", found, lambda one: one.long_mb_s, ",.0f"),
        _bars("Worst bit, off one half by", found, lambda one: one.avalanche_worst, ".3f"),
        tag("h2", "All figures"),
        table("All figures", COLUMNS, cells(found, expected), COLUMNS[1:]),
        *map(note, MEANING),
    )


def cells(found: Sequence[Figures], expected: Theory) -> list[list[str]]:
    """The rows of the table, as people read numbers; the last is what theory says."""
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
    title: str, found: Sequence[Figures], value: Callable[[Figures], float], form: str
) -> Html:
    most = max(map(value, found)) or 1.0
    rows = ((one.name, format(value(one), form), bar(value(one) / most)) for one in found)
    return joined([tag("h2", title), table(title, ("function", "figure", ""), rows, ("figure",))])
