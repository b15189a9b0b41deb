"""The right answer to a question, by the definition, and the promises that any answer must keep.

Nothing here trusts the implementation: similarities are arithmetic over the reference's shingles,
buckets are the reference's keys, the keep list is `reference.keep_list`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from neardup import reference
from neardup.decisions import Decision
from neardup.decisions import Decisions as Said
from neardup.lsh.blocks import Blocks
from neardup.reference import weighted
from neardup.reference.dates import parse_date
from neardup.spec import Spec

Row = dict[str, Any]
Removed = tuple[str | None, float | None, bool]
"""Witness, similarity, whether that is exact."""
BANDS, ROWS, SLOTS = 6, 2, 12
POINT: Row = {"shingle": "word:2", "slots": SLOTS, "bands": BANDS, "rows": ROWS}
ANY = 1e-9
"""The threshold of documents that are not verified: those of a bucket agree in a slot at least."""


@dataclass(frozen=True)
class Decisions:
    """An engine's answer, by the ids of the documents."""

    kept: list[str]
    removed: dict[str, Removed]
    rejected: list[str]
    vetoed: dict[str, Removed] = field(default_factory=dict)
    """What `distinguish` keeps, with witness, similarity and exactness without it."""


@dataclass(frozen=True)
class Sketched:
    """Documents as a sketch sees them, by their places in rank order."""

    keys: list[list[int]]
    """The key of each document in each hash table."""
    similarity: Callable[[int, int], float]
    """Of the first document to the second, which has a better rank."""
    threshold: float


def _by_minhash(hashes: list[list[int]], asked: Row) -> Sketched:
    spec = Spec.of(asked["shingle"], slots=asked["slots"])
    sets = [reference.shingles(found, spec.size) for found in hashes]
    signatures = [reference.signature(one, spec) for one in sets]

    def similarity(later: int, sooner: int) -> float:
        if asked["verify"] == "exact":
            return reference.MEASURES[asked["measure"]](sets[later], sets[sooner])
        return reference.estimate(signatures[later], signatures[sooner])

    return Sketched(_band_keys(signatures, asked), similarity, _threshold(asked))


def _by_weights(hashes: list[list[int]], asked: Row) -> Sketched:
    bags = _weigh(hashes, asked, 2**16)
    signatures = [weighted.weighted_signature(bag, asked["slots"], 0) for bag in bags]

    def similarity(later: int, sooner: int) -> float:
        if asked["verify"] == "exact":
            return weighted.weighted_jaccard(bags[later], bags[sooner])
        return reference.estimate(signatures[later], signatures[sooner])

    return Sketched(_band_keys(signatures, asked), similarity, _threshold(asked))


def _by_fingerprints(hashes: list[list[int]], asked: Row) -> Sketched:
    bits, distance = asked["slots"], asked["hamming"]
    bags = _weigh(hashes, asked, 1)
    made = [
        weighted.sign(weighted.sums([(weighted.words(x, bits), n) for x, n in bag.items()], bits))
        for bag in bags
    ]
    blocks = Blocks.usual(bits, distance).blocks
    return Sketched(
        [weighted.block_keys(one, bits, distance, blocks) for one in made],
        lambda later, sooner: 1 - weighted.hamming(made[later], made[sooner]) / bits,
        1 - distance / bits,
    )


def _weigh(hashes: list[list[int]], asked: Row, one: int) -> list[dict[int, int]]:
    """The weight of each shingle in each document; `one` is the weight of an occurrence by tf."""
    bags = [weighted.bag(found, Spec.of(asked["shingle"]).size) for found in hashes]
    cells, count = weighted.cells(bags), sum(map(bool, bags))

    def weight(shingle: int) -> int:
        if asked["weights"] == "tf":
            return one
        return weighted.inverse_frequency(count, cells[shingle >> 42])

    return [{x: n * weight(x) for x, n in Counter(bag).items()} for bag in bags]


def _band_keys(signatures: list[list[int]], asked: Row) -> list[list[int]]:
    curves = [(asked["bands"], asked["rows"])]
    if asked["tables"]:
        curves = [(int(b), int(r)) for b, r in (t.split("x") for t in asked["tables"].split(","))]
    return [reference.table_keys(signature, curves) for signature in signatures]


def _threshold(asked: Row) -> float:
    return ANY if asked["verify"] == "none" else float(asked["threshold"])


SKETCHES = {"minhash": _by_minhash, "weighted": _by_weights, "simhash": _by_fingerprints}
DEFAULTS: Row = {
    **POINT,
    "threshold": 0.5,
    "limit": 256,
    "keep": "first",
    "within": None,
    "distinguish": None,
    "verify": "exact",
    "measure": "jaccard",
    "sketch": "minhash",
    "weights": "tf",
    "hamming": None,
    "tables": None,
    "mask": "",
}


