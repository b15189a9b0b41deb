"""The rows of a golden file, and which of its columns are the ids and the label.

Columns called `weight`, `stratum` and `units` beside a label say how the pairs were drawn.

A header is recognised by its names: `id1`, `id2`, `label`, `id`, `cluster`, and those that people
write instead, such as `left`, `right`, `same`. A file without a header holds pairs. A first line
that may be either is refused, with the option that names its columns: counted as a pair, it would
spoil the figures.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice, pairwise, takewhile
from pathlib import Path
from typing import Final, NamedTuple

from neardup.corpus import columnar, delimited
from neardup.corpus.columns import to_strings
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.streams import name_read_errors
from neardup.errors import ColumnError, InputError, MissingInput, UsageError

Row = tuple[int, Sequence[str | None]]
"""The number of a row, for error messages, and its fields."""

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
_SIDES: Final = (
    ("left", "right"),
    ("first", "second"),
    ("source", "target"),
    ("original", "copy"),
    ("original", "duplicate"),
    ("lhs", "rhs"),
)
_SHORT_SIDES: Final = (("1", "2"), ("a", "b"), ("l", "r"), ("x", "y"))
_NOUNS: Final = ("id", "doc", "docid", "doc_id", "document", "document_id", "text", "text_id")
_NOUNS_TOO: Final = ("item", "item_id", "record", "record_id", "page", "file", "name", "key", "url")
ID_NAMES: Final = frozenset(_SIDES) | {
    (one.format(noun=noun, side=left), one.format(noun=noun, side=right))
    for noun in (*_NOUNS, *_NOUNS_TOO)
    for left, right in (*_SIDES, *_SHORT_SIDES)
    for one in ("{noun}{side}", "{noun}_{side}", "{side}_{noun}")
}
"""Names of the two columns of ids: `id1` and `id2`, `left_id` and `right_id`, ..."""
LABEL_NAMES: Final = frozenset(
    {"label", "same", "duplicate", "duplicates", "near_duplicate", "dup", "match", "matches"}
    | {"is_same", "is_duplicate", "is_near_duplicate", "is_dup", "is_match", "positive"}
    | {"truth", "ground_truth", "gold", "golden", "verdict", "judgement", "judgment", "annotation"}
)
CLUSTER_NAMES: Final = frozenset(
    {"cluster", "cluster_id", "clusters", "group", "group_id", "component"}
)
HEADER_WORDS: Final = (
    LABEL_NAMES
    | CLUSTER_NAMES
    | {*_NOUNS, *_NOUNS_TOO}
    | {side for pair in _SIDES for side in pair}
)
"""Two of them in a first row of two columns are hardly ids of documents."""
WEIGHT: Final = "weight"
STRATUM: Final = "stratum"
UNITS: Final = "units"
DELIMITERS: Final = (";", "\t", "|", ",")
"""What is tried if the usual delimiter does not occur in the first line."""
TABLES: Final = ("parquet", "arrow", "arrow-stream")
BATCH: Final = 1 << 20
PEEK: Final = 1_000
"""Rows after the first that are looked at to understand the first."""
CHOOSE: Final = (
    "--pairs ID1,ID2,LABEL (--pairs ID1,ID2 if all are duplicates), or --clusters ID,CLUSTER"
)
USUAL: Final = (["id1", "id2", "label"], ["id1", "id2"], ["id", "cluster"])
"""The names of the columns, as the documentation has them."""
NO_HEADER: Final = "if these are the ids of a pair, write a line with id1 and id2 above them"


Names = str | Sequence[str] | None
"""Names of columns, as a list or with commas between them; None for the default names."""


class GoldenRows(NamedTuple):
    """The rows of a golden file.

    rows      their ids and labels, or ids and clusters
    clusters  whether they are clusters
    numbered  a prefix for row numbers, in error messages
    columns   the columns that were recognised, in words; empty if the usual names or the user
              name them
    """

    rows: Iterator[Row]
    clusters: bool
    numbered: str
    columns: str


def rows_of(path: Path, pairs: Names, clusters: Names) -> GoldenRows:
    """Return the rows of a golden file; refuse one whose columns are not recognised."""
    if pairs and clusters:
        raise UsageError("a golden set holds pairs or clusters: name the columns of one of them")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file of the golden set")
    if not os.path.lexists(path):  # globs are not expanded
        raise MissingInput(f"{path}: no such file: give one file of labelled pairs or clusters")
    (file,) = find_inputs([path])
    if file.format not in (*TABLES, "csv", "tsv"):
        raise InputError(f"{file.name}: a golden set is a TSV, CSV, Parquet or Arrow file")
    rows = _read(file if file.format in TABLES else _with_delimiter(file))
    first = next(rows, None)
    if first is None:
        raise InputError(f"{file.name} is empty: a golden set has at least one pair")
    following = list(islice(rows, PEEK))
    places, by_cluster, has_header = _layout(
        first[1], following, _split(pairs), _split(clusters), file
    )
    if has_header and len(places) == 3 and not by_cluster:
        places += _weight_places([name or "" for name in first[1]], places)
    numbered = f"{file.name}, {'row' if file.format in TABLES else 'line'}"
    rows = chain([] if has_header else [first], following, rows)
    columns = ""
    if has_header and not (pairs or clusters):
        columns = _describe_columns([first[1][place] or "" for place in places[:3]], by_cluster)
    return GoldenRows(_select_columns(rows, places, numbered), by_cluster, numbered, columns)


def _describe_columns(names: list[str], by_cluster: bool) -> str:
    """Return how columns were read, in words; empty if they have the usual names.

    >>> _describe_columns(["left", "right", "same"], by_cluster=False)
    'the ids are left and right; same is 1, true or yes for duplicates, 0, false or no for others'
    """
    if names in USUAL:
        return ""
    if by_cluster:
        return f"the ids are {names[0]}, the clusters {names[1]}"
    ids = f"the ids are {names[0]} and {names[1]}"
    if len(names) == 2:
        return f"{ids}; all pairs are duplicates"
    return f"{ids}; {names[2]} is 1, true or yes for duplicates, 0, false or no for others"


def _with_delimiter(file: InputFile) -> InputFile:
    """Return a file with the delimiter of its first line, if the usual one does not occur there."""
    with name_read_errors(file, "get it again"):
        unquoted = replace(file, dialect=replace(file.dialect, quote=None))
        first = next(delimited.split_records(unquoted), [])
    mark = (
        next((mark for mark in DELIMITERS if mark in first[0]), None) if len(first) == 1 else None
    )
    return replace(file, dialect=replace(file.dialect, delimiter=mark)) if mark else file


def _split(names: Names) -> Sequence[str] | None:
    """Return names of columns as a list."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _read(file: InputFile) -> Iterator[Row]:
    """Yield the rows of a file, its header included."""
    with name_read_errors(file, "get it again"):
        yield from _table_rows(file) if file.format in TABLES else _delimited_rows(file)


