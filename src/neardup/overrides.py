"""Decisions of people as an engine obeys them: `Overrides`, about documents by their numbers.

A person's word goes before the comparison. The definition is `reference.keep_decided`; what each
decision means is in docs/decisions/049-decisions.md.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from neardup.cluster import Grouped, Kept, Verifier
from neardup.decisions import Decision, Decisions, shorten
from neardup.errors import UsageError

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]
ALONE = np.uint64(1 << 63)
"""The bit of a document's key in the band of decisions that says that it is called the same."""


@dataclass(frozen=True)
class Overrides:
    """Decisions about documents that are there, by the numbers of the documents.

    Attributes:
        decisions: The decisions; they don't contradict one another.
        names: The names of the documents that they are about.
        documents: The numbers of these, ascending.
        missing: How many names no document has.
    """

    decisions: Decisions
    names: tuple[str, ...]
    documents: Integers
    missing: int = 0

    @classmethod
    def of(cls, decisions: Decisions, numbers: Mapping[str, int]) -> Overrides:
        """Make overrides of decisions and the numbers of the documents that they name."""
        found = sorted((numbers[name], name) for name in decisions.names if name in numbers)
        return cls(
            decisions,
            tuple(name for _, name in found),
            np.array([number for number, _ in found], np.int64),
            len(decisions.names) - len(found),
        )

    @cached_property
    def _names(self) -> dict[int, str]:
        return dict(zip(self.documents.tolist(), self.names, strict=True))

    def _about(self, *actions: str) -> Integers:
        decided = self.decisions.by_document
        found = [
            number
            for number, name in self._names.items()
            if name in decided and decided[name].action in actions
        ]
        return np.array(found, np.int64)

    @cached_property
    def staying(self) -> Integers:
        """The documents that stay, ascending."""
        return self._about("keep", "prefer")

    @cached_property
    def preferred(self) -> Integers:
        """The documents that rank before all others, ascending."""
        return self._about("prefer")

    @cached_property
    def dropped(self) -> Integers:
        """The documents that are removed before anything is compared, ascending."""
        return self._about("drop")

    @cached_property
    def _group_names(self) -> dict[str, int]:
        """A number for each document that is named, the same for those that are the same."""
        classes = self.decisions.classes
        stands = sorted({classes.get(name, name) for name in self.decisions.names})
        numbers = {name: number for number, name in enumerate(stands)}
        return {name: numbers[classes.get(name, name)] for name in self.decisions.names}

    @cached_property
    def _groups(self) -> Integers:
        """The group of each of `documents`."""
        return np.array([self._group_names[name] for name in self.names], np.int64)

    @cached_property
    def _apart(self) -> NDArray[np.uint64]:
        """The pairs of groups that are different, as numbers, ascending."""
        group = self._group_names
        pairs = [
            sorted((group[a], group[b]))
            for (a, b), one in self.decisions.by_pair.items()
            if one.action == "different"
        ]
        return np.unique(np.array([a << 32 | b for a, b in pairs], np.uint64))

    def group_of(self, documents: Integers) -> Integers:
        """Return the group of each document, -1 of those that no decision names."""
        if not len(self.documents):
            return np.full(len(documents), -1, np.int64)
        place = np.minimum(np.searchsorted(self.documents, documents), len(self.documents) - 1)
        return np.where(self.documents[place] == documents, self._groups[place], -1)

    def judge(self, one: Integers, other: Integers) -> tuple[Mask, Mask]:
        """Return which pairs of documents are the same, and which are different."""
        left, right = self.group_of(one), self.group_of(other)
        both = (left >= 0) & (right >= 0)
        low, high = np.minimum(left, right), np.maximum(left, right)
        pairs = np.where(both, low, 0).astype(np.uint64) << np.uint64(32)
        apart = both & np.isin(pairs | np.where(both, high, 0).astype(np.uint64), self._apart)
        return both & (left == right), apart

    @cached_property
    def classes(self) -> list[Integers]:
        """The documents that are the same as others, class by class, without those dropped."""
        left = ~np.isin(self.documents, self.dropped)
        groups, documents = self._groups[left], self.documents[left]
        order = np.argsort(groups, kind="stable")
        cuts = np.flatnonzero(np.diff(groups[order])) + 1
        return [one for one in np.split(documents[order], cuts) if len(one) > 1]

    def band_keys(self, count: int) -> NDArray[np.uint64]:
        """Return a key for each of `count` documents, equal for those that are the same."""
        keys = np.arange(count, dtype=np.uint64)
        for number, members in enumerate(self.classes):
            keys[members] = ALONE | np.uint64(number)
        return keys

    def explain(self, document: int, witness: int) -> str | None:
        """Return the decisions because of which a document is removed; None if there are none.

        Args:
            document: The removed document.
            witness: Its witness; negative if it is dropped.
        """
        name = self._names.get(document)
        if name is None:
            return None
        if witness < 0:
            decided = self.decisions.by_document.get(name)
            return None if decided is None or decided.action != "drop" else str(decided)
        other = self._names.get(witness)
        classes = self.decisions.classes
        if other is None or name not in classes or classes[name] != classes.get(other):
            return None
        return describe(self.decisions.path(other, name))

    def explain_all(self, documents: Integers, witnesses: Integers) -> list[str | None]:
        """Return what `explain` says of each removed document and its witness.

        Args:
            documents: The removed documents.
            witnesses: The witness of each.
        """
        reasons: list[str | None] = [None] * len(documents)
        for place in np.flatnonzero(np.isin(documents, self.documents)).tolist():
            reasons[place] = self.explain(int(documents[place]), int(witnesses[place]))
        return reasons

    def explain_kept(self, document: int) -> str | None:
        """Return the decisions about a document that is kept; None if there are none."""
        name = self._names.get(document)
        return None if name is None else describe(self.decisions.about(name))

    @property
    def described(self) -> dict[str, int]:
        """How many decisions there are, and how many documents they are about, for run.json."""
        return {
            "given": len(self.decisions),
            "in_force": len(self.decisions.in_force),
            "documents": len(self.documents),
            "missing": self.missing,
        }

    @property
    def digest(self) -> str:
        """A digest of everything that an answer depends on."""
        about = (self.documents, self._groups, self.staying, self.preferred, self.dropped)
        hashed = blake2b(digest_size=16)
        for part in (*about, self._apart):
            hashed.update(len(part).to_bytes(8, "little") + part.tobytes())
        return hashed.hexdigest()


