"""A view of an index: documents, tables and operating point, for everything that only reads.

A view finds documents, judges texts and stored documents, and is what explanations are made from
(`explain.py`); it stores nothing. Queries read through the current view, the commit planner through
a view without the documents that it is about to remove, a shadow through a view of its own
operating point.
"""

from __future__ import annotations

import json
import time
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, ParameterError
from neardup.explanation import name_signals
from neardup.index.answer import (
    DUPLICATE,
    NEW,
    Answer,
    ClusterWithTexts,
    Document,
    DocumentCluster,
    DocumentWithText,
    SignalAnswer,
    SignalDocument,
    SignalDocumentWithText,
    SignalSimilarDocument,
    SimilarDocument,
)
from neardup.index.arrivals import Arrivals, SignatureCodec
from neardup.index.decider import CandidatePairs, Decider, Probes, first_similar
from neardup.index.lookup import LookupTables
from neardup.index.postings import LAST_NUMBER, Integers, Keys, Numbers
from neardup.index.stats import Counters
from neardup.index.store import Row, StoredDocuments
from neardup.index.validation import decode_text
from neardup.index.vector_settings import require_texts_alone
from neardup.keys import Key
from neardup.lsh.bands import Bands, probe_keys
from neardup.options import Options
from neardup.sketch.removable import RemovableMinHash
from neardup.spec import check_whole
from neardup.text.arrays import Ragged


class TablesBehind(FormatError):  # noqa: N818  # names what happened
    """The tables have a document that is no longer stored: it was removed just now, so retry."""

    def __init__(self) -> None:
        super().__init__("the store lacks documents that its tables have: run neardup index verify")


