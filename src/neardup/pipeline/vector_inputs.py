"""Vectors that are not in the inputs: in an .npy file beside them."""

from __future__ import annotations

from collections.abc import Sequence

from neardup.corpus.shards import Shard, place_shards
from neardup.corpus.vector_files import VectorFile
from neardup.errors import UsageError
from neardup.pipeline.job import Job
from neardup.runtime import Progress, map_in_order


def place_vectors(job: Job, shards: list[Shard], progress: Progress) -> list[Shard]:
    """Return the shards with the places of their vectors, if these are in a file beside the inputs.

    Raises `InputError` unless that has a row for each document.

    Args:
        job: The job.
        shards: All its inputs, in order.
        progress: Where the documents' counting is shown.
    """
    if job.columns.vectors is None or job.columns.vector_column is not None:
        return shards
    _refuse_other_orders(job)
    file = VectorFile.open(job.columns.vectors)
    counts = _count_documents(job, shards, progress)
    file.check_count(sum(counts))
    return place_shards(shards, counts, file)


def _count_documents(job: Job, shards: Sequence[Shard], progress: Progress) -> list[int]:
    progress.stage("counting documents", sum(shard.stored for shard in shards), "bytes")
    counts = []
    for shard, count in map_in_order(shards, Shard.count, job.budget.threads(job.workers)):
        counts.append(count)
        progress.advance(shard.stored)
    return counts


def _refuse_other_orders(job: Job) -> None:
    """Refuse what has documents for which the file has no row, or in another order."""
    refused = {
        "--prefer": job.prefer is not None,
        "--against": bool(job.against or job.stored),
        "--save-sketches": job.save_sketches,
        "--skip-bad-files": job.skip_bad_files,
    }
    for flag, is_given in refused.items():
        if is_given:
            raise UsageError(
                f"{flag} is not supported with vectors in {job.columns.vectors}, whose rows belong "
                f"to the inputs in their order: leave out {flag}, or put the vectors into a column"
            )
