"""Find the input files, their order and their formats. Imports no PyArrow.

Files are in the order of the arguments; those of a folder or a glob are sorted by the bytes of
their paths. A file that is reached twice is read once, at its first position. `recognition` tells
their formats.
"""

from __future__ import annotations

import glob
import os
import shlex
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, TypedDict, cast

from neardup.corpus.dialects import DELIMITERS, USUAL, Dialect, check_dialect
from neardup.corpus.encodings import AUTO, UTF8, check_encoding, find_encoding
from neardup.corpus.folders import (
    COMPANION,
    Entry,
    Patterns,
    UnreadFiles,
    find_companions,
    printable,
    unread_reason,
    walk_folder,
)
from neardup.corpus.format_table import (
    ARCHIVES,
    BOM,
    BYTE_RANGES,
    CHOICES,
    COMPRESSION_OF_ENDING,
    EACH_DOCUMENT,
    FORMATS,
    JSON,
    ROW_GROUPS,
    FileFormat,
    formats_of_ending,
    is_json_lines,
    may_be_json,
)
from neardup.corpus.recognition import (
    FEW_BYTES,
    Recognised,
    ending_of,
    hints_of_one_text,
    read_head,
    recognise,
    recognise_decoded,
    refuse_hidden_lines,
)
from neardup.corpus.urls import hide_secrets, is_url
from neardup.errors import InputError, MissingInput, UsageError
from neardup.option_table import MatchingOptions, OnlineOptions
from neardup.runtime import Progress
from neardup.spec import check_choice

