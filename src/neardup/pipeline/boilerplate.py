"""Which lines are in too many documents? Two passes over the input, before anything is sketched."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from neardup.corpus.read import Chunk, parse
from neardup.corpus.shards import Shard
from neardup.pipeline.job import Job
from neardup.pipeline.saved import IGNORED, read_ignored
from neardup.pipeline.work import digest, made_once, shard_key
from neardup.runtime import Progress, map_in_order
from neardup.text.lines import IgnoredLines, LineCounts


def ignored_lines(job: Job, folder: Path, shards: list[Shard], progress: Progress) -> IgnoredLines:
    """The lines in more than the wanted share of documents; found once, then kept in the folder."""
    share, spec = job.options.strip.lines, job.options.spec
    if share is None:
        return IgnoredLines()
    key = digest([shard_key(shard, spec.fingerprint) for shard in shards], str(share))

    def find() -> IgnoredLines:
        counts = LineCounts(spec, key=job.key)
        _read(job, shards, counts.add, "counting lines", progress)
        frequent = counts.above(share)
        _read(job, shards, frequent.add, "comparing lines", progress)
        return frequent.freeze()

    return made_once(folder / "lines", IGNORED, key, read_ignored, find)


def _read(
    job: Job, shards: list[Shard], take: Callable[[pa.Array], None], what: str, progress: Progress
) -> None:
    progress.stage(what, sum(shard.stored for shard in shards), "bytes")

    def do(item: tuple[Shard, Chunk]) -> None:
        shard, chunk = item
        take(parse(chunk, shard.reading.columns).texts)

    work = ((shard, chunk) for shard in shards for chunk in shard.chunks())
    for (_, chunk), _ in map_in_order(work, do, job.budget.threads(job.workers)):
        progress.advance(chunk.stored)
