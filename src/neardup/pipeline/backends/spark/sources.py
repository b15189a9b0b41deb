"""Sources of documents for the tasks of Spark, and the source of input files.

A source has a frame whose rows go to tasks, and a reader that turns rows into documents in a task.
Files must be readable by every executor: a task reads a shard, as a local run does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.corpus.documents import Documents
from neardup.corpus.read import Chunk, parse_chunk, parse_rows
from neardup.corpus.shards import Shard
from neardup.corpus.streams import changed_error
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    make_batch,
    pack_rows,
    read_numbers,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.bitmap import Bitmap, NumberCandidates, select_candidates
from neardup.pipeline.stages.match import CandidateChunk, shingle_candidates
from neardup.pipeline.stages.tables import cut_text
from neardup.sketcher import Sketcher


@dataclass(frozen=True)
class LocatedDocuments:
    """A batch of documents, and columns with the place of each one in its source."""

    documents: Documents
    where: dict[str, NDArray[Any]]


class DocumentReader(Protocol):
    """In a task: read the documents of a partition of the frame."""

    def __call__(self, batches: Batches) -> Iterator[LocatedDocuments]: ...


class DocumentSource(Protocol):
    """Where documents come from, as the stages use it."""

    @property
    def frame(self) -> DataFrame:
        """The rows from which tasks read documents."""

    @property
    def reader(self) -> DocumentReader: ...
    @property
    def id_type(self) -> str:
        """The type of ids, as in a schema of Spark."""

    @property
    def where(self) -> dict[str, str]:
        """The columns with the place of a document, and their types."""

    @property
    def order(self) -> list[Column]:
        """The order of documents that are equally good to keep."""

    def sets(self, documents: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
        """Make the sorted shingles of the candidates again: (doc, data).

        `documents` has rank, the columns of `where`, id, c0 and c1.
        """


Integers = NDArray[np.int64]
LOCATION_COLUMNS = {
    "part": "int",
    "chunk": "int",
    "begins": "int",
    "rows": "int",
    "place": "int",
    "file": "int",
}
"""Shard; chunk in it, that chunk's first row and its number of rows; row; file in the shard."""
REREAD_COLUMNS = ("part", "chunk", "begins", "rows", "place", "c0", "c1")
"""The columns by which a document is read again, and checked to be the same."""
SETS_SCHEMA = "doc int, data binary"


