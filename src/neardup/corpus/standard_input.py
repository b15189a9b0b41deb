"""Standard input as an input: copied to a file, because a run reads its inputs more than once."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from neardup.corpus.format_table import COMPRESSIONS
from neardup.corpus.inputs import InputFile, InputFiles, InputOptions, find_inputs
from neardup.errors import InputError, OutputError, UsageError
from neardup.runtime import Progress

DASH = "-"
"""The argument that stands for standard input, or standard output."""
STDIN = "stdin"
_BLOCK = 1 << 20
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
    given = list(map(str, arguments))
    if DASH not in given:
        return find_inputs(given, **options)
    others = [argument for argument in given if argument != DASH]
    files = find_inputs(others, **options) if others else InputFiles()
    before, format = given.index(DASH), options.get("format", "auto")
    place = files.ends[before - 1] if before else 0
    files.insert(place, InputFile(Path(DASH), STDIN, STDIN, format, None))
    files.hints.clear()
    return files


def copy_standard_input(
    files: list[InputFile], options: InputOptions, folder: Path, progress: Progress
) -> list[InputFile]:
    """Copy standard input to a file in `folder`; return the files with that one in its place.

    Its format is told by its content, unless it was given. No input at all is no documents.

    Args:
        files: The input files; one of them may stand for standard input.
        options: What the user says about the files.
        folder: Where the copy is made.
        progress: Told how much has come.
    """
    copied = []
    for file in files:
        if is_standard_input(file):
            path = folder / STDIN
            progress.stage("reading standard input", None, "bytes")
            _copy(path, progress)
            taken = {other.kept_name for other in files if other is not file}
            file = _recognise(path, options, taken, progress)
        copied.append(file)
    return copied


def _recognise(path: Path, options: InputOptions, taken: set[str], progress: Progress) -> InputFile:
    """Return the copied file with its format, its compression and a name that is not taken."""
    chosen = InputOptions(**options)
    chosen.pop("include", None)
    chosen.pop("exclude", None)
    if not path.stat().st_size and chosen.get("format", "auto") == "auto":
        chosen["format"] = "jsonl"
    try:
        found = find_inputs([path], **chosen)
    except (InputError, UsageError) as error:
        raise type(error)(str(error).replace(str(path), STDIN)) from None
    for hint in found.hints:
        progress.say(hint.replace(str(path), STDIN))
    return replace(found[0], name=STDIN, kept_name=_kept_name(found[0], taken))


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
