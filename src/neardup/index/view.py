"""A view of an index: its documents, its tables and its operating point, for all that only reads.

A view finds documents, judges texts and stored documents, and explains both (`explain.py`); it
stores nothing. Queries read through the current view, the commit planner through a view without
the documents that it is about to remove, a shadow through a view of its own operating point.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, ParameterError
from neardup.index.answer import DUPLICATE, NEW, Answer, Document, DocumentCluster, SimilarDocument
from neardup.index.arrivals import Arrivals, SignatureCodec
from neardup.index.decider import CandidatePairs, Decider, Probes, first_similar
from neardup.index.lookup import LookupTables
from neardup.index.postings import LAST_NUMBER, Integers, Keys, Numbers
from neardup.index.stats import Counters
from neardup.index.store import Row, StoredDocuments
from neardup.index.validation import decode_text
from neardup.keys import Key
from neardup.lsh.bands import Bands, probe_keys
from neardup.options import Options
from neardup.sketch.removable import RemovableMinHash
from neardup.spec import check_whole
from neardup.text.arrays import Ragged


class TablesBehind(FormatError):  # noqa: N818  # reads as what happened
    """The tables have a document that is not stored: it was removed just now, so ask again."""

    def __init__(self) -> None:
        super().__init__("the store lacks documents that its tables have: run neardup index verify")


@dataclass(frozen=True)
class View:
    """Documents, tables and an operating point that belong together. Any thread.

    The view itself never changes. The writer enters each commit into `tables` under their lock, so
    that a look-up sees all of a commit or nothing of it; another operating point is another view.
    """

    store: StoredDocuments
    tables: LookupTables
    codec: SignatureCodec
    decider: Decider
    excluded: tuple[int, ...] = ()
    """Numbers of documents that look-ups pass over, as if they had been removed."""

    @property
    def options(self) -> Options:
        return self.decider.options

    def without(self, numbers: Iterable[int]) -> View:
        """The same view as if these documents had been removed."""
        return replace(self, excluded=tuple(numbers))

    # Rows

    def rows_by_id(self, ids: Sequence[str]) -> dict[str, Row]:
        """The documents that have these ids."""
        numbers = sorted({number for listed in self.tables.with_ids(ids) for number in listed})
        requested = set(ids)
        rows = self.store.rows(numbers) if numbers else {}
        return {row.id: row for row in rows.values() if row.id in requested}

    def rows_by_content(
        self, contents: NDArray[np.uint64], skipped: Iterable[int] = ()
    ) -> dict[int, Row]:
        """The first document of each content that a document has, by the content's place.

        Documents with the numbers `skipped` don't count.
        """
        listed = self.tables.with_contents(contents)
        numbers = sorted({number for some in listed for number in some}.difference(skipped))
        rows = self.store.rows(numbers) if numbers else {}
        found = {}
        for at, some in enumerate(listed):
            content = contents[at].tobytes()
            same = (rows[n] for n in some if n in rows and rows[n].content == content)
            if (first := next(same, None)) is not None:
                found[at] = first
        return found

    def copies_of(self, numbers: Sequence[int]) -> set[int]:
        """The numbers of documents that may be copies of these kept ones."""
        listed = self.tables.with_witnesses(numbers) if numbers else []
        return {copy for copies in listed for copy in copies}

    def witness_ids(self, rows: Iterable[Row], ids: dict[int, str]) -> dict[int, str]:
        """The ids of the rows' witnesses by number; `ids` are those that need not be read."""
        missing = {row.witness for row in rows if row.witness is not None} - set(ids)
        return ids | {row.number: row.id for row in self.store.rows(sorted(missing)).values()}

    # What the decider compares with

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        """The first kept documents of each bucket; see `Postings.find`."""
        return self.tables.leaders(keys, limit, self.excluded)

    def shingles(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """The sorted shingles of documents, of those that have them."""
        return self.store.blobs("shingles", numbers)

    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]:
        """What is compared of the documents' signatures, a row each."""
        blobs = self.store.blobs("signatures", numbers)
        if len(blobs) < len(numbers):
            raise TablesBehind
        return self.codec.unpack([blobs[number] for number in numbers])[1]

    def stored_arrivals(self, numbers: Sequence[int], contents: Sequence[bytes]) -> Arrivals:
        """Stored documents, to be judged again."""
        if not numbers:
            raise ValueError("no documents to judge")
        signatures = self.store.blobs("signatures", numbers)
        keys, compared = self.codec.unpack([signatures[number] for number in numbers])
        content = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        return Arrivals(content, keys, compared, self._stored_sets(numbers))

    def _stored_sets(self, numbers: Sequence[int]) -> Ragged | None:
        sets = self.shingles(numbers)
        if len(sets) < len(numbers):
            return None
        rows = [np.frombuffer(sets[number], np.uint64) for number in numbers]
        sizes = np.array([len(row) for row in rows], np.int64)
        return Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(sizes)]))

    # Answers

    def find_copies(
        self, arrivals: Arrivals, counters: Counters, probing: Probing | None = None
    ) -> dict[int, Answer]:
        """Judge texts without storing them: the answers to those that are copies, by place.

        With `probing`, more buckets are looked up.
        """
        if not len(arrivals):
            return {}
        begun = time.perf_counter()
        same = self.rows_by_content(arrivals.content)
        rest = np.array([at for at in range(len(arrivals)) if at not in same], np.int64)
        found = {
            at: (row.number, 1.0, True)
            if row.witness is None or row.similarity is None
            else (row.witness, row.similarity, bool(row.exact))
            for at, row in same.items()
        }
        if len(rest):
            probes = None if probing is None else probing.probes(arrivals, rest)
            _, pairs = self.decider.compare_candidates(arrivals, rest, self, probes)
            counters.count_query(len(rest), pairs, time.perf_counter() - begun)
            for row, place in first_similar(pairs):
                found[row] = (
                    int(pairs.numbers[place]),
                    float(pairs.similarity[place]),
                    bool(pairs.exact[place]),
                )
        if not found:
            return {}
        ids = {row.number: row.id for row in same.values()}
        if missing := {witness for witness, _, _ in found.values()} - ids.keys():
            ids |= {row.number: row.id for row in self.store.rows(sorted(missing)).values()}
        if any(witness not in ids for witness, _, _ in found.values()):
            raise TablesBehind
        return {
            at: Answer(None, DUPLICATE, ids[witness], similarity, exact, witness)
            for at, (witness, similarity, exact) in found.items()
        }

    def find_similar(self, arrivals: Arrivals, most: int) -> list[SimilarDocument]:
        """The kept documents that the one arrival is similar to, the most similar first."""
        _, pairs = self.decider.compare_candidates(
            arrivals, np.zeros(1, np.int64), self, stop_early=False
        )
        good = np.flatnonzero(pairs.similarity >= 0.0)
        best = good[np.argsort(-pairs.similarity[good], kind="stable")][:most]
        return self.name_pairs(pairs, best)

    def name_pairs(self, pairs: CandidatePairs, places: Integers) -> list[SimilarDocument]:
        """The stored documents of the pairs at these places, with their ids."""
        rows = self.store.rows(pairs.numbers[places].tolist())
        return [
            SimilarDocument(
                rows[number].id,
                number,
                max(float(pairs.similarity[at]), 0.0),
                bool(pairs.exact[at]),
            )
            for at in places.tolist()
            if (number := int(pairs.numbers[at])) in rows
        ]

    def document(self, id: str) -> Document | None:
        """The document that has this id."""
        numbers = self.tables.with_ids([id])[0]
        with self.store.snapshot():  # or its witness could be removed before it is read
            rows = self.store.rows(numbers)
            if len(rows) < len(numbers):  # the writer may be replacing it
                raise TablesBehind
            found = [row for row in rows.values() if row.id == id]
            return self._documents(found)[0] if found else None

    def text(self, id: str) -> Any:
        """The stored text of the document that has this id, or its list of token ids."""
        row = self.rows_by_id([id]).get(id)
        stored = {} if row is None else self.store.blobs("texts", [row.number])
        tokens = self.options.spec.unit == "token"
        return next((decode_text(data, tokens=tokens) for data in stored.values()), None)

    def cluster(self, number: int) -> DocumentCluster | None:
        """The kept document with this number, and its copies."""
        if not 0 < number <= LAST_NUMBER:
            return None
        numbers = self.copies_of([number])
        with self.store.snapshot():
            rows = self.store.rows([number, *sorted(numbers - {number})])
            if number not in rows or rows[number].witness is not None:
                return None
            copies = sorted(row for row in rows.values() if row.witness == number)
            first, *others = self._documents([rows[number], *copies])
            return DocumentCluster(number, first, tuple(others))

    def _documents(self, rows: Sequence[Row]) -> list[Document]:
        ids = self.witness_ids(rows, {row.number: row.id for row in rows})
        documents = []
        for row in rows:
            answer = answer_from_row(row, ids)
            documents.append(
                Document(
                    row.id,
                    row.number,
                    answer.status,
                    answer.duplicate_of,
                    answer.similarity,
                    answer.exact,
                    answer.cluster or row.number,
                    row.added,
                    None if row.metadata is None else json.loads(row.metadata),
                )
            )
        return documents