LONGEST_SHOWN = 100
_MOST_PATTERNS = 8
"""More than this are not listed in a message."""


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
        records: Of a JSON file, the field of its only object that has the records; "" without one.
    """

    path: Path
    name: str
    kept_name: str
    format: str
    compression: str | None
    folders: tuple[str, ...] | None = None
    dialect: Dialect = USUAL
    encoding: str = UTF8
    records: str = ""

    @property
    def is_plain(self) -> bool:
        """Whether its stored bytes are its text: neither compressed nor in another encoding."""
        return self.compression is None and self.encoding == UTF8

    @property
    def can_be_cut(self) -> bool:
        """Whether reading can begin in the middle of it: at a line, or at a row group."""
        return self.row.cut_by == ROW_GROUPS or (self.row.cut_by == BYTE_RANGES and self.is_plain)

    @property
    def row(self) -> FileFormat:
        """What its format can do."""
        return FORMATS[self.format]


class InputOptions(TypedDict, total=False):
    """What a user says about the input files, beside their paths; see `find_inputs`."""

    format: str
    include: str | Sequence[str]
    exclude: str | Sequence[str]
    delimiter: str | None
    quote: str
    no_header: bool
    encoding: str
    records: str | None


class FileOptions(MatchingOptions, InputOptions, total=False):
    """The matching options, and what a user says about the input files."""


class IndexFileOptions(OnlineOptions, InputOptions, total=False):
    """The matching options of an index, and what a user says about the input files."""


def split_options(options: Mapping[str, Any]) -> tuple[InputOptions, dict[str, Any]]:
    """Return the options about the input files, and the others.

    Args:
        options: The keyword arguments of a function that takes both.
    """
    names = InputOptions.__annotations__
    given = {name: value for name, value in options.items() if name in names}
    for name in {"include", "exclude"} & given.keys():  # run.json has a list
        given[name] = [given[name]] if isinstance(given[name], str) else list(given[name])
    others = {name: value for name, value in options.items() if name not in names}
    return cast(InputOptions, given), others


class InputFiles(list[InputFile]):
    """The files to read, in order.

    Attributes:
        unread: The files that were found and are not read.
        ends: For each argument, the number of files up to its last one.
        hints: Sentences about what the user may have meant otherwise.
    """

    def __init__(self, files: Iterable[InputFile] = (), unread: UnreadFiles | None = None) -> None:
        super().__init__(files)
        self.unread = unread or UnreadFiles()
        self.ends: list[int] = []
        self.hints: list[str] = []


def say_notes(files: InputFiles, progress: Progress) -> None:
    """Tell the user how many files are not read, and what may have been meant otherwise."""
    for hint in files.hints:
        progress.say(hint)
    if files.unread:
        progress.say(files.unread.sentence)


def find_inputs(
    arguments: Sequence[str | Path],
    format: str = AUTO,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    delimiter: str | None = None,
    quote: str = '"',
    no_header: bool = False,
    encoding: str = UTF8,
    records: str | None = None,
) -> InputFiles:
    """Return the input files of the arguments, each once.

    Args:
        arguments: Files, folders and globs.
        format: The format of all files, `jsonl`, `json`, `lines`, `parquet`, `csv`, `tsv`, `arrow`,
            `warc`, `tar`, `zip` or `text`; `auto` goes by the names of the files, and by their
            contents where these don't tell.
        include: Patterns: of the files in folders and of globs, only those that match are read.
        exclude: Patterns: of the files in folders and of globs, those that match are not read.
        delimiter: The character between the fields of CSV files; None for that of the format.
        quote: The character around fields of CSV files, or `none`.
        no_header: Whether the first record of CSV files is a row, not the names of the columns.
        encoding: The text encoding of all files, as Python names it; `auto` for that of a byte
            order mark, else of each document what it declares as HTML or XML, else UTF-8.
        records: The field that has the records of JSON files in a list: `data` for
            `{"data": [...]}`, `answer.items` for one inside of another.
    """
    encoding = check_encoding(encoding)
    dialect = check_dialect(delimiter, quote, not no_header)
    check_choice("format", format, CHOICES)
    patterns, unread = Patterns(include, exclude), UnreadFiles()
    files: dict[str, InputFile] = {}
    ends = []
    for argument in [os.fspath(argument) for argument in arguments]:
        if os.path.isdir(argument):
            found = _folder(argument, format, patterns, unread)
        elif os.path.lexists(argument):
            _check_regular(argument)
            entry = Entry(argument, os.path.realpath(argument), os.path.basename(argument))
            found = [(entry, _file(argument, entry.below, format, None))]
        else:
            fixed, entries = _fixed_part(argument), _glob(argument, unread)
            found = [
                (entry, _file(entry.path, os.path.basename(entry.path), format, fixed))
                for entry in patterns.select(entries, unread)
            ]
        for entry, file in found:
            files.setdefault(entry.real, file)
        ends.append(len(files))
    archives = (file.name for file in files.values() if file.format in ARCHIVES)
    patterns.check_used(next(archives, ""))
    if not files:
        raise MissingInput("no file is left to read: check --include and --exclude")
    inputs = InputFiles(_without_collisions(list(files.values())), unread)
    inputs.ends = ends
    if not apply_dialect(inputs, dialect) and dialect != USUAL:
        raise UsageError(
            "--delimiter, --quote and --no-header are about CSV, and no input is a CSV file: leave "
            "them out, or read the inputs with --format csv"
        )
    if encoding not in (UTF8, AUTO) and not any(file.row.encoded for file in inputs):
        raise UsageError(
            f"{inputs[0].name}: {inputs[0].format} states the encoding of its texts: leave out "
            "--encoding"
        )
    apply_encoding(inputs, encoding, format)
    if records is not None:
        _apply_records(inputs, records, format)
    if format == AUTO:
        for file in inputs:
            refuse_hidden_lines(str(file.path), _recognised(file))
        if len(inputs) == 1 and inputs[0].row.is_document:
            inputs.hints += hints_of_one_text(
                inputs[0].name, str(inputs[0].path), inputs[0].compression
            )
    return inputs


def take_dialect(options: InputOptions) -> Dialect:
    """Return the dialect that a user asks for."""
    return check_dialect(
        options.get("delimiter"), options.get("quote", '"'), not options.get("no_header", False)
    )


def apply_dialect(files: InputFiles, dialect: Dialect) -> bool:
    """Give those of the files that are CSV a dialect; return whether there are any."""
    for place, file in enumerate(files):
        if file.format in DELIMITERS:
            files[place] = replace(file, dialect=dialect)
    return any(file.format in DELIMITERS for file in files)


def apply_encoding(files: InputFiles, encoding: str, format: str = AUTO) -> None:
    """Give the files their encoding, but for those whose format states it.

    Args:
        files: The files, as they were found without an encoding.
        encoding: As `check_encoding` returned it.
        format: The format of all files, or `auto`.
    """
    if encoding != UTF8:
        files[:] = [
            _with_encoding(file, encoding, format) if file.row.encoded else file for file in files
        ]


def _apply_records(files: InputFiles, records: str, format: str) -> None:
    """Let JSON files be read from the list that a field of their only object has.

    Args:
        files: The input files.
        records: The field.
        format: The format of all files, or `auto`.
    """
    if not records:
        raise UsageError("--records '' names no field: name the one that has the list of records")
    for place, file in enumerate(files):
        head = read_head(str(file.path), file.compression)
        if file.format in JSON or (format == AUTO and _is_unnamed_json(file, head)):
            _refuse_bare_records(file, head)
            files[place] = replace(file, format="json", records=records)
    if not any(file.records for file in files):
        raise UsageError(
            f"--records names the list inside of a JSON object, {_WRAPPED}, and {files[0].name} is "
            f"{files[0].format}: leave it out"
        )


_WRAPPED = 'such as data of {"data": [...]}'


def _is_unnamed_json(file: InputFile, head: bytes) -> bool:
    """Return whether a file may be JSON, and has a name that does not say what it is."""
    is_unnamed = file.row.is_document and not formats_of_ending(ending_of(str(file.path)))
    return is_unnamed and may_be_json(head)


def _refuse_bare_records(file: InputFile, head: bytes) -> None:
    """Raise `UsageError` if the records of a JSON file are in no object."""
    is_list = head.removeprefix(BOM).lstrip().startswith(b"[")
    if is_list or is_json_lines(head, least=2):
        what = "a list of records" if is_list else "JSON lines, a record on each"
        raise UsageError(
            f"{file.name}: {what}: leave out --records, which names the list inside of an object, "
            f"{_WRAPPED}"
        )


def _with_encoding(file: InputFile, encoding: str, format: str) -> InputFile:
    """Return the file with its encoding, and with the format that its decoded content tells."""
    named, found = recognise_decoded(str(file.path), _recognised(file), encoding)
    if format == AUTO:
        file = replace(file, format=named)
    return replace(file, encoding=encoding if file.row.encoded == EACH_DOCUMENT else found)


def _recognised(file: InputFile) -> Recognised:
    return Recognised(file.format, file.compression)


def _glob(pattern: str, unread: UnreadFiles) -> list[Entry]:
    """Return the files that a glob matches, sorted by the bytes of their paths."""
    if is_url(pattern):
        raise UsageError(
            f"{_short(hide_secrets(pattern))}: URLs are inputs of neardup dedup, exact and index "
            "add -o: download it first"
        )
    if not glob.has_magic(pattern):
        raise MissingInput(f"{_short(pattern)}: no such file or folder: check the path")
    base = len(os.path.join(_fixed_part(pattern), ""))
    entries = []
    for path in sorted(glob.glob(pattern, recursive=True), key=os.fsencode):
        if os.path.isfile(path):
            entries.append(Entry(path, os.path.realpath(path), path[base:]))
        elif "**" not in pattern or not os.path.isdir(path):  # what ** matches is looked into
            unread.add(path + "/" * os.path.isdir(path), unread_reason(path))
    if not entries:
        raise MissingInput(f"{_short(pattern)}: no file matches: check the pattern")
    return entries


def _fixed_part(pattern: str) -> str:
    """Return the folder that a glob begins with."""
    fixed = takewhile(lambda part: not glob.has_magic(part), pattern.split(os.sep))
    return os.sep.join(fixed)


def _check_regular(path: str) -> None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        why = error.strerror
        raise InputError(f"{printable(path)}: cannot be read ({why}): check the path") from None
    if not stat.S_ISREG(mode):
        name = printable(path)
        raise InputError(f"{name}: not a regular file: write its contents to a file first")


Found = list[tuple[Entry, InputFile]]


def _folder(folder: str, format: str, patterns: Patterns, unread: UnreadFiles) -> Found:
    """Return the files in a folder: data files or texts; both if --include names them."""
    entries = walk_folder(folder, unread)
    if not entries:
        raise MissingInput(
            f"{printable(folder)}: no files in this folder: pass a folder with files"
        )
    chosen = patterns.select(entries, unread)
    found = [(entry, _file(entry.path, entry.below, format, folder)) for entry in chosen]
    return _of_one_kind(folder, found, patterns, unread) if format == AUTO else found


def _file(path: str, kept_name: str, format: str, base: str | None) -> InputFile:
    """Return a file that was found, with its format.

    Args:
        path: The path of the file.
        kept_name: Its name below OUT/kept.
        format: The format of all files, or `auto`.
        base: The input folder, or the fixed part of a glob; None if the file itself was given.
    """
    folders = None if base is None else _folders_between(base, os.path.dirname(path))
    found = recognise(path, format)
    return InputFile(
        Path(path), printable(path), kept_name, found.format, found.compression, folders
    )


@lru_cache(maxsize=1)  # the files of a folder come one after another
def _folders_between(base: str, folder: str) -> tuple[str, ...]:
    """Return the names of the folders between an input folder, or the like, and a file's folder."""
    below = folder[len(base) :].strip(os.sep)
    return tuple(map(printable, below.split(os.sep))) if below else ()


