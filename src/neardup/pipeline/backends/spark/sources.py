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
from neardup.pipeline.backends.spark.bitmap import Bitmap
from neardup.pipeline.backends.spark.match import NumberCandidates, select_candidates
from neardup.pipeline.stages.match import CandidateChunk, shingle_candidates
from neardup.pipeline.stages.tables import cut_text
from neardup.sketcher import Sketcher


@dataclass(frozen=True)
class LocatedDocuments:
    """Some documents, and columns that say where each one is in its source."""

    documents: Documents
    where: dict[str, NDArray[Any]]


class DocumentReader(Protocol):
    """In a task: the documents of some rows of the frame."""

    def __call__(self, batches: Batches) -> Iterator[LocatedDocuments]: ...


class DocumentSource(Protocol):
    """What the stages need to know about where documents come from."""

    @property
    def frame(self) -> DataFrame:
        """What tasks read."""

    @property
    def reader(self) -> DocumentReader: ...
    @property
    def id_type(self) -> str:
        """The type of ids, in Spark's words."""

    @property
    def where(self) -> dict[str, str]:
        """The columns that say where a document is, and their types."""

    @property
    def order(self) -> list[Column]:
        """What breaks ties between documents that are equally good to keep."""

    def sets(self, documents: DataFrame, candidates: Broadcast[Bitmap]) -> DataFrame:
        """The sorted shingles of the documents in a set of ranks, made again: (doc, data).

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
"""The shard; in it the chunk, its first row and how many it has; the row; which of its files."""
REREAD_COLUMNS = ("part", "chunk", "begins", "rows", "place", "c0", "c1")
"""What it takes to read a document again, and to see that it is the same."""
SETS_SCHEMA = "doc int, data binary"


class FileSource:
    """The shards of files as a source; part i is shard i.

    `together`: the table of sketches has the documents of a part one after the other, as the task
    that read it has written them. Sorted by something else they are gathered first.
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
        """The sorted shingles of candidates: each shard is read again, for these alone."""
        again = ShingleCandidates(self._shards, self._sketcher)
        if self._together:
            of_candidates = OnCandidates(NumberCandidates(candidates), again)
            return run_in_arrow(
                documents.select("rank", *REREAD_COLUMNS), of_candidates, SETS_SCHEMA
            )
        wanted = select_candidates(documents, candidates, REREAD_COLUMNS)
        return run_in_arrow(self._by_part(wanted), again, SETS_SCHEMA)

    def texts(self, wanted: DataFrame) -> DataFrame:
        """The texts of some documents, read again: (doc, text)."""
        rows = wanted.select(*REREAD_COLUMNS, "doc")
        rows = rows if self._together else self._by_part(rows)
        return run_in_arrow(rows, ReadTexts(self._shards), "doc int, text string")

    def _by_part(self, wanted: DataFrame) -> DataFrame:
        parts = wanted.repartition(max(self._count, 1), "part")
        return parts.sortWithinPartitions("part", "place")


@dataclass(frozen=True)
class ShardReader:
    """In a task: the documents of some shards."""

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
    """In a task: something that is done with candidates alone."""

    chosen: NumberCandidates
    do: ShingleCandidates

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.do(self.chosen(batches))


@dataclass(frozen=True)
class ShingleCandidates:
    """In a task: the sets of the wanted documents of some shards."""

    shards: Broadcast[list[Shard]]
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, wanted in _find_candidate_chunks(batches, self.shards.value):
            made = shingle_candidates(wanted, shard, self.sketcher)
            yield make_batch(doc=docs, data=pack_rows(made))


@dataclass(frozen=True)
class ReadTexts:
    """In a task: the beginnings of the wanted texts of some shards."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, some in _find_candidate_chunks(batches, self.shards.value):
            read = parse_rows(some.chunk, shard.reading.columns, some.rows, some.size).texts
            shown = [cut_text(text) for text in read.to_pylist()]
            yield make_batch(doc=docs, text=pa.array(shown, pa.string()))


def _find_candidate_chunks(
    batches: Batches, shards: list[Shard]
) -> Iterator[tuple[Shard, NDArray[np.int32], CandidateChunk]]:
    """The chunks that hold wanted documents, with the numbers of these."""
    for part, table in _split_by_part(batches):
        shard = shards[part]
        yield from ((shard, docs, some) for docs, some in _split_by_chunk(table, shard))
        shard.check()


def _split_by_part(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each part, in order; those of a part come one after the other."""
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
        here = slice(start, int(np.searchsorted(chunk, chunk[start], side="right")))
        yield (
            docs[here],
            CandidateChunk(
                _seek_chunk(read, int(chunk[start]), shard),
                int(rows[start]),
                place[here] - begins[start],
                place[here],
                content[:, here],
            ),
        )


def _seek_chunk(read: Iterator[tuple[int, Chunk]], wanted: int, shard: Shard) -> Chunk:
    """The chunk with this number; those before it are passed over."""
    for number, chunk in read:
        if number == wanted:
            return chunk
    raise changed_error(shard.files[-1])
