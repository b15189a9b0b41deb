"""The tables of a finished run, as the list of clusters is made of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from neardup.errors import FormatError
from neardup.pipeline.output import RUN_FILE
from neardup.report.run_folder import RunRecord
from neardup.review.row_spans import FileSpans, RowSpan
from neardup.review.sources import SourceNames
from neardup.review.subject import Stamp, TableBatch, measure_doubt

BATCH: Final = 1 << 13
CLUSTERS: Final = ["cluster", "id", "file", "row", "size"]
REMOVED: Final = ["cluster", "id", "file", "row", "similarity", "exact"]
COSINE: Final = "cosine"


def least_similarity(record: RunRecord) -> float:
    """Return the threshold of a run; 1 of one that has removed exact copies."""
    return 1.0 if record.threshold is None else record.threshold


class RunTables:
    """Reads the tables of a run batch by batch.

    Args:
        run: The folder of the run.
        sources: The source of each file.
        spans: Finds where the rows of a file are; None if texts can't be read.
        record: What run.json says.
    """

    def __init__(
        self, run: Path, sources: SourceNames, spans: FileSpans | None, record: RunRecord
    ) -> None:
        self._run, self._spans, self._record = run, spans, record
        self.source_of = sources.of

    def identify(self) -> str:
        """Return the hash of run.json, which no other run has."""
        return xxhash.xxh3_128_hexdigest((self._run / RUN_FILE).read_bytes())

    def clusters(self) -> Iterator[TableBatch]:
        """Yield the clusters, as `ReviewTables` says."""
        return self._rows("clusters", CLUSTERS)

    def removed(self) -> Iterator[TableBatch]:
        """Yield the removed documents, as `ReviewTables` says."""
        record = self._record
        threshold, two = least_similarity(record), record.has_two_signals
        for before, rows in self._rows("removed", [*REMOVED, *([COSINE] if two else [])]):
            found = ((*row, None)[: len(REMOVED) + 1] for row in rows)
            yield TableBatch(
                before,
                (
                    (*row, measure_doubt(row[4], threshold, cosine, record.vectors), cosine)
                    for *row, cosine in found
                ),
            )

    def spans(self) -> Iterator[tuple[str, Stamp, Iterator[RowSpan]]]:
        """Yield the files whose rows can be read by themselves."""
        return iter(()) if self._spans is None else self._spans.each()

    def _rows(self, name: str, columns: list[str]) -> Iterator[TableBatch]:
        path = self._run / f"{name}.parquet"
        try:
            with pa.OSFile(os.fsencode(path), "rb") as opened:
                table = pq.ParquetFile(opened)
                rows, read = table.metadata.num_rows or 1, 0
                for group in range(table.num_row_groups):
                    for batch in table.iter_batches(BATCH, [group], columns, use_threads=False):
                        listed = (batch.column(n).to_pylist() for n in columns)
                        yield TableBatch(read / rows, zip(*listed, strict=True))
                        read += len(batch)
        except (OSError, pa.ArrowException, KeyError) as error:
            raise FormatError(
                f"{path} is damaged ({type(error).__name__}): run neardup dedup again"
            ) from None