Layout = tuple[list[int], bool, bool]
"""The places of the columns, whether they are clusters, and whether there is a header."""


def _layout(
    first: Sequence[str | None],
    following: Sequence[Row],
    pairs: Sequence[str] | None,
    clusters: Sequence[str] | None,
    file: InputFile,
) -> Layout:
    """Return where the columns are, by their names or, without names, by their order."""
    names = [name or "" for name in first]
    if pairs is not None:
        return _places(names, pairs, (2, 3), file, "--pairs"), False, True
    if clusters is not None:
        return _places(names, clusters, (2,), file, "--clusters"), True, True
    plain = [re.sub(r"[\s-]+", "_", name.strip().lower()) for name in names]
    if layout := _by_names(plain, names, following, file):
        return layout
    if file.format not in TABLES:
        if len(names) > 2 and plain[2] in LABELS:
            return [0, 1, 2], False, False
        if len(names) == 2:
            if not _is_header(names, plain, following):
                return [0, 1], False, False
            raise ColumnError("id1", names, file.name, f"{CHOOSE}; {NO_HEADER}")
    raise ColumnError("id2" if "id1" in plain else "id1", names, file.name, CHOOSE)


def _by_names(
    plain: list[str], names: list[str], following: Sequence[Row], file: InputFile
) -> Layout | None:
    """Return the layout of a header whose names are known; None if the first row is none."""
    labels = [place for place, name in enumerate(plain) if name in LABEL_NAMES]
    if "label" in plain:
        labels = [plain.index("label")]
    ids = _id_places(plain)
    if ids is None and len(plain) == 3 and len(labels) == 1 and plain[2] not in LABELS:
        ids = [place for place in range(3) if place != labels[0]]
    if ids is not None and not _recur(names, following):
        known = [plain[place] for place in ids] == ["id1", "id2"]
        if not known and _are_alike([names[place] for place in ids], following, ids):
            raise ColumnError("id1", names, file.name, f"{CHOOSE}; {NO_HEADER}")
        others = [place for place in range(len(plain)) if place not in ids]
        if len(labels) == 1:
            return [*ids, *labels], False, True
        if labels or (others and not known) or any(_are_labels(following, at) for at in others):
            raise ColumnError("label", names, file.name, CHOOSE)
        return ids, False, True
    groups = [place for place, name in enumerate(plain) if name in CLUSTER_NAMES]
    own = [place for place, name in enumerate(plain) if name in _NOUNS + _NOUNS_TOO]
    if "id" in plain:
        own = [plain.index("id")]
    if len(groups) == len(own) == 1 and not _recur(names, following):
        return [*own, *groups], True, True
    return None


