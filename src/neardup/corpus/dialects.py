"""How a CSV file separates and quotes its fields. Imports no PyArrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from neardup.errors import ParameterError

DELIMITERS: Final = {"csv": ",", "tsv": "\t"}
"""Format -> its delimiter, unless another one is given."""
_NAMED_DELIMITERS: Final = {"tab": "\t", "\\t": "\t", "^A": "\x01", "space": " "}
_NO_QUOTE: Final = "none"


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
