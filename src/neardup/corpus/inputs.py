"""Which files are meant, in which order, and what is in each?

Arguments are taken as given; inside a folder or a glob the order is that of the path's bytes.
A file that is reached twice counts once, at its first place.
"""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from neardup.errors import InputError, ParameterError, UsageError

_EXTENSIONS = {
    ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl",
    ".parquet": "parquet", ".pq": "parquet",
    ".csv": "csv", ".tsv": "tsv",
    ".arrow": "arrow", ".feather": "arrow", ".ipc": "arrow", ".arrows": "arrow",
}  # fmt: skip
_COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_FOREIGN = {".bz2", ".xz", ".lz4", ".br", ".zip", ".7z", ".tar"}
_OWN_COMPRESSION = {"parquet", "arrow"}
FORMATS = ("auto", "jsonl", "parquet", "csv", "tsv", "arrow", "text")


@dataclass(frozen=True)
class InputFile:
    """One file to read.

    path         where the bytes are
    name         as the user would write it, always printable
    kept_name    relative path inside OUT/kept/: POSIX, never absolute, never with ".."
    format       jsonl | parquet | csv | tsv | arrow (IPC file) | arrow-stream | text
    compression  gzip | zstd | None; around jsonl, csv, tsv and text
    """

    path: Path
    name: str
    kept_name: str
    format: str
    compression: str | None


def find_inputs(arguments: Sequence[str | Path], format: str = "auto") -> list[InputFile]:
    """The files that the arguments (files, folders, globs) stand for."""
    if format not in FORMATS:
        raise ParameterError(f"unknown format {format!r}: choose one of {', '.join(FORMATS)}")
    files: dict[str, InputFile] = {}
    for argument in arguments:
        for file in _expand(os.fspath(argument), format):
            files.setdefault(os.path.realpath(file.path), file)
    return _without_collisions(list(files.values()))


def _expand(argument: str, format: str) -> list[InputFile]:
    if os.path.isdir(argument):
        return _folder(argument, format)
    if os.path.lexists(argument):
        return [_file(argument, os.path.basename(argument), format)]
    if not glob.has_magic(argument):
        raise InputError(f"{_printable(argument)}: no such file or folder: check the path")
    matches = [path for path in glob.glob(argument, recursive=True) if os.path.isfile(path)]
    if not matches:
        raise InputError(f"{_printable(argument)}: no file matches: check the pattern")
    return [_file(path, os.path.basename(path), format) for path in _by_bytes(matches)]


def _folder(folder: str, format: str) -> list[InputFile]:
    paths = _by_bytes(_walk(folder))
    if not paths:
        raise InputError(f"{_printable(folder)}: no files in this folder: pass one that has some")
    if format == "auto":
        data = [path for path in paths if _by_extension(path)[0] is not None]
        other = [path for path in paths if _by_extension(path)[0] is None]
        if data and other:
            raise UsageError(
                f"{_printable(folder)}: data files ({_some(data)}) and others ({_some(other)}): "
                "pass the data files by a glob, or take every file as one document "
                "with --format text"
            )
    return [_file(path, os.path.relpath(path, folder), format) for path in paths]


def _walk(folder: str) -> Iterator[str]:
    """Regular files below the folder; hidden and private ones (. and _) are skipped.

    Symbolic links to files are followed, those to folders are not: they can make loops.
    """

    def fail(error: OSError) -> None:
        name = _printable(str(error.filename))
        raise InputError(f"{name}: cannot be listed ({error.strerror}): check its permissions")

    for where, folders, names in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        for name in names:
            path = os.path.join(where, name)
            if not name.startswith((".", "_")) and os.path.isfile(path):
                yield path


def _file(path: str, kept_name: str, format: str) -> InputFile:
    name = _printable(path)
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror}): check the path") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{name}: not a regular file: write its contents to a file first")
    found, compression = _by_extension(path)
    kind = (found or "text") if format == "auto" else format
    if kind in _OWN_COMPRESSION and compression:
        raise InputError(f"{name}: {kind} inside {compression}: unpack it first")
    if kind == "arrow" and not _is_arrow_file(path):
        kind = "arrow-stream"
    return InputFile(Path(path), name, PurePosixPath(kept_name).as_posix(), kind, compression)


def _by_extension(path: str) -> tuple[str | None, str | None]:
    """(data format or None, compression or None) by the name alone."""
    stem, last = os.path.splitext(os.path.basename(path).lower())
    inner = _EXTENSIONS.get(os.path.splitext(stem)[1])
    if last in _FOREIGN and inner:
        raise InputError(f"{_printable(path)}: {last} is not read: unpack it, or use .gz or .zst")
    if last in _COMPRESSIONS:
        return inner, _COMPRESSIONS[last]
    return _EXTENSIONS.get(last), None


def _is_arrow_file(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(6) == b"ARROW1"
    except OSError as error:
        text = f"{_printable(path)}: cannot be read ({error.strerror}): check its permissions"
        raise InputError(text) from None


def _without_collisions(files: list[InputFile]) -> list[InputFile]:
    """If two kept files would meet in one place, all are named from their common folder."""
    names = {file.kept_name for file in files}
    folders = {str(parent) for name in names for parent in PurePosixPath(name).parents}
    if len(names) == len(files) and not names & folders:
        return files
    paths = [os.path.abspath(file.path) for file in files]
    common = os.path.commonpath([os.path.dirname(path) for path in paths])
    return [
        replace(file, kept_name=os.path.relpath(path, common))
        for file, path in zip(files, paths, strict=True)
    ]


def _by_bytes(paths: Iterator[str] | list[str]) -> list[str]:
    return sorted(paths, key=os.fsencode)


def _some(paths: list[str]) -> str:
    more = ", ..." if len(paths) > 3 else ""
    return ", ".join(_printable(os.path.basename(path)) for path in paths[:3]) + more


def _printable(path: str) -> str:
    """File names are bytes; those that are not UTF-8 are shown with escapes."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