def number_names(wanted: Collection[str], names: Iterable[str]) -> dict[str, int]:
    """Return the number of each document that is wanted; an error if several have one name.

    Args:
        wanted: The names that decisions are about.
        names: The names of the documents 0, 1, 2, ...
    """
    numbers: dict[str, int] = {}
    for number, name in enumerate(names):
        if name in wanted and numbers.setdefault(name, number) != number:
            raise ambiguous_error(name)
    return numbers


def ambiguous_error(name: str) -> UsageError:
    """Return the error that several documents have a name that a decision is about."""
    return UsageError(
        f"several documents have the id {shorten(name)!r}, so that a decision about it could mean "
        "any of them: make ids unique, or name documents as file:row in the decisions"
    )


def describe(decisions: Sequence[Decision]) -> str:
    """Return decisions in words, on one line; of many the first ones.

    >>> describe([Decision("drop", "x", who="ann", when="2026-03-01T12:00:00Z")])
    'drop x (ann, 2026-03-01T12:00:00Z)'
    """
    shown = "; ".join(map(str, decisions[:SHOWN]))
    return f"{shown}; and {len(decisions) - SHOWN} more" if len(decisions) > SHOWN else shown


SHOWN = 6
"""Decisions that one document's reason names."""


def obey_stars(
    kept: Kept,
    grouped: Grouped,
    verifier: Verifier,
    limit: int,
    overrides: Overrides,
    rows: Integers,
) -> Kept:
    """Return the keep list of candidates as overrides change it.

    A document's verdict depends on the better-ranked ones of its buckets alone. So the documents
    that are named are judged again in rank order, and with each that is kept no more, or now is,
    the later ones of its buckets.

    Args:
        kept: The keep list of `cluster.keep_stars`, without overrides.
        grouped: The buckets; those that are the same share one.
        verifier: Compares candidates.
        limit: The number of kept documents of a bucket that count.
        overrides: The decisions.
        rows: The document that each candidate is.
    """
    judge = _Judge(kept, grouped, verifier, limit, overrides, rows)
    waiting = np.flatnonzero(np.isin(rows, overrides.documents)).tolist()
    known = set(waiting)
    while waiting:
        v = heappop(waiting)
        if judge.decide(v):
            later = judge.later_members(v).tolist()
            for u in later:
                if u not in known:
                    known.add(u)
                    heappush(waiting, u)
    members, starts = grouped.members()
    leading = np.add.reduceat(judge.witness[members] < 0, starts[:-1]) if len(members) else starts
    turned_away = np.maximum(leading[: len(grouped.sizes)].astype(np.int64) - limit, 0)
    return Kept(judge.witness, judge.similarity, kept.compared + judge.compared, turned_away)


