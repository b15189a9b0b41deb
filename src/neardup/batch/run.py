"""One run over files: read and sketch, decide, write. In memory but for texts and shingles."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from neardup.batch import record
from neardup.batch.catalogue import Catalogue
from neardup.batch.decisions import write_decisions, write_files, write_pairs
from neardup.batch.interrupts import Interruptible, held
from neardup.batch.job import Job, Progress
from neardup.batch.memory import peak_memory
from neardup.batch.output import RUN, check_output, output_folder
from neardup.batch.sketching import ReadAndSketch, sketched
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import chunks_of
from neardup.corpus.source import reading
from neardup.dedup import Corpus, Sketcher
from neardup.errors import RowError
from neardup.formats.tables import write_json


def run(job: Job, progress: Progress) -> record.Finished:
    """Do the job; OUT is complete afterwards, or as it was."""
    check_output(job.out, job.inputs, job.folders)
    with held() as obey, output_folder(job.out, job.force) as folder:
        finished = make(job, folder, Interruptible(progress, obey))
        obey()
    return finished


def make(job: Job, folder: Path, progress: Progress) -> record.Finished:
    """Everything that belongs into OUT."""
    clock = record.Clock()
    corpus = Corpus(job.options, str(folder))
    with clock.stage("sketch"):
        catalogue = read(job, corpus, progress)
    with clock.stage("decide"):
        progress.stage("deciding", corpus.size, "documents")
        decisions = corpus.decide()
        write_decisions(folder, catalogue, decisions, corpus.rejected)
    pairs = None
    if job.pairs:
        with clock.stage("pairs"):
            progress.stage("pairing", corpus.size, "documents")
            pairs = write_pairs(folder, catalogue, corpus)
    if job.kept:
        with clock.stage("write"):
            write_files(folder / "kept", catalogue, decisions.kept, progress)
    with clock.stage("fingerprint"):
        progress.stage("hashing", sum(map(stored_size, job.inputs)), "bytes")
        inputs = record.inputs(catalogue, progress)
    made = record.describe(job, catalogue, decisions, corpus.rejected, pairs)
    made |= {"inputs": inputs, "seconds": clock.seconds, "peak_memory_bytes": peak_memory()}
    write_json(folder / RUN, made)
    return record.finished(made, catalogue, decisions)


def read(job: Job, corpus: Corpus, progress: Progress) -> Catalogue:
    """Read and sketch all documents; the catalogue says where each is."""
    total = sum(map(stored_size, job.inputs))
    progress.stage("reading", total, "bytes")
    catalogue = Catalogue(job.inputs)
    work = ReadAndSketch(job.columns, Sketcher(job.options))
    chunks = chunks_of(job.inputs, job.columns)
    for chunk, documents, sketch in sketched(chunks, work, job.workers):
        corpus.add(documents, sketch)
        catalogue.add(chunk, documents.ids)
        if job.strict and corpus.rejected:
            refuse(catalogue, corpus.rejected)
        progress.advance(chunk.stored)
    return catalogue


def stored_size(file: InputFile) -> int:
    with reading(file):
        return file.path.stat().st_size


def refuse(catalogue: Catalogue, rejected: dict[int, str]) -> None:
    """Stop at the first document that can't be used."""
    row, reason = min(rejected.items())
    file, place = catalogue.place(np.array([row]))
    raise RowError(
        f"{file[0].as_py()}, row {place[0].as_py()}: {reason}. "
        "Mend it, or run without --strict to set such rows aside"
    )
