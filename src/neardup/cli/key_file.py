"""The options --hash and --key-file: which hash, and the file that holds its key."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.matching import match
from neardup.cli.shared import MATCH

if TYPE_CHECKING:
    from neardup.keys import Key

MOST = 64  # bytes; a key in digits has 34 at most

Hash = Annotated[str, match("hash", "xxh64")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The key of --hash siphash: 16 bytes, or 32 hexadecimal digits.",
        show_default=False,
        rich_help_panel=MATCH,
    ),
]


def warn(message: str) -> None:
    print(f"neardup: {message}", file=sys.stderr)


def read_key(
    file: Path | None, quiet: bool = False, say: Callable[[str], None] = warn
) -> Key | None:
    """The key in a file; what is in it never appears in a message."""
    if file is None:
        return None
    from neardup.errors import InputError, ParameterError
    from neardup.keys import Key

    try:
        with open(file, "rb") as source:
            content, mode = source.read(MOST), os.fstat(source.fileno()).st_mode
    except OSError as error:
        raise InputError(f"key file {file} can't be read: {error.strerror}", str(file)) from None
    try:
        key = Key(content)
    except ParameterError as error:
        raise ParameterError(f"key file {file} holds no key: {error}") from None
    if not quiet and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        say(f"others can read the key file: chmod 600 {file}")
    return key
