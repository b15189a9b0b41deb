"""What is reviewed, a finished run or an index, by what the pages ask about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from neardup.review.row_spans import RowSpan
from neardup.vector_signal import VectorSignal

if TYPE_CHECKING:
    from neardup.review.run_index import ReviewIndex

Place = tuple[str, int]
"""A file, by its name, and a row; in an index its name, and the number of a document."""
Stamp = tuple[int, int]
"""The size of a file, and the time when it was changed."""


class TableBatch(NamedTuple):
    """Rows of a table, and the part of the table that comes before them, from 0 to 1."""

    before: float
    rows: Iterable[tuple[Any, ...]]


def measure_doubt(
    similarity: float | None,
    threshold: float,
    cosine: float | None = None,
    signal: VectorSignal | None = None,
) -> float | None:
    """Return how far a decision is from the threshold: the nearer, the less certain.

    Args:
        similarity: How similar the two documents are; None if that is not known.
        threshold: The least similarity of similar documents.
        cosine: With a second signal the cosine of the two, if it is known.
        signal: The second signal.
    """
    if similarity is None or cosine is None or signal is None:
        return None if similarity is None else abs(similarity - threshold)
    margins = similarity - threshold, cosine - signal.threshold
    return abs(max(margins) if signal.finds else min(margins))


class ReviewTables(Protocol):
    """Where the list of clusters is read from, once."""

    def identify(self) -> str:
        """Return what no other run has, and no other state of an index."""
        ...

    def clusters(self) -> Iterator[TableBatch]:
        """Yield the clusters: cluster, id, file, row of the kept document, and the size."""
        ...

    def removed(self) -> Iterator[TableBatch]:
        """Yield the removed documents.

        Of each: cluster, id, file, row, similarity, if it is exact, the doubt, and the cosine with
        a second signal, else None.
        """
        ...

    def spans(self) -> Iterator[tuple[str, Stamp, Iterator[RowSpan]]]:
        """Yield each file whose rows can be read by themselves: its name, stamp and blocks."""
        ...

    def source_of(self, file: str) -> str:
        """Return the source that the documents of a file are counted by."""
        ...


class ReviewTexts(Protocol):
    """Reads texts. Used by several threads."""

    @property
    def problem(self) -> str:
        """Why texts could not be read the last time; empty if they could."""
        ...

    @property
    def cost(self) -> str:
        """What it costs to explain a document, in a sentence; empty if it costs nothing."""
        ...

    index: ReviewIndex | None
    """Finds documents, once it is made."""

    def read(self, places: Sequence[Place], cluster: int | None = None) -> dict[Place, str]:
        """Return the texts at these places, as far as they are known.

        Args:
            places: Where the documents are.
            cluster: The cluster that they are of, of which a run may store texts.
        """
        ...

    def containing(self, words: str) -> Iterator[Place | None]:
        """Yield where the documents are whose text contains some words, in upper or lower case.

        None in between says that others were looked at, so that whoever asks may stop.

        Args:
            words: What is looked for.
        """
        ...

    def of_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of any documents by their ids, as far as they are known.

        Args:
            ids: Their ids; in a run also file:row.
        """
        ...


class ReviewNeighbour(NamedTuple):
    """Another document, how similar it is, and what became of it."""

    similarity: float
    id: str
    status: str


@dataclass(frozen=True)
class ReviewExplanation:
    """Why a document was kept or removed; or how two documents compare.

    Attributes:
        sentence: The decision in a sentence.
        facts: Names and values.
        nearest: What is most similar to it.
        notes: Remarks.
    """

    sentence: str
    facts: Sequence[tuple[str, str]] = ()
    nearest: Sequence[ReviewNeighbour] = ()
    notes: Sequence[str] = field(default=())


class ReviewSubject(Protocol):
    """A finished run, or an index.

    Attributes:
        name: What it is called.
        folder: Where the review stores its files.
        threshold: The similarity at which decisions are least certain.
        fingerprint: That of the documents, stored with each decision; None if there is none.
    """

    name: str
    folder: Path
    threshold: float
    fingerprint: str | None

    @property
    def tables(self) -> ReviewTables:
        """Where the list of clusters is read from."""
        ...

    @property
    def texts(self) -> ReviewTexts:
        """Reads texts."""
        ...

    def check(self) -> None:
        """Raise `Conflict` if there is another run in its place, to which no decision belongs."""
        ...

    def explain(self, id: str) -> ReviewExplanation:
        """Return why a document was kept or removed, and what is similar to it.

        Raises:
            InputError, UsageError: there is none of this id, or it can't be read.
        """
        ...

    def compare(self, a: str, b: str) -> ReviewExplanation:
        """Return how two documents compare, and why they are duplicates or not.

        Raises:
            InputError, UsageError: there is none of one of the ids, or it can't be read.
        """
        ...
