"""Options from config files that are found, and from environment variables.

The nearest folder, from the working folder upwards, that has a `neardup.toml`, or a
`pyproject.toml` with a table `[tool.neardup]`, gives defaults to all commands:

    threshold = 0.85            # of every command with this option

    [dedup]                     # of one command
    text = "body"

    [index.build]
    keep-texts = true

The command line overrides environment variables (of neardup serve), these a file given by
--config, and that the file that was found.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from neardup.cli.bare_options import NO, YES, takes_bare
from neardup.errors import ConfigError, UsageError

FILE: Final = "neardup.toml"
PROJECT: Final = "pyproject.toml"
VERSION_KEY: Final = "version"
NOT_IN_FILES: Final = frozenset({"config", "help_all", "no_config", "version", "debug"})
"""Parameters that a file can't set: they act before it is read, or end the command."""
ONLY_TYPED: Final = frozenset(
    {
        *("out", "removed", "report", "force", "yes"),
        *("key_file", "next_key_file", "api_key_file", "data", "host", "proxy", "log_file"),
        "embed",
    }
)
"""Parameters that a file which is only found must not set: it may come with foreign data, and they
say which files are replaced, which secrets are used, what can be reached from elsewhere, and which
function is called."""
EXPLICIT: Final = frozenset({"index retune", "index reindex", "index convert"})
"""Commands that change what an index is: only what is given on their command line counts."""
VARIABLES: Final = {"serve": "NEARDUP_SERVE"}
"""Command -> the beginning of its environment variables.

Not NEARDUP alone: Kubernetes sets NEARDUP_PORT for a service that is called neardup.
"""
SUPPLIED_KEY: Final = "NEARDUP_SERVE_API_KEY"
"""The variable with an API key; it has no option, which everybody on the machine could read."""
SETTINGS: Final = "neardup.settings"
"""The entry of a context's `meta` with the settings that were found for it."""


@dataclass(frozen=True)
class Settings:
    """The values of a file for one command.

    Attributes:
        file: The file that was found; None if there is none.
        values: Parameter -> value.
        tables: Parameter -> the table that the value is in, such as [dedup].
    """

    file: Path | None = None
    values: dict[str, Any] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)


def find_settings(command: Any, root: Any, path: tuple[str, ...]) -> Settings:
    """Return the settings for a command from the file that is found; check the whole file.

    Args:
        command: The command.
        root: The context of the program.
        path: The name of the command, after those of its groups.
    """
    if root.params.get("no_config") or " ".join(path) in EXPLICIT:
        return Settings()
    try:
        found = _find_content(Path.cwd())
    except FileNotFoundError:  # the working folder was removed
        found = None
    if found is None:
        return Settings()
    from neardup.cli import build_command

    file, content = found
    _check_names(content, build_command(), file, ())
    settings = Settings(file)
    parameters = parameters_by_key(command)
    for depth in range(len(path) + 1):
        table: Any = content
        for part in path[:depth]:
            table = table.get(part, {})
        for key, value in table.items():
            parameter = parameters.get(_normalised(key))
            if parameter is not None and not isinstance(value, dict):
                settings.values[parameter.name] = _checked(value, parameter, key, file)
                settings.tables[parameter.name] = _table_name(path[:depth])
    return settings


def current_value(context: Any, parameter: str) -> Any:
    """Return the value that a parameter would get if the command was started now.

    Args:
        context: The context of the running command.
        parameter: The name of the parameter. One that was given on the command line or by an
            environment variable keeps its value; else the file is read again.
    """
    source = context.get_parameter_source(parameter).name
    if source not in ("DEFAULT", "DEFAULT_MAP"):
        return context.params[parameter]
    path = (*group_names(context.parent), context.info_name)
    found = find_settings(context.command, context.find_root(), path)
    return found.values.get(parameter)


def group_names(context: Any) -> tuple[str, ...]:
    """Return the names of the groups up to a context, without the program's own."""
    names = []
    while context.parent is not None:
        names.append(context.info_name)
        context = context.parent
    return tuple(reversed(names))