@dataclass(frozen=True)
class View:
    """Documents, tables and an operating point that belong together. Usable in any thread.

    The view itself never changes. The writer enters each commit into `tables` under their lock, so
    that a look-up sees all of a commit or nothing of it. Another operating point is another view.
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
        """Return the same view as if these documents had been removed."""
        return replace(self, excluded=tuple(numbers))

    # Rows

    def rows_by_id(self, ids: Sequence[str]) -> dict[str, Row]:
        """Return the stored documents that have these ids, by id."""
        numbers = sorted({number for listed in self.tables.with_ids(ids) for number in listed})
        requested = set(ids)
        rows = self.store.rows(numbers) if numbers else {}
        return {row.id: row for row in rows.values() if row.id in requested}

    def rows_by_content(
        self, contents: NDArray[np.uint64], excluded: Iterable[int] = ()
    ) -> dict[int, Row]:
        """Return the first document of each content, by the place of the content.

        Contents that no document has are left out. Documents with the numbers `excluded` don't
        count.
        """
        places: dict[bytes, list[int]] = {}
        for at, words in enumerate(contents):
            places.setdefault(words.tobytes(), []).append(at)
        candidates = self.tables.with_contents(contents[[listed[0] for listed in places.values()]])
        excluded = frozenset(excluded)
        # One after the other: a content may have very many documents, of which the first will do.
        untried = {
            content: (number for number in listed if number not in excluded)
            for content, listed in zip(places, candidates, strict=True)
        }
        found: dict[bytes, Row] = {}
        while tried := {
            content: number
            for content, numbers in untried.items()
            if content not in found and (number := next(numbers, None)) is not None
        }:
            rows = self.store.rows(sorted(set(tried.values())))
            for content, number in tried.items():
                if number in rows and rows[number].content == content:
                    found[content] = rows[number]
        return {at: row for content, row in found.items() for at in places[content]}

    def copies_of(self, numbers: Sequence[int]) -> set[int]:
        """Return the numbers of documents that are or were copies of these kept ones."""
        listed = self.tables.with_witnesses(numbers) if numbers else []
        return {copy for copies in listed for copy in copies}

    def witness_ids(self, rows: Iterable[Row], ids: dict[int, str]) -> dict[int, str]:
        """Return the ids of the rows' witnesses by number, and `ids`, which are not read again."""
        missing = {row.witness for row in rows if row.witness is not None} - set(ids)
        return ids | {row.number: row.id for row in self.store.rows(sorted(missing)).values()}

    # The documents that the decider compares with (`CandidateSource`)

    def leaders(self, keys: Keys, limit: int) -> tuple[Integers, Integers, Numbers]:
        """Return the first kept documents of each bucket; see `Postings.find`."""
        return self.tables.leaders(keys, limit, self.excluded)

    def shingles(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the sorted shingles of the documents that have them, by number."""
        return self.store.blobs("shingles", numbers)

    def first_shingles(self, numbers: Sequence[int], most: int) -> tuple[dict[int, bytes], int]:
        """Return the sorted shingles of the first documents; see `Store.first_blobs`."""
        return self.store.first_blobs("shingles", numbers, most)

    def signatures(self, numbers: Sequence[int]) -> NDArray[Any]:
        """Return the part of the documents' signatures that is compared, a row each."""
        blobs = self.store.blobs("signatures", numbers)
        if len(blobs) < len(numbers):
            raise TablesBehind
        return self.codec.unpack([blobs[number] for number in numbers])[1]

    def stored_arrivals(self, numbers: Sequence[int], contents: Sequence[bytes]) -> Arrivals:
        """Read stored documents as arrivals, to judge them again."""
        if not numbers:
            raise ValueError("no documents to judge")
        signatures = self.store.blobs("signatures", numbers)
        if len(signatures) < len(numbers):
            raise TablesBehind
        keys, compared, apart = self.codec.unpack([signatures[number] for number in numbers])
        content = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        return Arrivals(content, keys, compared, self._stored_sets(numbers), apart=apart)

    def _stored_sets(self, numbers: Sequence[int]) -> Ragged | None:
        sets = self.shingles(numbers)
        if len(sets) < len(numbers):
            if self.options.vectors is not None:  # nothing is compared without these
                raise TablesBehind
            return None
        rows = [np.frombuffer(sets[number], np.uint64) for number in numbers]
        sizes = np.array([len(row) for row in rows], np.int64)
        return Ragged(np.concatenate(rows), np.concatenate([[0], np.cumsum(sizes)]))

    # Answers

    def find_copies(
        self, arrivals: Arrivals, counters: Counters, probing: Probing | None = None
    ) -> dict[int, Answer]:
        """Judge texts without storing them; return the answers to the copies, by place.

        Args:
            arrivals: The sketched texts; each is judged by itself.
            counters: Count the candidates and the time.
            probing: Look up more buckets.
        """
        if not len(arrivals):
            return {}
        begun = time.perf_counter()
        same = self.rows_by_content(arrivals.content)
        rest = np.array([at for at in range(len(arrivals)) if at not in same], np.int64)
        witnesses: dict[int, tuple[int, float, bool, float | None]] = {
            at: (row.number, 1.0, True, None)
            if row.witness is None or row.similarity is None
            else (row.witness, row.similarity, bool(row.exact), row.cosine)
            for at, row in same.items()
        }
        if len(rest):
            probes = None if probing is None else probing.probes(arrivals, rest)
            _, pairs = self.decider.compare_candidates(arrivals, rest, self, probes)
            counters.count_query(len(rest), pairs, time.perf_counter() - begun)
            for row, place in first_similar(pairs):
                witnesses[row] = (
                    int(pairs.numbers[place]),
                    float(pairs.similarity[place]),
                    bool(pairs.exact[place]),
                    None if pairs.cosine is None else float(pairs.cosine[place]),
                )
        if not witnesses:
            return {}
        ids = {row.number: row.id for row in same.values()}
        if missing := {found[0] for found in witnesses.values()} - ids.keys():
            ids |= {row.number: row.id for row in self.store.rows(sorted(missing)).values()}
        if any(found[0] not in ids for found in witnesses.values()):
            raise TablesBehind
        return {
            at: self.name_signal(
                Answer(None, DUPLICATE, ids[witness], similarity, exact, witness), cosine
            )
            for at, (witness, similarity, exact, cosine) in witnesses.items()
        }

    def name_signal(self, answer: Answer, cosine: float | None = None) -> Answer:
        """Return an answer with the signal that decided, if there are two of them.

        Args:
            answer: The answer.
            cosine: The cosine to the witness, if that is known.
        """
        if not self.options.has_two_signals or isinstance(answer, SignalAnswer):
            return answer
        values = {field.name: getattr(answer, field.name) for field in fields(answer)}
        return SignalAnswer(**values, cosine=cosine, by=self._by(answer.similarity, cosine))

    def _by(self, similarity: float | None, cosine: float | None) -> str | None:
        """Return the signal by which a document is a copy; None if it is none."""
        if similarity is None:
            return None
        cosines = np.array([np.nan if cosine is None else cosine])
        return name_signals(self.options, np.array([similarity]), cosines)[0]

    def find_similar(self, arrivals: Arrivals, most: int) -> list[SimilarDocument]:
        """Return at most `most` kept documents that the one arrival is similar to, best first."""
        _, pairs = self.decider.compare_candidates(
            arrivals, np.zeros(1, np.int64), self, stop_early=False
        )
        similar = pairs.similarity >= 0.0
        ranked = self.rank_pairs(pairs)
        return self.name_pairs(pairs, ranked[similar[ranked]][:most])

    def rank_pairs(self, pairs: CandidatePairs) -> Integers:
        """Return the places of pairs, the most similar ones first; those of two signals by the one
        that is farther above its threshold, or with `unless` by the one that is less far."""
        nearness, signal = pairs.similarity, self.options.vectors
        if signal is not None and pairs.cosine is not None:
            texts, vectors = nearness - self.options.threshold, pairs.cosine - signal.threshold
            nearness = (np.maximum if signal.finds else np.minimum)(texts, vectors)
        return np.argsort(-nearness, kind="stable")

    def name_pairs(self, pairs: CandidatePairs, places: Integers) -> list[SimilarDocument]:
        """Return the stored documents of the pairs at these places, with their ids."""
        rows = self.store.rows(pairs.numbers[places].tolist())
        return [
            self._name_pair(pairs, at, rows[number].id)
            for at in places.tolist()
            if (number := int(pairs.numbers[at])) in rows
        ]

    def _name_pair(self, pairs: CandidatePairs, at: int, id: str) -> SimilarDocument:
        similarity = float(pairs.similarity[at])
        if not self.options.spec.of_vectors:
            similarity = max(similarity, 0.0)
        found = SimilarDocument(id, int(pairs.numbers[at]), similarity, bool(pairs.exact[at]))
        if pairs.cosine is None:
            return found
        cosine = float(pairs.cosine[at])
        by = self._by(similarity, cosine)
        if by != "both" and self.options.vetoes_by_vectors:
            by = None
        values = {field.name: getattr(found, field.name) for field in fields(found)}
        return SignalSimilarDocument(**values, cosine=cosine, by=by)

    def document(self, id: str) -> Document | None:
        """Return the document that has this id; None if there is none."""
        numbers = self.tables.with_ids([id])[0]
        with self.store.snapshot():  # or its witness could be removed before it is read
            rows = self.store.rows(numbers)
            if len(rows) < len(numbers):  # the writer may be replacing it
                raise TablesBehind
            named = [row for row in rows.values() if row.id == id]
            return self._documents(named)[0] if named else None

    def document_with_text(self, id: str) -> DocumentWithText | None:
        """Return the document that has this id, and its text if that is stored."""
        with self.store.snapshot():
            found = self.document(id)
            return None if found is None else self._with_text(found, self._text(found.number))

    def _with_text(self, document: Document, data: bytes | None) -> DocumentWithText:
        values = {field.name: getattr(document, field.name) for field in fields(document)}
        kind = SignalDocumentWithText if isinstance(document, SignalDocument) else DocumentWithText
        return kind(**values, text=self._decode_text(data))

    def text(self, id: str) -> Any:
        """Return the stored text or token ids of a document; None if they are not stored."""
        row = self.rows_by_id([id]).get(id)
        return None if row is None else self._decode_text(self._text(row.number))

    def _text(self, number: int) -> bytes | None:
        return self.store.blobs("texts", [number]).get(number)

    def _decode_text(self, data: bytes | None) -> Any:
        return None if data is None else decode_text(data, tokens=self.options.spec.unit == "token")

    def cluster(
        self, number: int, most: int | None = None, after: int = 0
    ) -> DocumentCluster | None:
        """Return the kept document with this number and its copies, or the first `most` of them.

        None if there is no kept document with this number. Copies up to the number `after` are
        left out.
        """
        found = self._read_cluster(number, most, after)
        return None if found is None else found[0]

    def cluster_with_texts(
        self, number: int, most: int | None, after: int, text_bytes: int
    ) -> ClusterWithTexts | None:
        """Return the same with texts, in a page that ends after `text_bytes` of the copies' texts.

        It has at least one copy, whatever the length of its text.
        """
        with self.store.snapshot():
            found = self._read_cluster(number, most, after)
            if found is None:
                return None
            cluster, following = found
            page: list[DocumentWithText] = []
            for copy in cluster.members:
                text = self._text(copy.number)
                text_bytes -= len(text or b"")
                if page and text_bytes < 0:
                    following = page[-1].number
                    break
                page.append(self._with_text(copy, text))
            first = self._with_text(cluster.representative, self._text(number))
            return ClusterWithTexts(number, cluster.size, first, tuple(page), following)

    def _read_cluster(
        self, number: int, most: int | None, after: int
    ) -> tuple[DocumentCluster, int | None] | None:
        """Return the cluster, and the last number that was read if there are more copies."""
        if not 0 < number <= LAST_NUMBER:
            return None
        numbers = sorted(self.copies_of([number]) - {number})
        later = numbers[bisect_right(numbers, after) :]
        read = later[:most]
        with self.store.snapshot():
            rows = self.store.rows([number, *read])
            if number not in rows or rows[number].witness is not None:
                return None
            copies = sorted(row for row in rows.values() if row.witness == number)
            first, *others = self._documents([rows[number], *copies])
            size = 1 + len(numbers) - (len(read) - len(others))
            found = DocumentCluster(number, size, first, tuple(others))
            last = read[-1] if read else after
            return found, last if len(read) < len(later) else None

    def _documents(self, rows: Sequence[Row]) -> list[Document]:
        ids = self.witness_ids(rows, {row.number: row.id for row in rows})
        if any(row.witness is not None and row.witness not in ids for row in rows):
            raise TablesBehind  # no snapshot: it is being removed
        documents = []
        for row in rows:
            answer = answer_from_row(row, ids)
            document = Document(
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
            if self.options.has_two_signals:
                values = {field.name: getattr(document, field.name) for field in fields(document)}
                by = self._by(row.similarity, row.cosine)
                document = SignalDocument(**values, cosine=row.cosine, by=by)
            documents.append(document)
        return documents


def answer_from_row(row: Row, ids: dict[int, str], *, again: bool = False) -> Answer:
    """Return the answer to a stored document; `ids` has the id of its witness by number."""
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
    """Look up at most `most` more buckets: those of the text without one of its shingles.

    See `lsh/bands.py`. Only queries probe. Documents are added by their own buckets alone, or the
    answer would differ from that of a batch run.
    """

    codec: SignatureCodec
    key: Key | None
    most: int

    def __post_init__(self) -> None:
        spec = self.codec.options.spec
        require_texts_alone(self.codec.options, "probes", "leave them out")
        check_whole("probes", self.most, 1, spec.slots)
        if (spec.sketch, spec.family, spec.narrow) != ("minhash", "affine32", False):
            raise ParameterError(
                "probes are for whole slots of a minhash of the family affine32: leave them out"
            )

    def probes(self, arrivals: Arrivals, chosen: Integers) -> Probes:
        """Return the keys to probe for the chosen texts."""
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
        """Return rows of keys, one for each table: row n has the n-th probe of every table."""
        shingles, bands = arrivals.shingles, self.codec.lsh
        assert shingles is not None and isinstance(bands, Bands)  # noqa: S101  # a minhash of texts
        sketch = RemovableMinHash(spare=1, spec=self.codec.options.spec, key=self.key)
        sketch.update_hashes(shingles.data[shingles.offsets[row] : shingles.offsets[row + 1]])
        rows: list[Integers] = []
        turns = [0] * bands.count
        group = 0 if arrivals.apart is None else int(arrivals.apart[row, 0])
        for table, key in probe_keys(arrivals.compared[row], sketch.seconds, bands, self.most):
            if turns[table] == len(rows):
                rows.append(arrivals.keys[row].copy())
            rows[turns[table]][table] = int(key) ^ group
            turns[table] += 1
        return rows
