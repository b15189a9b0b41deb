"""The help of commands: paragraphs that fill the terminal, and only the usual options at first.

A command with many options shows those that people use; `--help-all` shows the others too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from neardup.option_table import MatchingOptions, options_of

MANY: Final = 20
"""From this number of options on, help shows the usual ones first."""
EXPERT: Final = {
    *(name for name, row in options_of(MatchingOptions).items() if not row.common),
    "key_file",
    "skip_bad_files",
    "strict",
    "within",
    "prefer",
    "merge_rows",
    "no_kept",
    "pairs",
    "save_sketches",
    "keep_full",
    "engine",
    "master",
    "format",
    "buckets",
    "vocabulary",
    "bits",
    "shingles",
    "thresholds",
    "sketches",
    "time_limit",
    "cache",
    "no_cache",
    "no_calibrate",
    "sample_size",
    "bytes",
    "disk",
    "api_key_file",
    "clusters",
    "drop_missing",
    "wait",
}
"""Options that help shows only with --help-all, where a command has many."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        if isinstance(context.command, Command):
            context.command.hidden_at_first = set()
        typer.echo(context.get_help(), nl=False)
        raise typer.Exit


HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        help="Show the less common options too, and exit.",
        is_eager=True,
        callback=_show_all,
    ),
]
HELP_ALL: Final = "help_all"
"""The name of the parameter of type HelpAll."""


def _fill_paragraphs(text: str | None) -> str | None:
    """Each paragraph in one line, which is wrapped to the width of the terminal."""
    if text is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _hide_flag_types(params: list[Any]) -> None:
    """Flags take no value: newer versions of Typer show `<bool>` for them."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.display_type_rich = lambda **_: None


class Command(TyperCommand):
    """A command whose help is short if it has many options."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.help = _fill_paragraphs(self.help)
        named = {param.name for param in self.params}
        self.hidden_at_first = EXPERT if HELP_ALL in named else set()

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        _hide_flag_types(params)
        return params

    def format_help(self, ctx: Any, formatter: Any) -> None:
        expert: list[Any] = [one for one in self.params if one.name in self.hidden_at_first]
        for param in expert:
            param.hidden = True
        try:
            super().format_help(ctx, formatter)
        finally:
            for param in expert:
                param.hidden = False


class Group(TyperGroup):
    """A group of commands, in the order in which they are registered."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.help = _fill_paragraphs(self.help)

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        _hide_flag_types(params)
        return params
