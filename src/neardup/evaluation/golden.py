"""Reads and checks a golden set: labelled pairs of documents, or clusters of them.

A pair counts once, in either order. Rows that can't be used are dropped, counted and listed; a
value that is not a label is an error, because its meaning is unknown.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import render
from neardup.errors import InputError, UsageError
from neardup.evaluation.drawn_pairs import PairWeights
from neardup.evaluation.golden_file import LABELS, Names, Row, rows_of

Integers = NDArray[np.int64]
MOST_PAIRS: Final = 50_000_000
MOST_WEIGHT: Final = 1e18
LISTED: Final = 20
SHOWN: Final = 2
LONGEST: Final = 80
FEW: Final = 30
"""Fewer pairs than this of one label give figures that are hardly more than a guess."""
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
        columns: Which columns of its file were recognised as ids and labels, in words; empty if
            they have the usual names.
        weights: How the pairs were drawn, if each stands for others.
    """

    ids: list[str]
    a: Integers
    b: Integers
    label: NDArray[np.bool_]
    clusters: Integers | None
    flaws: dict[str, Flaw]
    columns: str = ""
    weights: PairWeights | None = None

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
            weights=self.weights and self.weights.take(kept),
        )


def load_golden(golden: Any, pairs: Names = None, clusters: Names = None) -> LabelledPairs:
    """Load a golden set.

    Args:
        golden: A file, a list of (id1, id2, label), (id1, id2) or, of pairs that were drawn,
            (id1, id2, label, weight, stratum), or a dict of clusters by id.
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
    found = rows_of(path, pairs, clusters)
    read = of_clusters if found.clusters else of_pairs
    return replace(read(found.rows, found.numbered), columns=found.columns)


def of_pairs(rows: Iterable[Row], numbered: str = "row") -> LabelledPairs:
    """Return labelled pairs of rows; pairs without a third field are duplicates.

    A fourth field is the number of pairs that this one stands for, a fifth its stratum, a sixth by
    how many independent pairs the size of the stratum was estimated.
    """
    numbers: dict[str, int] = {}
    strata: dict[str, int] = {}
    left, right, labels = array("q"), array("q"), array("b")
    weights, stratum = array("d"), array("q")
    units: dict[int, float] = {}
    for row, fields in rows:
        if len(left) == MOST_PAIRS:
            raise too_large_error(f"more than {MOST_PAIRS:,} pairs")
        if not 2 <= len(fields) <= 6:
            raise InputError(f"{numbered} {row}: a pair is id1, id2 and a label, or id1 and id2")
        a, b, *label = fields
        if not a or not b:
            raise _nameless(numbered, row)
        left.append(numbers.setdefault(a, len(numbers)))
        right.append(numbers.setdefault(b, len(numbers)))
        labels.append(_label(label[0], numbered, row) if label else True)
        if len(label) > 1:
            weights.append(_weight(label[1], numbered, row))
            name = (label[2] or "") if len(label) > 2 else str(weights[-1])
            stratum.append(strata.setdefault(name, len(strata)))
            if len(label) > 3 and label[3]:
                units[stratum[-1]] = _weight(label[3], numbered, row)
    if weights and len(weights) < len(left):
        raise InputError("some pairs have a weight and others have none: give all of them one")
    known = [units.get(number, math.inf) for number in range(len(strata))]
    drawn = PairWeights(np.array(weights), np.array(stratum, np.int64), list(strata), known)
    ids = list(numbers)
    first, second = np.array(left, np.int64), np.array(right, np.int64)
    return _checked(
        ids,
        np.minimum(first, second),
        np.maximum(first, second),
        np.array(labels, bool),
        drawn if weights else None,
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


def _checked(
    ids: list[str],
    a: Integers,
    b: Integers,
    label: NDArray[np.bool_],
    weights: PairWeights | None,
) -> LabelledPairs:
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
    drawn = weights and weights.take(used)
    return LabelledPairs(ids, a[used], b[used], label[used], None, flaws, weights=drawn)


def format_flaws(golden: LabelledPairs) -> str:
    """Return the rows that were dropped, by the reason: "2 repeated, 1 unknown ids"."""
    return ", ".join(f"{flaw.count:,} {name}" for name, flaw in golden.flaws.items() if flaw.count)


def too_large_error(what: str) -> InputError:
    """Return the error for a golden set with too many pairs."""
    return InputError(
        f"the golden set is too large ({what}), {MOST_PAIRS:,} pairs are the most: give some of "
        "the pairs, or of the clusters"
    )


def no_pairs_error(golden: LabelledPairs) -> InputError:
    """Return the error for a golden set without a usable pair, with the flaws of its rows."""
    flaws = format_flaws(golden) or "it has no rows"
    return InputError(
        f"the golden set has no pair that can be used ({flaws}): give pairs of ids with a label, "
        "or ids with their clusters"
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


def _weight(field: str | None, numbered: str, row: int) -> float:
    """Parse how many pairs a pair stands for."""
    try:
        weight = float(field or "")
    except ValueError:
        weight = 0.0
    if not 0 < weight < MOST_WEIGHT:
        raise InputError(
            f"{numbered} {row}: {(field or '')[:LISTED]!r} is no weight: write how many pairs this "
            "one stands for, 1 / its chance to be drawn, and units above 0 or none"
        )
    return weight


def _rendered(row: Any) -> list[str | None]:
    """Return the fields of a row in Python as strings."""
    if isinstance(row, (str, bytes)) or not isinstance(row, Iterable):
        raise UsageError("a golden set in Python is a list of (id1, id2, label) or (id1, id2)")
    return [render(field) for field in row]
