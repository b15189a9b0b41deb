"""Count frequent lines and shingles in a pass over the input, before documents are sketched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from neardup.corpus.read import Chunk, parse_chunk
from neardup.corpus.shards import Shard
from neardup.pipeline.job import Job
from neardup.pipeline.saved import FREQUENCIES_FILE, IGNORED_FILE, read_frequencies, read_ignored
from neardup.pipeline.stage_files import digest, load_or_make, shard_key
from neardup.runtime import Progress, map_in_order
from neardup.text.frequencies import Frequencies, FrequencyCounts
from neardup.text.lines import IgnoredLines, LineCounts


def find_ignored_lines(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> IgnoredLines:
    """The lines in more than the wanted share of documents; found once, then kept in the folder."""
    share, spec = job.options.strip.lines, job.options.spec
    if share is None:
        return IgnoredLines()
    key = digest([shard_key(shard, spec.fingerprint) for shard in shards], str(share))

    def find() -> IgnoredLines:
        counts = LineCounts(spec, key=job.key)
        _read_texts(job, shards, counts.add, "counting lines", progress)
        frequent = counts.above(share)
        _read_texts(job, shards, frequent.add, "comparing lines", progress)
        return frequent.freeze()

    return load_or_make(folder / "lines", IGNORED_FILE, key, read_ignored, find)


def _read_texts(
    job: Job, shards: list[Shard], take: Callable[[pa.Array], None], what: str, progress: Progress
) -> None:
    progress.stage(what, sum(shard.stored for shard in shards), "bytes")

    def do(item: tuple[Shard, Chunk]) -> None:
        shard, chunk = item
        take(parse_chunk(chunk, shard.reading.columns).texts)

    work = ((shard, chunk) for shard in shards for chunk in shard.chunks())
    for (_, chunk), _ in map_in_order(work, do, job.budget.threads(job.workers)):
        progress.advance(chunk.stored)


def count_document_frequencies(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> Frequencies:
    """The frequencies in the new documents; found once, then kept in the folder."""
    job = replace(job, options=job.options.weighing(""), frequencies=Frequencies())
    key = digest([shard_key(shard, job.options.spec.fingerprint) for shard in shards])
    return load_or_make(
        folder / "weights",
        FREQUENCIES_FILE,
        key,
        read_frequencies,
        lambda: _count_shingles(job, shards, progress),
    )


def _count_shingles(job: Job, shards: list[Shard], progress: Progress) -> Frequencies:
    progress.stage("counting shingles", sum(shard.stored for shard in shards), "bytes")
    counts, sketcher = FrequencyCounts(), job.sketcher

    def do(item: tuple[Shard, Chunk]) -> None:
        shard, chunk = item
        counts.add(sketcher.cut(parse_chunk(chunk, shard.reading.columns)).shingles)

    work = ((shard, chunk) for shard in shards for chunk in shard.chunks())
    for (_, chunk), _ in map_in_order(work, do, job.budget.threads(job.workers)):
        progress.advance(chunk.stored)
    return counts.freeze()
