"""In how many documents is a shingle? One pass over the input, before anything is sketched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from neardup.batch.job import Job, Progress
from neardup.batch.saved import FREQUENCIES, read_frequencies
from neardup.batch.work import digest, shard_key
from neardup.corpus.read import Chunk, parse
from neardup.corpus.shards import Shard
from neardup.errors import NeardupError
from neardup.formats.tables import no_room, write_text
from neardup.text.frequencies import Frequencies, FrequencyCounts
from neardup.threads import in_order

KEY = "frequencies-of"


def document_frequencies(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> Frequencies:
    """The frequencies in the new documents; found once, then kept in the folder."""
    job = replace(job, options=job.options.weighing(""), frequencies=Frequencies())
    key = digest([shard_key(shard, job.options.spec.fingerprint) for shard in shards])
    folder = folder / "weights"
    folder.mkdir(mode=0o700, exist_ok=True)
    if (found := _found_before(folder, key)) is not None:
        return found
    frequencies = _counted(job, shards, progress)
    (folder / KEY).unlink(missing_ok=True)  # what it vouches for is about to change
    try:
        (folder / FREQUENCIES).write_bytes(frequencies.to_bytes())
    except OSError as error:
        raise no_room(folder / FREQUENCIES, error) from None
    write_text(folder / KEY, key)
    return frequencies


def _found_before(folder: Path, key: str) -> Frequencies | None:
    try:
        return read_frequencies(folder) if (folder / KEY).read_text("utf-8") == key else None
    except (OSError, ValueError, NeardupError):
        return None


def _counted(job: Job, shards: list[Shard], progress: Progress) -> Frequencies:
    progress.stage("counting shingles", sum(shard.stored for shard in shards), "bytes")
    counts, sketcher = FrequencyCounts(), job.sketcher

    def do(item: tuple[Shard, Chunk]) -> None:
        shard, chunk = item
        counts.add(sketcher.cut(parse(chunk, shard.reading.columns)).shingles)

    work = ((shard, chunk) for shard in shards for chunk in shard.chunks())
    for (_, chunk), _ in in_order(work, do, job.budget.threads(job.workers)):
        progress.advance(chunk.stored)
    return counts.freeze()
