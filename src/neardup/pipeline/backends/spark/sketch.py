"""Sketch all documents of the input files on Spark: the table of sketches and its counts.

A row of that table has the columns of the document's place, and:

id            null if the document has none
keep_...      the value of the keep column, in the column of its type; and the name of that type
length        raw bytes of the text, or the number of tokens
c0, c1        both halves of the content hash
reason        why the document is rejected; null if it is not
empty_slots   of a batch together, at its first document
keys          eight bytes for each table of the operating point
slots         what is compared of the signature, unless shingles are
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import neardup
from neardup.corpus.column_check import check_columns
from neardup.corpus.documents import make_strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import parse_chunk
from neardup.corpus.shards import Shard, cut_shards
from neardup.corpus.streams import AGAIN, SKIP
from neardup.errors import InputError, RowError
from neardup.options import Options
from neardup.pipeline.backends.spark.arrow import (
    Batches,
    StageTables,
    make_batch,
    narrow_strings,
    pack_matrix,
    read_numbers,
    run_in_arrow,
)
from neardup.pipeline.backends.spark.failures import translate_spark_errors
from neardup.pipeline.backends.spark.rank import KEEP_COLUMNS, number_documents, split_keep_values
from neardup.pipeline.backends.spark.sources import DocumentReader, FileSource, LocatedDocuments
from neardup.pipeline.catalogue import RowPlaces, list_files
from neardup.pipeline.earlier_corpus import EarlierCorpus
from neardup.pipeline.job import Job
from neardup.pipeline.stage_files import digest, shard_key
from neardup.runtime import Progress
from neardup.sketch.bulk import pack_signatures
from neardup.sketcher import Sketcher


@dataclass(frozen=True)
class MakeSketchRows:
    """In a task: sketch documents, and make a row of the table of each."""

    reader: DocumentReader
    sketcher: Sketcher
    options: Options

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for located in self.reader(batches):
            if len(located.documents):
                yield self._rows(located)

    def _rows(self, located: LocatedDocuments) -> pa.RecordBatch:
        documents, sketch = located.documents, self.sketcher(located.documents)
        count = len(documents)
        reasons: list[str | None] = [None] * count
        for row in sketch.empty.tolist():
            reasons[row] = "empty"
        for row, why in documents.rejected.items():
            reasons[row] = why
        empty_slots = np.zeros(count, np.int64)
        empty_slots[0] = sketch.empty_slots
        content = sketch.content.view(np.int64)
        columns: dict[str, Any] = {
            **located.where,
            "id": narrow_strings(documents.ids),
            **split_keep_values(documents.keep, count),
            "length": sketch.lengths,
            "c0": np.ascontiguousarray(content[:, 0]),
            "c1": np.ascontiguousarray(content[:, 1]),
            "reason": narrow_strings(make_strings(reasons)),
            "empty_slots": empty_slots,
            "keys": pack_matrix(sketch.keys(self.options.hash_tables)),
        }
        if self.options.verify != "exact":
            columns["slots"] = pack_matrix(pack_signatures(sketch.signatures, self.options.spec))
        return make_batch(**columns)


def sketch_schema(where: dict[str, str], id_type: str, options: Options) -> str:
    """Return the schema of the table of sketches, as Spark reads it."""
    columns = where | {"id": id_type} | KEEP_COLUMNS
    columns |= {"length": "long", "c0": "long", "c1": "long", "reason": "string"}
    columns |= {"empty_slots": "long", "keys": "binary"}
    columns |= {} if options.verify == "exact" else {"slots": "binary"}
    return ", ".join(f"{name} {kind}" for name, kind in columns.items())


@dataclass(frozen=True)
class SketchedFiles:
    """All documents, sketched.

    sketches  the table of them, with `number`, the place in input order
    new       the first document that is not of an earlier corpus
    files     the new inputs; in `places` they come after `others` earlier ones
    earlier   the shards of the earlier corpus
    has_ids   whether any document has an id of its own
    skipped   the inputs that could not be read, and why
    rejected  the number of rejected new documents
    """

    source: FileSource
    sketches: DataFrame
    count: int
    new: int
    files: list[InputFile]
    others: int
    places: Broadcast[RowPlaces]
    has_ids: bool
    earlier: list[Shard]
    shards: list[Shard]
    skipped: dict[str, str]
    rejected: int


def sketch_files(
    work: StageTables, job: Job, earlier: EarlierCorpus, progress: Progress, memory: int
) -> SketchedFiles:
    """Sketch all inputs; with skip_bad_files, those that can be read."""
    skipped: dict[str, str] = {}

    def skip(file: str, why: str) -> None:
        skipped[file] = why.replace(SKIP, AGAIN)
        progress.say(f"skipped: {skipped[file]}")

    while True:
        try:
            if skipped:
                # All of them at once: each time, everything is sketched again.
                for file, why in _find_unreadable(work, job, skipped).items():
                    skip(file, why)
            return _sketch_once(work, job, earlier, progress, memory, skipped)
        except RowError:
            raise
        except InputError as error:
            if not job.skip_bad_files or error.file is None or error.file in skipped:
                raise
            skip(error.file, str(error))


def _find_unreadable(work: StageTables, job: Job, skipped: dict[str, str]) -> dict[str, str]:
    """Return the other files that can't be read, with the reasons."""
    shards = cut_shards(job.ordered_inputs(), job.reading, set(skipped))
    parts = work.spark.range(0, len(shards), 1, max(len(shards), 1))
    look = TryReading(work.spark.sparkContext.broadcast(shards))
    with translate_spark_errors("reading"):
        rows = run_in_arrow(parts, look, "file string, why string").collect()
    return {row["file"]: row["why"] for row in rows}


