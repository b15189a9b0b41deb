"""Decisions of people in a run: which documents they name, and what became of these.

They change the ranks (`stages/rank.py`), the buckets (`stages/band.py`: one more for each class of
documents that are the same) and the similarities (`stages/compare.py`). The rounds are as without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from neardup.corpus.documents import make_strings
from neardup.decisions import fingerprint_run, shorten
from neardup.errors import UsageError
from neardup.formats import tables
from neardup.formats.decisions import write_decisions
from neardup.formats.tables import TableWriter, to_arrow
from neardup.formatting import format_count
from neardup.overrides import Overrides, ambiguous_error
from neardup.pipeline.catalogue import Catalogue
from neardup.pipeline.job import Job
from neardup.pipeline.output import OBEYED_FILE
from neardup.pipeline.stages.removed import RemovedBatch
from neardup.pipeline.stages.tables import DocumentPlaces, spread_to_known
from neardup.runtime import Progress

DECISIONS = "--decisions"


def find_overrides(
    job: Job,
    catalogue: Catalogue,
    inputs: Callable[[], list[dict[str, Any]]],
    progress: Progress,
) -> Overrides | None:
    """Return the decisions by the numbers of the documents; None if there are none.

    Args:
        job: The job with the decisions.
        catalogue: The documents.
        inputs: Returns what run.json says of the inputs, when they are hashed.
        progress: Told of documents that are not there.

    Raises:
        UsageError: the decisions were made about other documents, or a name is that of several.
    """
    said = job.decisions
    if said is None:
        return None
    if not job.same_ids and said.fingerprints - {None}:
        record = {"inputs": inputs(), "parameters": job.described_columns}
        said.check_documents(DECISIONS, fingerprint_run(record))
    overrides = Overrides.of(said, number_documents(catalogue, said.names))
    if overrides.missing:
        gone = [shorten(name) for name in sorted(said.names - set(overrides.names))[:3]]
        count = format_count(overrides.missing, "document")
        progress.say(
            f"{DECISIONS}: {count} of the decisions not among the inputs, such as "
            f"{', '.join(gone)}: what was decided about them changes nothing"
        )
    return overrides


def number_documents(catalogue: Catalogue, wanted: Collection[str]) -> dict[str, int]:
    """Return the numbers of documents by their names: the id, else file:row.

    New documents come before those of an earlier corpus with the same name.
    """
    numbers: dict[str, int] = {}
    first_new = catalogue.sketches.first_new
    for new in (True, False):
        missing = set(wanted) - numbers.keys()
        found = _find_ids(catalogue, missing, new)
        found |= _find_places(catalogue, missing - found.keys(), new)
        numbers |= found
        if not first_new:
            break
    names: dict[int, str] = {}
    for name, number in numbers.items():
        if names.setdefault(number, name) != name:
            raise UsageError(
                f"{DECISIONS}: {shorten(names[number])} and {shorten(name)} are one document: "
                "call it by one name in all decisions"
            )
    return numbers


def _find_ids(catalogue: Catalogue, wanted: Collection[str], new: bool) -> dict[str, int]:
    """Return the numbers of the documents with these ids."""
    values = make_strings(sorted(wanted))
    found: dict[str, int] = {}
    for block in catalogue.sketches.blocks:
        if (block.start >= catalogue.sketches.first_new) != new or not len(values):
            continue
        ids = block.arrow("ids").cast(pa.large_string())
        rows = np.flatnonzero(pc.is_in(ids, values).to_numpy(zero_copy_only=False))
        names = ids.take(to_arrow(rows)).to_pylist()
        documents = catalogue.documents_of(rows + block.start).tolist()
        for name, document in zip(names, documents, strict=True):
            if found.setdefault(name, document) != document:
                raise ambiguous_error(name)
    return found


def _find_places(catalogue: Catalogue, wanted: Collection[str], new: bool) -> dict[str, int]:
    """Return the numbers of the documents at these places, file:row."""
    begin, end = (catalogue.new, len(catalogue.files)) if new else (0, catalogue.new)
    files = {catalogue.files[place].name: place for place in range(begin, end)}
    found: dict[str, int] = {}
    for name in wanted:
        file, _, row = name.rpartition(":")
        place = files.get(file)
        if place is None or not (row.isascii() and row.isdigit() and len(row) < 18):
            continue
        start, stop = catalogue.starts[place : place + 2].tolist()
        if start + int(row) < stop:
            found[name] = int(catalogue.documents_of(np.array([start + int(row)]))[0])
    return found


def write_decided(
    folder: Path,
    lookup: DocumentPlaces,
    verdicts: Iterable[RemovedBatch],
    first_new: int,
    overrides: Overrides,
    kept: NDArray[np.bool_],
) -> None:
    """Write decided.parquet: what became of each document that a decision names; and the decisions.

    Args:
        folder: The folder that becomes OUT.
        lookup: The names and places of the documents.
        verdicts: The removed documents.
        first_new: Documents before this one are of an earlier corpus.
        overrides: The decisions.
        kept: For each document whether it is kept.
    """
    write_decisions(folder / OBEYED_FILE, overrides.decisions)
    documents = overrides.documents
    outcomes = np.where(kept[documents], "kept", "rejected").astype(object)
    outcomes[documents < first_new] = "earlier"
    witness, similarity = np.full(len(documents), -1), np.full(len(documents), np.nan)
    for batch in verdicts:
        _, mine, theirs = np.intersect1d(
            documents, batch.documents, assume_unique=True, return_indices=True
        )
        outcomes[mine] = "removed"
        witness[mine], similarity[mine] = batch.witnesses[theirs], batch.similarity[theirs]
    known = witness >= 0
    file, row = lookup.place(documents)
    with TableWriter(folder / "decided.parquet", tables.DECIDED) as table:
        table.add(
            {
                "id": lookup.names(documents),
                "file": file,
                "row": row,
                "outcome": make_strings(outcomes.tolist()),
                "witness": spread_to_known(known, lookup.names(witness[known])),
                "similarity": spread_to_known(known, to_arrow(similarity[known])),
                "decisions": make_strings(list(map(overrides.explain_kept, documents.tolist()))),
            }
        )