class _Judge:
    """Decides candidates one by one, in rank order, from a keep list that it changes."""

    def __init__(
        self,
        kept: Kept,
        grouped: Grouped,
        verifier: Verifier,
        limit: int,
        overrides: Overrides,
        rows: Integers,
    ) -> None:
        self.witness, self.similarity, self.compared = kept.witness, kept.similarity, 0
        self._grouped, self._verifier, self._limit = grouped, verifier, limit
        self._overrides, self._rows = overrides, rows
        self._members, self._starts = grouped.members()
        self._stays = np.isin(rows, overrides.staying)
        self._leaders: dict[int, list[int]] = {}

    def decide(self, v: int) -> bool:
        """Judge a candidate whose betters are decided; return whether it is kept no more, or now.

        Args:
            v: The candidate.
        """
        was = bool(self.witness[v] < 0)
        self.witness[v], self.similarity[v] = self._judged(v)
        if (is_kept := bool(self.witness[v] < 0)) == was:
            return False
        for bucket in self._buckets(v):
            leaders = self._kept_in(bucket)
            place = bisect_left(leaders, v)
            if is_kept and leaders[place : place + 1] != [v]:
                insort(leaders, v)
            elif not is_kept and leaders[place : place + 1] == [v]:
                del leaders[place]
        return True

    def later_members(self, v: int) -> Integers:
        """Return the later candidates of a candidate's buckets."""
        parts = [self._all_in(bucket) for bucket in self._buckets(v)]
        return np.unique(np.concatenate([part[part > v] for part in parts]))

    def _buckets(self, v: int) -> list[int]:
        return [bucket for bucket in self._grouped.numbers[v].tolist() if bucket >= 0]

    def _all_in(self, bucket: int) -> Integers:
        return self._members[self._starts[bucket] : self._starts[bucket + 1]]

    def _kept_in(self, bucket: int) -> list[int]:
        """Return the kept candidates of a bucket, ascending."""
        if bucket not in self._leaders:
            members = self._all_in(bucket)
            self._leaders[bucket] = members[self.witness[members] < 0].tolist()
        return self._leaders[bucket]

    def _judged(self, v: int) -> tuple[int, float]:
        if self._stays[v]:
            return -1, 1.0
        found: set[int] = set()
        for bucket in self._buckets(v):
            leaders = self._kept_in(bucket)
            found.update(leaders[: min(bisect_left(leaders, v), self._limit)])
        left = np.array(sorted(found), np.int64)
        same, apart = self._overrides.judge(self._rows[left], np.full(len(left), self._rows[v]))
        left, same = left[~apart], same[~apart]
        if not len(left):
            return -1, 1.0
        right = np.full(len(left), v)
        similar = self._verifier.pairs(left, right)
        similar[same] = self._verifier.pairs(left[same], right[same], least=0.0)
        self.compared += len(left)
        reached = np.flatnonzero(similar >= 0.0)
        if not len(reached):
            return -1, 1.0
        return int(left[reached[0]]), float(similar[reached[0]])
