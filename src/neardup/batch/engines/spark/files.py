"""Documents of files that every executor can open: a task reads a shard, as a local run does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import Broadcast
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from neardup.batch.candidates import Wanted, shingle_again
from neardup.batch.engines.spark.sources import Found
from neardup.batch.engines.spark.tables import (
    Batches,
    as_bytes,
    batch_of,
    flat,
    grouped_in_arrow,
    numbers,
    run_in_arrow,
)
from neardup.batch.samples import beginning
from neardup.corpus.read import Chunk, parse, parse_some
from neardup.corpus.shards import Shard
from neardup.corpus.source import changed
from neardup.dedup import Sketcher

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


class Files:
    """The shards of files as a source; part i is shard i."""

    id_type, where = "string", WHERE

    def __init__(self, spark: SparkSession, shards: list[Shard], sketcher: Sketcher) -> None:
        self._count, self._sketcher = len(shards), sketcher
        self._shards: Broadcast[list[Shard]] = spark.sparkContext.broadcast(shards)
        self.frame: DataFrame = spark.range(0, self._count, 1, max(self._count, 1))
        self.reader = ShardReader(self._shards)

    @property
    def order(self) -> list[Column]:
        return [sql.col("part"), sql.col("place")]

    def sets(self, wanted: DataFrame) -> DataFrame:
        """The sorted shingles of some documents: each shard is read again, for these alone."""
        again = ShingleAgain(self._shards, self._sketcher)
        return run_in_arrow(self._by_part(wanted), again, "doc int, data binary")

    def texts(self, wanted: DataFrame) -> DataFrame:
        """The texts of some documents, read again: (doc, text)."""
        return run_in_arrow(self._by_part(wanted), ReadAgain(self._shards), "doc int, text string")

    def _by_part(self, wanted: DataFrame) -> DataFrame:
        """The wanted documents of each part in one row, one part a task."""
        columns = ["chunk", "begins", "rows", "place", "c0", "c1", "doc"]
        schema = "part int, " + ", ".join(f"{name} binary" for name in columns)
        by_part = grouped_in_arrow(wanted.select("part", *columns), "part", _gathered, schema)
        return by_part.repartitionByRange(max(self._count, 1), "part")


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
            yield Found(documents, {
                **{name: np.full(rows, value, np.int32) for name, value in where.items()},
                "place": np.arange(begins, begins + rows, dtype=np.int32),
                "file": np.resize(np.array(of_files, np.int32), rows),
            })  # fmt: skip
            begins += rows
        shard.check()


def _gathered(table: pa.Table) -> pa.Table:
    """The wanted documents of a part, in order, as one row."""
    table = table.combine_chunks().sort_by("place")
    found = {
        name: [np.ascontiguousarray(table.column(name).to_numpy()).tobytes()]
        for name in table.schema.names[1:]
    }
    part = np.array([table.column("part")[0].as_py()], np.int32)
    return pa.Table.from_batches([batch_of(part=part, **found)])


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
    for batch in batches:
        for at in range(len(batch)):
            row = batch.slice(at, 1)
            shard = shards[row.column("part")[0].as_py()]
            yield from ((shard, docs, some) for docs, some in _of_shard(row, shard))
            shard.check()


def _of_shard(row: pa.RecordBatch, shard: Shard) -> Iterator[tuple[NDArray[np.int32], Wanted]]:
    def column(name: str, dtype: type = np.int32) -> Integers:
        return flat(row.column(name), dtype).data.astype(np.int64)

    chunk, begins, rows, place = map(column, ("chunk", "begins", "rows", "place"))
    docs = column("doc").astype(np.int32)
    content = np.stack([column("c0", np.int64), column("c1", np.int64)]).view(np.uint64)
    read = enumerate(shard.chunks())
    for start in np.flatnonzero(np.diff(chunk, prepend=-1)).tolist():
        here = slice(start, int(np.searchsorted(chunk, chunk[start], side="right")))
        yield docs[here], Wanted(
            _chunk(read, int(chunk[start]), shard), int(rows[start]),
            place[here] - begins[start], place[here], content[:, here],
        )  # fmt: skip


def _chunk(read: Iterator[tuple[int, Chunk]], wanted: int, shard: Shard) -> Chunk:
    """The chunk with this number; those before it are passed over."""
    for number, chunk in read:
        if number == wanted:
            return chunk
    raise changed(shard.files[-1])
