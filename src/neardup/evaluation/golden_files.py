"""Which columns of a file are a golden set, and what is in its rows?"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from neardup.corpus import columnar, delimited
from neardup.corpus.columns import as_strings
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.streams import reading
from neardup.errors import ColumnError, InputError, UsageError

Row = tuple[int, Sequence[str | None]]
"""The number of a row, for an error, and its fields."""

PAIRS: Final = ("id1", "id2", "label")
CLUSTERS: Final = ("id", "cluster")
LABELS: Final = {
    "1": True,
    "1.0": True,
    "true": True,
    "yes": True,
    "0": False,
    "0.0": False,
    "false": False,
    "no": False,
}
TABLES: Final = ("parquet", "arrow", "arrow-stream")
BATCH: Final = 1 << 20


Names = str | Sequence[str] | None
"""Names of columns, apart or with commas between them; None are the usual ones."""


def rows_of(path: Path, pairs: Names, clusters: Names) -> tuple[Iterator[Row], bool, str]:
    """The rows of a golden set, their columns in order; whether they are those of clusters; and
    what to call the number of a row."""
    if pairs and clusters:
        raise UsageError("a golden set holds pairs or clusters: name the columns of one of them")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file of the golden set")
    if not os.path.lexists(path):  # nor is a glob one
        raise InputError(f"{path}: no such file: give one file of labelled pairs or clusters")
    (file,) = find_inputs([path])
    if file.format not in (*TABLES, "csv", "tsv"):
        raise InputError(f"{file.name}: a golden set is a TSV, CSV, Parquet or Arrow file")
    rows = _read(file)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{file.name} is empty: a golden set has at least one pair")
    places, by_cluster, has_header = _layout(first[1], _split(pairs), _split(clusters), file)
    numbered = f"{file.name}, {'row' if file.format in TABLES else 'line'}"
    rows = rows if has_header else chain([first], rows)
    return _chosen(rows, places, numbered), by_cluster, numbered


def _split(names: Names) -> Sequence[str] | None:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _read(file: InputFile) -> Iterator[Row]:
    with reading(file, "get it again"):
        yield from _table_rows(file) if file.format in TABLES else _delimited_rows(file)


def _layout(
    first: Sequence[str | None],
    pairs: Sequence[str] | None,
    clusters: Sequence[str] | None,
    file: InputFile,
) -> tuple[list[int], bool, bool]:
    """Where the columns are, whether they are those of clusters, whether the first row names them.

    Without names that are known, the first fields are taken, if the third one can be a label.
    """
    names = [name or "" for name in first]
    if pairs is not None:
        return _places(names, pairs, (2, 3), file, "--pairs"), False, True
    if clusters is not None:
        return _places(names, clusters, (2,), file, "--clusters"), True, True
    if set(PAIRS[:2]) <= set(names):
        return [names.index(name) for name in PAIRS if name in names], False, True
    if set(CLUSTERS) <= set(names):
        return [names.index(name) for name in CLUSTERS], True, True
    can_be_label = len(names) == 2 or (len(names) > 2 and names[2].strip().lower() in LABELS)
    if file.format in TABLES or not can_be_label:
        missing = PAIRS[1] if PAIRS[0] in names else PAIRS[0]
        raise ColumnError(missing, names, file.name, "--pairs ID1,ID2,LABEL")
    return [0, 1, 2][: len(names)], False, False


def _places(
    names: list[str], wanted: Sequence[str], counts: tuple[int, ...], file: InputFile, option: str
) -> list[int]:
    if len(wanted) not in counts:
        raise UsageError(
            f"{option} names {' or '.join(map(str, counts))} columns, not {len(wanted)}: separate "
            "them by commas"
        )
    for name in wanted:
        if name not in names:
            raise ColumnError(name, names, file.name, option)
    return [names.index(name) for name in wanted]


class _Lines(list[str]):
    """What `records` keeps of a file, and how many lines it has taken so far."""

    taken = 0

    def append(self, line: str) -> None:
        self.taken += 1
        super().append(line)


def _delimited_rows(file: InputFile) -> Iterator[Row]:
    lines = _Lines()
    for fields in delimited.records(file, lines):
        yield lines.taken, [field if field.isascii() else _decoded(field) for field in fields]


def _decoded(field: str) -> str:
    """Records come as Latin-1, so that no byte is lost."""
    return field.encode("latin-1").decode("utf-8", "backslashreplace")


def _table_rows(file: InputFile) -> Iterator[Row]:
    """The names of the columns, then the rows."""
    number = 0
    for batch in columnar.batches(file, BATCH):
        if not number:
            yield 0, batch.schema.names
        columns = [as_strings(column).to_pylist() for column in batch.columns]
        for fields in zip(*columns, strict=True):
            number += 1
            yield number, fields


def _chosen(rows: Iterable[Row], places: list[int], numbered: str) -> Iterator[Row]:
    needed = max(places)
    for number, fields in rows:
        if len(fields) <= needed:
            raise InputError(
                f"{numbered} {number}: {len(fields)} fields are too few: are columns missing?"
            )
        yield number, [fields[place] for place in places]
