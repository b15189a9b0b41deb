"""Standard input as an input: copied to a file, because a run reads its inputs more than once."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from neardup.corpus.format_table import COMPRESSIONS, FORMATS, formats_of_choice
from neardup.corpus.inputs import InputFile, InputFiles, InputOptions, find_inputs, read_head
from neardup.errors import InputError, OutputError
from neardup.runtime import Progress

DASH = "-"
"""The argument that stands for standard input, or standard output."""
STDIN = "stdin"
_BLOCK = 1 << 20
_MAGIC = 16
_EVERY_SECONDS = 0.2


def is_standard_input(file: InputFile) -> bool:
    """Return whether a file stands for standard input, which has not been copied yet."""
    return file.name == STDIN and file.path == Path(DASH)


def find_with_standard_input(arguments: Iterable[str | Path], options: InputOptions) -> InputFiles:
    """Return the input files; where an argument is -, a file that stands for standard input.

    Args:
        arguments: Files, folders, globs, and - at most once.
        options: What the user says about the files.
    """
    given = list(arguments)
    if DASH not in map(str, given):
        return find_inputs(given, **options)
    place = list(map(str, given)).index(DASH)
    others = [argument for argument in given if str(argument) != DASH]
    files = find_inputs(others, **options) if others else InputFiles()
    before = len(find_inputs(given[:place], options.get("format", "auto"))) if place else 0
    files.insert(before, InputFile(Path(DASH), STDIN, STDIN, options.get("format", "auto"), None))
    files.hints.clear()
    return files


def copy_standard_input(
    files: list[InputFile], folder: Path, progress: Progress
) -> list[InputFile]:
    """Copy standard input to a file in `folder`; return the files with that one in its place.

    Its format is told by its content, unless it was given. No input at all is no documents.
    """
    copied = []
    for file in files:
        if is_standard_input(file):
            path = folder / STDIN
            progress.stage("reading standard input", None, "bytes")
            _copy(path, progress)
            taken = {other.kept_name for other in files if other is not file}
            file = _recognise(path, file.format, taken)
        copied.append(file)
    return copied


def _recognise(path: Path, format: str, taken: set[str]) -> InputFile:
    """Return the copied file with its format, its compression and a name that is not taken."""
    with open(path, "rb") as source:
        begin = source.read(_MAGIC)
    packings = (row.name for row in COMPRESSIONS.values() if begin.startswith(row.magic))
    file = InputFile(path, STDIN, STDIN, "jsonl", next(packings, None))
    possible = tuple(FORMATS.values()) if format == "auto" else formats_of_choice(format)
    default = "text" if format == "auto" else possible[0].name
    head = read_head(file)
    if head or format != "auto":
        matching = (row.name for row in possible if row.is_content(head))
        file = replace(file, format=next(matching, default))
    if file.row.is_packed and file.compression:
        raise InputError(
            f"{STDIN}: {file.format} inside {file.compression}: unpack it first", STDIN
        )
    return replace(file, kept_name=_kept_name(file, taken))


def _kept_name(file: InputFile, taken: set[str]) -> str:
    packing = COMPRESSIONS[file.compression].endings[0] if file.compression else ""
    name = STDIN + (file.row.endings or (".txt",))[0] + packing
    while name in taken:
        name = f"_{name}"
    return name


def _copy(path: Path, progress: Progress) -> None:
    """Copy standard input to a path.

    Progress is advanced also while nothing comes: that is where Ctrl-C takes effect.
    """
    source = sys.stdin.fileno()
    try:
        with open(path, "wb", buffering=0) as target:
            while True:
                if not select.select([source], [], [], _EVERY_SECONDS)[0]:
                    progress.advance(0)
                    continue
                if not (block := _read(source)):
                    return
                view = memoryview(block)
                while view:
                    view = view[target.write(view) :]
                progress.advance(len(block))
    except OSError as error:
        raise OutputError(
            f"standard input can't be copied to {path.parent} ({os.strerror(error.errno or 0)}): "
            "make room there, choose another output, or set TMPDIR to a folder with room"
        ) from None


def _read(source: int) -> bytes:
    try:
        return os.read(source, _BLOCK)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise InputError(f"standard input can't be read ({why}): check the pipe", STDIN) from None