def _of_one_kind(folder: str, found: Found, patterns: Patterns, unread: UnreadFiles) -> Found:
    """Return the data files without their companions, or the texts.

    A mixture is refused, unless each is named by patterns of its own: then the user knows of both.
    """
    found = _without_empty_texts(found)
    kinds = [(entry.below, not file.row.is_document) for entry, file in found]
    companions = find_companions(kinds)
    if companions:
        others = (below for below, _ in kinds if below not in companions)
        companions = companions - patterns.name_apart(companions, others)
    for entry, _ in found:
        if entry.below in companions:
            unread.add(entry.path, COMPANION)
    left = [(entry, file) for entry, file in found if entry.below not in companions]
    data = [entry for entry, file in left if not file.row.is_document]
    texts = [entry for entry, file in left if file.row.is_document]
    if data and texts and not _are_named_apart(data, texts, patterns):
        binary = {entry for entry, file in left if file.row.is_document and _is_binary(file)}
        raise _mixture(folder, data, [entry for entry in texts if entry not in binary], binary)
    return left


def _mixture(folder: str, data: list[Entry], texts: list[Entry], binary: set[Entry]) -> UsageError:
    """Return the error about a folder of data files, of texts, and of files that are neither."""
    of_data, of_texts = _own_patterns(data, [*texts, *binary]), _own_patterns(texts, data)
    if not texts:
        return UsageError(
            f"{printable(folder)}: data files ({_list_names(data)}) and files that are neither "
            f"data nor texts ({_list_names(sorted(binary))}): choose with --include {of_data[0]}, "
            "or name the files instead of the folder"
        )
    both = " ".join(f"--include {pattern}" for pattern in (*of_data, *of_texts))
    if len(of_data) + len(of_texts) > _MOST_PATTERNS:
        both = "an --include for each kind"
    return UsageError(
        f"{printable(folder)}: data files ({_list_names(data)}) and texts ({_list_names(texts)}): "
        f"read both with {both}, or by naming the files instead of the folder; choose with "
        f"--include {of_data[0]} or --include {of_texts[0]}; or read every file as one document "
        "with --format text"
    )


