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
from neardup.lsh.blocks import Blocks
from neardup.reference import weighted
from neardup.reference.dates import parse_date
from neardup.spec import Spec

Row = dict[str, Any]
BANDS, ROWS, SLOTS = 6, 2, 12
POINT: Row = {"shingle": "word:2", "slots": SLOTS, "bands": BANDS, "rows": ROWS}
ANY = 1e-9
"""The threshold of documents that are not verified: those of a bucket agree in a slot at least."""


@dataclass(frozen=True)
class Decisions:
    """An engine's answer, by the ids of the documents."""

    kept: list[str]
    removed: dict[str, tuple[str, float, bool]]
    """Witness, similarity, whether that is exact."""
    rejected: list[str]
    vetoed: dict[str, tuple[str, float, bool]] = field(default_factory=dict)
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
        **question: Options of `neardup.dedup` that differ from DEFAULTS.
    """

    def __init__(
        self, documents: Sequence[Row], earlier: Sequence[Row] = (), **question: Any
    ) -> None:
        if names := question.pop("text", None):
            documents, earlier = (_joined(part, names) for part in (documents, earlier))
        self.documents, self.earlier = documents, earlier
        self.old = {row["id"] for row in earlier}
        self.asked = DEFAULTS | question
        spec = Spec.of(self.asked["shingle"])
        keep, within = self.asked["keep"], self.asked["within"]
        ranked = [row for part in (earlier, documents) for row in in_rank_order(part, keep)]
        hashes = {
            row["id"]: reference.unit_hashes(reference.units(row["text"], spec), spec)
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
        first: dict[Any, int] = {}
        for place, content in enumerate(self.content):
            first.setdefault(content, place)
        unique = list(first.values())
        buckets = [self.buckets[place] for place in unique]
        names = {bucket: number for number, bucket in enumerate(sorted(set().union(*buckets)))}
        similar = {
            (i, j): self.sketched.similarity(later, sooner)
            for j, later in enumerate(unique)
            if self.ranked[later]["id"] not in self.old
            for i, sooner in enumerate(unique[:j])
            if buckets[i] & buckets[j]  # others are never compared
        }
        verdicts = reference.keep_list(
            [{names[bucket] for bucket in mine} for mine in buckets],
            similar,
            self.sketched.threshold,
            self.asked["limit"],
        )
        verdict_of = dict(zip(unique, verdicts, strict=True))
        removed: dict[str, tuple[str, float, bool]] = {}
        for place, row in enumerate(self.ranked):
            best = first[self.content[place]]
            verdict = verdict_of[best]
            if verdict is not None:
                witness = self.ranked[unique[verdict[0]]]["id"]
                removed[row["id"]] = (witness, verdict[1], self.exact)
            elif place != best:
                removed[row["id"]] = (self.ranked[best]["id"], 1.0, True)
        ids = [row["id"] for row in self.documents]
        if self.asked["keep"] == "none":
            removed |= self._leaders(removed, ids)
        removed = {id: removed[id] for id in ids if id in removed}
        kept = [id for id in ids if id not in removed.keys() | self.empty]
        vetoed = {}
        if self.asked["distinguish"]:
            others = Definition(self.documents, self.earlier, **self.asked | {"distinguish": None})
            vetoed = {id: one for id, one in others.decide().removed.items() if id in kept}
        return Decisions(kept, removed, [id for id in ids if id in self.empty], vetoed)

    def _leaders(
        self, removed: dict[str, tuple[str, float, bool]], ids: list[str]
    ) -> dict[str, tuple[str, float, bool]]:
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
        remaining, none = {*got.kept, *self.old}, self.asked["keep"] == "none"
        for id, (witness, similarity, exact) in got.removed.items():
            later, sooner = self.place[id], self.place[witness]
            assert (witness in got.removed or witness in self.old) if none else witness in remaining
            if none and got.removed.get(witness, ("",))[0] == id:
                sooner, later = sorted((sooner, later))
            assert sooner < later
            if self.content[later] == self.content[sooner]:
                assert (similarity, exact) == (1.0, True)
            else:
                assert similarity == self.sketched.similarity(later, sooner)
                assert similarity >= self.sketched.threshold
                assert exact == self.exact
        # 3: no two kept documents that share a bucket are similar, up to the limit.
        if self.asked["limit"] < len(self.ranked):
            return
        for id in got.kept:
            later = self.place[id]
            for other in remaining - self.empty:
                sooner = self.place[other]
                if sooner < later and self.buckets[sooner] & self.buckets[later]:
                    assert self.sketched.similarity(later, sooner) < self.sketched.threshold

    def pairs(self) -> list[tuple[str, str, float]]:
        """All similar pairs that share a bucket, in input order; for keep=first."""
        return [
            (self.ranked[a]["id"], self.ranked[b]["id"], self.sketched.similarity(b, a))
            for a in range(len(self.ranked))
            for b in range(a + 1, len(self.ranked))
            if self.buckets[a] & self.buckets[b]
            and self.sketched.similarity(b, a) >= self.sketched.threshold
        ]
