"""How much disk will a run take? Said before it begins, and checked."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from neardup.corpus.read import parse
from neardup.corpus.shards import Shard
from neardup.errors import NeardupError, OutputError
from neardup.formatting import format_bytes
from neardup.pipeline.job import Job
from neardup.pipeline.making import Making, sketches_of
from neardup.runtime import Progress
from neardup.sketcher import raw_lengths

SAMPLED = 8
"""Shards of which the first chunk is looked at."""


@dataclass(frozen=True)
class Need:
    """An estimate, from some documents of some shards."""

    documents: int
    work: int
    kept: int

    @property
    def total(self) -> int:
        return self.work + self.kept


def estimate(job: Job, shards: list[Shard], making: Making) -> Need:
    """What is needed for what is made of the documents, and for the kept files."""
    stored = sum(shard.stored for shard in shards)
    documents = read = length = 0
    for place in np.unique(np.linspace(0, len(shards) - 1, SAMPLED).astype(int)).tolist():
        with suppress(NeardupError):  # whoever reads all of it will say so
            for chunk in shards[place].chunks():
                found = parse(chunk, shards[place].reading.columns)
                documents += len(found)
                read += chunk.stored
                length += int(raw_lengths(found.texts).sum())
                break
    scale = stored / max(read, 1)
    work = making.room(documents, length)
    return Need(round(documents * scale), round(work * scale), stored if job.kept else 0)


def check_room(
    job: Job, folder: Path, shards: list[Shard], progress: Progress, making: Making | None = None
) -> None:
    """Say how much disk the run will take; an error if there is less. `folder` may hold some."""
    need = estimate(job, shards, making or sketches_of(job))
    place = next(path for path in (job.out, *job.out.absolute().parents) if path.exists())
    free = shutil.disk_usage(place).free
    there = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    progress.say(
        f"about {need.documents:,} documents: takes about {format_bytes(need.total)} of disk, "
        f"{format_bytes(free)} are free"
    )
    if need.total > free + there:
        raise OutputError(
            f"{job.out}: about {format_bytes(need.total)} of disk are needed "
            f"({format_bytes(need.kept)} of them "
            f"for kept files), {format_bytes(free)} are free: choose another output, or use "
            "--no-kept"
        )
