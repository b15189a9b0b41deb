"""Reads and checks a golden set: labelled pairs of documents, or clusters of them.

A pair counts once, in either order. Rows that can't be used are dropped, counted and listed; a
value that is not a label is an error, because its meaning is unknown.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus import columnar, delimited
from neardup.corpus.columns import to_strings
from neardup.corpus.documents import render
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.streams import name_read_errors
from neardup.errors import ColumnError, InputError, UsageError

Row = tuple[int, Sequence[str | None]]
"""The number of a row, for error messages, and its fields."""

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
"""Names of columns, as a list or with commas between them; None for the default names."""


def rows_of(path: Path, pairs: Names, clusters: Names) -> tuple[Iterator[Row], bool, str]:
    """Return the rows of a golden file, whether they are clusters, and a prefix for row numbers."""
    if pairs and clusters:
        raise UsageError("a golden set holds pairs or clusters: name the columns of one of them")
    if path.is_dir():
        raise InputError(f"{path} is a folder: give the file of the golden set")
    if not os.path.lexists(path):  # globs are not expanded
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
    return _select_columns(rows, places, numbered), by_cluster, numbered


def _split(names: Names) -> Sequence[str] | None:
    """Return names of columns as a list."""
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else names


def _read(file: InputFile) -> Iterator[Row]:
    """Yield the rows of a file, its header included."""
    with name_read_errors(file, "get it again"):
        yield from _table_rows(file) if file.format in TABLES else _delimited_rows(file)


def _layout(
    first: Sequence[str | None],
    pairs: Sequence[str] | None,
    clusters: Sequence[str] | None,
    file: InputFile,
) -> tuple[list[int], bool, bool]:
    """Return the places of the columns, whether they are clusters, and whether there is a header.

    Without a header of known names, the first fields are taken, if the third is a label.
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


def _select_columns(rows: Iterable[Row], places: list[int], numbered: str) -> Iterator[Row]:
    """Yield the chosen fields of each row."""
    needed = max(places)
    for number, fields in rows:
        if len(fields) <= needed:
            raise InputError(
                f"{numbered} {number}: {len(fields)} fields are too few: are columns missing?"
            )
        yield number, [fields[place] for place in places]


Integers = NDArray[np.int64]
MOST_PAIRS: Final = 50_000_000
LISTED: Final = 20
SHOWN: Final = 2
LONGEST: Final = 80
SEVERAL: Final = "ids of several documents"
"""A flaw that drops no pair: the first document of such an id counts."""


