"""Find out that a column is missing before all files are read.

A run over files of one kind reads the first of them before the others. Of several kinds, the first
file of each is looked into here. Of several columns for the text, each file may lack some, but not
all files: a misspelt name would be left out silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from neardup.corpus import warc
from neardup.corpus.annotations import refuse_columns
from neardup.corpus.columns import Source, resolve_columns
from neardup.corpus.conversion import COLUMNAR, DELIMITED, read_header, stored_schema
from neardup.corpus.documents import Columns
from neardup.corpus.fields import list_record_fields, list_table_fields, split_names
from neardup.corpus.format_table import BOM, JSON
from neardup.corpus.inputs import InputFile
from neardup.corpus.jsonl import load_records
from neardup.corpus.read import chunks_of, parse_chunk, read_chunks, stored_bytes
from neardup.corpus.streams import name_read_errors
from neardup.corpus.vector_files import VectorFile
from neardup.corpus.vectors import no_vector_error, with_dimension
from neardup.errors import InputError


def check_columns(files: Sequence[InputFile], columns: Columns) -> None:
    """Raise `UsageError` if a column that is asked for is missing.

    Args:
        files: The input files. What can't be read in them is left to the reading of all.
        columns: The columns that are asked for.
    """
    firsts = {(file.format, file.path.suffix): file for file in reversed(files)}.values()
    if len(firsts) > 1:
        for file in reversed(firsts):
            _read_first(file, columns)
    if "," in columns.text and not columns.tokens and not columns.rewritten:
        _check_parts(files, columns)


def find_dimension(
    files: Sequence[InputFile], columns: Columns, called: str | None = None
) -> Columns:
    """Return the columns with the dimension of the first usable vector; an error without any.

    Args:
        files: The input files, of which as many are read as it takes.
        columns: The columns that are asked for.
        called: The user's name of the column of vectors, if the files have another.
    """
    if columns.vectors is None or columns.dimension is not None:
        return columns
    if columns.vector_column is None:
        return replace(columns, dimension=VectorFile.open(columns.vectors).shape[1])
    reasons: Counter[str] = Counter()
    for chunk in chunks_of(files, columns):
        documents = parse_chunk(chunk, columns)
        found = with_dimension(columns, documents)
        if found.dimension is not None:
            return found
        reasons.update(documents.rejected.values())
    if reasons:
        raise no_vector_error(reasons, replace(columns, vectors=called or columns.vectors))
    return columns


def check_new_columns(files: Sequence[InputFile]) -> None:
    """Raise `UsageError` if a file has a column of the name of one that --annotate adds.

    Args:
        files: The input files, of which the first of each kind is looked into; the others are
            checked when they are written.
    """
    firsts = {(file.format, file.path.suffix): file for file in reversed(files)}.values()
    for file in (file for file in firsts if file.row.has_columns):
        with suppress(InputError):
            refuse_columns(file.name, _list_fields(file, Columns()))


def _check_parts(files: Sequence[InputFile], columns: Columns) -> None:
    """Raise `ColumnError` if no file has one of several columns for the text.

    A file that has none of them is left to the reading, whose error says more.
    """
    missing = split_names(columns.text)
    if not all(file.row.has_columns for file in files):
        # Files that are texts have no columns, and are asked for by the default's name.
        missing = [part for part in missing if part != Columns.text]
    first: tuple[InputFile, list[str]] | None = None
    for file in (file for file in files if file.row.has_columns):
        fields: list[str] = []
        with suppress(InputError):
            fields = _list_fields(file, columns)
        if columns.text in fields:
            return
        if set(fields) & set(split_names(columns.text)):
            first = first or (file, fields)
            missing = [part for part in missing if part not in fields]
        if not missing:
            return
    if first is not None:
        resolve_columns(replace(columns, text=missing[0]), first[1], Source.of(first[0]))


def _list_fields(file: InputFile, columns: Columns) -> list[str]:
    """Return the columns of a file, and the fields inside of them; of JSON, by its beginning."""
    if file.format in COLUMNAR:
        return list_table_fields(stored_schema(file), columns)
    if file.format in DELIMITED:
        return read_header(file)
    if file.format not in JSON:
        return list(warc.COLUMNS)
    for chunk in read_chunks(file, columns):
        with name_read_errors(file):
            lines = stored_bytes(chunk).removeprefix(BOM).split(b"\n")
        records, _ = load_records([line for line in lines if line.strip()], may_be_long=True)
        return list_record_fields(records, columns)
    return []


def _read_first(file: InputFile, columns: Columns) -> None:
    """Read the first documents of a file, so that a missing column is an error."""
    with suppress(InputError):
        for chunk in read_chunks(file, columns):
            parse_chunk(chunk, columns)
            break
