"""What a run would read, need and write, without running it."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace

from neardup.corpus.column_check import check_columns, check_new_columns, find_dimension
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import parse_chunk
from neardup.corpus.shards import cut_shards, read_stamp
from neardup.errors import UsageError
from neardup.explanation import describe_rule
from neardup.first_look import FirstDocuments
from neardup.formatting import format_bytes, format_count
from neardup.pipeline.disk_estimate import estimate_disk
from neardup.pipeline.job import Job
from neardup.pipeline.output import check_free
from neardup.pipeline.run import check_folder
from neardup.pipeline.stages.sketch import default_maker
from neardup.pipeline.vector_sample import SampledLayout, sample_layout
from neardup.wording import format_method

LISTED_FILES = 10


def describe_job(job: Job) -> str:
    """Return what a run would do: its inputs, its options, what it needs and writes.

    The first documents are read, so that a column or a format that is wrong is an error here too;
    nothing is written.
    """
    if not job.can_resume:
        raise UsageError(
            "--dry-run reads the first documents, and a pipe can be read only once: give files"
        )
    if job.file is None:
        check_folder(job)
        check_free(job.out, job.force)
        place, kept = job.out, f"{job.out}/kept" if job.kept else "no kept rows"
    else:
        job.file.check(job.inputs, job.folders, job.force, job.against)
        place, kept = job.out.parent, str(job.out)
    check_columns(job.inputs, job.columns)
    job = replace(job, columns=find_dimension(job.inputs, job.columns))
    if job.annotate is not None:
        check_new_columns(job.inputs)
    shards = cut_shards(job.inputs, job.reading)
    for shard in shards[:1]:
        for chunk in shard.chunks():
            parse_chunk(chunk, shard.reading.columns)
            break
    first = FirstDocuments(job.options.spec)
    layout = sample_layout(job, shards)
    need = estimate_disk(job, shards, default_maker(job, layout), first)
    planes = _describe_planes(layout)
    warning = first.warn_of_comparisons(job.options, need.documents)
    while not place.exists():
        place = place.absolute().parent
    free = shutil.disk_usage(place).free
    options = job.options
    signal = options.vectors
    how = format_method(options, options.meeting.probability(options.threshold))
    if signal is not None and signal.finds and signal.planes is None:
        how = f"{describe_rule(options)}; the planes of vectors are planned when these are counted"
    read = f"text: {job.columns.text}" if signal is None else f"vectors: {signal.column}"
    if options.has_two_signals:
        read = f"text: {job.columns.text}; {read}"
    lines = [
        f"inputs     {format_count(len(job.inputs), 'file')} ({_formats(job.inputs)}), "
        f"{format_bytes(sum(read_stamp(file)[0] for file in job.inputs))}, "
        f"{need.counted}",
        *(f"           {file.name}" for file in job.inputs[:LISTED_FILES]),
        *(["           ..."] if len(job.inputs) > LISTED_FILES else []),
        f"options    {how}",
        *([f"planes     {planes}"] if planes else []),
        f"columns    {read}; id: {job.columns.id or 'id, else file:row'}",
        f"disk       {need.space} while it runs, {format_bytes(free)} are free",
        *([f"warning    {warning}"] if warning else []),
        f"writes     {kept}",
        "nothing was written: leave out --dry-run to run it",
    ]
    return "\n".join(lines)


def _describe_planes(layout: SampledLayout | None) -> str:
    """Return the planes that a run would have by a sample of its vectors; empty if unknown."""
    if layout is None or layout.found is None:
        return ""
    found = layout.found
    return (
        f"about {found.planes}, by {format_count(layout.sample.sampled, 'document')}: predicted "
        f"recall at cosine {found.threshold:g} {found.recall:.4f}, and {found.compared:.1f} pairs "
        "a document that are compared in vain"
    )


def _formats(files: list[InputFile]) -> str:
    """Return how many files there are of each format, the most frequent first."""
    counts = Counter(
        file.format + (f", {file.compression}" if file.compression else "") for file in files
    )
    if len(counts) == 1:
        return next(iter(counts))
    return "; ".join(f"{count:,} {name}" for name, count in counts.most_common())