class FileSource:
    """The shards of files as a source; part i is shard i.

    Args:
        together: Whether the table of sketches has the documents of a part in consecutive rows, as
            the task that read the part wrote them. Otherwise rows are repartitioned by part first.
    """

    id_type, where = "string", LOCATION_COLUMNS

    def __init__(
        self, spark: SparkSession, shards: list[Shard], sketcher: Sketcher, together: bool
    ) -> None:
        self._count, self._sketcher, self._together = len(shards), sketcher, together
        self._shards: Broadcast[list[Shard]] = spark.sparkContext.broadcast(shards)
        self.frame: DataFrame = spark.range(0, self._count, 1, max(self._count, 1))
        self.reader = ShardReader(self._shards)

    @property
    def order(self) -> list[Column]:
        return [sql.col("part"), sql.col("place")]

    def sets(self, documents: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
        """Read the shards again, and make the sorted shingles of the candidates."""
        again = ShingleCandidates(self._shards, self._sketcher)
        if self._together:
            of_candidates = OnCandidates(NumberCandidates(candidates), again)
            return run_in_arrow(
                documents.select("rank", *REREAD_COLUMNS), of_candidates, SETS_SCHEMA
            )
        wanted = select_candidates(documents, candidates, REREAD_COLUMNS)
        return run_in_arrow(self._by_part(wanted), again, SETS_SCHEMA)

    def texts(self, wanted: DataFrame) -> DataFrame:
        """Read the texts of these documents again: (doc, text)."""
        rows = wanted.select(*REREAD_COLUMNS, "doc")
        rows = rows if self._together else self._by_part(rows)
        return run_in_arrow(rows, ReadTexts(self._shards), "doc int, text string")

    def _by_part(self, wanted: DataFrame) -> DataFrame:
        parts = wanted.repartition(max(self._count, 1), "part")
        return parts.sortWithinPartitions("part", "place")


@dataclass(frozen=True)
class ShardReader:
    """In a task: read the documents of shards."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[LocatedDocuments]:
        for batch in batches:
            for part in read_numbers(batch, "id").tolist():
                yield from self._documents(part, self.shards.value[part])

    def _documents(self, part: int, shard: Shard) -> Iterator[LocatedDocuments]:
        begins = 0
        files = {file.path: number for number, file in enumerate(shard.files)}
        for number, chunk in enumerate(shard.chunks()):
            documents = parse_chunk(chunk, shard.reading.columns)
            rows = len(documents)
            of_files = [files[file.path] for file in chunk.files]
            where = {"part": part, "chunk": number, "begins": begins, "rows": rows}
            yield LocatedDocuments(
                documents,
                {
                    **{name: np.full(rows, value, np.int32) for name, value in where.items()},
                    "place": np.arange(begins, begins + rows, dtype=np.int32),
                    "file": np.resize(np.array(of_files, np.int32), rows),
                },
            )
            begins += rows
        shard.check()


@dataclass(frozen=True)
class OnCandidates:
    """In a task: number the candidates, then make their sets."""

    chosen: NumberCandidates
    do: ShingleCandidates

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.do(self.chosen(batches))


@dataclass(frozen=True)
class ShingleCandidates:
    """In a task: read shards again, and make the sets of the wanted documents."""

    shards: Broadcast[list[Shard]]
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, wanted in _find_candidate_chunks(batches, self.shards.value):
            made = shingle_candidates(wanted, shard, self.sketcher)
            yield make_batch(doc=docs, data=pack_rows(made))


@dataclass(frozen=True)
class ReadTexts:
    """In a task: read shards again for the beginnings of the wanted texts."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, wanted in _find_candidate_chunks(batches, self.shards.value):
            read = parse_rows(wanted.chunk, shard.reading.columns, wanted.rows, wanted.size).texts
            beginnings = [cut_text(text) for text in read.to_pylist()]
            yield make_batch(doc=docs, text=pa.array(beginnings, pa.string()))


def _find_candidate_chunks(
    batches: Batches, shards: list[Shard]
) -> Iterator[tuple[Shard, NDArray[np.int32], CandidateChunk]]:
    """Yield the chunks with wanted documents, and the numbers of these documents."""
    for part, table in _split_by_part(batches):
        shard = shards[part]
        yield from ((shard, docs, chunk) for docs, chunk in _split_by_chunk(table, shard))
        shard.check()


def _split_by_part(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each part, in order; the rows of a part are consecutive."""
    now, rows = -1, list[pa.RecordBatch]()
    for batch in batches:
        parts = read_numbers(batch, "part")
        starts = np.flatnonzero(np.diff(parts, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(batch)]):
            if parts[start] != now and rows:
                yield now, pa.Table.from_batches(rows).sort_by("place")
                rows = []
            now = int(parts[start])
            rows.append(batch.slice(start, end - start))
    if rows:
        yield now, pa.Table.from_batches(rows).sort_by("place")


def _split_by_chunk(
    table: pa.Table, shard: Shard
) -> Iterator[tuple[NDArray[np.int32], CandidateChunk]]:
    names = ("chunk", "begins", "rows", "place")
    chunk, begins, rows, place = (read_numbers(table, name) for name in names)
    docs = read_numbers(table, "doc").astype(np.int32)
    content = np.stack([read_numbers(table, "c0"), read_numbers(table, "c1")]).view(np.uint64)
    read = enumerate(shard.chunks())
    for start in np.flatnonzero(np.diff(chunk, prepend=-1)).tolist():
        of_chunk = slice(start, int(np.searchsorted(chunk, chunk[start], side="right")))
        yield (
            docs[of_chunk],
            CandidateChunk(
                _seek_chunk(read, int(chunk[start]), shard),
                int(rows[start]),
                place[of_chunk] - begins[start],
                place[of_chunk],
                content[:, of_chunk],
            ),
        )


def _seek_chunk(read: Iterator[tuple[int, Chunk]], wanted: int, shard: Shard) -> Chunk:
    """Return the chunk with this number, skipping those before it."""
    for number, chunk in read:
        if number == wanted:
            return chunk
    raise changed_error(shard.files[-1])
