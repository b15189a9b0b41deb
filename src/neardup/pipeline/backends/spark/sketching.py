"""All documents of the inputs, sketched: the table of sketches, and what there is to know of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from pyspark import Broadcast
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

import neardup
from neardup.corpus.documents import strings
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import parse
from neardup.corpus.shards import Shard, cut
from neardup.errors import InputError, RowError
from neardup.pipeline.backends.spark import making, ranking
from neardup.pipeline.backends.spark.failures import in_plain_words
from neardup.pipeline.backends.spark.files import Files
from neardup.pipeline.backends.spark.making import Making
from neardup.pipeline.backends.spark.tables import Batches, Work, batch_of, numbers, run_in_arrow
from neardup.pipeline.earlier import Earlier
from neardup.pipeline.job import Job
from neardup.pipeline.places import Places, listed
from neardup.pipeline.work import digest, shard_key
from neardup.runtime import Progress


@dataclass(frozen=True)
class Read:
    """All documents, sketched.

    sketches  the table of them, with `number`, the place in input order
    new       the first document that is not of an earlier corpus
    files     the new inputs; in `places` they come after `others` earlier ones
    has_ids   whether any document has an id of its own
    skipped   the inputs that could not be read, and why
    rejected  how many new documents are
    """

    source: Files
    sketches: DataFrame
    count: int
    new: int
    files: list[InputFile]
    others: int
    places: Broadcast[Places]
    has_ids: bool
    shards: list[Shard]
    skipped: dict[str, str]
    rejected: int


def sketched(work: Work, job: Job, earlier: Earlier, progress: Progress, memory: int) -> Read:
    """Everything that can be read, sketched."""
    skipped: dict[str, str] = {}

    def skip(file: str, why: str) -> None:
        skipped[file] = why
        progress.say(f"skipped: {why}")

    while True:
        try:
            if skipped:
                # All of them at once: each time, everything is sketched again.
                for file, why in _unreadable(work, job, skipped).items():
                    skip(file, why)
            return _read(work, job, earlier, progress, memory, skipped)
        except RowError:
            raise
        except InputError as error:
            if not job.skip_bad_files or error.file is None or error.file in skipped:
                raise
            skip(error.file, str(error))


def _unreadable(work: Work, job: Job, skipped: dict[str, str]) -> dict[str, str]:
    """The other files that can't be read, and why."""
    shards = cut(job.in_order(), job.reading, set(skipped))
    parts = work.spark.range(0, len(shards), 1, max(len(shards), 1))
    look = Look(work.spark.sparkContext.broadcast(shards))
    with in_plain_words("reading"):
        rows = run_in_arrow(parts, look, "file string, why string").collect()
    return {row["file"]: row["why"] for row in rows}


@dataclass(frozen=True)
class Look:
    """In a task: each file of some shards is read, and nothing is made of it."""

    shards: Broadcast[list[Shard]]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for part in numbers(batch, "id").tolist():
                shard = self.shards.value[part]
                for file, stamp in zip(shard.files, shard.stamps, strict=True):
                    alone = replace(shard, files=(file,), stamps=(stamp,))
                    if why := _trouble(alone):
                        told = strings([file.name, why]).cast(pa.string())
                        yield batch_of(file=told[:1], why=told[1:])


def _trouble(shard: Shard) -> str | None:
    try:
        for chunk in shard.chunks():
            parse(chunk, shard.reading.columns)
        shard.check()
    except InputError as error:
        return str(error)
    return None


def _key(job: Job, earlier: Earlier, shards: list[Shard], memory: int) -> str:
    """Everything that the tables between the stages depend on."""
    options = job.options
    return digest(
        [shard_key(shard, options.spec.fingerprint) for shard in shards],
        earlier.keys,
        options.keep,
        options.tables.stated,
        options.threshold,
        options.verify,
        options.measure,
        options.cluster,
        options.limit,
        job.prefer,
        memory,
        neardup.__version__,
    )


def _read(
    work: Work,
    job: Job,
    earlier: Earlier,
    progress: Progress,
    memory: int,
    skipped: dict[str, str],
) -> Read:
    earlier.check(job.storing, job.options.verify == "exact", job.columns.within)
    before = [_plain(shard) for shard in [*earlier.shards, *cut(earlier.inputs, job.reading)]]
    shards = [*before, *cut(job.in_order(), job.reading, set(skipped))]
    together = job.options.keep_policy[0] == "first"
    source = Files(work.spark, shards, job.sketcher, together)
    if work.begin(_key(job, earlier, shards, memory)):
        progress.say("going on: what is complete of the stopped run is used again")
    sketches, counted = _made(work, job, source)
    rows = [
        [counted.rows[part, at] for at in range(len(shard.files))]
        for part, shard in enumerate(shards)
    ]
    files, starts, others = listed(shards, rows, len(before))
    of_parts = np.concatenate([[0], np.cumsum([sum(some) for some in rows])]).astype(np.int64)
    places = work.spark.sparkContext.broadcast(
        Places(strings([file.name for file in files]), starts)
    )
    found = Read(
        source,
        ranking.by_starts(sketches, of_parts),
        int(of_parts[-1]),
        int(of_parts[len(before)]),
        files[others:],
        others,
        places,
        counted.ids > 0,
        shards[len(before) :],
        {file.name: skipped[file.name] for file in job.in_order() if file.name in skipped},
        sum(count for part, count in counted.rejected.items() if part >= len(before)),
    )
    if job.strict:
        _refuse_rejected(found)
    return found


def _plain(shard: Shard) -> Shard:
    """Without the keep column: what an earlier corpus has there does not count."""
    reading = shard.reading
    return replace(shard, reading=replace(reading, columns=reading.columns.plain))


@dataclass(frozen=True)
class Counted:
    """How many documents each file of each part has, how many each part rejects, and how many
    documents have an id."""

    rows: Counter[tuple[int, int]]
    rejected: Counter[int]
    ids: int


def _made(work: Work, job: Job, source: Files) -> tuple[DataFrame, Counted]:
    schema = making.schema(source.where, source.id_type, job.options)
    make = Making(source.reader, job.sketcher, job.options)
    sketches = work.stored(run_in_arrow(source.frame, make, schema), "sketches")
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
    return sketches, Counted(rows, rejected, sum(row["ids"] for row in found))


def _refuse_rejected(read: Read) -> None:
    """Stop at the first document that can't be used."""
    bad = read.sketches.where(sql.col("reason").isNotNull() & (sql.col("number") >= read.new))
    for row in bad.orderBy("number").limit(1).collect():
        file, at = (part[0].as_py() for part in read.places.value.of(np.array([row["number"]])))
        raise RowError(
            f"{file}, row {at}: {row['reason']}. "
            "Mend it, or run without --strict to set such rows aside"
        )
