"""Which values count: those of the command line, of environment variables, of config files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from neardup.option_table import LAYOUT, PRESETS, MatchingOptions, given_options, options_of


def use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options of a config file as defaults of the command line."""
    if path is not None:
        from neardup.formats.config import load_config

        rows = options_of(MatchingOptions)
        stored = {
            name: [value] if rows[name].repeated and isinstance(value, str) else value
            for name, value in load_config(path).items()
        }
        context.default_map = dict(context.default_map or {}) | stored
    return path


CHOSEN_FOR: Final = frozenset({"threshold", "recall", "slots", "sketch", "preset"})
"""The options that the layout of bands in a config file was chosen for."""


def stale_bands(context: typer.Context) -> set[str]:
    """Return the layout options of the config file if the command line changes what they are for.

    They were chosen for the file's threshold, recall and slots, and are wrong for others.
    """
    sources = {name: context.get_parameter_source(name) for name in LAYOUT | CHOSEN_FOR}
    names = {name: source.name for name, source in sources.items() if source is not None}
    if not {"COMMANDLINE", "ENVIRONMENT"} & set(names.values()):
        return set()
    return {name for name in LAYOUT if names.get(name) == "DEFAULT_MAP"}


def chosen_options(context: typer.Context, given: dict[str, Any]) -> dict[str, Any]:
    """Return the matching options of the command line and of config files.

    Without stale bands, and with options of the file given by --config that the command does not
    have: whether their values are possible is checked where they are used.
    """
    stored = context.default_map or {}
    missing = options_of(MatchingOptions).keys() - context.params.keys()
    others = {name: stored.get(name) for name in missing}
    stale = stale_bands(context)
    chosen = given_options(others) | given
    return {name: value for name, value in chosen.items() if name not in stale}


PRECEDENCE: Final = ("DEFAULT_MAP", "ENVIRONMENT", "COMMANDLINE")
"""Where a value may come from (a file, a variable, the command line), the strongest last."""


def without_replaced(given: dict[str, Any], context: typer.Context) -> dict[str, Any]:
    """Drop values that a preset from a stronger source replaces; others override the preset."""

    def rank(name: str) -> int:
        source = context.get_parameter_source(name)
        return PRECEDENCE.index(source.name) if source and source.name in PRECEDENCE else -1

    replaced = PRESETS.get(given.get("preset", ""), {})
    weaker = {name for name in replaced if rank(name) < rank("preset")}
    return {name: value for name, value in given.items() if name not in weaker}
