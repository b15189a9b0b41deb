"""The answer of a finished run over the same inputs, which decisions of people change in part."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

import neardup
from neardup.errors import FormatError
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE
from neardup.runtime import Progress

BATCH = 1 << 16

Integers = NDArray[np.int64]


def find_obstacle(job: Job, record: dict[str, Any]) -> str | None:
    """Return why all documents of a run are decided again, and not only some; None for some.

    Args:
        job: The same run with decisions.
        record: The content of run.json.
    """
    names = [file.name for file in job.inputs]
    obstacles = {
        f"version {record['version']} of neardup made it": record["version"] != neardup.__version__,
        "it had --against, which may have changed": bool(job.against),
        "it had --distinguish, by which documents are decided twice": job.columns.distinguishes,
        "it had two signals, of which it wrote both": job.options.has_two_signals,
        "it had --merge-rows": job.merge_rows,
        "it had --pairs, which compares all": job.pairs,
        "inputs have the same name": len(set(names)) < len(names),
    }
    return next((why for why, holds in obstacles.items() if holds), None)


def find_earlier_answer(job: Job, catalogue: Catalogue, progress: Progress) -> EarlierAnswer | None:
    """Return the answer of which decisions change a part; None if everything is decided.

    Args:
        job: The job, with the earlier run if there is one.
        catalogue: The documents.
        progress: Told why everything is decided again, if it is.
    """
    if job.repeats is None:
        return None
    record = json.loads((job.repeats / RUN_FILE).read_bytes())
    if obstacle := find_obstacle(job, record):
        progress.say(
            f"all documents are decided again: {job.repeats} can't be changed in part, as "
            f"{obstacle}"
        )
        return None
    return EarlierAnswer.read(job.repeats, catalogue)


@dataclass(frozen=True)
class EarlierAnswer:
    """What a finished run has decided.

    removed     documents, in any order
    witness     that of each; -1 of those that were dropped
    similarity  of the two
    named       the documents that its decisions were about
    """

    removed: Integers
    witness: Integers
    similarity: NDArray[np.float64]
    named: Integers

    @classmethod
    def read(cls, run: Path, catalogue: Catalogue) -> EarlierAnswer:
        """Read the answer of a run whose documents are those of the catalogue."""
        columns = ["file", "row", "witness_file", "witness_row", "similarity"]
        removed, witness, named = ([np.empty(0, np.int64)] for _ in range(3))
        similarity: list[Any] = [np.empty(0)]
        places = _Places(catalogue, run)
        for batch in _read_batches(run / "removed.parquet", columns):
            removed.append(places.find(batch.column(0), batch.column(1)))
            witness.append(places.find(batch.column(2), batch.column(3)))
            similarity.append(np.from_dlpack(pc.fill_null(batch.column(4), np.nan)))
        decided = run / "decided.parquet"
        for batch in _read_batches(decided, columns[:2]) if decided.exists() else ():
            named.append(places.find(batch.column(0), batch.column(1)))
        return cls(*map(np.concatenate, (removed, witness, similarity, named)))

    def kept_files(
        self, job: Job, catalogue: Catalogue, kept: NDArray[np.bool_]
    ) -> Callable[[int], Path | None]:
        """Return a function that finds the kept rows of a file, if the earlier run has the same.

        A file that was written since the run ended is not the one that it wrote.

        Args:
            job: The job, with the earlier run.
            catalogue: The documents.
            kept: Whether each is kept.
        """
        run = job.repeats or Path()
        ended = (run / RUN_FILE).stat().st_mtime_ns
        before = np.concatenate([block.usable() for block in catalogue.sketches.blocks] or [kept])
        before[self.removed] = False
        starts = catalogue.starts

        def find(place: int) -> Path | None:
            rows = slice(*starts[place : place + 2].tolist())
            path = run / "kept" / catalogue.files[place].kept_name
            same = bool((before[rows] == kept[rows]).all()) and path.is_file()
            return path if same and path.stat().st_mtime_ns <= ended else None

        return find


def _read_batches(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch]:
    try:
        with pa.OSFile(os.fsencode(path), "rb") as file:
            table = pq.ParquetFile(file)
            yield from table.iter_batches(BATCH, columns=columns, use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(
            f"{path} is damaged ({type(error).__name__}): run neardup dedup again"
        ) from None


@dataclass(frozen=True)
class _Places:
    """Finds documents by their file and row."""

    catalogue: Catalogue
    run: Path

    def find(self, files: pa.Array, rows: pa.Array) -> Integers:
        """Return the number of each document; -1 where the file is null."""
        places = pc.fill_null(pc.index_in(files, self.catalogue.places.files), -1)
        place = np.from_dlpack(places).astype(np.int64)
        row = np.from_dlpack(pc.fill_null(rows, 0))
        starts = self.catalogue.starts
        unknown = (place < 0) & ~np.from_dlpack(files.is_null().cast(pa.int8())).astype(bool)
        number = np.where(place < 0, -1, starts[place] + row)
        if unknown.any() or (number[place >= 0] >= starts[place[place >= 0] + 1]).any():
            raise FormatError(
                f"{self.run}: its tables have documents that its inputs don't have: run neardup "
                "dedup --decisions"
            )
        return number
