"""The right answer to a question, by the definition: set arithmetic and `reference.keep_list`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from neardup import reference
from neardup.spec import Spec

Row = dict[str, Any]
BANDS, ROWS, SLOTS = 6, 2, 12
POINT: Row = {"shingle": "word:2", "slots": SLOTS, "bands": BANDS, "rows": ROWS}
SPEC = Spec(size=2, slots=SLOTS)
ANY = 1e-9
"""The threshold of documents that are not verified: those of a bucket agree in a slot at least."""


@dataclass(frozen=True)
class Decisions:
    """What an engine says of documents, by their ids."""

    kept: list[str]
    removed: dict[str, tuple[str, float, bool]]
    """Witness, similarity, whether that is exact."""
    rejected: list[str]


class Contents:
    """A document as the reference sees it."""

    def __init__(self, row: Row) -> None:
        hashes = reference.unit_hashes(reference.units(row["text"], SPEC), SPEC)
        self.row, self.empty = row, not hashes
        if hashes:
            self.content = reference.content_hash(hashes)
            self.set = reference.shingles(hashes, SPEC.size)
            self.slots = reference.signature(self.set, SPEC)


def in_rank_order(documents: Sequence[Row], keep: str) -> list[Row]:
    """The best document to keep first; where two are equally good, as they come."""
    policy, _, column = keep.partition(":")
    if policy == "first":
        return list(documents)
    if policy == "longest":
        return sorted(documents, key=lambda row: -len(row["text"].encode()))
    sign = -1 if policy == "max" else 1
    # A document without a value is the last one to keep.
    return sorted(
        documents,
        key=lambda row: (row[column] is None, sign * (row[column] or 0.0)),
    )


def decide(
    documents: Sequence[Row],
    earlier: Sequence[Row] = (),
    *,
    threshold: float = 0.5,
    limit: int = 256,
    keep: str = "first",
    within: str | None = None,
    verify: str = "exact",
    measure: str = "jaccard",
) -> Decisions:
    """Decide about `documents`; those that came earlier go first and are never removed."""
    ranked = [Contents(row) for part in (earlier, documents) for row in in_rank_order(part, keep)]
    whole = [one for one in ranked if not one.empty]
    first: dict[Any, Contents] = {}
    for one in whole:
        first.setdefault(_identity(one, within), one)
    unique = list(first.values())
    place = {id(one): number for number, one in enumerate(unique)}
    names: dict[Any, int] = {}
    buckets = [
        [
            names.setdefault((_group(one, within), band, key), len(names))
            for band, key in enumerate(reference.band_keys(one.slots, BANDS, ROWS))
        ]
        for one in unique
    ]
    old = {row["id"] for row in earlier}
    similar = {
        (i, j): _similarity(later, sooner, verify, measure)
        for j, later in enumerate(unique)
        if later.row["id"] not in old
        for i, sooner in enumerate(unique[:j])
    }
    least = ANY if verify == "none" else threshold
    verdicts = reference.keep_list(buckets, similar, least, limit)
    removed: dict[str, tuple[str, float, bool]] = {}
    for one in whole:
        best = first[_identity(one, within)]
        verdict = verdicts[place[id(best)]]
        if verdict is not None:
            witness = unique[verdict[0]].row["id"]
            removed[one.row["id"]] = (witness, verdict[1], verify == "exact")
        elif one is not best:
            removed[one.row["id"]] = (best.row["id"], 1.0, True)
    removed = {id: removed[id] for id in (row["id"] for row in documents) if id in removed}
    rejected = {one.row["id"] for one in ranked if one.empty}
    return Decisions(
        [row["id"] for row in documents if row["id"] not in removed.keys() | rejected],
        removed,
        [row["id"] for row in documents if row["id"] in rejected],
    )


def _group(one: Contents, within: str | None) -> Any:
    return one.row[within] if within else None


def _identity(one: Contents, within: str | None) -> Any:
    return _group(one, within), one.content


def _similarity(later: Contents, sooner: Contents, verify: str, measure: str) -> float:
    if verify != "exact":
        return sum(a == b for a, b in zip(later.slots, sooner.slots, strict=True)) / SLOTS
    return reference.MEASURES[measure](later.set, sooner.set)
