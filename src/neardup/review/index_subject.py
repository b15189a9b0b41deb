"""An index that people review: the state that it has when the list of clusters is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from neardup.errors import UsageError
from neardup.formatting import format_similarity
from neardup.index.answer import DocumentCluster, ListedCluster
from neardup.index.index import Index
from neardup.index.redis_store.address import RedisAddress, is_redis
from neardup.index.stored_explanation import ComparedDocument, DocumentExplanation
from neardup.report.html import name
from neardup.review.row_spans import RowSpan
from neardup.review.run_index import ReviewIndex
from neardup.review.run_subject import REVIEW_FOLDER
from neardup.review.subject import (
    Place,
    ReviewExplanation,
    ReviewNeighbour,
    Stamp,
    TableBatch,
    measure_doubt,
)

NO_STORE: Final = (
    "an index on Redis has no folder for the decisions of its review: give one with neardup review "
    "ADDRESS --store FOLDER"
)
PAGE: Final = 1_000
"""Clusters, and copies of a cluster, that are read at once."""


class IndexSubject:
    """An index, as `ReviewSubject` describes it.

    Args:
        index: The open index. It may be written to meanwhile: the list of clusters stays as it was.
        store: The folder where the review of an index on Redis stores its files; others have one.

    Raises:
        UsageError: neither has a folder.
    """

    def __init__(self, index: Index, store: Path | None = None) -> None:
        self.opened = index
        if not is_redis(index.path):
            folder = Path(index.path)
            self.name, self.folder = folder.resolve().name, folder / REVIEW_FOLDER
        elif store is not None:
            self.name, self.folder = RedisAddress.parse(str(index.path)).name, store
        else:
            raise UsageError(NO_STORE)
        self.threshold = index.options.threshold
        self.fingerprint: str | None = None
        self.tables = IndexTables(index, self.name)
        self.texts = IndexTexts(index)

    def check(self) -> None:
        """Do nothing: an index is the same however it changes."""

    def explain(self, id: str) -> ReviewExplanation:
        """Compare a document with its witness and the others of its buckets again."""
        explained = self.opened.explain_document(id)
        if explained is None:
            raise _gone(id)
        near = [ReviewNeighbour(one.similarity, one.id, "kept") for one in explained.others]
        return ReviewExplanation(f"{_decision(explained)}.", [*_facts(explained)], near)

    def compare(self, a: str, b: str) -> ReviewExplanation:
        """Explain why two documents are duplicates, or why not."""
        pair = self.opened.explain_pair(a, b)
        if pair is None:
            raise _gone(a if self.opened.get(a) is None else b)
        facts = [("buckets that both are in", f"{pair.buckets:,} of {pair.tables:,}")]
        for what, number in (("cosine", pair.cosine), ("similarity", pair.similarity)):
            if number is not None:
                facts.insert(0, (what, format_similarity(number)))
        return ReviewExplanation(pair.sentence, facts)


def _gone(id: str) -> UsageError:
    return UsageError(f"the index has no document {id!r}: check the id; it may have been removed")


def _decision(explained: DocumentExplanation) -> str:
    document = explained.document
    if document.duplicate_of is None:
        return f"It was kept: {explained.rule}"
    return f"It is a copy of {document.duplicate_of}: {explained.rule}"


def _facts(explained: DocumentExplanation) -> Iterator[tuple[str, str]]:
    yield "document", f"number {explained.document.number:,}"
    yield "rule", explained.measure
    if explained.shingles is not None:
        yield "shingles", f"{explained.shingles:,}"
    if explained.witness is not None:
        yield "its witness, which was kept", name(explained.witness.id)
        yield from _shared(explained, explained.witness)


def _shared(explained: DocumentExplanation, witness: ComparedDocument) -> Iterator[tuple[str, str]]:
    what = "cosine" if explained.of_vectors else "similarity"
    yield f"{what} of the two", format_similarity(witness.similarity)
    if witness.cosine is not None:
        yield "cosine of the two", format_similarity(witness.cosine)
    if witness.shared is not None:
        yield "shingles of both", f"{witness.shared:,}"
    yield "buckets that both are in", f"{len(witness.buckets):,} of {explained.tables:,}"


class IndexTables:
    """Reads the clusters of an index page by page.

    Args:
        index: The index.
        name: What its documents are said to be in; their rows are their numbers.
    """

    def __init__(self, index: Index, name: str) -> None:
        self._index, self._name = index, name
        self._threshold = index.options.threshold

    def identify(self) -> str:
        """Return the generation, the number of the last change and that of the documents.

        On Redis a removal has no number.
        """
        return f"{self._index.generation} {self._index.sequence} {len(self._index)}"

    def source_of(self, file: str) -> str:
        """Return the index itself: it does not know where its documents came from."""
        return file

    def spans(self) -> Iterator[tuple[str, Stamp, Iterator[RowSpan]]]:
        """Yield nothing: texts are found by the ids of their documents."""
        return iter(())

    def clusters(self) -> Iterator[TableBatch]:
        """Yield the clusters, as `ReviewTables` says."""
        done, copies = 0, self._copies
        for page in self._pages():
            rows = [(one.number, one.id, self._name, one.number, one.size) for one in page]
            yield TableBatch(min(done / copies, 1.0), rows)
            done += sum(one.size - 1 for one in page)

    def removed(self) -> Iterator[TableBatch]:
        """Yield the copies, as `ReviewTables` says."""
        done, copies = 0, self._copies
        for page in self._pages():
            for listed in page:
                for cluster in self._parts(listed.number):
                    rows = [
                        (
                            listed.number,
                            one.id,
                            self._name,
                            one.number,
                            one.similarity,
                            one.exact,
                            measure_doubt(one.similarity, self._threshold),
                            None,
                        )
                        for one in cluster.members
                    ]
                    yield TableBatch(min(done / copies, 1.0), rows)
                    done += len(rows)

    @property
    def _copies(self) -> int:
        return self._index.stats().copies or 1

    def _pages(self) -> Iterator[Sequence[ListedCluster]]:
        after = None
        while True:
            page = self._index.clusters(PAGE, after=after)
            yield page.clusters
            if (after := page.next) is None:
                return

    def _parts(self, number: int) -> Iterator[DocumentCluster]:
        """Yield a cluster in pieces; nothing if its kept document was removed meanwhile."""
        after = 0
        while (part := self._index.cluster(number, most=PAGE, after=after)) is not None:
            if not part.members:
                return
            yield part
            after = part.members[-1].number


class IndexTexts:
    """Reads the texts that an index stores.

    Args:
        index: The index.
    """

    cost = ""

    def __init__(self, index: Index) -> None:
        self._index, self.problem = index, ""
        self.index: ReviewIndex | None = None

    def read(self, places: Sequence[Place], cluster: int | None = None) -> dict[Place, str]:
        """Return the texts of documents by their numbers, as far as they are known.

        Args:
            places: The name of the index and the numbers of the documents.
            cluster: Not needed here.
        """
        del cluster
        listed = self.index
        ids: dict[Place, str] = {}
        for place in places:
            if listed is None:
                break
            clusters, copies = listed.at(place)
            ids |= {one.place: one.id for one in clusters} | {one.place: one.id for one in copies}
        found = self.of_ids(list(ids.values()))
        return {place: found[id] for place, id in ids.items() if id in found}

    def containing(self, words: str) -> Iterator[Place | None]:
        """Yield where the documents of the list are whose text contains some words."""
        wanted = words.casefold()
        for place, id in self.index.documents() if self.index is not None else ():
            text = self.of_ids([id]).get(id, "")
            yield place if wanted in text.casefold() else None

    def of_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of documents by their ids, as far as they are known."""
        texts, problem = {}, ""
        for id in dict.fromkeys(ids):
            document = self._index.get(id, text=True)
            if document is None:
                problem = "one of the documents was removed from the index"
            elif document.text is None:
                problem = "the index does not store texts"
            else:
                text = document.text
                texts[id] = text if isinstance(text, str) else " ".join(map(str, text))
        self.problem = problem
        return texts