@dataclass(frozen=True)
class TryReading:
    """In a task: read each file of shards, and list those that fail."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in read_numbers(batch, "id").tolist():
                shard = self.shards.value[part]
                for file, stamp in zip(shard.files, shard.stamps, strict=True):
                    alone = replace(shard, files=(file,), stamps=(stamp,))
                    if why := _find_read_error(alone):
                        row = make_strings([file.name, why]).cast(pa.string())
                        yield make_batch(file=row[:1], why=row[1:])


def _find_read_error(shard: Shard) -> str | None:
    try:
        for chunk in shard.chunks():
            parse_chunk(chunk, shard.reading.columns)
        shard.check()
    except InputError as error:
        return str(error)
    return None


def _make_work_key(job: Job, earlier: EarlierCorpus, shards: list[Shard], memory: int) -> str:
    """Return a digest of everything on which the tables between the stages depend."""
    options = job.options
    return digest(
        [shard_key(shard, options.spec.fingerprint) for shard in shards],
        earlier.keys,
        options.keep,
        options.hash_tables.stated,
        options.threshold,
        options.verify,
        options.measure,
        options.cluster,
        options.limit,
        job.prefer,
        memory,
        neardup.__version__,
    )


def _sketch_once(
    work: StageTables,
    job: Job,
    earlier: EarlierCorpus,
    progress: Progress,
    memory: int,
    skipped: dict[str, str],
) -> SketchedFiles:
    check_columns(job.inputs, job.columns)
    earlier.check(job.storage, job.options.verify == "exact", job.columns)
    before = [
        _drop_keep_column(shard)
        for shard in [*earlier.shards, *cut_shards(earlier.inputs, job.reading)]
    ]
    shards = [*before, *cut_shards(job.ordered_inputs(), job.reading, set(skipped))]
    together = job.options.keep_policy.name == "first"
    source = FileSource(work.spark, shards, job.sketcher, together)
    if work.begin(_make_work_key(job, earlier, shards, memory)):
        progress.say("resuming: completed stages of the stopped run are reused")
    sketches, counted = _make_sketches(work, job, source)
    rows = [
        [counted.rows[part, at] for at in range(len(shard.files))]
        for part, shard in enumerate(shards)
    ]
    files, starts, others = list_files(shards, rows, len(before))
    of_parts = np.concatenate([[0], np.cumsum([sum(counts) for counts in rows])]).astype(np.int64)
    places = work.spark.sparkContext.broadcast(
        RowPlaces(make_strings([file.name for file in files]), starts)
    )
    sketched = SketchedFiles(
        source,
        number_documents(sketches, of_parts),
        int(of_parts[-1]),
        int(of_parts[len(before)]),
        files[others:],
        others,
        places,
        counted.ids > 0,
        before,
        shards[len(before) :],
        {file.name: skipped[file.name] for file in job.ordered_inputs() if file.name in skipped},
        sum(count for part, count in counted.rejected.items() if part >= len(before)),
    )
    if job.strict:
        _refuse_rejected(sketched)
    return sketched


def _drop_keep_column(shard: Shard) -> Shard:
    """Return the shard without its keep column, which is ignored of an earlier corpus."""
    reading = shard.reading
    return replace(shard, reading=replace(reading, columns=reading.columns.plain))


@dataclass(frozen=True)
class DocumentCounts:
    """The documents of each file of each part, the rejected ones of each part, and all ids."""

    rows: Counter[tuple[int, int]]
    rejected: Counter[int]
    ids: int


def _make_sketches(
    work: StageTables, job: Job, source: FileSource
) -> tuple[DataFrame, DocumentCounts]:
    schema = sketch_schema(source.where, source.id_type, job.options)
    make = MakeSketchRows(source.reader, job.sketcher, job.options)
    sketches = work.store(run_in_arrow(source.frame, make, schema), "sketches")
    in_files = sketches.groupBy("part", "file").agg(
        sql.count("part").alias("documents"),
        sql.count("id").alias("ids"),
        sql.count("reason").alias("rejected"),
    )
    found = in_files.collect()
    rows = Counter({(row["part"], row["file"]): row["documents"] for row in found})
    rejected: Counter[int] = Counter()
    for row in found:
        rejected[row["part"]] += row["rejected"]
    return sketches, DocumentCounts(rows, rejected, sum(row["ids"] for row in found))


def _refuse_rejected(read: SketchedFiles) -> None:
    """Raise RowError at the first rejected document."""
    bad = read.sketches.where(sql.col("reason").isNotNull() & (sql.col("number") >= read.new))
    for row in bad.orderBy("number").limit(1).collect():
        file, at = (part[0].as_py() for part in read.places.value.of(np.array([row["number"]])))
        raise RowError(
            f"{file}, row {at}: {row['reason']}. "
            "Fix the row, or drop --strict to collect bad rows in rejected.parquet"
        )
