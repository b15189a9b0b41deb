"""Vectors that are not in the inputs: in an .npy file beside them, or made by a function.

A function's vectors become such a file in the work folder, so that all stages read them alike:

    vectors/embedded.npy   a row for each document
    vectors/embedded.json  what it was made of, and the number of documents of each shard
    vectors/by-text        vectors by the digest of their text: a stopped run goes on from there
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from neardup.corpus.documents import Documents
from neardup.corpus.embedding import BATCH, Embedding, import_function, name_maker
from neardup.corpus.read import Chunk, parse_chunk
from neardup.corpus.shards import Shard, place_shards
from neardup.corpus.vector_files import EMBEDDED_FILE, VectorFile, VectorWriter
from neardup.errors import InputError, UsageError
from neardup.formats.tables import write_error, write_text
from neardup.formats.vector_cache import VectorCache
from neardup.pipeline.job import Job
from neardup.pipeline.stage_files import digest, shard_key
from neardup.runtime import Progress, map_in_order

FOLDER: Final = "vectors"
_MADE_FILE: Final = "embedded.json"
_CACHE_FILE: Final = "by-text"
_EMBEDDED_TOGETHER: Final = 4 * BATCH
"""Documents whose vectors are in memory at a time."""
_LEAST_CHUNK: Final = 1 << 12
_VECTORS_OF_CHUNK: Final = 1 << 22
"""The bytes of the vectors that are read with a chunk of documents, about."""


def place_vectors(
    job: Job, folder: Path, shards: list[Shard], progress: Progress
) -> tuple[Job, list[Shard]]:
    """Return the job and its shards with the places of vectors that are not in the inputs.

    Raises `InputError` unless a file of vectors has a row for each document.

    Args:
        job: The job.
        folder: The work folder.
        shards: All inputs, in order.
        progress: Where the reading of documents is shown.
    """
    signal = job.options.vectors
    if signal is None:
        return job, shards
    if signal.embed is not None:
        _refuse(job, "--embed")
        file, counts = _embed(job, folder / FOLDER, shards, signal.embed, progress)
        columns = replace(
            job.columns,
            vectors=str(file.path),
            dimension=file.shape[1],
            vectors_option=signal.option,
        )
        job = replace(job, columns=columns)
    elif job.columns.vectors is not None and job.columns.vector_column is None:
        _refuse(job, job.columns.vectors, of_one_order=True)
        file = VectorFile.open(job.columns.vectors)
        counts = _count_documents(job, shards, progress)
        file.check_count(sum(counts))
    else:
        return job, shards
    job = replace(job, chunk=_fit_chunk(job, shards, sum(counts), file))
    shards = [replace(shard, reading=job.reading) for shard in shards]
    return job, place_shards(shards, counts, file)


def _fit_chunk(job: Job, shards: Sequence[Shard], documents: int, file: VectorFile) -> int:
    """Return the bytes of a chunk, few if documents are short: each comes with its vector."""
    vectors = 4 * file.shape[1] * documents
    stored = sum(shard.stored for shard in shards)
    return min(job.chunk, max(_LEAST_CHUNK, _VECTORS_OF_CHUNK * stored // max(vectors, 1)))


def _count_documents(job: Job, shards: Sequence[Shard], progress: Progress) -> list[int]:
    progress.stage("counting documents", sum(shard.stored for shard in shards), "bytes")
    counts = []
    for shard, count in map_in_order(shards, Shard.count, job.budget.threads(job.workers)):
        counts.append(count)
        progress.advance(shard.stored)
    return counts


def _refuse(job: Job, name: str, of_one_order: bool = False) -> None:
    """Refuse what has documents without such vectors, or if they are given in another order."""
    refused = {
        "--against": bool(job.against or job.stored),
        "--save-sketches": job.save_sketches,
        "--prefer": of_one_order and job.prefer is not None,
        "--skip-bad-files": of_one_order and job.skip_bad_files,
    }
    for flag, is_given in refused.items():
        if is_given:
            raise UsageError(
                f"{flag} is not supported with vectors of {name}: leave out {flag}, or put the "
                "vectors into a column of the inputs"
            )


def _embed(
    job: Job, folder: Path, shards: Sequence[Shard], name: str, progress: Progress
) -> tuple[VectorFile, list[int]]:
    """Return the file of the vectors that a function makes, and the documents of each shard."""
    if job.columns.tokens:
        raise UsageError("--embed needs texts, not token ids: put the vectors into a column")
    with redirect_stdout(sys.stderr):  # standard output is that of the run
        function = import_function(name)
    maker = name_maker(name, function)
    keys = [shard_key(shard, maker) for shard in shards]
    path, made = folder / EMBEDDED_FILE, folder / _MADE_FILE
    with suppress(OSError, ValueError, InputError):
        stated = json.loads(made.read_text("utf-8"))
        if stated["key"] == digest(keys):
            return VectorFile.open(path), stated["counts"]
    counts = [0] * len(shards)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        made.unlink(missing_ok=True)
        with VectorCache(folder / _CACHE_FILE, maker) as cache:
            embedding, writer = Embedding(name, function, cache), VectorWriter(path)
            for number, documents in _read_all(job, shards, progress):
                for start in range(0, len(documents), _EMBEDDED_TOGETHER):
                    end = min(start + _EMBEDDED_TOGETHER, len(documents))
                    with redirect_stdout(sys.stderr):
                        rows = embedding.rows(documents.take(np.arange(start, end)))
                    writer.add(rows)
                counts[number] += len(documents)
            writer.close()
    except OSError as error:
        raise write_error(path, error) from None
    write_text(made, json.dumps({"key": digest(keys), "counts": counts}))
    return VectorFile.open(path), counts


def _read_all(
    job: Job, shards: Sequence[Shard], progress: Progress
) -> Iterator[tuple[int, Documents]]:
    """Yield all documents, in order, each batch with the number of its shard."""
    progress.stage("embedding", sum(shard.stored for shard in shards), "bytes")

    def parse(item: tuple[int, Chunk]) -> Documents:
        return parse_chunk(item[1], job.columns)

    chunks = ((number, chunk) for number, shard in enumerate(shards) for chunk in shard.chunks())
    for (number, chunk), documents in map_in_order(chunks, parse, job.budget.threads(job.workers)):
        yield number, documents
        progress.advance(chunk.stored)