def _is_binary(file: InputFile) -> bool:
    """Return whether a file that would be a text by its name has bytes that texts don't have."""
    head = read_head(str(file.path), file.compression)
    return b"\0" in head and find_encoding(AUTO, head) == UTF8


def _are_named_apart(data: list[Entry], texts: list[Entry], patterns: Patterns) -> bool:
    """Return whether --include names data files and texts by different patterns."""
    of_data, of_texts = (
        [patterns.included_by(entry.below) for entry in entries] for entries in (data, texts)
    )
    return all([*of_data, *of_texts]) and not (
        frozenset().union(*of_data) & frozenset().union(*of_texts)
    )


def _without_empty_texts(found: Found) -> Found:
    """Return the files; beside data files, empty ones without a known ending are data files too.

    Nothing in them tells the format, and jobs write such parts.
    """
    if all(file.row.is_document for _, file in found):
        return found
    return [
        (entry, replace(file, format="jsonl") if _is_empty_unknown(file) else file)
        for entry, file in found
    ]


def _is_empty_unknown(file: InputFile) -> bool:
    path = str(file.path)
    is_unknown = file.row.is_document and not ending_of(path)
    return is_unknown and not read_head(path, file.compression, FEW_BYTES)


def _own_patterns(entries: list[Entry], others: list[Entry]) -> list[str]:
    """Return patterns for these files that match none of the others, for a command.

    These are their endings, the most common first; or their names, if they have none of their own.
    """
    taken = {_ending(entry.path) for entry in others} | {""}
    counts = Counter(
        os.path.basename(entry.path) if ending in taken else f"*{ending}"
        for entry in entries
        for ending in [_ending(entry.path)]
    )
    return [shlex.quote(printable(pattern)) for pattern, _ in counts.most_common()]


def _ending(path: str) -> str:
    """Return how the name of a file ends, with the ending of its format before a compression's."""
    stem, last = os.path.splitext(os.path.basename(path))
    inner = os.path.splitext(stem)[1] if last.lower() in COMPRESSION_OF_ENDING else last
    return inner and (inner if inner == last else inner + last)


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


def _list_names(entries: Iterable[Entry]) -> str:
    """Return the first three file names, for a message."""
    names = [printable(os.path.basename(entry.path)) for entry in islice(entries, 4)]
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _short(argument: str) -> str:
    """Return an argument for messages, shortened: it may be a whole text, passed by mistake."""
    name = printable(argument)
    return name if len(name) <= LONGEST_SHOWN else f"{name[:60]}...{name[60 - LONGEST_SHOWN + 3 :]}"
