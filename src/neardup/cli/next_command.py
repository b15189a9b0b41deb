"""The command to run next, as `plan`, `tune` and `evaluate` print it: it runs as it is printed."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from neardup.cli.arguments import INPUT_OPTIONS
from neardup.corpus.inputs import InputOptions
from neardup.option_table import default_of


def print_next(
    command: Sequence[str],
    text: str,
    id: str | None,
    input_options: InputOptions,
    chosen: Mapping[str, Any] | Path,
    *more: str,
) -> None:
    """Print a command over the same input, on one line however long it is.

    Args:
        command: The command and its arguments: neardup, dedup, INPUT, -o, OUT.
        text: The column of the texts.
        id: The column of the ids; None if it is not given.
        input_options: How the input files are read.
        chosen: The operating point, as options or as the config file that has them.
        *more: Further words of the command.
    """
    words = [*command, *_words({"text": text, "id": id}, {"text": "text", "id": None})]
    words += _words(input_options, {name: default for name, (_, default) in INPUT_OPTIONS.items()})
    if isinstance(chosen, Path):
        words += ["--config", str(chosen)]
    else:
        words += _words(chosen, {name: default_of(name) for name in chosen})
    print(f"next: {shlex.join([*words, *more])}")


def _words(values: Mapping[str, Any], defaults: Mapping[str, Any]) -> list[str]:
    """Return options as words, without those that have their default."""
    words: list[str] = []
    for name, value in values.items():
        if value is None or value == defaults[name]:
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                words += [flag, str(one)]
    return words
