"""Read the folder of a run: run.json, checked and typed, and the tables.

Values that an older version did not write are empty. Tables are read in batches, so that memory
does not grow with their rows.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.formats import tables
from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.lsh.curve import Curve, Meeting, meeting_by, parse_layout
from neardup.measure_table import MEASURES
from neardup.pipeline.output import RUN_FILE
from neardup.pipeline.run_progress import no_run_error
from neardup.source_counts import SourceCounts
from neardup.vector_signal import ALONE, VectorSignal

LONGEST_REASON: Final = 100


@dataclass(frozen=True)
class ReportedCounts:
    documents: int
    kept: int
    removed: int
    rejected: int
    identical: int = 0
    comparisons: int = 0
    vetoed: int | None = None
    removed_by_earlier: int | None = None
    dropped: int | None = None

    def __post_init__(self) -> None:
        if min(self.kept, self.removed - self.identical, self.identical, self.rejected) < 0:
            raise ValueError("a count is negative")
        if self.documents != self.kept + self.removed + self.rejected:
            raise ValueError("the counts don't add up")


@dataclass(frozen=True)
class CutCounts:
    """Paragraphs or lines that were cut.

    Attributes:
        found: all paragraphs or lines of the corpus.
        short: those too short to be cut.
        cut: those that were cut.
        bytes: the bytes that were cut.
        shorter: documents that lost a part and were kept.
    """

    found: int
    short: int
    cut: int
    bytes: int
    shorter: int


@dataclass(frozen=True)
class StageRecord:
    name: str
    seconds: float
    peak_memory: int | None


@dataclass(frozen=True)
class ReportedBucket:
    band: int
    key: str
    size: int
    not_compared: int
    sample: list[str]


@dataclass(frozen=True)
class InputRecord:
    file: str
    size: int
    documents: int
    digest: str


@dataclass(frozen=True)
class ScriptCounts:
    """Sampled documents in a script; `similarity` is the median of the removed ones."""

    script: str
    documents: int
    kept: int
    removed: int
    similarity: float | None


@dataclass(frozen=True)
class ReportedSources:
    """What became of the documents of each source; none if run.json does not say.

    Attributes:
        column: the column of the sources; None if they are files.
        count: the number of all sources.
        listed: those that lost most documents.
        others: all others together.
    """

    column: str | None = None
    count: int = 0
    listed: Sequence[SourceCounts] = ()
    others: SourceCounts | None = None


@dataclass(frozen=True)
class ReportedUnread:
    """Files that were found and not read: how many by reason, and the first (name, reason)."""

    reasons: dict[str, int]
    listed: list[tuple[str, str]]

    @property
    def count(self) -> int:
        return sum(self.reasons.values())


@dataclass(frozen=True)
class RunRecord:
    """A finished run. `curve` and `threshold` are None if run.json does not contain them."""

    version: str
    fingerprint: str
    spec: dict[str, str]
    parameters: dict[str, str]
    counts: ReportedCounts
    reasons: dict[str, int]
    curve: Meeting | None
    threshold: float | None
    metrics: dict[str, float]
    stages: list[StageRecord]
    seconds: float | None
    peak_memory: int | None
    memory_budget: int | None
    buckets: list[ReportedBucket]
    inputs: list[InputRecord]
    not_documents: dict[str, int]
    skipped: list[tuple[str, str]]
    unread: ReportedUnread
    cut: CutCounts | None = None
    advice: Sequence[str] = ()
    scripts: Sequence[ScriptCounts] = ()
    sources: ReportedSources = field(default_factory=ReportedSources)
    decisions: Mapping[str, int] | None = None
    vectors: VectorSignal | None = None

    @property
    def of_vectors(self) -> bool:
        """Whether documents were compared by their vectors alone."""
        return self.vectors is not None and self.vectors.role == ALONE

    @property
    def has_two_signals(self) -> bool:
        """Whether documents were compared by their texts and by their vectors."""
        return self.vectors is not None and self.vectors.role != ALONE

    @property
    def is_exact(self) -> bool:
        """Whether the run removed identical documents or passages alone, without bands."""
        return "by" in self.spec


def read_record(run: Path) -> RunRecord:
    """Read and check run.json of a finished run."""
    try:
        data = (run / RUN_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise no_run_error(run) from None
    try:
        return _record(json.loads(data))
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        why = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
        raise FormatError(f"{run / RUN_FILE} is damaged ({why}): run neardup dedup again") from None


def _record(content: dict[str, Any]) -> RunRecord:
    parameters, seconds = content.get("parameters", {}), content.get("seconds", {})
    return RunRecord(
        version=str(content["version"]),
        fingerprint=str(content["fingerprint"]),
        spec=_shown(content.get("spec", {})),
        parameters=_shown(parameters),
        counts=ReportedCounts(
            **{
                name: int(content["counts"][name])
                for name in ReportedCounts.__dataclass_fields__
                if name in content["counts"]
            }
        ),
        reasons={str(reason): int(n) for reason, n in content.get("reasons", {}).items()},
        curve=_curve(parameters, content.get("spec", {}), content.get("vector_curve", [])),
        threshold=_optional_real(parameters.get("threshold")),
        metrics={str(k): _real(v) for k, v in content.get("metrics", {}).items() if v is not None},
        stages=_stages(content, seconds),
        seconds=_optional_real(seconds.get("total")),
        peak_memory=_optional_whole(content.get("peak_memory_bytes")),
        memory_budget=_optional_whole(content.get("memory_budget_bytes")),
        buckets=[_bucket(bucket) for bucket in _buckets(content)],
        inputs=[_input(file) for file in content.get("inputs", [])],
        not_documents={str(r): int(n) for r, n in content.get("not_documents", {}).items()},
        skipped=[(str(s["file"]), str(s["reason"])) for s in content.get("skipped_files", [])],
        unread=_unread(content.get("unread_files", {})),
        cut=_cut(content.get("cut")),
        advice=[str(one) for one in content.get("advice", [])],
        scripts=_scripts(content.get("scripts", {})),
        sources=_sources(content.get("sources")),
        decisions=_decisions(content.get("decisions")),
        vectors=VectorSignal.of_stated(parameters, content.get("vector_curve", [])),
    )


def _decisions(content: dict[str, Any] | None) -> dict[str, int] | None:
    if content is None:
        return None
    return {name: int(content[name]) for name in ("in_force", "documents", "missing")}


def _unread(content: dict[str, Any]) -> ReportedUnread:
    return ReportedUnread(
        {str(reason): int(count) for reason, count in content.get("reasons", {}).items()},
        [(str(one["file"]), str(one["reason"])) for one in content.get("listed", [])],
    )


def _shown(values: dict[str, Any]) -> dict[str, str]:
    """Return the values as text, without those that are null."""
    words = {True: "yes", False: "no"}
    return {
        str(name): words[value] if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _curve(
    parameters: dict[str, Any], spec: dict[str, Any], points: list[list[float]]
) -> Meeting | None:
    if parameters.get("role") == "alone":
        signal = VectorSignal.of_stated(parameters, points)
        return None if signal is None else signal.meeting
    if "hamming" in parameters:
        blocks = Blocks(int(spec["slots"]), int(parameters["hamming"]), int(parameters["blocks"]))
        return ByJaccard(blocks) if parameters.get("verify") == "exact" else blocks
    if "tables" in parameters:
        curve = parse_layout(str(parameters["tables"]))
        measure = MEASURES.get(str(parameters.get("measure")))
        return meeting_by(measure, curve) if measure else curve
    if "bands" not in parameters or "rows" not in parameters:
        return None
    return Curve(int(parameters["bands"]), int(parameters["rows"]))


def _cut(content: dict[str, Any] | None) -> CutCounts | None:
    if content is None:
        return None
    return CutCounts(**{name: int(content[name]) for name in CutCounts.__dataclass_fields__})


def _scripts(content: dict[str, Any]) -> list[ScriptCounts]:
    """Return the scripts; none if all documents have the same, of which no decisions are listed."""
    return [
        ScriptCounts(
            str(script),
            int(row["documents"]),
            int(row["kept"]),
            int(row["removed"]),
            _optional_real(row["median_similarity"]),
        )
        for script, row in content.items()
        if "kept" in row
    ]


def _sources(content: dict[str, Any] | None) -> ReportedSources:
    if content is None:
        return ReportedSources()
    column, others = content["column"], content.get("others")
    return ReportedSources(
        None if column is None else str(column),
        int(content["count"]),
        [_source(one) for one in content["listed"]],
        None if others is None else _source({"source": None} | others),
    )


def _source(content: dict[str, Any]) -> SourceCounts:
    source = content["source"]
    counts = (int(content[name]) for name in ("documents", "kept", "removed"))
    return SourceCounts(None if source is None else str(source), *counts)


def _stages(content: dict[str, Any], seconds: dict[str, Any]) -> list[StageRecord]:
    if "stages" not in content:
        return [StageRecord(str(n), _real(s), None) for n, s in seconds.items() if n != "total"]
    return [
        StageRecord(
            str(s["name"]), _real(s["seconds"]), _optional_whole(s.get("peak_memory_bytes"))
        )
        for s in content["stages"]
    ]


def _buckets(content: dict[str, Any]) -> list[dict[str, Any]]:
    if "hot_buckets" in content:
        return list(content["hot_buckets"])
    return list(content.get("full_buckets", {}).get("listed", []))


def _bucket(content: dict[str, Any]) -> ReportedBucket:
    sample = content.get("sample", [])
    names = sample if isinstance(sample, list) else [sample]
    return ReportedBucket(
        int(content["band"]),
        str(content["key"]),
        int(content["size"]),
        int(content.get("not_compared", 0)),
        [str(name) for name in names],
    )


def _input(content: dict[str, Any]) -> InputRecord:
    return InputRecord(
        str(content["file"]),
        int(content.get("size", 0)),
        int(content.get("documents", 0)),
        str(content.get("xxh3_128", "")),
    )


def _real(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a finite number")
    return number


def _optional_real(value: Any) -> float | None:
    return None if value is None else _real(value)


def _optional_whole(value: Any) -> int | None:
    return None if value is None else int(value)


Row = dict[str, Any]

BATCH: Final = 1 << 16
MAY_BE_NULL: Final = {"text", "cosine", "by", "decision"}


class RunTable:
    """A Parquet table of a run, of which batches and columns are read as needed.

    Args:
        path: the file.
        schema: the columns that it must have.
        rows: the number of rows that run.json states; None to accept any.
    """

    def __init__(self, path: Path, schema: pa.Schema, rows: int | None = None) -> None:
        self._path = path
        with self._reading():
            # Opened by bytes: a folder's name need not be UTF-8.
            self._file = pq.ParquetFile(pa.OSFile(os.fsencode(path), "rb"))
            columns, count = self._file.schema_arrow, self._file.metadata.num_rows
        if any(field not in columns for field in schema):
            raise self._damaged("its columns are not those of this table")
        if rows is not None and rows != count:
            raise self._damaged(f"it has {count:,} rows, run.json states {rows:,}")

    def numbers(self, column: str, absent: float | None = None) -> Iterator[NDArray[Any]]:
        """Yield the batches of a column of numbers, in order.

        Args:
            column: The name of the column.
            absent: What stands for a missing value; None if none may be missing.
        """
        for group, _, _ in self._groups():
            for batch in self._batches(group, BATCH, [column]):
                values = batch.column(0)
                if values.null_count and absent is None:
                    raise self._damaged("a value is missing")
                if values.null_count:
                    values = pc.fill_null(values, absent)
                # Not to_numpy: it imports pandas wherever that is installed.
                yield np.from_dlpack(values)

    def tally(self, column: str) -> Counter[str]:
        """Count the values of a column of names.

        Args:
            column: The name of the column; rows without a value are not counted.
        """
        counted: Counter[str] = Counter()
        for group, _, _ in self._groups():
            for batch in self._batches(group, BATCH, [column]):
                for one in pc.value_counts(batch.column(0).drop_null()).to_pylist():
                    counted[one["values"]] += one["counts"]
        return counted

    def first(self, count: int) -> list[Row]:
        """Return the first rows."""
        return list(islice(self.each(), count))

    def each(self) -> Iterator[Row]:
        """Yield the rows one by one, because they may be large."""
        for group, _, _ in self._groups():
            for batch in self._batches(group, 1):
                yield self._row(batch, 0)

    def at(self, positions: Sequence[int]) -> list[Row]:
        """Return the rows at these positions, in the order of the positions."""
        rows: dict[int, Row] = {}
        for group, start, stop in self._groups():
            in_group = [position for position in positions if start <= position < stop]
            for batch in self._batches(group, BATCH) if in_group else ():
                stop = start + len(batch)
                rows |= {p: self._row(batch, p - start) for p in in_group if start <= p < stop}
                start = stop
        return [rows[position] for position in positions]

    def select(self, positions: Sequence[int], columns: list[str]) -> list[Row]:
        """Return some columns of the rows at these ascending positions: many rows, read at once."""
        rows: list[Row] = []
        places = np.array(positions, np.int64)
        for group, start, stop in self._groups():
            chosen = places[np.searchsorted(places, start) : np.searchsorted(places, stop)] - start
            if len(chosen):
                with self._reading():
                    whole = self._file.read_row_group(group, columns, use_threads=False)
                    rows += whole.take(tables.to_arrow(chosen)).to_pylist()
        if any(value is None for row in rows for value in row.values()):
            raise self._damaged("a value is missing")
        return rows

    def _batches(
        self, group: int, size: int, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        # One row group per call: PyArrow would read several ahead.
        with self._reading():
            yield from self._file.iter_batches(
                size, row_groups=[group], columns=columns, use_threads=False
            )

    def _row(self, batch: pa.RecordBatch, place: int) -> Row:
        with self._reading():
            row: Row = batch.slice(place, 1).to_pylist()[0]
        if any(value is None for name, value in row.items() if name not in MAY_BE_NULL):
            raise self._damaged("a value is missing")
        return row

    def _groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield each row group with the positions where it starts and stops."""
        start = 0
        for group in range(self._file.num_row_groups):
            stop = start + self._file.metadata.row_group(group).num_rows
            yield group, start, stop
            start = stop

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise self._damaged("it is missing") from None
        except (OSError, pa.ArrowException, BufferError, UnicodeDecodeError) as error:
            raise self._damaged(type(error).__name__) from None

    def _damaged(self, why: str) -> FormatError:
        return FormatError(f"{self._path} is damaged ({why}): run neardup dedup again")


