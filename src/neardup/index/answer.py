"""The answers of an index: about a text or a document, a stored document, a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

NEW, DUPLICATE, REJECTED = "new", "duplicate", "rejected"
STATUSES: Final = (NEW, DUPLICATE, REJECTED)
PAGE_TEXT_BYTES: Final = 16 << 20
"""The bytes of texts after which a page of a cluster ends."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a document or a text is a copy of a kept document."""

    id: str | None
    """The id of the document; None in an answer to a query."""
    status: str
    """`new`, `duplicate` or `rejected`."""
    duplicate_of: str | None = None
    """The id of the witness: the kept document that it is a copy of."""
    similarity: float | None = None
    """The similarity to the witness."""
    exact: bool = True
    """False if the similarity was estimated from signatures."""
    cluster: int | None = None
    """The number of the kept document that represents the cluster."""
    reason: str | None = None
    """Why it was rejected."""
    again: bool = False
    """The document was stored before with this id and content, so nothing was added; its metadata
    and its text are replaced if that was asked for."""

    @property
    def is_copy(self) -> bool:
        """Whether it is a copy of a kept document."""
        return self.status == DUPLICATE


@dataclass(frozen=True, slots=True)
class SignalAnswer(Answer):
    """The answer of an index that compares texts and vectors: the similarity is that of texts."""

    cosine: float | None = None
    """The cosine of its vector and that of the witness, of a copy that is not identical."""
    by: str | None = None
    """The signal by which it is a copy: `text`, `vector` or `both`; `copy` if it is identical to a
    document, whose witness and numbers are given."""


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document."""

    id: str
    number: int
    """Numbers count documents in the order in which they were added, from 1."""
    status: str
    """`new` if it is kept, `duplicate` if it is a copy."""
    duplicate_of: str | None
    similarity: float | None
    exact: bool
    cluster: int
    added: float
    """When it was added, in seconds since 1970."""
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentWithText(Document):
    """A stored document and its text."""

    text: str | list[int] | None = None
    """Its text or token ids; None if the index does not store them."""


@dataclass(frozen=True, slots=True)
class SignalDocument(Document):
    """A stored document of an index that compares texts and vectors."""

    cosine: float | None = None
    by: str | None = None
    """Both as in `SignalAnswer`."""


@dataclass(frozen=True, slots=True)
class SignalDocumentWithText(DocumentWithText):
    """The same, and its text."""

    cosine: float | None = None
    by: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentCluster:
    """A kept document and its copies, in the order in which they were added."""

    number: int
    size: int
    """The number of documents in it, members that are left out included."""
    representative: Document
    members: tuple[Document, ...]
    """Its copies; the first ones, if not all were asked for."""


@dataclass(frozen=True, slots=True)
class ClusterWithTexts:
    """A kept document and copies of it, with their texts: a page of a cluster."""

    number: int
    size: int
    """The number of documents in it, those of other pages included."""
    representative: DocumentWithText
    members: tuple[DocumentWithText, ...]
    """The copies of this page, in the order in which they were added."""
    next: int | None
    """The number after which the next page begins; None if this is the last one."""


@dataclass(frozen=True, slots=True)
class ListedCluster:
    """A cluster in a list of clusters."""

    number: int
    """The number of the kept document."""
    size: int
    """The number of documents in it, the kept one included."""
    id: str
    """The id of the kept document."""


@dataclass(frozen=True, slots=True)
class ClusterPage:
    """Some clusters of an index, largest first."""

    clusters: tuple[ListedCluster, ...]
    next: str | None
    """The mark after which the next page begins; None if this is the last one."""


@dataclass(frozen=True, slots=True)
class SimilarDocument:
    """A kept document that is similar to a text."""

    id: str
    cluster: int
    similarity: float
    exact: bool


@dataclass(frozen=True, slots=True)
class SignalSimilarDocument(SimilarDocument):
    """The same in an index that compares texts and vectors: the similarity is that of texts."""

    cosine: float | None = None
    """The cosine of the two vectors."""
    by: str | None = None
    """The signal by which it is similar: `text`, `vector` or `both`; None if it is not."""
