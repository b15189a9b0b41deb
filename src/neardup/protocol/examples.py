"""`FormatExample`: what is given and what is to be computed of it; one line of a file.

Numbers of 64 bits are written as 16 hexadecimal digits, because JavaScript's numbers can't hold
them; slots of 32 bits as 8 digits; bytes as two digits each.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from neardup.spec import Spec

Given: TypeAlias = Mapping[str, Any]
Expected: TypeAlias = dict[str, Any]
Compute: TypeAlias = Callable[[Given], Expected]
"""Computes all results of what is given: one for each kind of example."""


@dataclass(frozen=True)
class FormatExample:
    """What is given to a computation of some kind."""

    kind: str
    name: str
    given: Given

    def line(self, expected: Expected) -> str:
        """Return the line of a file: JSON in ASCII with sorted keys."""
        return json.dumps(
            {"kind": self.kind, "name": self.name, "given": self.given, "expected": expected},
            sort_keys=True,
            separators=(",", ":"),
        )


def word16(number: int) -> str:
    """Return a number of 64 bits as 16 hexadecimal digits.

    >>> word16(255)
    '00000000000000ff'
    """
    return f"{number:016x}"


def words16(numbers: Iterable[int]) -> list[str]:
    return [word16(number) for number in numbers]


def slots_in_hex(slots: Iterable[int], width: int) -> list[str]:
    """Return slots of 32 or 64 bits as 8 or 16 hexadecimal digits each."""
    return [f"{slot:0{width // 4}x}" for slot in slots]


def numbers_of(words: Iterable[str]) -> list[int]:
    return [int(word, 16) for word in words]


def signed(word: str) -> int:
    """Return the number of 16 digits in two's complement.

    >>> signed("ffffffffffffffff")
    -1
    """
    return int.from_bytes(bytes.fromhex(word), "big", signed=True)


def spec_of(given: Given) -> Spec:
    return Spec.from_json(given["spec"])


def is_valid(text: str) -> bool:
    """Return whether a text has no lone surrogate: only then it is valid Unicode."""
    return not any("\ud800" <= c <= "\udfff" for c in text)
