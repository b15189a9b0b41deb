"""Find the list of records inside of a JSON object, such as `{"data": [...]}` (`--records data`).

What is around the list is small: it is read as a whole, and checked when the list has ended.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from neardup.corpus.format_table import BOM
from neardup.corpus.streams import SKIP
from neardup.errors import InputError, MissingInput

MOST_AROUND: Final = 16 << 20
"""The most bytes before the list, and after it."""
_MOST_NAMED, _LONGEST_NAME, _DEEPEST = 5, 60, 3
"""Of the lists that a message names: how many, how long their names, how deep inside of objects."""
_TOKEN: Final = re.compile(rb'[^"{}\[\]:,]+|"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]', re.DOTALL)


class Wrapping:
    """What is around the list of records in a file.

    Args:
        file: The name of the file, for messages.
        name: The field that has the list; with dots, a field inside of others.
    """

    def __init__(self, file: str, name: str) -> None:
        self._file, self._name = file, name
        self._head, self._tail = bytearray(), bytearray()
        self._find_list = _ListFinder(name)

    def find(self, piece: bytes) -> tuple[bytes, bytes] | None:
        """Return what is before the list, and the rest that begins with it; None if not known yet.

        Args:
            piece: The next bytes of the file.
        """
        self._head += piece
        start = self._find_list(self._head)
        if start is not None:
            rest = bytes(self._head[start:])
            del self._head[start:]
            return bytes(self._head), rest
        self._check_size(self._head)
        return None

    def add_tail(self, piece: bytes) -> None:
        """Add bytes that follow the list."""
        self._tail += piece
        self._check_size(self._tail)

    def check(self, is_found: bool) -> None:
        """Raise `InputError` unless the list was found, and the whole is one JSON object.

        Args:
            is_found: Whether the list was found.
        """
        whole = bytes(self._head + b"[]" * is_found + self._tail)
        try:
            value: Any = json.loads(whole.removeprefix(BOM))
        except (ValueError, RecursionError):
            raise InputError(
                f"{self._file}: truncated or broken JSON around the list {self._name!r} "
                f"(--records): {SKIP}",
                self._file,
            ) from None
        if not is_found:
            found = ", ".join(map(repr, islice(_list_lists(value), _MOST_NAMED)))
            raise MissingInput(
                f"{self._file}: it has no list {self._name!r} (--records): "
                + (f"name one that it has ({found})" if found else "leave it out"),
                self._file,
            )
        if _get(value, self._name) != []:
            raise InputError(
                f"{self._file}: it has two lists {self._name!r} (--records): write each to a file "
                "of its own",
                self._file,
            )

    def _check_size(self, around: bytearray) -> None:
        if len(around) > MOST_AROUND:
            where = "before" if around is self._head else "after"
            raise InputError(
                f"{self._file}: more than {MOST_AROUND >> 20} MiB {where} the list {self._name!r} "
                "(--records): write the list to a file of its own",
                self._file,
            )


class _ListFinder:
    """Finds where the list of a field begins, in data that grows."""

    def __init__(self, name: str) -> None:
        self._wanted = ([name], name.split("."))
        self._path: list[str | None] = []  # the field of each open object; None in a list
        self._at, self._before = 0, b""

    def __call__(self, data: bytes | bytearray) -> int | None:
        """Return where the list begins; None if the data does not reach so far.

        Args:
            data: The data of the last call, and what follows.
        """
        path = self._path
        while found := _TOKEN.match(data, self._at):
            token = bytes(found[0])
            if token == b"[" and path in self._wanted and self._before == b":":
                return self._at
            if token in (b"{", b"["):
                path.append("" if token == b"{" else None)
            elif token in (b"}", b"]"):
                if not path:
                    return None  # the file is checked at its end
                path.pop()
            elif token.startswith(b'"') and self._before in (b"{", b",") and path:
                path[-1] = None if path[-1] is None else _decode_name(token)
            if not token.isspace():
                self._before = token
            self._at = found.end()
        return None


def find_list(data: bytes, name: str) -> int | None:
    """Return where the list of a field begins; None if the data does not reach so far.

    >>> find_list(b'{"count": 2, "data": [{}]}', "data")
    21
    """
    return _ListFinder(name)(data)


def _decode_name(token: bytes) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return ""  # the file is checked at its end


def _list_lists(value: Any, within: str = "") -> Iterator[str]:
    """Yield the names of the lists in an object, and in those inside of it, as --records takes."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        if isinstance(inner, list):
            yield (within + name)[:_LONGEST_NAME]
        elif within.count(".") < _DEEPEST:
            yield from _list_lists(inner, f"{within}{name}.")


def _get(value: Any, name: str) -> Any:
    """Return what a field has, or a field inside of others; None if there is no such field."""
    for field in [name] if isinstance(value, dict) and name in value else name.split("."):
        value = value.get(field) if isinstance(value, dict) else None
    return value