def _find_content(folder: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return the nearest file with settings, from a folder upwards, and its content."""
    from neardup.formats.config import parse_toml

    for place in (folder, *folder.parents):
        if (place / FILE).is_file() and _is_trusted(place / FILE):
            return place / FILE, parse_toml(place / FILE)
        project = place / PROJECT
        if project.is_file() and _mentions_table(project) and _is_trusted(project):
            content = parse_toml(project).get("tool", {})
            if isinstance(content, dict) and isinstance(content.get("neardup"), dict):
                return project, content["neardup"]
    return None


def _mentions_table(project: Path) -> bool:
    """Return whether a pyproject.toml may have the table; others need not even be valid."""
    try:
        return b"neardup" in project.read_bytes()
    except OSError:
        return False


def _is_trusted(file: Path) -> bool:
    """Return whether only the user, or root, can have written a file; say so if not."""
    status = file.stat()
    if status.st_uid in (os.geteuid(), 0) and not status.st_mode & stat.S_IWOTH:
        return True
    print(
        f"neardup: {file} is ignored, because other users can change it: make it your own, or pass "
        "options on the command line",
        file=sys.stderr,
    )
    return False


def parameters_by_key(command: Any) -> dict[str, Any]:
    """Return the parameters of a command that a file can set, by their long names."""
    return {
        _normalised(name.removeprefix("--")): parameter
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.name not in NOT_IN_FILES
        for name in parameter.opts
        if name.startswith("--")
    }


def _normalised(key: str) -> str:
    return key.replace("-", "_")


def _check_names(table: Mapping[str, Any], command: Any, file: Path, path: tuple[str, ...]) -> None:
    """Refuse an option that no command has, or not the one that its table belongs to."""
    commands: Mapping[str, Any] = getattr(command, "commands", {})
    known = {key for one in _all_commands(command) for key in parameters_by_key(one)}
    for key, value in table.items():
        if isinstance(value, dict) and key in commands:
            _check_names(value, commands[key], file, (*path, key))
        elif not isinstance(value, dict) and _normalised(key) in ONLY_TYPED & known:
            raise UsageError(
                f"{file}: {key} can't be set by a file that is only found: give it on the command "
                "line"
            )
        elif isinstance(value, dict) or _normalised(key) not in known:
            if key == VERSION_KEY and not path and value == 1:
                continue
            what = "table" if isinstance(value, dict) else "option"
            names = commands if isinstance(value, dict) else known
            near = get_close_matches(_normalised(key), [*names], 1)
            hint = f": did you mean {near[0]}?" if near else ": neardup config show lists them"
            where = f" in {_table_name(path)}" if path else ""
            raise UsageError(f"{file}: unknown {what} {key}{where}{hint}")


def _all_commands(command: Any) -> Iterator[Any]:
    commands = getattr(command, "commands", None)
    if commands is None:
        yield command
        return
    for one in commands.values():
        yield from _all_commands(one)


def _table_name(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(path)}]" if path else ""


def _checked(value: Any, parameter: Any, key: str, file: Path) -> Any:
    """Return a value as the command line's parser takes it."""
    values = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str | int | float) for one in values):
        raise ConfigError(f"{file}: {key} must be a number, a text, true or false, or a list")
    if parameter.multiple:
        return [str(one) for one in values]
    if isinstance(value, list):
        raise ConfigError(f"{file}: {key} takes one value, not a list")
    if isinstance(value, bool) and takes_bare(parameter):
        return YES if value else NO
    if isinstance(value, bool) != parameter.is_flag:
        need = "true or false" if parameter.is_flag else "a number or a text"
        raise ConfigError(f"{file}: {key} must be {need}, not {value!r}")
    return value


def check_variables(command: Any, prefix: str) -> None:
    """Refuse environment variables that begin like those of a command, but name no option."""
    known = {variable_of(prefix, parameter) for parameter in command.params} | {SUPPLIED_KEY}
    for name in sorted(os.environ):
        if name.startswith(f"{prefix}_") and name not in known:
            near = get_close_matches(name, known, 1)
            raise UsageError(
                f"the environment variable {name} is no option of neardup serve"
                + (f": did you mean {near[0]}?" if near else "")
            )


def variable_of(prefix: str, parameter: Any) -> str:
    """Return the environment variable of a parameter."""
    return f"{prefix}_{parameter.name.upper()}"


def settings_in_effect(context: Any) -> dict[str, Any]:
    """Return the values of the file that was found which nothing else overrides."""
    settings: Settings = context.meta.get(SETTINGS, Settings())
    stored = context.default_map or {}
    return {
        name: value
        for name, value in settings.values.items()
        if stored.get(name) is value
        and getattr(context.get_parameter_source(name), "name", "") == "DEFAULT_MAP"
    }


def name_origin(context: Any, parameter: str) -> str:
    """Return the beginning of a message about a value of the file; empty if it is not from it."""
    return f"{context.meta[SETTINGS].file}: " if parameter in settings_in_effect(context) else ""


def describe_settings(context: Any) -> str | None:
    """Describe which options come from the file that was found; None if there are none."""
    values = settings_in_effect(context)
    if not values:
        return None
    shown = ", ".join(
        f"{name.replace('_', '-')} {format_value(value)}" for name, value in values.items()
    )
    return f"options of {context.meta[SETTINGS].file}: {shown}"


def format_value(value: Any) -> str:
    """Return the value of an option as a file writes it, without quotes."""
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def announce_settings(context: Any) -> None:
    """Print which options come from a file, unless the command is to print nothing."""
    message = describe_settings(context)
    if message is None or context.params.get("quiet") or context.params.get("as_json"):
        return
    if context.info_name in VARIABLES:
        from neardup.cli.serve import format_event

        print(format_event("message", message), file=sys.stderr)
    else:
        print(f"neardup: {message}", file=sys.stderr)
