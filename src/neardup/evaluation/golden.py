"""Reads and checks a golden set: labelled pairs of documents, or clusters of them.

A pair counts once, whatever its order. Rows that can't be used are left out, counted and listed; a
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
    with name_read_errors(file, "get it again"):
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
    for fields in delimited.split_records(file, lines):
        yield lines.taken, [field if field.isascii() else _decoded(field) for field in fields]


def _decoded(field: str) -> str:
    """Records come as Latin-1, so that no byte is lost."""
    return field.encode("latin-1").decode("utf-8", "backslashreplace")


def _table_rows(file: InputFile) -> Iterator[Row]:
    """The names of the columns, then the rows."""
    number = 0
    for batch in columnar.read_batches(file, BATCH):
        if not number:
            yield 0, batch.schema.names
        columns = [to_strings(column).to_pylist() for column in batch.columns]
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


Integers = NDArray[np.int64]
MOST_PAIRS: Final = 50_000_000
LISTED: Final = 20
SHOWN: Final = 2
LONGEST: Final = 80
SEVERAL: Final = "ids of several documents"
"""The flaw that costs no pair: the first document of such a name counts."""


@dataclass(frozen=True)
class Flaw:
    """What was left out: how many, and the first ones by name, a document or a pair each."""

    count: int
    listed: list[list[str]]

    @classmethod
    def of(cls, named: Sequence[Sequence[str]]) -> Flaw:
        return cls(len(named), [list(one) for one in named[:LISTED]])


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of documents, each once, with a label; documents are places in `ids`, a < b.

    `clusters` has the cluster of each document if those were given: then every pair is labelled.
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
        """Without the pairs of some documents, which are a flaw of this name."""
        flaw = Flaw.of([[self.ids[place]] for place in documents.tolist()])
        gone = np.zeros(len(self.ids), bool)
        gone[documents] = True
        stay = ~(gone[self.a] | gone[self.b])
        return replace(
            self,
            a=self.a[stay],
            b=self.b[stay],
            label=self.label[stay],
            flaws=self.flaws | {name: flaw},
        )


def load_golden(golden: Any, pairs: Names = None, clusters: Names = None) -> LabelledPairs:
    """A golden set from a file, from (id1, id2, label) or (id1, id2), or from {id: cluster}.

    `pairs` and `clusters` name the columns of a file, if they have other names than usual.
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
    """The golden set in a TSV, CSV, Parquet or Arrow file."""
    rows, by_cluster, numbered = rows_of(path, pairs, clusters)
    return of_clusters(rows, numbered) if by_cluster else of_pairs(rows, numbered)


def of_pairs(rows: Iterable[Row], numbered: str = "row") -> LabelledPairs:
    """Of pairs, with a label as the third field or without: then all are duplicates."""
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
    """Of documents and their clusters: every pair is labelled, same cluster or not."""
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
    """Each pair once, in the order of the rows; without pairs that are no pairs."""

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
    return InputError(
        f"the golden set is too large ({what}), {MOST_PAIRS:,} pairs are the most: give some of "
        "the pairs, or of the clusters"
    )


def no_pairs_error(golden: LabelledPairs) -> InputError:
    """The error for a golden set that holds none, with what is wrong with its rows."""
    flaws = ", ".join(f"{flaw.count:,} {name}" for name, flaw in golden.flaws.items() if flaw.count)
    return InputError(
        f"the golden set has no pair that can be used ({flaws or 'it has no rows'}): give pairs of "
        "ids with a label, or ids with their clusters"
    )


def no_pairs_left_error(golden: LabelledPairs, names: Sequence[str]) -> InputError:
    """The error for a golden set that is of another corpus, whose documents have these names."""
    if not golden.flaws["unknown ids"].count:
        return InputError(
            "no labelled pair is left, all have an empty document: choose the column of the texts "
            "with --text"
        )
    mine, theirs = (" and ".join(map(printable_id, some[:SHOWN])) for some in (golden.ids, names))
    option = "--pairs" if golden.clusters is None else "--clusters"
    return InputError(
        f"no labelled pair is left: the golden set has ids as {mine}, the corpus as {theirs}: "
        f"choose the column of ids in the corpus with --id, in the golden set with {option}"
    )


def printable_id(id: str) -> str:
    """A name that does nothing to a terminal."""
    short = id if len(id) <= LONGEST else f"{id[: LONGEST // 2]}…{id[-LONGEST // 2 :]}"
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in short)


def _nameless(numbered: str, row: int) -> InputError:
    return InputError(f"{numbered} {row}: a name is missing: give the ids of documents")


def _label(field: str | None, numbered: str, row: int) -> bool:
    try:
        return LABELS[(field or "").strip().lower()]
    except KeyError:
        sample = (field or "")[:LISTED]
        raise InputError(
            f"{numbered} {row}: {sample!r} is not a label: write 1 or 0, true or false, yes or no"
        ) from None


def _rendered(row: Any) -> list[str | None]:
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        raise UsageError("a golden set in Python is a list of (id1, id2, label) or (id1, id2)")
    return [render(field) for field in row]
