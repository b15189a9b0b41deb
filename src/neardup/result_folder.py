"""Write the `Result` of `neardup.dedup` as a run over files is written, or as a report alone."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.cluster import KeepList
from neardup.corpus.documents import make_strings
from neardup.corpus.frames import read_data, take_rows
from neardup.formats import tables
from neardup.formats.tables import TableWriter, write_json, write_text
from neardup.pipeline.decided import write_decided
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE, output_folder
from neardup.pipeline.record import LISTED_BUCKETS, RunCounts, describe_ignored_lines, describe_run
from neardup.pipeline.stages.decide import RoundTally
from neardup.pipeline.stages.removed import RemovedBatch
from neardup.pipeline.stages.tables import (
    SAMPLED_CLUSTERS,
    SAMPLED_COPIES,
    cut_text,
    removed_columns,
    signal_columns,
    write_removed,
    write_samples,
)
from neardup.report.differences import TextPiece, compare_texts
from neardup.report.run_page import run_page, write_report
from neardup.result import Result

DATA = "data"
"""What stands for the file of a document that was in memory."""

Integers = NDArray[np.int64]


def save_result(result: Result, folder: str | os.PathLike[str], data: Any, force: bool) -> None:
    """Write the tables, run.json and report.html of a result to a folder, all or nothing.

    Args:
        result: The result.
        folder: The folder to write, which is made if it does not exist.
        data: The data that was given to `dedup`, for the texts in the report; None for none.
        force: Replace a finished run in the folder.
    """
    out = Path(os.fspath(folder))
    _require_same(result, data)
    with output_folder(out, force) as work:
        _write_run(result, work, data)
        write_report(work, out.resolve().name)


def write_result_report(result: Result, path: str | os.PathLike[str], data: Any) -> None:
    """Write the report of a result as one HTML file; see `save_result`."""
    file = Path(os.fspath(path))
    _require_same(result, data)
    with tempfile.TemporaryDirectory(prefix="neardup-") as folder:
        _write_run(result, Path(folder), data)
        write_text(file, run_page(Path(folder), file.stem))


def find_differences(
    result: Result, data: Any, row: int, other: int
) -> tuple[tuple[str, str], ...]:
    """Return the passages in which two documents differ, of the one and of the other.

    Args:
        result: The result.
        data: The data that was given to `dedup`.
        row: The row of a document.
        other: That of another one.
    """
    _require_same(result, data)
    texts = _ResultLookup(result, data).texts(np.array([row, other])).to_pylist()
    hunks = compare_texts(*texts).hunks
    return tuple((_mark(hunk.kept), _mark(hunk.copy)) for hunk in hunks)


def _mark(pieces: Sequence[TextPiece]) -> str:
    """Return a passage as a line, with the words that the other text does not have in brackets."""
    texts = ((piece.changed, " ".join(piece.text.split())) for piece in pieces)
    return " ".join(f"[{text}]" if changed else text for changed, text in texts)


def _require_same(result: Result, data: Any) -> None:
    """Refuse data of another length than the result's."""
    if data is not None:
        result.require_rows(data)


def _write_run(result: Result, folder: Path, data: Any) -> None:
    documents = _ResultLookup(result, data)
    removed, others = result.decisions.removed, result.undistinguished
    batches = [_removed_batch(result.decisions, removed)]
    write_removed(folder, documents, batches, 0, result.overrides, result.options)
    if result.overrides is not None:
        write_decided(folder, documents, batches, 0, result.overrides, result.decisions.kept)
    vetoed = None
    if others is not None:
        rows = np.flatnonzero(result.decisions.kept & (others.witness >= 0))
        vetoed = len(rows)
        batch, two = _removed_batch(others, rows), result.options.has_two_signals
        schema = tables.VETOED_WITH_COSINE if two else tables.VETOED
        with TableWriter(folder / "vetoed.parquet", schema) as table:
            columns = removed_columns(documents, batch)
            table.add(columns | (signal_columns(result.options, batch) if two else {}))
    clusters = result.decisions.cluster[removed]
    named = clusters[(clusters >= 0) & (clusters != removed)]
    leaders, copies = np.unique(named, return_counts=True)
    file, row = documents.place(leaders)
    with TableWriter(folder / "clusters.parquet", tables.CLUSTERS) as table:
        sizes = copies.astype(np.int64) + 1
        names = documents.names(leaders)
        table.add({"cluster": leaders, "id": names, "file": file, "row": row, "size": sizes})
    rejected = np.array([one.row for one in result.rejected], np.int64)
    reasons = [one.reason for one in result.rejected]
    file, row = documents.place(rejected)
    with TableWriter(folder / "rejected.parquet", tables.REJECTED) as table:
        names = documents.names(rejected)
        table.add({"id": names, "file": file, "row": row, "reason": make_strings(reasons)})
    if data is not None:
        _write_samples(folder, documents, leaders, copies)
    write_json(folder / RUN_FILE, _describe(result, Counter(reasons), vetoed))


