"""What an index says of a document, of its cluster, and of how it came to that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

NEW, DUPLICATE, REJECTED = "new", "duplicate", "rejected"
STATUSES: Final = (NEW, DUPLICATE, REJECTED)


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether a document is a copy of a kept one."""

    id: str | None
    """Of the document; None where only a text was asked about."""
    status: str
    duplicate_of: str | None = None
    """The id of the kept document that it is a copy of."""
    similarity: float | None = None
    exact: bool = True
    """False where similarity was estimated from signatures."""
    cluster: int | None = None
    """The number of the kept document that the cluster is around."""
    reason: str | None = None
    """Why it was rejected."""
    again: bool = False
    """The document was there already, with this id: nothing was added."""


@dataclass(frozen=True, slots=True)
class Document:
    """A document of an index."""

    id: str
    number: int
    status: str
    duplicate_of: str | None
    similarity: float | None
    exact: bool
    cluster: int
    added: float
    """Seconds since 1970."""
    metadata: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class DocumentCluster:
    """A kept document, and those that are copies of it, in the order in which they came."""

    number: int
    representative: Document
    members: tuple[Document, ...]

    @property
    def size(self) -> int:
        return 1 + len(self.members)


@dataclass(frozen=True, slots=True)
class SimilarDocument:
    """A kept document that is similar to a text."""

    id: str
    cluster: int
    similarity: float
    exact: bool
