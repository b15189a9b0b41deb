"""Is a text a copy of a kept document? Nothing is stored."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, ParameterError
from neardup.index.answer import (
    DUPLICATE,
    NEW,
    REJECTED,
    Answer,
    Document,
    DocumentCluster,
    SimilarDocument,
)
from neardup.index.arrivals import Arrivals, SignatureCodec, SketchedTexts
from neardup.index.decider import CandidatePairs, Decider, Probes, first_similar
from neardup.index.lookup import LookupTables
from neardup.index.postings import LAST_NUMBER, Integers, Keys, Numbers
from neardup.index.settings import IndexSettings
from neardup.index.stats import Counters
from neardup.index.store import Row, Store, StoredDocuments
from neardup.index.validation import decode_text
from neardup.keys import Key
from neardup.lsh.bands import Bands, probe_keys
from neardup.sketch.removable import RemovableMinHash
from neardup.spec import check_whole
from neardup.text.arrays import Ragged


@dataclass(frozen=True)
class Probing:
    """Up to `most` more buckets for each text."""

    signing: SignatureCodec
    key: Key | None
    most: int

    def __post_init__(self) -> None:
        spec = self.signing.options.spec
        check_whole("probes", self.most, 1, spec.slots)
        if (spec.sketch, spec.family, spec.narrow) != ("minhash", "affine32", False):
            raise ParameterError(
                "probes are for whole slots of a minhash of the family affine32: leave them out"
            )

    def of(self, arrivals: Arrivals, chosen: Integers) -> Probes:
        """The buckets of the chosen texts."""
        listed = [
            (place, keys)
            for place, row in enumerate(chosen.tolist())
            for keys in self._keys(arrivals, row)
        ]
        keys = np.array([keys for _, keys in listed], np.uint64)
        return Probes(
            np.array([place for place, _ in listed], np.int64),
            keys.reshape(-1, arrivals.keys.shape[1]),
        )

    def _keys(self, arrivals: Arrivals, row: int) -> list[Integers]:
        """A look-up takes one key for each table: the n-th has every table's n-th probe."""
        shingles, bands = arrivals.shingles, self.signing.tables
        assert shingles is not None and isinstance(bands, Bands)  # noqa: S101  # a minhash of texts
        sketch = RemovableMinHash(spare=1, spec=self.signing.options.spec, key=self.key)
        sketch.update_hashes(shingles.data[shingles.offsets[row] : shingles.offsets[row + 1]])
        found: list[Integers] = []
        turns = [0] * bands.count
        for table, key in probe_keys(arrivals.compared[row], sketch.seconds, bands, self.most):
            if turns[table] == len(found):
                found.append(arrivals.keys[row].copy())
            found[turns[table]][table] = key
            turns[table] += 1
        return found


def rows_with(store: StoredDocuments, point: View, ids: Sequence[str]) -> dict[str, Row]:
    """The documents that have these ids."""
    numbers = sorted({number for some in point.derived.with_ids(ids) for number in some})
    asked = set(ids)
    rows = store.rows(numbers) if numbers else {}
    return {row.id: row for row in rows.values() if row.id in asked}


def rows_like(
    store: StoredDocuments,
    point: View,
    contents: Any,
    leaving: set[int] | frozenset[int] = frozenset(),
) -> dict[int, Row]:
    """Of contents that a document has, which stays: the first such document."""
    asked = point.derived.with_contents(contents)
    numbers = sorted({number for some in asked for number in some} - leaving)
    rows = store.rows(numbers) if numbers else {}
    found = {}
    for at, some in enumerate(asked):
        same = (rows[n] for n in some if n in rows and rows[n].content == contents[at].tobytes())
        if (first := next(same, None)) is not None:
            found[at] = first
    return found


def names_of(store: StoredDocuments, rows: Any, known: dict[int, str]) -> dict[int, str]:
    """The ids of the rows' witnesses, by number."""
    wanted = {row.witness for row in rows if row.witness is not None} - set(known)
    return known | {row.number: row.id for row in store.rows(sorted(wanted)).values()}


def copies_of(
    store: StoredDocuments,
    point: View,
    arrivals: Arrivals,
    counters: Counters,
    more: Probing | None = None,
) -> dict[int, Answer]:
    """Of those that are copies, what is said.

    With `more`, other buckets are looked into besides.
    """
    if not len(arrivals):
        return {}
    begun = time.perf_counter()
    same = rows_like(store, point, arrivals.content)
    rest = np.array([at for at in range(len(arrivals)) if at not in same], np.int64)
    found = {
        at: (row.number, 1.0, True)
        if row.witness is None or row.similarity is None
        else (row.witness, row.similarity, bool(row.exact))
        for at, row in same.items()
    }
    if len(rest):
        probes = None if more is None else more.of(arrivals, rest)
        _, pairs = point.decider.meetings(arrivals, rest, point.known(store), probes)
        counters.meet(len(rest), pairs, time.perf_counter() - begun)
        for row, place in first_similar(pairs):
            found[row] = (
                int(pairs.numbers[place]),
                float(pairs.similarity[place]),
                bool(pairs.exact[place]),
            )
    if not found:
        return {}
    names = {row.number: row.id for row in same.values()}
    if missing := {witness for witness, _, _ in found.values()} - names.keys():
        names |= {row.number: row.id for row in store.rows(sorted(missing)).values()}
    if any(witness not in names for witness, _, _ in found.values()):
        raise TablesBehind
    return {
        at: Answer(None, DUPLICATE, names[witness], similarity, exact, witness)
        for at, (witness, similarity, exact) in found.items()
    }


