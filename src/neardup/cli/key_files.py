"""Keys in files: of hashes, and of the service. Their content never appears in a message."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from neardup.errors import InputError, ParameterError

if TYPE_CHECKING:
    from neardup.keys import Key

KEY_BYTES: Final = 64
"""The most bytes that are read from a key file; a key in digits has at most 34."""


def warn(message: str) -> None:
    """Print a warning to standard error."""
    print(f"neardup: {message}", file=sys.stderr)


def read_key(
    file: Path | None, quiet: bool = False, say: Callable[[str], None] = warn
) -> Key | None:
    """Return the key in a file; its content never appears in a message.

    Args:
        file: None for no key.
        quiet: Don't warn that others can read the file.
        say: Where the warning goes.
    """
    if file is None:
        return None
    from neardup.keys import Key

    try:
        with open(file, "rb") as source:
            content, mode = source.read(KEY_BYTES), os.fstat(source.fileno()).st_mode
    except OSError as error:
        raise InputError(f"key file {file} can't be read: {error.strerror}", str(file)) from None
    try:
        key = Key(content)
    except ParameterError as error:
        raise ParameterError(f"key file {file} holds no key: {error}") from None
    if not quiet and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        say(f"others can read the key file: chmod 600 {file}")
    return key


def read_api_key(file: Path | None) -> str | None:
    """Return the API key in a file; its content never appears in a message."""
    if file is None:
        return None
    try:
        key = file.read_text("ascii").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "it is not a text file"
        raise InputError(f"API key file {file} can't be read: {why}", str(file)) from None
    if not key or not key.isprintable():
        raise InputError(f"API key file {file} holds no key: one line is a key", str(file))
    return key
