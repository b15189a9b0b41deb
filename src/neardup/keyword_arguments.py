"""The keyword arguments of the library's functions, which the table of options describes."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from textwrap import fill, indent
from typing import Any, Final, TypeVar

from neardup.errors import NeardupError, ParameterError
from neardup.option_table import Option, all_rows, options_at, why_not

F = TypeVar("F", bound=Callable[..., Any])


OTHER_NAMES: Final = {"subset": "text", "column": "text", "columns": "text", "on": "text"}
"""Arguments of similar methods in other libraries -> the argument that is meant."""
_SHORT: Final = {"o": "out"}
"""Options of one letter in messages -> the argument."""


def takes_options(
    place: str,
    other: Callable[..., Any] | None = None,
    called: str = "",
    is_command: bool = True,
) -> Callable[[F], F]:
    """Describe the options of a function with `**options: Unpack[...]`; refuse other names.

    Its signature names each option with type and default, and so does its docstring, in place of
    the entry `**options:` in the section "Args:".

    Args:
        place: The function's name in `PLACES`.
        other: A function whose parameters with defaults are options too, as it describes them.
        called: The name in messages, if it is not that of the place.
        is_command: Whether a command calls it too, so that errors name options as it does; else
            they name arguments.
    """
    rows = options_at(place)
    passed_on = {} if other is None else dict(inspect.signature(other).parameters)
    passed_on = {name: p for name, p in passed_on.items() if p.default is not p.empty}
    described = "" if other is None else other.__doc__ or ""

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        fixed += [p.replace(kind=p.KEYWORD_ONLY) for p in passed_on.values()]
        named = [
            inspect.Parameter(
                row.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=row.default,
                annotation=row.annotation,
            )
            for row in rows.values()
        ]
        possible = {p.name for p in fixed} | set(rows)

        @functools.wraps(function)
        def checked(*args: Any, **options: Any) -> Any:
            if not options.keys() <= possible:
                options = _possible_options(options, possible, place, called or place)
            if is_command:
                return function(*args, **options)
            with _name_arguments({p.name: p.default is False for p in (*fixed, *named)}):
                return function(*args, **options)

        checked.__signature__ = signature.replace(parameters=[*fixed, *named])  # type: ignore[attr-defined]
        entries = _find_entries(described, passed_on)
        checked.__doc__ = _describe_arguments(function.__doc__ or "", entries, rows)
        return checked  # type: ignore[return-value]

    return decorate


_OPTION: Final = re.compile(
    r"(?<![\w-])--?([a-z]+(?:-[a-z]+)*)"
    r"(?: ('[^']*'|[\d.]+(?=\s|$)|[\w*.]+(?=[,;:)]\s|$| if )))?"
)
"""An option in a message, with its value if that is quoted, a number, or the end of a clause."""
_REPEATED: Final = re.compile(r"\b(\w+)=('[^']*')((?: \1='[^']*')+)")
_IN_PYTHON: Final = re.compile(r" \(in Python: [^)]*\)")
_COMMAND: Final = re.compile(r"\bneardup [a-z]")


@contextmanager
def _name_arguments(arguments: Mapping[str, bool]) -> Iterator[None]:
    """Let errors that name options of the command line name the arguments instead.

    Args:
        arguments: The names of a function's arguments, and whether each is a flag.
    """
    try:
        yield
    except NeardupError as error:
        if not _COMMAND.search(str(error)):
            error.args = (_rename_options(str(error), arguments), *error.args[1:])
        raise


def _rename_options(message: str, arguments: Mapping[str, bool]) -> str:
    """Return a message with arguments instead of options.

    >>> _rename_options("drop --strict, or use --format csv", {"strict": True, "format": False})
    "drop strict=True, or use format='csv'"
    >>> _rename_options("give --include '*.md' --include '*.csv'", {"include": False})
    "give include=['*.md', '*.csv']"
    >>> _rename_options("use --force (in Python: force=True)", {"force": True})
    'use force=True'
    """

    def name_argument(option: re.Match[str]) -> str:
        name, value = _SHORT.get(option[1], option[1]).replace("-", "_"), option[2]
        if name not in arguments:
            return option[0]
        if arguments[name]:
            return f"{name}=True" + (f" {value}" if value else "")
        is_literal = value is None or value[0] == "'" or value[0].isdigit()
        return f"{name}={(value or '') if is_literal else repr(value)}"

    def join_values(repeated: re.Match[str]) -> str:
        others = repeated[3].replace(f" {repeated[1]}=", ", ")
        return f"{repeated[1]}=[{repeated[2]}{others}]"

    message = _OPTION.sub(name_argument, _IN_PYTHON.sub("", message))
    return _REPEATED.sub(join_values, message)


def _possible_options(
    options: dict[str, Any], possible: set[str], place: str, called: str
) -> dict[str, Any]:
    """Drop options of other places at their default, which a config file may contain.

    An unknown option, or one of another place with another value, is refused.
    """
    for name in options.keys() - possible:
        row = all_rows().get(name)
        if row is None:
            meant = [OTHER_NAMES[name]] if OTHER_NAMES.get(name) in possible else []
            near = meant or get_close_matches(name, possible, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"{called}() got an unexpected keyword argument {name!r}{hint}")
        if options[name] not in (None, row.default):
            raise ParameterError(f"{name} is not supported by {called}: {why_not(name, place)}")
    return {name: value for name, value in options.items() if name in possible}


def _find_entries(docstring: str, names: Iterable[str]) -> list[str]:
    """Return the lines by which a docstring describes some of its parameters."""
    lines = docstring.split("\n")
    return [line for name in names for line in lines[slice(*_find_entry(lines, f"{name}:")[:2])]]


def _find_entry(lines: list[str], beginning: str) -> tuple[int, int, str]:
    """Return where the entry that begins like this starts and ends, and its margin."""
    start = next((n for n, line in enumerate(lines) if line.lstrip().startswith(beginning)), -1)
    if start < 0:
        return 0, 0, ""
    margin = lines[start][: len(lines[start]) - len(lines[start].lstrip())]
    end = start + 1
    while end < len(lines) and lines[end].startswith(margin + "    "):
        end += 1
    return start, end, margin


def _describe_arguments(docstring: str, entries: list[str], rows: Mapping[str, Option]) -> str:
    """Return the docstring with these entries and one for each row instead of `**options:`."""
    lines = docstring.split("\n")
    start, end, margin = _find_entry(lines, "**options:")
    if not end:
        return docstring
    for row in rows.values():
        default = f", default {row.without}" if row.without else ""
        text = f"{row.name} ({row.type_name}{default}): {row.explained}".replace("--", "")
        entries += indent(fill(text, 96 - len(margin), subsequent_indent="    "), margin).split(
            "\n"
        )
    return "\n".join([*lines[:start], *entries, *lines[end:]])