def answers_of(sketched: SketchedTexts, copies: dict[int, Answer]) -> list[Answer]:
    """What is said of all texts, in order: which are copies is known."""
    answers = [Answer(None, NEW)] * (len(sketched.places) + len(sketched.rejected))
    for place, why in sketched.rejected.items():
        answers[place] = Answer(None, REJECTED, reason=why)
    for at, answer in copies.items():
        answers[sketched.places[at]] = answer
    return answers


def matches_of(
    store: StoredDocuments, point: View, arrivals: Arrivals, most: int
) -> list[SimilarDocument]:
    """The kept documents that the one arrival is similar to, the most similar first."""
    _, pairs = point.decider.meetings(arrivals, np.zeros(1, np.int64), point.known(store))
    good = np.flatnonzero(pairs.similarity >= 0.0)
    return matches(store, pairs, good[np.argsort(-pairs.similarity[good], kind="stable")][:most])


def matches(
    store: StoredDocuments, pairs: CandidatePairs, places: Integers
) -> list[SimilarDocument]:
    """Some of the pairs, with names."""
    rows = store.rows(pairs.numbers[places].tolist())
    return [
        SimilarDocument(
            rows[number].id, number, max(float(pairs.similarity[at]), 0.0), bool(pairs.exact[at])
        )
        for at in places.tolist()
        if (number := int(pairs.numbers[at])) in rows
    ]


def document_with(store: Store, point: View, id: str) -> Document | None:
    """The document that has this id."""
    numbers = point.derived.with_ids([id])[0]
    with store.snapshot():  # or its witness could be removed before it is read
        rows = store.rows(numbers)
        if len(rows) < len(numbers):  # it may be replaced just now
            raise TablesBehind
        found = [row for row in rows.values() if row.id == id]
        return _documents(store, found)[0] if found else None


def text_with(store: Store, point: View, id: str, settings: IndexSettings) -> Any:
    """The stored text of the document that has this id."""
    row = rows_with(store, point, [id]).get(id)
    stored = {} if row is None else store.blobs("texts", [row.number])
    tokens = settings.options.spec.unit == "token"
    return next((decode_text(data, tokens=tokens) for data in stored.values()), None)


def cluster_around(store: Store, point: View, number: int) -> DocumentCluster | None:
    """A kept document and its copies."""
    if not 0 < number <= LAST_NUMBER:
        return None
    numbers = point.derived.with_witnesses([number])[0]
    with store.snapshot():
        rows = store.rows([number, *numbers])
        if number not in rows or rows[number].witness is not None:
            return None
        copies = sorted(row for row in rows.values() if row.witness == number)
        first, *others = _documents(store, [rows[number], *copies])
        return DocumentCluster(number, first, tuple(others))


def _documents(store: Store, rows: Sequence[Row]) -> list[Document]:
    names = names_of(store, rows, {row.number: row.id for row in rows})
    found = []
    for row in rows:
        said = answer_from_row(row, names)
        about = None if row.metadata is None else json.loads(row.metadata)
        found.append(
            Document(
                row.id,
                row.number,
                said.status,
                said.duplicate_of,
                said.similarity,
                said.exact,
                said.cluster or row.number,
                row.added,
                about,
            )
        )
    return found


class TablesBehind(FormatError):  # noqa: N818  # reads as what happened
    """The tables have a document that is not stored: it was removed just now, so ask again."""

    def __init__(self) -> None:
        super().__init__("the store lacks documents that its tables have: run neardup index verify")


@dataclass(frozen=True)
class StoredCandidates:
    """The kept documents, but for those that are about to be removed."""

    store: StoredDocuments
    derived: LookupTables
    signing: SignatureCodec
    without: tuple[int, ...] = ()

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        return self.derived.leaders(keys, limit, self.without)

    def sets(self, numbers: list[int]) -> dict[int, bytes]:
        return self.store.blobs("shingles", numbers)

    def compared(self, numbers: list[int]) -> NDArray[Any]:
        """One row each."""
        blobs = self.store.blobs("signatures", numbers)
        if len(blobs) < len(numbers):
            raise TablesBehind
        return self.signing.unpacked([blobs[number] for number in numbers])[1]

    def stored(self, numbers: Sequence[int], contents: Sequence[bytes]) -> Arrivals:
        """Documents that are there, to be judged again."""
        if not numbers:
            raise ValueError("nothing to judge")
        signatures = self.store.blobs("signatures", numbers)
        keys, compared = self.signing.unpacked([signatures[number] for number in numbers])
        content = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        return Arrivals(content, keys, compared, self._stored_sets(numbers))

    def _stored_sets(self, numbers: Sequence[int]) -> Ragged | None:
        sets = self.sets(list(numbers))
        if len(sets) < len(numbers):
            return None
        rows = [np.frombuffer(sets[number], np.uint64) for number in numbers]
        sizes = np.array([len(row) for row in rows], np.int64)
        return Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(sizes)]))


@dataclass(frozen=True)
class View:
    """An operating point with its tables, and how documents are judged and stored there."""

    decider: Decider
    signing: SignatureCodec
    derived: LookupTables

    def known(self, store: StoredDocuments, without: Sequence[int] = ()) -> StoredCandidates:
        return StoredCandidates(store, self.derived, self.signing, tuple(without))


def answer_from_row(row: Row, names: dict[int, str], *, again: bool = False) -> Answer:
    """What is said of a stored document."""
    if row.witness is None:
        return Answer(row.id, NEW, cluster=row.number, again=again)
    return Answer(
        row.id,
        DUPLICATE,
        names[row.witness],
        row.similarity,
        bool(row.exact),
        row.witness,
        again=again,
    )
