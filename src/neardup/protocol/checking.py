"""Check files of examples that another implementation has written: `neardup spec --check`.

Each line is computed again by the kernels of what is given there, so that a file may have other
examples than ours, or fewer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, InputError, NeardupError
from neardup.protocol import by_kernels
from neardup.protocol.examples import FormatExample

FIELDS: Final = {"kind", "given", "expected"}
RAW: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors of the standard library that what is given in a line may lead to."""


@dataclass(frozen=True)
class WrongField:
    """The first value in which two results differ.

    Attributes:
        field: Where it is: `expected.slots[3]`.
        found: The value of the file, as JSON; empty if it has none.
        right: The value that it must have, as JSON; empty if there must be none.
        why: What may have gone wrong, or nothing.
    """

    field: str
    found: str
    right: str
    why: str = ""

    def __str__(self) -> str:
        if not self.found:
            return f"{self.field} is missing, it must be {_short(self.right)}"
        if not self.right:
            return f"{self.field} is {_short(self.found)}, there must be none"
        cause = f": {self.why}" if self.why else ""
        return f"{self.field} is {_short(self.found)}, it must be {_short(self.right)}{cause}"


def check_examples(path: Path) -> int:
    """Compute each line of a file again; return how many there are.

    Raises `FormatError` at the first that differs, which names its line and field.

    Args:
        path: A file of the form of `spec/vectors/1/*.jsonl`.
    """
    count = 0
    for place, example, stated in read_examples(path):
        count += 1
        try:
            right = by_kernels.COMPUTE[example.kind](example.given)
        except (*RAW, NeardupError) as error:
            raise FormatError(
                f"{place}: the results of {_described(example)} can't be computed "
                f"({type(error).__name__}: {error}): check what is given"
            ) from None
        difference = find_difference(stated, right, "expected")
        if difference is not None:
            raise FormatError(f"{place}: {_described(example)}: {difference}")
    if not count:
        raise FormatError(f"{path} has no examples: write one a line, as in spec/vectors")
    return count


def read_examples(path: Path) -> Iterator[tuple[str, FormatExample, Any]]:
    """Yield the place of each line, its example, and the results that it states."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    place = f"{path}:{number}"
                    yield place, *_parse(line, place)
    except OSError as error:
        raise InputError(f"{path} can't be read ({error.strerror}): check the file") from None


def _parse(line: bytes, place: str) -> tuple[FormatExample, Any]:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{place} is not JSON ({error}): write one example a line") from None
    if not isinstance(values, dict) or not set(values) >= FIELDS:
        raise FormatError(f"{place} is no example: it needs kind, given and expected")
    if not isinstance(values["given"], dict):
        raise FormatError(f"{place} is no example: given must be an object")
    if not isinstance(values["kind"], str) or values["kind"] not in by_kernels.COMPUTE:
        known = ", ".join(by_kernels.COMPUTE)
        raise FormatError(f"{place}: kind {values['kind']!r} is not known: use one of {known}")
    return FormatExample(values["kind"], str(values.get("name", "")), values["given"]), values[
        "expected"
    ]


def find_difference(found: Any, right: Any, field: str) -> WrongField | None:
    """Return the first value in which a result differs from the right one, None if none does.

    Fields are compared in the order in which they are computed: slots before the bytes of them.
    """
    if isinstance(right, Mapping) and isinstance(found, dict):
        for name in {**right, **found}:
            where = f"{field}.{name}"
            if name not in found:
                return WrongField(where, "", _as_json(right[name]))
            if name not in right:
                return WrongField(where, _as_json(found[name]), "")
            if different := find_difference(found[name], right[name], where):
                return different
        return None
    if isinstance(right, list) and isinstance(found, list):
        return _find_in_lists(found, right, field)
    if isinstance(right, str) and isinstance(found, str):
        return _find_in_digits(found, right, field)
    # True is 1 in Python; a whole float64 is written without a point in JavaScript.
    if isinstance(found, bool) is isinstance(right, bool) and found == right:
        return None
    return WrongField(field, _as_json(found), _as_json(right))


def _find_in_lists(found: list[Any], right: list[Any], field: str) -> WrongField | None:
    for place, (one, other) in enumerate(zip(found, right, strict=False)):
        if different := find_difference(one, other, f"{field}[{place}]"):
            return different
    place = min(len(found), len(right))
    if len(found) < len(right):
        return WrongField(f"{field}[{place}]", "", _as_json(right[place]))
    if len(found) > len(right):
        return WrongField(f"{field}[{place}]", _as_json(found[place]), "")
    return None


def _find_in_digits(found: str, right: str, field: str) -> WrongField | None:
    if found == right:
        return None
    at = next((i for i, (a, b) in enumerate(zip(found, right, strict=False)) if a != b), None)
    at = min(len(found), len(right)) if at is None else at
    why = _guess_cause(found, right, at)
    if len(right) > 2 * SHOWN:
        begin = at // 2 * 2
        field = f"{field}, byte {at // 2}"
        found, right = found[begin : begin + SHOWN], right[begin : begin + SHOWN]
    return WrongField(field, _as_json(found), _as_json(right), why)


def _guess_cause(found: str, right: str, at: int) -> str:
    """Return what probably went wrong with hexadecimal digits that differ from a place on."""
    if found.lower() == right:
        return "digits are in lower case"
    for size in (16, 8):
        begin = at // 2 * 2 if len(right) > size else 0
        mine, theirs = right[begin : begin + size], found[begin : begin + size]
        if len(mine) == size and mine == "".join(pairs_of(theirs)[::-1]):
            return "its bytes are in the other order"
    return ""


def pairs_of(digits: str) -> list[str]:
    """Return the digits of each byte.

    >>> pairs_of("0a1b")
    ['0a', '1b']
    """
    places = range(0, len(digits) + 1, 2)
    return [digits[start:end] for start, end in pairwise(places)]


SHOWN: Final = 32
"""The most digits that a message shows of long values."""


def _short(text: str) -> str:
    return text if len(text) <= 3 * SHOWN else f"{text[: 3 * SHOWN]}..."


def _as_json(value: Any) -> str:
    return json.dumps(value)


def _described(example: FormatExample) -> str:
    return f"{example.kind} {example.name!r}" if example.name else example.kind