def answer_from_row(row: Row, ids: dict[int, str], *, again: bool = False) -> Answer:
    """The answer to a stored document; `ids` has the id of its witness by number."""
    if row.witness is None:
        return Answer(row.id, NEW, cluster=row.number, again=again)
    return Answer(
        row.id,
        DUPLICATE,
        ids[row.witness],
        row.similarity,
        bool(row.exact),
        row.witness,
        again=again,
    )


@dataclass(frozen=True)
class Probing:
    """Up to `most` more buckets for each text: those it would be in without one of its shingles.

    See `lsh/bands.py`. Only queries look there. Documents are added by the buckets that they are
    in, or the answer would not be that of a batch run.
    """

    codec: SignatureCodec
    key: Key | None
    most: int

    def __post_init__(self) -> None:
        spec = self.codec.options.spec
        check_whole("probes", self.most, 1, spec.slots)
        if (spec.sketch, spec.family, spec.narrow) != ("minhash", "affine32", False):
            raise ParameterError(
                "probes are for whole slots of a minhash of the family affine32: leave them out"
            )

    def probes(self, arrivals: Arrivals, chosen: Integers) -> Probes:
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
        shingles, bands = arrivals.shingles, self.codec.lsh
        assert shingles is not None and isinstance(bands, Bands)  # noqa: S101  # a minhash of texts
        sketch = RemovableMinHash(spare=1, spec=self.codec.options.spec, key=self.key)
        sketch.update_hashes(shingles.data[shingles.offsets[row] : shingles.offsets[row + 1]])
        found: list[Integers] = []
        turns = [0] * bands.count
        for table, key in probe_keys(arrivals.compared[row], sketch.seconds, bands, self.most):
            if turns[table] == len(found):
                found.append(arrivals.keys[row].copy())
            found[turns[table]][table] = key
            turns[table] += 1
        return found