def _id_places(plain: list[str]) -> list[int] | None:
    """Return the places of the two columns of ids, if names tell them."""
    if {"id1", "id2"} <= set(plain):
        return [plain.index("id1"), plain.index("id2")]
    for left, right in pairwise(plain):
        if (left, right) in ID_NAMES:
            return [plain.index(left), plain.index(right)]
    return None


def _recur(names: Sequence[str], following: Sequence[Row]) -> bool:
    """Return whether a field of the first row is in a later one: it is an id, then, not a name."""
    later = {field for _, fields in following for field in fields}
    return any(name in later for name in names if name)


def _are_alike(names: Sequence[str], following: Sequence[Row], places: Sequence[int]) -> bool:
    """Return whether the ids below have the form of the names: `doc1,doc2` above `doc3,doc4`."""
    rows = [
        [_form(fields[place] or "") for place in places]
        for _, fields in following
        if len(fields) > max(places)
    ]
    return bool(rows) and all(row == [_form(name) for name in names] for row in rows)


def _form(field: str) -> str:
    """Return a field with all numbers the same, and all letters that stand alone."""
    return re.sub(r"(?<![a-z])[a-z](?![a-z])", "a", re.sub(r"\d+", "0", field.strip().lower()))


def _are_labels(following: Sequence[Row], place: int) -> bool:
    """Return whether all fields of a column could be labels."""
    fields = [(row[place] or "").strip().lower() for _, row in following if place < len(row)]
    return bool(fields) and all(field in LABELS for field in fields)


def _is_header(names: Sequence[str], plain: list[str], following: Sequence[Row]) -> bool:
    """Return whether the first row of two columns looks like names above ids.

    That is so if both are common names of columns, or if digits, or a sign such as `/`, are in all
    ids below but not in the name, in both columns.
    """
    if _recur(names, following):
        return False
    rows = [fields for _, fields in following if len(fields) == len(names)]
    if set(plain) <= HEADER_WORDS or not rows:
        return set(plain) <= HEADER_WORDS
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return all(
        set.intersection(*(_signs(field or "") for field in column)) - _signs(name)
        for name, column in columns
    )


def _signs(field: str) -> set[str]:
    """Return which characters of a field are no letters; digits are all the same."""
    return {"0" if sign.isdigit() else sign for sign in field if not sign.isalpha()}


def _places(
    names: list[str], wanted: Sequence[str], counts: tuple[int, ...], file: InputFile, option: str
) -> list[int]:
    """Return the places of the wanted columns; raise an error if one is missing."""
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
    """The lines of the current record, and the number of lines read so far."""

    taken = 0

    def append(self, line: str) -> None:
        self.taken += 1
        super().append(line)


def _delimited_rows(file: InputFile) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file, numbered by lines."""
    lines = _Lines()
    for fields in delimited.split_records(file, lines):
        yield lines.taken, [field if field.isascii() else _decoded(field) for field in fields]


def _decoded(field: str) -> str:
    """Decode a field, which was read as Latin-1 so that no byte is lost."""
    return field.encode("latin-1").decode("utf-8", "backslashreplace")


def _table_rows(file: InputFile) -> Iterator[Row]:
    """Yield the names of the columns, then the rows of a Parquet or Arrow file."""
    number = 0
    for batch in columnar.read_batches(file, BATCH):
        if not number:
            yield 0, batch.schema.names
        columns = [to_strings(column).to_pylist() for column in batch.columns]
        for fields in zip(*columns, strict=True):
            number += 1
            yield number, fields


def _weight_places(names: list[str], taken: Sequence[int]) -> list[int]:
    """Return the places of the weight, the stratum and its units, as far as there are any."""
    plain = [name.strip().lower() for name in names]
    if WEIGHT not in plain or plain.index(WEIGHT) in taken:
        return []
    wanted = list(takewhile(plain.__contains__, (WEIGHT, STRATUM, UNITS)))
    return [plain.index(name) for name in wanted]


def _select_columns(rows: Iterable[Row], places: list[int], numbered: str) -> Iterator[Row]:
    """Yield the chosen fields of each row."""
    needed = max(places)
    for number, fields in rows:
        if len(fields) <= needed:
            raise InputError(
                f"{numbered} {number}: {len(fields)} fields are too few: are columns missing?"
            )
        yield number, [fields[place] for place in places]