def in_rank_order(documents: Sequence[Row], keep: str) -> list[Row]:
    """The best document to keep first; where two are equally good, as they come."""
    policy, _, column = keep.partition(":")
    if policy in ("first", "none", "last"):
        return list(documents)[:: -1 if policy == "last" else 1]
    if policy == "longest":
        return sorted(documents, key=lambda row: -len(row["text"].encode()))
    sign = -1 if policy in ("max", "newest") else 1
    by_date = policy in ("newest", "oldest")
    values = [parse_date(row[column]) if by_date else row[column] for row in documents]
    # A document without a value is the last one to keep.
    places = sorted(
        range(len(values)), key=lambda at: (values[at] is None, sign * (values[at] or 0))
    )
    return [documents[at] for at in places]


def _joined(documents: Sequence[Row], names: str) -> list[Row]:
    """The documents with the text of several columns: those that are not empty, in this order."""

    def value(row: Any, name: str) -> str:
        for key in name.split("."):
            row = row[key]
        return row or ""

    return [
        row | {"text": "\n\n".join(filter(None, (value(row, n) for n in names.split(","))))}
        for row in documents
    ]


class Definition:
    """A corpus and a question: the one right answer, and what any answer must fulfil.

    Args:
        documents: The documents to decide about.
        earlier: Documents that came earlier: they rank first and are never removed.
        said: What people decided.
        **question: Options of `neardup.dedup` that differ from DEFAULTS.
    """

    def __init__(
        self,
        documents: Sequence[Row],
        earlier: Sequence[Row] = (),
        said: Sequence[Decision] = (),
        **question: Any,
    ) -> None:
        self.decisions = Said.of(said)
        self.decisions.check("said")
        self.said = [(one.action, *one.subject) for one in self.decisions.in_force]
        self.named = self.decisions.names
        if names := question.pop("text", None):
            documents, earlier = (_joined(part, names) for part in (documents, earlier))
        self.documents, self.earlier = documents, earlier
        self.old = {row["id"] for row in earlier}
        self.asked = DEFAULTS | question
        spec = Spec.of(self.asked["shingle"])
        keep, within = self.asked["keep"], self.asked["within"]
        ranked = [row for part in (earlier, documents) for row in in_rank_order(part, keep)]
        hashes = {
            row["id"]: reference.unit_hashes(reference.units(self._compared(row), spec), spec)
            for row in ranked
        }
        self.empty = {id for id, found in hashes.items() if not found}
        self.ranked = [row for row in ranked if row["id"] not in self.empty]
        self.group = [
            (row[within] if within else None, *self._distinct(row)) for row in self.ranked
        ]
        self.content = [
            (repr(group), reference.content_hash(hashes[row["id"]]))
            for row, group in zip(self.ranked, self.group, strict=True)
        ]
        self.sketched = SKETCHES[self.asked["sketch"]](
            [hashes[row["id"]] for row in self.ranked], self.asked
        )
        self.buckets = [
            {(repr(group), table, key) for table, key in enumerate(keys)}
            for group, keys in zip(self.group, self.sketched.keys, strict=True)
        ]
        self.place = {row["id"]: place for place, row in enumerate(self.ranked)}

    def _compared(self, row: Row) -> str:
        """Return the text of a document that is compared."""
        return reference.mask(row["text"], [name for name in self.asked["mask"].split(",") if name])

    def _distinct(self, row: Row) -> list[Any]:
        """Return what distinguishes a document: its numbers, or its values in columns."""
        given = (self.asked["distinguish"] or "").split(",")
        return [
            reference.numbers(row["text"], "standard") if name == "numbers" else row[name]
            for name in filter(None, given)
        ]

    @property
    def exact(self) -> bool:
        """Whether the similarities of documents that differ are exact."""
        return bool(self.asked["verify"] == "exact" and self.asked["sketch"] != "simhash")

    def decide(self) -> Decisions:
        """Return the answer."""
        names = [row["id"] for row in self.ranked]
        verdicts = reference.keep_decided(
            names,
            self.content,
            self.buckets,
            self.sketched.similarity,
            self.sketched.threshold,
            self.asked["limit"],
            self.said,
            sum(name in self.old for name in names),
        )
        removed: dict[str, Removed] = {}
        for place, verdict in enumerate(verdicts):
            if verdict is None or names[place] in self.old:
                continue
            witness, similarity = verdict
            # Documents that a decision names are compared; other copies are known by their hashes.
            alike = witness >= 0 and self.content[place] == self.content[witness]
            known = alike and not self.named & {names[place], names[witness]}
            removed[names[place]] = (
                names[witness] if witness >= 0 else None,
                similarity,
                (known or self.exact) and witness >= 0,
            )
        ids = [row["id"] for row in self.documents]
        if self.asked["keep"] == "none":
            removed |= self._leaders(removed, ids)
        removed = {id: removed[id] for id in ids if id in removed}
        kept = [id for id in ids if id not in removed.keys() | self.empty]
        vetoed = {}
        if self.asked["distinguish"]:
            question = self.asked | {"distinguish": None}
            others = Definition(self.documents, self.earlier, self.decisions.given, **question)
            vetoed = {id: one for id, one in others.decide().removed.items() if id in kept}
        return Decisions(kept, removed, [id for id in ids if id in self.empty], vetoed)

    def _leaders(self, removed: dict[str, Removed], ids: list[str]) -> dict[str, Removed]:
        """The kept documents with copies, each for its first copy: `reference.keep_none`."""
        place = {id: number for number, id in enumerate(ids)}
        answer: list[tuple[int, float] | None] = [
            (place[removed[id][0]], removed[id][1])
            if id in removed and removed[id][0] not in self.old
            else (number, 0.0)
            if id in removed
            else None
            for number, id in enumerate(ids)
        ]
        found = {}
        for id, before, after in zip(ids, answer, reference.keep_none(answer), strict=True):
            if before is None and after is not None:
                copy = ids[after[0]]
                found[id] = (copy, after[1], removed[copy][2])
        return found

    def check_promises(self, got: Decisions) -> None:
        """Assert promises 1, 2, 3 and 5 of the README; determinism is a matter of two answers."""
        # 5: nothing vanishes, and only what is empty is rejected.
        ids = [row["id"] for row in self.documents]
        assert sorted([*got.kept, *got.removed, *got.rejected]) == sorted(ids)
        assert set(got.rejected) == self.empty & set(ids)
        # 1 and 2: a kept witness of better rank, similar enough, with no chain in between; with
        # --keep none one that is removed too.
        dropped, staying = self._decided("drop"), self._decided("keep", "prefer")
        assert staying <= set(got.kept)
        none = self.asked["keep"] == "none"
        remaining = {*got.kept, *self.old} - self._named_by("drop")
        for id, (witness, similarity, exact) in got.removed.items():
            assert (witness is None) == (id in dropped)
            if witness is None:
                assert (similarity, exact) == (None, False)
                continue
            later, sooner = self.place[id], self.place[witness]
            assert (witness in got.removed or witness in self.old) if none else witness in remaining
            if none and got.removed.get(witness, ("",))[0] == id:
                sooner, later = sorted((sooner, later))
                assert sooner < later
            else:
                assert self._rank(witness) < self._rank(id)
            assert not self.are_different(id, witness)
            if self.content[later] == self.content[sooner] and not {id, witness} & self.named:
                assert (similarity, exact) == (1.0, True)
            else:
                assert similarity == self.sketched.similarity(later, sooner)
                assert similarity >= self.sketched.threshold or self.are_same(id, witness)
                assert exact == self.exact
        # 3: no two kept documents that share a bucket are similar, up to the limit, unless someone
        # said so.
        if self.asked["limit"] < len(self.ranked):
            return
        for id in set(got.kept) - staying:
            later = self.place[id]
            for other in remaining - self.empty:
                if self._rank(other) >= self._rank(id) or self.are_different(id, other):
                    continue
                sooner = self.place[other]
                assert not self.are_same(id, other)
                if self.buckets[sooner] & self.buckets[later]:
                    assert self.sketched.similarity(later, sooner) < self.sketched.threshold

    def _decided(self, *actions: str) -> set[str]:
        """The new documents, none of them empty, that a decision is about."""
        return self._named_by(*actions) & self.place.keys() - self.old

    def _named_by(self, *actions: str) -> set[str]:
        about = self.decisions.by_document
        return {id for id, one in about.items() if one.action in actions}

    def _rank(self, id: str) -> tuple[bool, bool, int]:
        new = id not in self.old
        preferred = id in self.decisions.by_document and (
            self.decisions.by_document[id].action == "prefer"
        )
        return new, new and not preferred, self.place[id]

    def are_same(self, one: str, other: str) -> bool:
        """Return whether people called two documents the same, also by way of others."""
        classes = self.decisions.classes
        return one in classes and classes[one] == classes.get(other)

    def are_different(self, one: str, other: str) -> bool:
        """Return whether people called two documents different, or what is the same as they are."""
        classes = self.decisions.classes
        pair = {classes.get(name, name) for name in (one, other)}
        return any(
            said.action == "different" and {classes.get(name, name) for name in both} == pair
            for both, said in self.decisions.by_pair.items()
        )

    def pairs(self) -> list[tuple[str, str, float]]:
        """All similar pairs that share a bucket, in input order; for keep=first."""
        return [
            (self.ranked[a]["id"], self.ranked[b]["id"], self.sketched.similarity(b, a))
            for a in range(len(self.ranked))
            for b in range(a + 1, len(self.ranked))
            if self.buckets[a] & self.buckets[b]
            and self.sketched.similarity(b, a) >= self.sketched.threshold
        ]
