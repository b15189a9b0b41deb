"""The vectors of files that are added to an index: where they are, and the layout of a new index.

A new index has no vectors yet, and the files that it is made from have some: as in a run, these are
counted for the centre, and for planes that find them. But an index grows, so that its planes are
those for many documents; and a few vectors say too little, so that nothing is subtracted from them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from neardup.corpus.column_check import find_dimension
from neardup.corpus.documents import Columns
from neardup.corpus.inputs import InputFile, InputOptions, find_inputs
from neardup.corpus.read import Chunk, chunks_of, parse_chunk
from neardup.corpus.shards import Reading, cut_shards, place_shards
from neardup.corpus.standard_input import DASH
from neardup.corpus.vector_files import VectorFile
from neardup.errors import UsageError
from neardup.formatting import format_count
from neardup.index.vector_settings import find_centre
from neardup.lsh.planes import LEAST_CENTRED, plan_planes
from neardup.options import Options
from neardup.pipeline.budget import check_workers
from neardup.pipeline.job import make_columns
from neardup.pipeline.saved import write_lists
from neardup.runtime import SILENT, Progress, map_in_order
from neardup.sketch.centre import VectorCentre
from neardup.text.frequencies import Frequencies
from neardup.text.lines import IgnoredLines
from neardup.vector_layout import CountedVectors, counts_vectors
from neardup.vector_signal import take_signal

GROWN: Final = 100_000
"""Documents for which planes are planned, at least."""


def choose_columns(
    options: Options,
    text: str | Sequence[str],
    id: str | None,
    within: str | None,
    asked: Mapping[str, Any] | None = None,
) -> Columns:
    """Return the columns of files that an index reads.

    Args:
        options: The options of the index.
        text: The column of the texts.
        id: The column of the ids.
        within: The column of the groups.
        asked: Options that are given with the files: those of vectors may name an .npy file, whose
            rows belong to the documents of these files.
    """
    signal, beside = options.vectors, take_signal(dict(asked or {}))
    if signal is not None and beside is not None:
        options = replace(options, vectors=replace(signal, column=beside.column))
    columns = make_columns(options, text, id, within, None, None)
    return replace(columns, dimension=options.spec.dimension or None)


def chunks_with_vectors(files: Sequence[InputFile], columns: Columns) -> Iterator[Chunk]:
    """Yield the chunks of many files, in order, each with its rows of an .npy file beside them.

    Args:
        files: The files.
        columns: The columns to read.
    """
    if columns.vectors is None or columns.vector_column is not None:
        yield from chunks_of(files, columns)
        return
    beside, shards = VectorFile.open(columns.vectors), cut_shards(files, Reading(columns))
    counts = [shard.count() for shard in shards]
    beside.check_count(sum(counts))
    for shard in place_shards(shards, counts, beside):
        yield from shard.chunks()


@dataclass(frozen=True)
class FirstFiles:
    """The files that a new index is made from.

    Attributes:
        inputs: Files, folders and globs.
        input_options: What the user says about them.
        text: The column of the texts.
        id: The column of the ids.
        workers: Threads that read; None for one per core.
        progress: Receives the progress.
    """

    inputs: Sequence[str]
    input_options: InputOptions = field(default_factory=InputOptions)
    text: str | Sequence[str] = "text"
    id: str | None = None
    workers: int | None = None
    progress: Progress = SILENT

    @contextmanager
    def lay_out(self, options: Options) -> Iterator[dict[str, Any]]:
        """Yield the arguments of `Index.open` that follow from the vectors of the files.

        Args:
            options: The options of the new index.
        """
        signal = options.vectors
        if signal is None:
            yield {}
            return
        if DASH in self.inputs:
            raise UsageError(
                "a new index looks at its vectors before it reads them, and a pipe can be read "
                "only once: give files, or make the index in Python first"
            )
        files = find_inputs(self.inputs, **self.input_options)
        columns = find_dimension(files, choose_columns(options, self.text, self.id, None))
        dimension = columns.dimension
        if dimension is None:
            raise UsageError(
                f"there are no documents, and so no vectors in {signal.column!r}: make the index "
                "from files that have some"
            )
        if not counts_vectors(options):
            yield {"dimension": dimension}
            return
        counts = self._count(files, columns).counts
        if counts.documents < LEAST_CENTRED:
            self.progress.say(
                f"planes and centre are not those of {format_count(counts.documents, 'vector')}: "
                f"from {LEAST_CENTRED} on they are counted"
            )
            yield {"dimension": dimension}
            return
        given = signal.centre
        centre = find_centre(given, dimension) if given is not None else counts.centre(dimension)
        counts.documents = max(counts.documents, GROWN)
        planes = signal.planes or plan_planes(signal.threshold, options.recall, counts, centre)
        with tempfile.TemporaryDirectory(prefix="neardup-centre-") as folder:
            write_lists(Path(folder), IgnoredLines(), Frequencies(), VectorCentre(centre))
            yield {
                "dimension": dimension,
                "planes": f"{planes.bands}x{planes.rows}",
                **({"centre": given} if given is not None else {"centre": folder}),
            }

    def _count(self, files: Sequence[InputFile], columns: Columns) -> CountedVectors:
        """Return the counts of all vectors."""
        counted = CountedVectors()

        def count(chunk: Chunk) -> None:
            counted.add(parse_chunk(chunk, columns))

        stored = sum(file.path.stat().st_size for file in files)
        self.progress.stage("counting vectors", stored, "bytes")
        chunks = chunks_with_vectors(files, columns)
        for chunk, _ in map_in_order(chunks, count, check_workers(self.workers)):
            self.progress.advance(chunk.stored)
        return counted
