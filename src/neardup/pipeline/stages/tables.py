"""Write the tables of OUT (removed, clusters, rejected) and the kept files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import nlargest
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import make_strings
from neardup.corpus.rows import Edit
from neardup.corpus.write import write_kept
from neardup.formats import tables
from neardup.formats.tables import TableWriter, to_arrow
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.sketch_files import Sketches
from neardup.pipeline.stages.removed import RemovedBatch, RemovedDocuments
from neardup.pipeline.stages.samples import SAMPLED_CLUSTERS, name_largest, sample_clusters
from neardup.runtime import Progress


def write_removed(folder: Path, catalogue: Catalogue, verdicts: RemovedDocuments) -> None:
    """removed.parquet: every removed document and its witness, in input order."""
    with TableWriter(folder / "removed.parquet", tables.REMOVED) as table:
        for some in verdicts:
            table.add(_removed_columns(catalogue, some))


def _removed_columns(catalogue: Catalogue, some: RemovedBatch) -> dict[str, object]:
    file, row = catalogue.place(some.documents)
    known = some.witnesses >= 0
    witnesses = some.witnesses[known]
    witness_file, witness_row = catalogue.place(witnesses)
    named = {
        "witness": catalogue.names(witnesses),
        "witness_file": witness_file,
        "witness_row": witness_row,
        "similarity": to_arrow(some.similarity[known]),
        "cluster": to_arrow(witnesses),
    }
    return {
        "id": catalogue.names(some.documents),
        "file": file,
        "row": row,
        "exact": some.exact,
        **{name: _null_unknown(known, values) for name, values in named.items()},
    }


def _null_unknown(known: NDArray[np.bool_], values: pa.Array) -> pa.Array:
    """The values in the places that are known, null in the others."""
    if known.all():
        return values
    places = np.cumsum(known) - 1
    bits = pa.py_buffer(np.packbits(known, bitorder="little"))
    return values.take(pa.Array.from_buffers(pa.int64(), len(known), [bits, pa.py_buffer(places)]))


def write_clusters(
    folder: Path, catalogue: Catalogue, verdicts: RemovedDocuments, largest: int
) -> list[tuple[int, int]]:
    """clusters.parquet: every kept document with copies; and the largest: (document, copies)."""
    most: list[tuple[int, int]] = []
    with TableWriter(folder / "clusters.parquet", tables.CLUSTERS) as table:
        for leaders, copies in verdicts.clusters():
            file, row = catalogue.place(leaders)
            table.add(
                {
                    "cluster": leaders,
                    "id": catalogue.names(leaders),
                    "file": file,
                    "row": row,
                    "size": copies + 1,
                }
            )
            here = zip(leaders.tolist(), copies.tolist(), strict=True)
            most = nlargest(largest, [*most, *here], key=lambda one: (one[1], -one[0]))
    return most


def write_rejected(folder: Path, catalogue: Catalogue, sketches: Sketches) -> Counter[str]:
    """rejected.parquet; and how many there are for each reason."""
    counted: Counter[str] = Counter()
    with TableWriter(folder / "rejected.parquet", tables.REJECTED) as table:
        for documents, reasons in sketches.rejected():
            file, row = catalogue.place(documents)
            table.add(
                {
                    "id": catalogue.names(documents),
                    "file": file,
                    "row": row,
                    "reason": make_strings(reasons),
                }
            )
            counted.update(reasons)
    return counted


def write_kept_files(
    folder: Path,
    catalogue: Catalogue,
    kept: NDArray[np.bool_],
    workers: int,
    progress: Progress,
    edit: Callable[[int], Edit] | None = None,
) -> None:
    """kept/: every input again, without the rows that go.

    `edit` gives the rows with another text, by the number of the file.
    """
    progress.stage("writing", len(kept) - catalogue.sketches.first_new, "rows")
    folder.mkdir(exist_ok=True)
    for place, file in enumerate(catalogue.files[catalogue.new :], catalogue.new):
        mask = kept[catalogue.starts[place] : catalogue.starts[place + 1]]
        edited = None if edit is None else edit(place)
        write_kept(file, mask, folder / file.kept_name, progress.advance, workers, edited)


@dataclass(frozen=True)
class TableSummary:
    """What the tables say, for the record and for a terminal."""

    reasons: Counter[str]
    largest: list[tuple[str, int]]
    examples: list[tuple[str, str, float]]


def write_tables(
    folder: Path,
    catalogue: Catalogue,
    sketches: Sketches,
    verdicts: RemovedDocuments,
    progress: Progress,
) -> TableSummary:
    """The tables of removed and rejected documents, of clusters, and of texts to look at."""
    progress.stage("writing tables", verdicts.count, "documents")
    write_removed(folder, catalogue, verdicts)
    largest = write_clusters(folder, catalogue, verdicts, SAMPLED_CLUSTERS)
    reasons = write_rejected(folder, catalogue, sketches)
    examples = sample_clusters(folder, catalogue, verdicts, largest)
    return TableSummary(reasons, name_largest(catalogue, largest), examples)
