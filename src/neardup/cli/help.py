"""The help of commands: defaults in words, paragraphs that fill the terminal, rare options hidden.

A command with many options shows the common ones; `--help-all` shows the others too.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from neardup.cli.bare_options import complete_bare
from neardup.cli.settings import (
    SETTINGS,
    VARIABLES,
    announce_settings,
    check_variables,
    find_settings,
    group_names,
    name_origin,
)
from neardup.errors import ParameterError

MANY: Final = 20
"""Commands with more options than this show the common ones first."""
HELP_ALL: Final = "help_all"
"""The name of the parameter of type HelpAll."""
RARE_NAMES: Final = "rare_names"
"""The attribute of a command's function that has the names of its rare options."""


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        command: Any = context.command
        hidden, command.hidden_at_first = command.hidden_at_first, frozenset()
        typer.echo(context.get_help(), nl=False)
        command.hidden_at_first = hidden
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


def _fill_paragraphs(text: str | None) -> str | None:
    """Join the lines of each paragraph, so that they wrap at the width of the terminal."""
    if text is None:
        return None
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _state_default(param: Any) -> None:
    """Move the default of an option to the end of its help, as the sentence "Default: 10,000."

    Typer puts a default that is given in words into two pairs of brackets.
    """
    if param.param_type_name != "option" or (param.is_flag and param.show_default is True):
        return
    default = param.show_default
    if default is True and param.default is not None:
        default = f"{param.default:,g}" if isinstance(param.default, float) else param.default
        default = f"{default:,}" if isinstance(default, int) else str(default)
    param.default_in_words = default if isinstance(default, str) else None
    if isinstance(default, str) and param.help:
        param.help = f"{param.help} Default: {default}."
    param.show_default = False


def _hide_type(param: Any) -> None:
    """Leave out the type, such as <bool> or <list[str]>, of flags and arguments."""
    if getattr(param, "is_flag", False) or param.param_type_name == "argument":
        param.display_type_rich = lambda **_: None


def _skip_conversion(param: Any) -> None:
    """Take a value as it is if it has the type of the parameter already, or is not given.

    Typer converts all values by Pydantic, whose import would take a tenth of a short run.
    """
    # Older versions of Typer have neither the attribute nor Pydantic.
    declared = getattr(param, "type_descriptor", None)
    if declared is None or "process_value" in vars(param):
        return
    convert = param.process_value

    def process_value(context: Any, value: Any) -> Any:
        if value is None and not param.required:
            value = () if param.multiple or param.nargs == -1 else None
        elif declared.annotation == list[str] and value and set(map(type, value)) == {str}:
            value = list(value)
        elif type(value) is not declared.annotation:
            return convert(context, value)
        return param.callback(context, param, value) if param.callback else value

    param.process_value = process_value


def _usage(param: Any) -> str | None:
    """Return how the usage line writes an argument or a required option."""
    if param.param_type_name == "argument":
        name = str(param.metavar or param.name.upper()) + ("..." if param.nargs == -1 else "")
        return name if param.required else f"[{name}]"
    return f"{param.opts[0]} {param.metavar}" if param.required else None


class Command(TyperCommand):
    """A command whose help is short if it has many options, with defaults from a config file."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.help = _fill_paragraphs(self.help)
        named = {param.name for param in self.params}
        rare: frozenset[str] = getattr(self.callback, RARE_NAMES, frozenset())
        self.hidden_at_first = rare if HELP_ALL in named else frozenset()
        for param in self.params:
            _state_default(param)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        if parent is None or info_name is None or extra.get("resilient_parsing"):
            return super().make_context(info_name, args, parent, **extra)
        if prefix := VARIABLES.get(info_name):
            check_variables(self, prefix)
            extra["auto_envvar_prefix"] = prefix
        settings = find_settings(self, parent.find_root(), (*group_names(parent), info_name))
        parent.meta[SETTINGS] = settings  # all contexts share one
        try:
            return super().make_context(
                info_name, args, parent, default_map=settings.values, **extra
            )
        except typer.BadParameter as error:
            name = getattr(error.param, "name", None)
            source = error.ctx.get_parameter_source(name) if error.ctx and name else None
            if getattr(source, "name", "") == "DEFAULT_MAP":
                error.message = f"{settings.file}: {error.message}"
            raise

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, complete_bare(args))

    def invoke(self, ctx: Any) -> Any:
        announce_settings(ctx)
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            # Its message begins with the name of the parameter.
            name = str(error).partition(" ")[0]
            if origin := name_origin(ctx, name):
                raise ParameterError(f"{origin}{error}") from None
            raise

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            _hide_type(param)
            _skip_conversion(param)
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces = [_usage(param) for param in self.get_params(ctx)]
        return ["[OPTIONS]", *(piece for piece in pieces if piece is not None)]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        rare: list[Any] = [param for param in self.params if param.name in self.hidden_at_first]
        for param in rare:
            param.hidden = True
        try:
            super().format_help(ctx, formatter)
        finally:
            for param in rare:
                param.hidden = False


class Group(TyperGroup):
    """A group of commands, in the order in which they are registered."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self.help = _fill_paragraphs(self.help)
        for param in self.params:
            _state_default(param)

    def get_params(self, ctx: Any) -> list[Any]:
        params = super().get_params(ctx)
        for param in params:
            _hide_type(param)
            _skip_conversion(param)
        return params
