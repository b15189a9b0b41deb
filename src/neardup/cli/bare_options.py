"""Options that take a value or none: `--save-sketches`, and `--save-sketches parquet`.

A word behind such an option is its value only if it is one of its choices, so that inputs may
follow: an input of that name is written ./parquet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

PARQUET: Final = "parquet"
BARE: Final = {"--save-sketches": (PARQUET,)}
"""Option -> the values that it may have."""
YES, NO = "true", "false"
"""What such an option has instead of a value: given without one, or switched off in a file."""


def complete_bare(args: Sequence[str]) -> list[str]:
    """Return the arguments of a command in which each such option has a value.

    >>> complete_bare(["a", "--save-sketches", "b", "--save-sketches", "parquet"])
    ['a', '--save-sketches=true', 'b', '--save-sketches=parquet']
    """
    completed: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*completed, word, *rest]
        if word in BARE:
            word += "=" + (rest.pop(0) if rest and rest[0] in BARE[word] else YES)
        completed.append(word)
    return completed


def takes_bare(parameter: Any) -> bool:
    """Return whether a parameter of a command is such an option."""
    return not BARE.keys().isdisjoint(parameter.opts)


def read_bare(value: str | None) -> Any:
    """Return the value of such an option: True if it was given without one, False if not at all."""
    if value is None or value == NO:
        return False
    return True if value == YES else value
