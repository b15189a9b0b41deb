"""neardup config: show the options of a command, and where their values come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from neardup.cli.arguments import PlainJson, argument
from neardup.cli.console import make_console, print_json
from neardup.cli.help import Command, Group
from neardup.cli.settings import (
    VARIABLES,
    find_settings,
    format_value,
    parameters_by_key,
    variable_of,
)
from neardup.errors import UsageError

WIDTH = 500
"""The columns of a table that is not shown on a terminal: paths are not broken."""

config = typer.Typer(
    help="Show the options that neardup.toml, pyproject.toml and the environment set.",
    cls=Group,
    epilog="Example: neardup config show",
    no_args_is_help=True,
)


@config.command("show", cls=Command, epilog="Example: neardup config show serve")
def show_settings(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        argument("COMMAND", "The command, such as serve or index build; dedup if it is left out."),
    ] = None,
    as_json: PlainJson = False,
) -> None:
    """Show the options of a command: the value of each, and where it comes from.

    Values come from environment variables (of serve), from neardup.toml or pyproject.toml in the
    working folder or above it, or are defaults. Options on the command line override all of them.
    """
    path = tuple(command or ("dedup",))
    rows = list(_origins(context, path))
    if as_json:
        print_json(
            [{"option": name, "value": value, "from": origin} for name, value, origin in rows]
        )
        return
    from rich.table import Table
    from rich.text import Text

    table = Table("option", "value", "from", box=None, header_style="bold", padding=(0, 2, 0, 0))
    for name, value, origin in rows:
        table.add_row(*(Text(one) for one in (name, format_value(value), origin)))
    make_console(WIDTH).print(table)


def _origins(context: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, str]]:
    """Yield (option, value, origin) of each option of a command."""
    from neardup.cli import build_command

    found: Any = build_command()
    for name in path:
        commands = getattr(found, "commands", {})
        if name not in commands:
            near = get_close_matches(name, commands, 1)
            hint = f"did you mean {near[0]}?" if near else f"choose one of {', '.join(commands)}"
            raise UsageError(f"there is no command {' '.join(path)}: {hint}")
        found = commands[name]
    if hasattr(found, "commands"):
        names = ", ".join(found.commands)
        raise UsageError(f"{' '.join(path)} is a group of commands: choose one of {names}")
    settings = find_settings(found, context.find_root(), path)
    prefix = VARIABLES.get(" ".join(path))
    for key, parameter in parameters_by_key(found).items():
        variable = variable_of(prefix, parameter) if prefix else ""
        if variable and variable in os.environ:
            value: Any = os.environ[variable]
            origin = f"environment variable {variable}"
        elif parameter.name in settings.values:
            table = settings.tables[parameter.name]
            value = settings.values[parameter.name]
            origin = f"{settings.file}{' ' if table else ''}{table}"
        else:
            value, origin = getattr(parameter, "default_in_words", None), "default"
            if value is None:
                value = "" if parameter.default is None else parameter.default
        yield key.replace("_", "-"), value, origin
