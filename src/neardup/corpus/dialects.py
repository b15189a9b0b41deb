"""How a CSV file separates and quotes its fields. Imports no PyArrow."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from neardup.errors import ParameterError

DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
"""Format -> its delimiter, unless another one is given."""
_NAMED_DELIMITERS: Final = {"tab": "\t", "\\t": "\t", "^A": "\x01", "space": " "}
_NO_QUOTE: Final = "none"
LIKELY_DELIMITERS: Final = ",;\t|"
# Names of columns are short; a text may be anything.
_NAME: Final = re.compile(r"[^\W\d][\w.:/()%#@-]*(?: [\w.:/()%#@-]+){0,2}")
_LONGEST_NAME: Final = 40
_LEAST_EVEN: Final = 0.9
"""The least share of lines with as many fields as the first one has."""


@dataclass(frozen=True)
class Dialect:
    """How the fields of a CSV file are written.

    Attributes:
        delimiter: The character between fields; None for that of the format.
        quote: The character around fields, doubled inside of them; None if quotes are text.
        header: Whether the first record has the names of the columns; else they are 1, 2, 3 ...
    """

    delimiter: str | None = None
    quote: str | None = '"'
    header: bool = True


USUAL: Final = Dialect()
"""The dialect of a file for which nothing else is stated."""


def check_dialect(delimiter: str | None = None, quote: str = '"', header: bool = True) -> Dialect:
    """Return the dialect that a user asks for; raise `ParameterError` if it can't be.

    >>> check_dialect("tab", "none")
    Dialect(delimiter='\\t', quote=None, header=True)

    Args:
        delimiter: A character, `tab`, `space` or `^A`; None for that of the format.
        quote: A character, or `none`.
        header: Whether files begin with the names of the columns.
    """
    between = None if delimiter is None else _NAMED_DELIMITERS.get(delimiter, delimiter)
    around = None if quote == _NO_QUOTE else quote
    for name, sign in (("delimiter", between), ("quote", around)):
        if sign is not None and (len(sign) != 1 or not sign.isascii() or sign in "\r\n\0"):
            other = "tab, space or ^A" if name == "delimiter" else "none"
            raise ParameterError(f"--{name} must be one ASCII character or {other}")
    if between is not None and between == around:
        raise ParameterError(f"--delimiter and --quote are both {between!r}: choose two characters")
    return Dialect(between, around, header)


def show_delimiter(delimiter: str) -> str:
    """Return a delimiter as it is typed after `--delimiter`.

    >>> show_delimiter("\\t"), show_delimiter(";")
    ('tab', "';'")
    """
    return "tab" if delimiter == "\t" else f"'{delimiter}'"


def is_header(fields: Sequence[str]) -> bool:
    """Return whether fields look like names of columns; some may be empty.

    >>> is_header(["id", "title (en)"]), is_header(["It was late", " and it rained."])
    (True, False)
    """
    return all(len(name) <= _LONGEST_NAME and _NAME.fullmatch(name) for name in fields if name)


def find_delimiter(text: str, is_whole: bool = True) -> str | None:
    r"""Return the delimiter by which a text is a table with a header; None if it is none.

    >>> find_delimiter("nr;titel\n1;eins\n2;zwei\n"), find_delimiter("One, two\nthree, four\n")
    (';', None)

    Args:
        text: The beginning of a file.
        is_whole: Whether it is the whole file, not only the beginning.
    """
    for delimiter in LIKELY_DELIMITERS:
        rows = _split(text, delimiter, is_whole)
        widths = [len(row) for row in rows]
        if len(rows) < 2 or widths[0] < 2 or widths[1] != widths[0]:
            continue
        even = widths.count(widths[0]) >= _LEAST_EVEN * len(rows)
        if even and all(rows[0]) and len({*rows[0]}) == len(rows[0]) and is_header(rows[0]):
            return delimiter
    return None


def _split(text: str, delimiter: str, is_whole: bool) -> list[list[str]]:
    """Return the records of a text, none if it can't have any; without one that may be cut."""
    rows: list[list[str]] = []
    try:
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True):
            rows += [row] if row else []
    except csv.Error:
        if is_whole:
            return []
    return rows if is_whole else rows[:-1]
