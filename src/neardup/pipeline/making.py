"""What is made of the documents of a shard: sketches, or something else of the same form?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from neardup.corpus.documents import Documents
from neardup.corpus.read import Chunk, parse
from neardup.corpus.shards import Shard
from neardup.pipeline.job import Job
from neardup.pipeline.sketches import Piece, Specification
from neardup.pipeline.storing import Storing
from neardup.pipeline.work import digest
from neardup.sketcher import Sketcher

CANDIDATES = 0.3
"""The share of documents that share a bucket, about: 0.1 on posts, 0.3 on manuals."""

UNITS_PER_BYTE = {"word": 1 / 6, "char": 1.0, "line": 1 / 40, "token": 1.0}
BESIDES = 60
"""Bytes of a document's sketch that are not slots: content hash, length, id."""


class Making(Protocol):
    """What is made of the documents of a chunk, and by which rules."""

    @property
    def spec(self) -> Specification: ...
    @property
    def basis(self) -> str:
        """What it depends on besides the documents."""

    def __call__(self, chunk: Chunk, documents: Documents) -> Piece: ...

    def room(self, documents: int, length: int) -> float:
        """How many bytes on disk so many documents of so many bytes will take, about."""


@dataclass(frozen=True)
class MakeSketches:
    """Documents to sketches."""

    sketcher: Sketcher
    storing: Storing
    exact: bool

    @property
    def spec(self) -> Specification:
        return self.sketcher.spec

    @property
    def basis(self) -> str:
        stated = self.storing.stated
        if not stated:
            return self.spec.fingerprint
        return digest(self.spec.fingerprint, stated, self.storing.keep_full)

    def __call__(self, chunk: Chunk, documents: Documents) -> Piece:
        return Piece.of(chunk, documents, self.sketcher(documents), self.storing)

    def room(self, documents: int, length: int) -> float:
        """For the sketches, and for the sets of those that share a bucket."""
        spec = self.sketcher.spec
        slots = self.storing.size() * documents
        sets = 8 * length * UNITS_PER_BYTE[spec.unit] if self.exact else slots
        return slots + BESIDES * documents + CANDIDATES * sets


def sketches_of(job: Job) -> MakeSketches:
    """What is made of documents, if nothing else is asked for."""
    return MakeSketches(job.sketcher, job.storing, job.options.verify == "exact")


def read_and_make(chunk: Chunk, shard: Shard, making: Making) -> Piece:
    """What is done with a chunk of a shard."""
    return making(chunk, parse(chunk, shard.reading.columns))
