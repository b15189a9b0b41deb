"""Documents of files that every executor can open: a task reads a shard, as a local run does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.corpus.read import Chunk, parse, parse_some
from neardup.corpus.shards import Shard
from neardup.corpus.streams import changed
from neardup.pipeline.backends.spark.bits import Bits
from neardup.pipeline.backends.spark.matching import Chosen, candidates_of
from neardup.pipeline.backends.spark.sources import Found
from neardup.pipeline.backends.spark.tables import (
    Batches,
    as_bytes,
    batch_of,
    numbers,
    run_in_arrow,
)
from neardup.pipeline.candidates import Wanted, shingle_again
from neardup.pipeline.samples import beginning
from neardup.sketcher import Sketcher

Integers = NDArray[np.int64]
WHERE = {
    "part": "int",
    "chunk": "int",
    "begins": "int",
    "rows": "int",
    "place": "int",
    "file": "int",
}
"""The shard; in it the chunk, its first row and how many it has; the row; which of its files."""
WANTED = ("part", "chunk", "begins", "rows", "place", "c0", "c1")
"""What it takes to read a document again, and to see that it is the same."""
SETS = "doc int, data binary"


class Files:
    """The shards of files as a source; part i is shard i.

    `together`: the table of sketches has the documents of a part one after the other, as the task
    that read it has written them. Sorted by something else they are gathered first.
    """

    id_type, where = "string", WHERE

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

    def sets(self, documents: DataFrame, candidates: Broadcast[Bits]) -> DataFrame:
        """The sorted shingles of candidates: each shard is read again, for these alone."""
        again = ShingleAgain(self._shards, self._sketcher)
        if self._together:
            of_candidates = OfCandidates(Chosen(candidates), again)
            return run_in_arrow(documents.select("rank", *WANTED), of_candidates, SETS)
        wanted = candidates_of(documents, candidates, WANTED)
        return run_in_arrow(self._by_part(wanted), again, SETS)

    def texts(self, wanted: DataFrame) -> DataFrame:
        """The texts of some documents, read again: (doc, text)."""
        rows = wanted.select(*WANTED, "doc")
        rows = rows if self._together else self._by_part(rows)
        return run_in_arrow(rows, ReadAgain(self._shards), "doc int, text string")

    def _by_part(self, wanted: DataFrame) -> DataFrame:
        parts = wanted.repartition(max(self._count, 1), "part")
        return parts.sortWithinPartitions("part", "place")


@dataclass(frozen=True)
class ShardReader:
    """In a task: the documents of some shards."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[Found]:
        for batch in batches:
            for part in numbers(batch, "id").tolist():
                yield from self._documents(part, self.shards.value[part])

    def _documents(self, part: int, shard: Shard) -> Iterator[Found]:
        begins = 0
        files = {file.path: number for number, file in enumerate(shard.files)}
        for number, chunk in enumerate(shard.chunks()):
            documents = parse(chunk, shard.reading.columns)
            rows = len(documents)
            of_files = [files[file.path] for file in chunk.files]
            where = {"part": part, "chunk": number, "begins": begins, "rows": rows}
            yield Found(
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
class OfCandidates:
    """In a task: something that is done with candidates alone."""

    chosen: Chosen
    do: ShingleAgain

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        return self.do(self.chosen(batches))


@dataclass(frozen=True)
class ShingleAgain:
    """In a task: the sets of the wanted documents of some shards."""

    shards: Broadcast[list[Shard]]
    sketcher: Sketcher

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, wanted in _wanted(batches, self.shards.value):
            made = shingle_again(wanted, shard, self.sketcher)
            yield batch_of(doc=docs, data=as_bytes(made))


@dataclass(frozen=True)
class ReadAgain:
    """In a task: the beginnings of the wanted texts of some shards."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for shard, docs, some in _wanted(batches, self.shards.value):
            read = parse_some(some.chunk, shard.reading.columns, some.rows, some.size).texts
            shown = [beginning(text) for text in read.to_pylist()]
            yield batch_of(doc=docs, text=pa.array(shown, pa.string()))


def _wanted(
    batches: Batches, shards: list[Shard]
) -> Iterator[tuple[Shard, NDArray[np.int32], Wanted]]:
    """The chunks that hold wanted documents, with the numbers of these."""
    for part, table in _parts(batches):
        shard = shards[part]
        yield from ((shard, docs, some) for docs, some in _of_shard(table, shard))
        shard.check()


def _parts(batches: Batches) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each part, in order; those of a part come one after the other."""
    now, rows = -1, list[pa.RecordBatch]()
    for batch in batches:
        parts = numbers(batch, "part")
        starts = np.flatnonzero(np.diff(parts, prepend=-1)).tolist()
        for start, end in pairwise([*starts, len(batch)]):
            if parts[start] != now and rows:
                yield now, pa.Table.from_batches(rows).sort_by("place")
                rows = []
            now = int(parts[start])
            rows.append(batch.slice(start, end - start))
    if rows:
        yield now, pa.Table.from_batches(rows).sort_by("place")


def _of_shard(table: pa.Table, shard: Shard) -> Iterator[tuple[NDArray[np.int32], Wanted]]:
    names = ("chunk", "begins", "rows", "place")
    chunk, begins, rows, place = (numbers(table, name) for name in names)
    docs = numbers(table, "doc").astype(np.int32)
    content = np.stack([numbers(table, "c0"), numbers(table, "c1")]).view(np.uint64)
    read = enumerate(shard.chunks())
    for start in np.flatnonzero(np.diff(chunk, prepend=-1)).tolist():
        here = slice(start, int(np.searchsorted(chunk, chunk[start], side="right")))
        yield (
            docs[here],
            Wanted(
                _chunk(read, int(chunk[start]), shard),
                int(rows[start]),
                place[here] - begins[start],
                place[here],
                content[:, here],
            ),
        )


def _chunk(read: Iterator[tuple[int, Chunk]], wanted: int, shard: Shard) -> Chunk:
    """The chunk with this number; those before it are passed over."""
    for number, chunk in read:
        if number == wanted:
            return chunk
    raise changed(shard.files[-1])
