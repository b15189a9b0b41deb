"""Read and write config files: an operating point that `plan` or `tune` chose, for later runs.

    # why each value is what it is
    version = 1

    [dedup]
    threshold = 0.85
    slots = 128

The format is TOML. `[dedup]` contains the parameters of `neardup.dedup` that determine what counts
as similar and what is kept, but none that depend on the data (columns, files, keys).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from neardup.errors import ConfigError, ParameterError, UsageError
from neardup.option_table import MatchingOptions, options_at

VERSION: Final = 1
LARGEST: Final = 1 << 20
TUNED: Final = "tuned.toml"
"""The config file in the folder that `neardup tune -o` writes."""
NAMES: Final = tuple(options_at("config file"))
"""The options that a config file may contain."""
CONTROL: Final = re.compile("[\x00-\x1f\x7f]")
INTRODUCTION: Final = "An operating point of neardup: neardup dedup INPUT -o OUT --config THIS_FILE"


def write_config(path: Path, options: Mapping[str, Any], why: Sequence[str] = ()) -> None:
    """Write an operating point, with the reasons as comments; options that are None are omitted."""
    from neardup.formats.tables import write_text  # imports PyArrow: help reads config files, too

    for name in options:
        _check_name(name, path)
    lines = (line for text in (INTRODUCTION, *why) for line in text.splitlines())
    comments = [f"# {CONTROL.sub(' ', line)}".rstrip() for line in lines]
    values = [f"{name} = {_toml(options[name])}" for name in NAMES if options.get(name) is not None]
    parts = [*comments, f"version = {VERSION}", "", "[dedup]", *values]
    write_text(path, "\n".join(parts) + "\n")


def load_config(path: str | Path) -> MatchingOptions:
    """Return the operating point of a config file, as keyword arguments of `neardup.dedup`.

    Args:
        path: A file written by `neardup plan` or `neardup tune`, or by hand.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_config(Path(folder, "plan.toml"), {"threshold": 0.9, "slots": 64})
    ...     load_config(Path(folder, "plan.toml"))
    {'threshold': 0.9, 'slots': 64}
    """
    path = Path(path)
    content = parse_toml(path)
    if content.get("version") != VERSION:
        raise ConfigError(
            f"{path}: version {content.get('version')!r} of the config file is not known, this "
            f"neardup reads version {VERSION}: write it again with neardup plan or neardup tune"
        )
    options = content.get("dedup")
    if not isinstance(options, dict) or set(content) != {"version", "dedup"}:
        raise ConfigError(
            f"{path}: a config file must contain a version and a [dedup] table, nothing else"
        )
    for name, value in options.items():
        _check_name(name, path)
        plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if not plain and not options_at("config file")[name].repeated:
            raise ConfigError(f"{path}: {name} must be a number or a text, not {value!r}")
    return cast(MatchingOptions, options)


def parse_toml(path: Path) -> dict[str, Any]:
    """Return the content of a config file, as TOML."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        why, tuned = error.strerror or type(error).__name__, path / TUNED
        cure = tuned if tuned.is_file() else "a config file"
        raise UsageError(f"{path}: can't be read ({why}): pass {cure}") from None
    if len(data) > LARGEST:
        raise ConfigError(f"{path}: larger than any config file: pass one that neardup plan wrote")
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not a config file: {error}") from None


def _check_name(name: str, path: Path) -> None:
    if name not in NAMES:
        raise ParameterError(f"{path}: {name} is not known: use {', '.join(NAMES)}")


def _toml(value: Any) -> str:
    """Return a value in TOML, which writes strings, numbers and lists of strings as JSON does."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