@dataclass(frozen=True)
class Flaw:
    """Rows that were dropped: their number, and the ids of the first ones."""

    count: int
    listed: list[list[str]]

    @classmethod
    def of(cls, named: Sequence[Sequence[str]]) -> Flaw:
        """Count documents or pairs, each a list of ids."""
        return cls(len(named), [list(one) for one in named[:LISTED]])


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of documents, each once, with a label.

    Attributes:
        ids: The ids of the documents.
        a: The place of each pair's first document in `ids`.
        b: That of its second document, a < b.
        label: Whether the pair is labelled a duplicate.
        clusters: The cluster of each document, if the golden set has clusters: then every pair is
            labelled.
        flaws: Rows that were dropped, by the reason.
    """

    ids: list[str]
    a: Integers
    b: Integers
    label: NDArray[np.bool_]
    clusters: Integers | None
    flaws: dict[str, Flaw]

    def __len__(self) -> int:
        return len(self.a)

    def without(self, name: str, documents: Integers) -> LabelledPairs:
        """Return the pairs without these documents, which are counted as a flaw of this name."""
        flaw = Flaw.of([[self.ids[place]] for place in documents.tolist()])
        dropped = np.zeros(len(self.ids), bool)
        dropped[documents] = True
        kept = ~(dropped[self.a] | dropped[self.b])
        return replace(
            self,
            a=self.a[kept],
            b=self.b[kept],
            label=self.label[kept],
            flaws=self.flaws | {name: flaw},
        )


def load_golden(golden: Any, pairs: Names = None, clusters: Names = None) -> LabelledPairs:
    """Load a golden set.

    Args:
        golden: A file, a list of (id1, id2, label) or (id1, id2), or a dict of clusters by id.
        pairs: The columns of a file of pairs, if they don't have the default names.
        clusters: The columns of a file of clusters, if they don't have the default names.
    """
    if isinstance(golden, (str, Path)):
        return read_golden(Path(golden), pairs, clusters)
    if isinstance(golden, Mapping):
        return of_clusters(enumerate(map(_rendered, golden.items())))
    if not isinstance(golden, Iterable):
        raise UsageError(
            f"{type(golden).__name__} is no golden set: pass a file, a list of (id1, id2, label), "
            "or a dict of clusters by id"
        )
    return of_pairs(enumerate(map(_rendered, golden)))


def read_golden(path: Path, pairs: Names = None, clusters: Names = None) -> LabelledPairs:
    """Read the golden set of a TSV, CSV, Parquet or Arrow file."""
    rows, by_cluster, numbered = rows_of(path, pairs, clusters)
    return of_clusters(rows, numbered) if by_cluster else of_pairs(rows, numbered)


def of_pairs(rows: Iterable[Row], numbered: str = "row") -> LabelledPairs:
    """Return labelled pairs of rows; pairs without a third field are duplicates."""
    numbers: dict[str, int] = {}
    left, right, labels = array("q"), array("q"), array("b")
    for row, fields in rows:
        if len(left) == MOST_PAIRS:
            raise too_large_error(f"more than {MOST_PAIRS:,} pairs")
        if not 2 <= len(fields) <= 3:
            raise InputError(f"{numbered} {row}: a pair is id1, id2 and a label, or id1 and id2")
        a, b, *label = fields
        if not a or not b:
            raise _nameless(numbered, row)
        left.append(numbers.setdefault(a, len(numbers)))
        right.append(numbers.setdefault(b, len(numbers)))
        labels.append(_label(label[0], numbered, row) if label else True)
    ids = list(numbers)
    first, second = np.array(left, np.int64), np.array(right, np.int64)
    return _checked(
        ids, np.minimum(first, second), np.maximum(first, second), np.array(labels, bool)
    )


def of_clusters(rows: Iterable[Row], numbered: str = "row") -> LabelledPairs:
    """Return labelled pairs of documents and clusters: every pair gets a label."""
    clusters: dict[str, int] = {}
    cluster_of: dict[str, int] = {}
    repeated: list[list[str]] = []
    contradictory: dict[str, None] = {}
    for row, fields in rows:
        if len(fields) != 2:
            raise InputError(f"{numbered} {row}: a golden set of clusters has an id and a cluster")
        id, name = fields
        if not id or not name:
            raise _nameless(numbered, row)
        cluster = clusters.setdefault(name, len(clusters))
        if id not in cluster_of:
            cluster_of[id] = cluster
        elif cluster_of[id] == cluster:
            repeated.append([id])
        else:
            contradictory[id] = None
    for id in contradictory:
        del cluster_of[id]
    flaws = {
        "contradictory": Flaw.of([[id] for id in contradictory]),
        "repeated": Flaw.of([one for one in repeated if one[0] not in contradictory]),
    }
    return _every_pair(list(cluster_of), np.array([*cluster_of.values()], np.int64), flaws)


def _every_pair(ids: list[str], clusters: Integers, flaws: dict[str, Flaw]) -> LabelledPairs:
    """Return every pair of documents, labelled by whether they share a cluster."""
    documents = len(ids)
    if documents * (documents - 1) // 2 > MOST_PAIRS:
        raise too_large_error(
            f"the {documents:,} documents of all clusters make more pairs than that"
        )
    later = np.arange(documents - 1, -1, -1)
    a = np.repeat(np.arange(documents), later)
    b = np.arange(len(a)) - np.repeat(np.cumsum(later) - later, later) + a + 1
    return LabelledPairs(ids, a, b, clusters[a] == clusters[b], clusters, flaws)


def _checked(ids: list[str], a: Integers, b: Integers, label: NDArray[np.bool_]) -> LabelledPairs:
    """Return each pair once, in the order of the rows, without contradictions and self-pairs."""

    def named(rows: Integers) -> Flaw:
        first = rows[:LISTED]
        pairs = zip(a[first].tolist(), b[first].tolist(), strict=True)
        return Flaw(len(rows), [[ids[x], ids[y]] for x, y in pairs])

    alone = np.flatnonzero(a == b)
    rows = np.flatnonzero(a != b)
    _, first, group = np.unique(
        a[rows] * len(ids) + b[rows], return_index=True, return_inverse=True
    )
    positive = np.bincount(group, label[rows], len(first)).astype(np.int64)
    count = np.bincount(group, minlength=len(first))
    both = (positive > 0) & (positive < count)
    again = np.ones(len(rows), bool)
    again[first] = False
    used = np.sort(rows[first[~both]])
    flaws = {
        "contradictory": named(np.sort(rows[first[both]])),
        "repeated": named(rows[again & ~both[group]]),
        "self-pairs": named(alone),
    }
    return LabelledPairs(ids, a[used], b[used], label[used], None, flaws)


def too_large_error(what: str) -> InputError:
    """Return the error for a golden set with too many pairs."""
    return InputError(
        f"the golden set is too large ({what}), {MOST_PAIRS:,} pairs are the most: give some of "
        "the pairs, or of the clusters"
    )


def no_pairs_error(golden: LabelledPairs) -> InputError:
    """Return the error for a golden set without a usable pair, with the flaws of its rows."""
    flaws = ", ".join(f"{flaw.count:,} {name}" for name, flaw in golden.flaws.items() if flaw.count)
    return InputError(
        f"the golden set has no pair that can be used ({flaws or 'it has no rows'}): give pairs of "
        "ids with a label, or ids with their clusters"
    )


def no_pairs_left_error(golden: LabelledPairs, names: Sequence[str]) -> InputError:
    """Return the error for a golden set of another corpus, whose documents have these names."""
    if not golden.flaws["unknown ids"].count:
        return InputError(
            "no labelled pair is left, all have an empty document: choose the column of the texts "
            "with --text"
        )
    mine, theirs = (" and ".join(map(printable_id, ids[:SHOWN])) for ids in (golden.ids, names))
    option = "--pairs" if golden.clusters is None else "--clusters"
    return InputError(
        f"no labelled pair is left: the golden set has ids as {mine}, the corpus as {theirs}: "
        f"choose the column of ids in the corpus with --id, in the golden set with {option}"
    )


def printable_id(id: str) -> str:
    """Return an id shortened and without control characters, for a terminal."""
    short = id if len(id) <= LONGEST else f"{id[: LONGEST // 2]}…{id[-LONGEST // 2 :]}"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in short)


def _nameless(numbered: str, row: int) -> InputError:
    """Return the error for a row with an empty id."""
    return InputError(f"{numbered} {row}: a name is missing: give the ids of documents")


def _label(field: str | None, numbered: str, row: int) -> bool:
    """Parse a label."""
    try:
        return LABELS[(field or "").strip().lower()]
    except KeyError:
        sample = (field or "")[:LISTED]
        raise InputError(
            f"{numbered} {row}: {sample!r} is not a label: write 1 or 0, true or false, yes or no"
        ) from None


def _rendered(row: Any) -> list[str | None]:
    """Return the fields of a row in Python as strings."""
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        raise UsageError("a golden set in Python is a list of (id1, id2, label) or (id1, id2)")
    return [render(field) for field in row]
