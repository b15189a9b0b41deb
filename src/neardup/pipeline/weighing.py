"""In how many documents is a shingle? One pass over the input, before anything is sketched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from neardup.corpus.read import Chunk, parse
from neardup.corpus.shards import Shard
from neardup.pipeline.job import Job
from neardup.pipeline.saved import FREQUENCIES, read_frequencies
from neardup.pipeline.work import digest, made_once, shard_key
from neardup.runtime import Progress, map_in_order
from neardup.text.frequencies import Frequencies, FrequencyCounts


def document_frequencies(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> Frequencies:
    """The frequencies in the new documents; found once, then kept in the folder."""
    job = replace(job, options=job.options.weighing(""), frequencies=Frequencies())
    key = digest([shard_key(shard, job.options.spec.fingerprint) for shard in shards])
    return made_once(
        folder / "weights",
        FREQUENCIES,
        key,
        read_frequencies,
        lambda: _counted(job, shards, progress),
    )


def _counted(job: Job, shards: list[Shard], progress: Progress) -> Frequencies:
    progress.stage("counting shingles", sum(shard.stored for shard in shards), "bytes")
    counts, sketcher = FrequencyCounts(), job.sketcher

    def do(item: tuple[Shard, Chunk]) -> None:
        shard, chunk = item
        counts.add(sketcher.cut(parse(chunk, shard.reading.columns)).shingles)

    work = ((shard, chunk) for shard in shards for chunk in shard.chunks())
    for (_, chunk), _ in map_in_order(work, do, job.budget.threads(job.workers)):
        progress.advance(chunk.stored)
    return counts.freeze()