# Lower edges of bins of one hundredth; a similarity of exactly 1 has the last bin.
SIMILARITIES: Final = np.append(np.arange(101) / 100, np.nextafter(1.0, 2.0))


def similarity_counts(batches: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """Count the values in each bin of `SIMILARITIES`."""
    total = np.zeros(len(SIMILARITIES) - 1, np.int64)
    for values in batches:
        total += np.histogram(values, SIMILARITIES)[0]
    return total


def size_counts(batches: Iterable[NDArray[Any]]) -> dict[tuple[int, int], int]:
    """Count the clusters of 2 documents, 3 to 4, 5 to 8, and so on, up to the largest."""
    total = np.zeros(65, np.int64)
    for sizes in batches:
        total += np.bincount(np.frexp(sizes - 1)[1], minlength=len(total))
    last = int(np.flatnonzero(total).max(initial=0))
    return {((1 << n - 1) + 1, 1 << n): int(total[n]) for n in range(1, last + 1)}


def smallest_positions(batches: Iterable[NDArray[Any]], count: int) -> list[int]:
    """Return the positions of the smallest values, in order; of equal values, the first."""
    best, places, start = np.empty(0), np.empty(0, np.int64), 0
    for values in batches:
        # Of equal values the earlier one wins: once `count` are kept, only smaller values matter.
        near = np.flatnonzero(values < best[-1]) if len(best) == count else np.arange(len(values))
        best, places = np.append(best, values[near]), np.append(places, near + start)
        order = np.argsort(best, kind="stable")[:count]
        best, places, start = best[order], places[order], start + len(values)
    return [int(place) for place in places]
