"""Find the input files, their order and their formats. Imports no PyArrow.

Files are in the order of the arguments; those of a folder or a glob are sorted by the bytes of
their paths. A file that is reached twice is read once, at its first position.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from pathlib import Path

from neardup.corpus.dialects import DELIMITERS, USUAL, Dialect, check_dialect
from neardup.corpus.encodings import AUTO, UTF8, check_encoding, find_encoding, to_utf8
from neardup.corpus.format_table import (
    CHOICES,
    COMPRESSION_OF_ENDING,
    EACH_DOCUMENT,
    FORMATS,
    HEAD,
    SHORT_ENDINGS,
    UNREAD_ENDINGS,
    FileFormat,
    formats_of_choice,
    formats_of_ending,
)
from neardup.errors import InputError, ParameterError, UsageError

LONGEST_SHOWN = 100


@dataclass(frozen=True)
class InputFile:
    """One file to read.

    Attributes:
        path: The path of the file.
        name: The path for messages, always printable.
        kept_name: The relative path inside OUT/kept/: POSIX, never absolute, never with "..".
        format: The name of a row in `format_table.FORMATS`.
        compression: The name of a row in `format_table.COMPRESSIONS`, or None.
        folders: The names of the folders between the input folder, or the fixed part of a glob,
            and the file; None if the file itself was given.
        dialect: Of a CSV file, how its fields are written.
        encoding: Python's name of its text encoding; of a file that is one document also `auto`.
    """

    path: Path
    name: str
    kept_name: str
    format: str
    compression: str | None
    folders: tuple[str, ...] | None = None
    dialect: Dialect = USUAL
    encoding: str = UTF8

    @property
    def is_plain(self) -> bool:
        """Whether its stored bytes are its text: neither compressed nor in another encoding."""
        return self.compression is None and self.encoding == UTF8

    @property
    def row(self) -> FileFormat:
        """What its format can do."""
        return FORMATS[self.format]


def find_inputs(
    arguments: Sequence[str | Path],
    format: str = "auto",
    delimiter: str | None = None,
    quote: str = '"',
    no_header: bool = False,
    encoding: str = UTF8,
) -> list[InputFile]:
    """Return the input files of the arguments, each once.

    Args:
        arguments: Files, folders and globs.
        format: The format of all files; `auto` to tell it by their names.
        delimiter: The character between the fields of CSV files; None for that of the format.
        quote: The character around fields of CSV files, or `none`.
        no_header: Whether the first record of CSV files is a row, not the names of the columns.
        encoding: The text encoding of all files, as Python names it; `auto` for that of a byte
            order mark, else of each document what it declares as HTML or XML, else UTF-8.
    """
    encoding = check_encoding(encoding)
    dialect = check_dialect(delimiter, quote, not no_header)
    if format not in CHOICES:
        raise ParameterError(f"unknown format {format!r}: choose one of {', '.join(CHOICES)}")
    files: dict[str, InputFile] = {}
    for argument in [os.fspath(argument) for argument in arguments]:
        inside = os.path.isdir(argument)
        for path, real in _folder(argument, format) if inside else _explicit(argument):
            if real not in files:
                start = len(os.path.join(argument, "")) if inside else path.rfind(os.sep) + 1
                file = _file(path, path[start:], format)
                files[real] = replace(file, folders=_folders_below(argument, path))
    found = _with_dialect(_without_collisions(list(files.values())), dialect)
    return found if encoding == UTF8 else [_with_encoding(f, encoding, format) for f in found]


def _with_dialect(files: list[InputFile], dialect: Dialect) -> list[InputFile]:
    """Return the files with the dialect of those that are CSV; an error if it is for none."""
    if dialect == USUAL:
        return files
    if not any(file.format in DELIMITERS for file in files):
        raise UsageError(
            "--delimiter, --quote and --no-header are about CSV, and no input is a CSV file: leave "
            "them out, or read the inputs with --format csv"
        )
    return [replace(file, dialect=dialect) if file.format in DELIMITERS else file for file in files]


def _with_encoding(file: InputFile, encoding: str, format: str) -> InputFile:
    """Return the file with its encoding, and with the format that its decoded content tells."""
    if not file.row.encoded:
        if encoding != AUTO:
            raise UsageError(
                f"{file.name}: {file.format} states the encoding of its texts: leave out --encoding"
            )
        return file
    if file.row.encoded == EACH_DOCUMENT:
        return replace(file, encoding=encoding)
    head = read_head(file)
    file = replace(file, encoding=find_encoding(encoding, head))
    possible = _by_name(os.fspath(file.path))[0] if format == "auto" else ()
    if file.encoding != UTF8 and len(possible) > 1:
        content = b"".join(to_utf8([head], file.encoding))
        matching = (row.name for row in possible if row.is_content(content))
        file = replace(file, format=next(matching, possible[0].name))
    return file


def _folders_below(argument: str, path: str) -> tuple[str, ...] | None:
    """Return the folders between an argument and a file that it leads to; None for itself."""
    base = argument
    if not os.path.lexists(argument):
        fixed = takewhile(lambda part: not glob.has_magic(part), argument.split(os.sep))
        base = os.sep.join(fixed)
    if path == base:
        return None
    below = path[len(base) :].lstrip(os.sep).split(os.sep)[:-1]
    return tuple(map(_printable, below))


def _explicit(argument: str) -> list[tuple[str, str]]:
    """Return (path, real path) of a file, or of each file that a glob matches."""
    paths = [argument]
    if not os.path.lexists(argument):
        if not glob.has_magic(argument):
            raise InputError(f"{_short(argument)}: no such file or folder: check the path")
        matches = filter(os.path.isfile, glob.glob(argument, recursive=True))
        paths = sorted(matches, key=os.fsencode)
        if not paths:
            raise InputError(f"{_short(argument)}: no file matches: check the pattern")
    for path in paths:
        _check_regular(path)
    return [(path, os.path.realpath(path)) for path in paths]


def _check_regular(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        why = error.strerror
        raise InputError(f"{_printable(path)}: cannot be read ({why}): check the path") from None
    if not stat.S_ISREG(mode):
        name = _printable(path)
        raise InputError(f"{name}: not a regular file: write its contents to a file first")


def _folder(folder: str, format: str) -> list[tuple[str, str]]:
    """Return (path, real path) of the files in a folder; either all data files, or all texts."""
    files = sorted(_walk(folder, os.path.realpath(folder)), key=lambda f: os.fsencode(f[0]))
    if not files:
        raise InputError(f"{_printable(folder)}: no files in this folder: pass a folder with files")
    if format == "auto":
        is_data = [_is_data(_by_name(path)[0]) for path, _ in files]
        if any(is_data) and not all(is_data):
            data = _list_names(path for (path, _), yes in zip(files, is_data, strict=True) if yes)
            other = _list_names(
                path for (path, _), yes in zip(files, is_data, strict=True) if not yes
            )
            raise UsageError(
                f"{_printable(folder)}: data files ({data}) and others ({other}): pass the data "
                "files by a glob, or read every file as one document with --format text"
            )
    return files


def _walk(folder: str, real: str) -> Iterator[tuple[str, str]]:
    """Yield the regular files below a folder; names that begin with . or _ are skipped.

    Symbolic links to files are followed, those to folders are not: they may form loops.
    """
    try:
        entries = list(os.scandir(folder))
    except OSError as error:
        why = error.strerror
        text = f"{_printable(folder)}: cannot be listed ({why}): check its permissions"
        raise InputError(text) from None
    for entry in entries:
        if entry.name.startswith((".", "_")):
            continue
        inside = os.path.join(real, entry.name)
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(entry.path, inside)
        elif entry.is_file():
            yield entry.path, os.path.realpath(inside) if entry.is_symlink() else inside


def _file(path: str, kept_name: str, format: str) -> InputFile:
    possible, compression = _by_name(path)
    if format != "auto":
        possible = formats_of_choice(format)
    default = possible[0].name if possible else "text"
    file = InputFile(Path(path), _printable(path), kept_name, default, compression)
    if len(possible) > 1:
        head = read_head(file)
        matching = (row.name for row in possible if row.is_content(head))
        file = replace(file, format=next(matching, default))
    if file.row.is_packed and compression:
        raise InputError(f"{file.name}: {file.format} inside {compression}: unpack it first")
    return file


def _by_name(path: str) -> tuple[tuple[FileFormat, ...], str | None]:
    """Return the formats and the compression that a name implies."""
    stem, last = os.path.splitext(os.path.basename(path).lower())
    stem, last = os.path.splitext(stem + SHORT_ENDINGS.get(last, last))
    inner = formats_of_ending(os.path.splitext(stem)[1])
    if last in UNREAD_ENDINGS and _is_data(inner):
        raise InputError(f"{_printable(path)}: {last} is not read: unpack it, or use .gz or .zst")
    if last in COMPRESSION_OF_ENDING:
        return inner, COMPRESSION_OF_ENDING[last]
    return formats_of_ending(last), None


def _is_data(possible: tuple[FileFormat, ...]) -> bool:
    """Return whether files of these formats have records, and are not documents themselves."""
    return bool(possible) and not possible[0].is_document


def read_head(file: InputFile) -> bytes:
    """Return the first HEAD bytes of a file, decompressed; none if it can't be read."""
    from neardup.corpus.streams import read_decompressed

    head = b""
    with suppress(InputError, OSError):
        if file.compression is None:
            with open(file.path, "rb", buffering=0) as raw:
                return raw.read(HEAD)
        for piece in read_decompressed(file, HEAD):
            head += piece
            if len(head) >= HEAD:
                break
    return head


def _without_collisions(files: list[InputFile]) -> list[InputFile]:
    """Return the files; if two kept names collide, with paths from their common folder instead."""
    names = {file.kept_name for file in files}
    folders = {name[:at] for name in names for at, sign in enumerate(name) if sign == "/"}
    if len(names) == len(files) and not names & folders:
        return files
    paths = [os.path.abspath(file.path) for file in files]
    common = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [
        replace(file, kept_name=os.path.relpath(path, common))
        for file, path in zip(files, paths, strict=True)
    ]


def _list_names(paths: Iterable[str]) -> str:
    """Return the first three file names, for a message."""
    names = [_printable(os.path.basename(path)) for path in islice(paths, 4)]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _printable(path: str) -> str:
    """Return a path for messages, with escapes for bytes that are not UTF-8."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _short(argument: str) -> str:
    """Return an argument for messages, shortened: it may be a whole text, passed by mistake."""
    name = _printable(argument)
    return name if len(name) <= LONGEST_SHOWN else f"{name[:60]}...{name[60 - LONGEST_SHOWN + 3 :]}"