def _removed_batch(decisions: KeepList, rows: Integers) -> RemovedBatch:
    """Return some removed documents with their witnesses."""
    return RemovedBatch(
        rows,
        decisions.witness[rows],
        decisions.cluster[rows],
        decisions.similarity[rows],
        decisions.exact[rows],
        np.full(len(rows), np.nan) if decisions.cosine is None else decisions.cosine[rows],
    )


def _write_samples(
    folder: Path, documents: _ResultLookup, leaders: Integers, copies: Integers
) -> None:
    """Write the texts of the largest clusters, the least similar copies of each."""
    decisions = documents.result.decisions
    largest = np.lexsort((leaders, -copies))[:SAMPLED_CLUSTERS]
    chosen = {}
    for kept in leaders[largest].tolist():
        members = np.flatnonzero(decisions.cluster == kept)
        members = members[members != kept]
        pairs = zip(decisions.similarity[members].tolist(), members.tolist(), strict=True)
        chosen[kept] = sorted(pairs)[:SAMPLED_COPIES]
    sizes = list(zip(leaders[largest].tolist(), copies[largest].tolist(), strict=True))
    write_samples(folder / "samples.parquet", documents, sizes, chosen)


def _describe(result: Result, reasons: Counter[str], vetoed: int | None) -> dict[str, Any]:
    """Return the content of run.json: what a run in memory knows of it."""
    decisions, counts = result.decisions, result.counts
    job = Job([], Path(), result.options, result.columns, workers=1, kept=False)
    described = describe_run(
        job,
        RunCounts(
            counts["documents"],
            counts["removed"],
            counts["identical"],
            RoundTally(verified=decisions.compared),
            reasons,
            vetoed=vetoed,
            undated=decisions.undated,
            dropped=None if result.overrides is None else decisions.dropped,
            by_signal=result.removed_by,
        ),
    )
    # Rounds are those of the engine for files; how many comparisons failed is not counted here.
    described["metrics"] = {
        "candidate_pairs_per_doc": described["metrics"]["candidate_pairs_per_doc"]
    }
    full = [
        {
            "band": bucket.band,
            "key": f"{bucket.key:016x}",
            "size": bucket.size,
            "not_compared": bucket.beyond,
            "sample": [str(result.ids[bucket.sample])],
        }
        for bucket in decisions.full_buckets[:LISTED_BUCKETS]
    ]
    described["full_buckets"] = {"count": len(decisions.full_buckets), "listed": full}
    described |= {"pairs": None, "skipped_files": [], "inputs": []}
    if result.sources is not None:
        described["sources"] = result.sources.stated
    if result.overrides is not None:
        described["decisions"] = result.overrides.described
    return described | describe_ignored_lines(result.ignored)


class _ResultLookup:
    """Looks up the names, places and texts of documents in memory."""

    def __init__(self, result: Result, data: Any) -> None:
        self.result, self._data = result, data

    def names(self, documents: Integers) -> pa.Array:
        ids = self.result.ids
        return make_strings([str(ids[row]) for row in documents.tolist()])

    def place(self, documents: Integers) -> tuple[pa.Array, pa.Array]:
        return make_strings([DATA] * len(documents)), tables.to_arrow(documents)

    def texts(self, documents: Integers) -> pa.Array:
        positions, place = np.unique(documents, return_inverse=True)
        rows = take_rows(self._data, positions)
        texts = [
            cut_text(text.as_py())
            for batch in read_data(rows, replace(self.result.columns, vectors=None))
            for text in batch.texts
        ]
        return make_strings([texts[n] for n in place.tolist()])
