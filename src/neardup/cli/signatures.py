"""The signatures of commands: options that come from tables, beside those that a command declares.

`with_options` gives a command the matching options of `option_table`, `with_input_options` those
about input files, `with_run_options` those of a run over files.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, get_type_hints

import typer

from neardup.cli.arguments import (
    INPUT_OPTIONS,
    KEEP,
    OUTPUT,
    RARE,
    RUN_OPTIONS,
    complete,
    option,
    read_number,
)
from neardup.cli.help import HELP_ALL, MANY, RARE_NAMES, HelpAll
from neardup.cli.option_values import without_replaced
from neardup.option_table import Option, given_options, options_at


def with_input_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options about its input files.

    The command takes them as one parameter, `input_options`, and gives them to `find_inputs`.
    """
    return _with_group(command, "input_options", INPUT_OPTIONS, _collect_input)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a run over files, those about its input files included.

    The command takes them as one parameter, `run_options`, and gives them to `make_job`.
    """
    return _with_group(command, "run_options", RUN_OPTIONS, _collect_run)


def _collect_input(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}


def _collect_run(given: dict[str, Any]) -> dict[str, Any]:
    options = _collect_input({name: given.pop(name) for name in INPUT_OPTIONS})
    return given | {"input_options": options}


def _with_group(
    command: Callable[..., None],
    group: str,
    members: Mapping[str, tuple[Any, Any]],
    collect: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[..., None]:
    """Give a command several options in the place of one parameter.

    Args:
        command: The command.
        group: The parameter of the command that gets the values.
        members: The name of each option, its type and its default.
        collect: Makes the value of the parameter of the values of the options.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters = []
    keyword = inspect.Parameter.KEYWORD_ONLY
    for name, parameter in inspect.signature(command).parameters.items():
        if name == group:
            parameters += [
                inspect.Parameter(option, keyword, default=default, annotation=hint)
                for option, (hint, default) in members.items()
            ]
        elif parameter.kind is parameter.VAR_KEYWORD:
            parameters.append(parameter.replace(annotation=hints[name]))
        else:
            parameters.append(parameter.replace(annotation=hints[name], kind=keyword))

    @functools.wraps(command)
    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in members}
        command(**{group: collect(given)}, **values)

    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapped


CONTEXT: Final = "context"
"""The parameter of a command that gets the context of its call."""


def with_options(
    place: str, *, panel: str | Mapping[str, str] = "", unset: str | Mapping[str, str] = ""
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the matching options that `option_table.PLACES` names for it.

    The command takes them as `**given`: only those with a value from the command line or a config
    file. In help, rare options come last in each panel; a command with many options gets
    `--help-all`.

    Args:
        place: The command's name in `PLACES`.
        panel: The heading under which help shows them, instead of the table's: of all, or by name.
        unset: The default in words, instead of the table's: of all, or by name.
    """
    rows = options_at(place)
    later = {KEEP, OUTPUT, *({} if isinstance(panel, str) else panel.values())}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        own = [
            parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY)
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        matching = [_parameter(row, rows, panel, unset) for row in rows.values()]
        asks = any(parameter.annotation is typer.Context for parameter in own)
        # Help shows panels in the order of their first option: what is kept and written is last.
        places = [n for n, one in enumerate(own) if one.name == "config" or _panel(one) in later]
        first = min(places, default=len(own))
        parameters = own[:first] + matching + own[first:]
        parameters.sort(key=_is_rare)
        if len(parameters) > MANY:
            keyword = inspect.Parameter.KEYWORD_ONLY
            more = inspect.Parameter(HELP_ALL, keyword, default=False, annotation=HelpAll)
            parameters.append(more)
        if not asks:
            keyword = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(CONTEXT, keyword, annotation=typer.Context))

        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            given = given_options({name: values.pop(name) for name in rows})
            given = without_replaced(given, values[CONTEXT])
            values.pop(HELP_ALL, None)
            if not asks:
                del values[CONTEXT]
            command(**values, **given)

        rare = frozenset(parameter.name for parameter in parameters if _is_rare(parameter))
        setattr(wrapped, RARE_NAMES, rare)
        wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {one.name: one.annotation for one in parameters}
        return wrapped

    return decorate


def _parameter(
    row: Option,
    rows: Mapping[str, Option],
    panel: str | Mapping[str, str],
    unset: str | Mapping[str, str],
) -> inspect.Parameter:
    """Return the parameter of a command for a row of the table, one of `rows`."""
    kind: Any = list[str] if row.repeated else row.type if isinstance(row.type, type) else str
    declared = option(
        row.metavar,
        row.explained,
        row.flag,
        default=_of_row(unset, row) or _default(row, rows),
        panel=_of_row(panel, row) or row.panel,
        autocompletion=complete(row.choices) if row.choices else None,
        parser=read_number if row.type is float else None,
    )
    return inspect.Parameter(
        row.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, declared, "" if row.common else RARE],
    )


def _default(row: Option, rows: Mapping[str, Option]) -> str:
    """Return the default in words; without a case that depends on an option not in `rows`."""
    possible = {other.flag for other in rows.values()}
    depends_on = set(re.findall("--[a-z-]+", row.otherwise))
    return row.without if row.default is None or depends_on <= possible else str(row.default)


def _of_row(value: str | Mapping[str, str], row: Option) -> str:
    return value if isinstance(value, str) else value.get(row.name, "")


def _metadata(parameter: inspect.Parameter) -> tuple[Any, ...]:
    return getattr(parameter.annotation, "__metadata__", ())


def _is_rare(parameter: inspect.Parameter) -> bool:
    return RARE in _metadata(parameter)[1:]


def _panel(parameter: inspect.Parameter) -> str | None:
    return getattr((*_metadata(parameter), None)[0], "rich_help_panel", None)
