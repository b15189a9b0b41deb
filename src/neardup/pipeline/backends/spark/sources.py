"""Where do documents come from, in the tasks of Spark?

A source has a frame whose rows go to tasks, and a reader that says in a task which documents they
stand for. What is made of them is the same for all sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame

from neardup.corpus.documents import Documents
from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.tables import Batches


@dataclass(frozen=True)
class Found:
    """Some documents, and columns that say where each one is in its source."""

    documents: Documents
    where: dict[str, NDArray[Any]]


class Reader(Protocol):
    """In a task: the documents of some rows of the frame."""

    def __call__(self, batches: Batches) -> Iterator[Found]: ...


class Source(Protocol):
    """What the stages need to know about where documents come from."""

    @property
    def frame(self) -> DataFrame:
        """What tasks read."""

    @property
    def reader(self) -> Reader: ...
    @property
    def id_type(self) -> str:
        """The type of ids, in Spark's words."""

    @property
    def where(self) -> dict[str, str]:
        """The columns that say where a document is, and their types."""

    @property
    def order(self) -> list[Column]:
        """What breaks ties between documents that are equally good to keep."""

    def sets(self, documents: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
        """The sorted shingles of the documents in a set of ranks, made again: (doc, data).

        `documents` has rank, the columns of `where`, id, c0 and c1.
        """
