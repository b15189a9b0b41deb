"""How does every run end? With tables of all decisions, and a record of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from neardup.corpus.shards import Shard
from neardup.formats.tables import write_json
from neardup.pipeline import decisions, samples
from neardup.pipeline.budget import peak_memory
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN
from neardup.pipeline.record import Clock, Finished
from neardup.pipeline.sketches import Sketches
from neardup.pipeline.verdicts import Verdicts
from neardup.runtime import Progress


@dataclass(frozen=True)
class Told:
    """What the tables say, for the record and for a terminal."""

    reasons: Counter[str]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float]]


def write_tables(
    folder: Path, catalogue: Catalogue, sketches: Sketches, verdicts: Verdicts, progress: Progress
) -> Told:
    """The tables of removed and rejected documents, of clusters, and of texts to look at."""
    progress.stage("writing tables", verdicts.count, "documents")
    decisions.write_removed(folder, catalogue, verdicts)
    largest = decisions.write_clusters(folder, catalogue, verdicts, samples.CLUSTERS)
    reasons = decisions.write_rejected(folder, catalogue, sketches)
    examples = samples.write(folder, catalogue, verdicts, largest)
    return Told(reasons, samples.named(catalogue, largest), examples)


def complete(
    job: Job, folder: Path, made: dict[str, Any], told: Told, clock: Clock, inputs: Sequence[Shard]
) -> Finished:
    """run.json, if no input has changed meanwhile; and what else is made when it is there."""
    for shard in inputs:
        shard.check()
    made |= {
        "seconds": clock.seconds,
        "stages": clock.stages,
        "peak_memory_bytes": peak_memory(),
        "memory_budget_bytes": job.budget.total,
    }
    write_json(folder / RUN, made)
    job.finish(folder)
    return Finished(made, told.largest, told.examples)
