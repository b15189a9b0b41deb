"""Reads a run's folder: run.json, checked and typed, and the tables.

What an older version did not write is empty. Tables are read so that memory does not grow with
their rows.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from neardup.errors import FormatError, UsageError
from neardup.lsh.blocks import Blocks, ByJaccard
from neardup.lsh.curve import Curve, Meeting, meeting_by, parse_layout
from neardup.measure_table import MEASURES
from neardup.pipeline.output import RUN_FILE

LONGEST_REASON: Final = 100


@dataclass(frozen=True)
class ReportedCounts:
    documents: int
    kept: int
    removed: int
    rejected: int
    identical: int = 0
    comparisons: int = 0

    def __post_init__(self) -> None:
        if min(self.kept, self.removed - self.identical, self.identical, self.rejected) < 0:
            raise ValueError("a count is negative")
        if self.documents != self.kept + self.removed + self.rejected:
            raise ValueError("the counts don't add up")


@dataclass(frozen=True)
class CutCounts:
    """Paragraphs or lines that were cut; `short` ones never are, `shorter` documents were kept."""

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
class RunRecord:
    """A finished run. `curve` and `threshold` are None where the run does not tell them."""

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
    skipped: list[tuple[str, str]]
    cut: CutCounts | None = None

    @property
    def is_exact(self) -> bool:
        """Whether only what is exactly the same was looked for: there is nothing like bands."""
        return "by" in self.spec


def read_record(run: Path) -> RunRecord:
    try:
        data = (run / RUN_FILE).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{run} holds no finished run: give the folder that neardup dedup -o wrote"
        ) from None
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


def _record(given: dict[str, Any]) -> RunRecord:
    parameters, seconds = given.get("parameters", {}), given.get("seconds", {})
    return RunRecord(
        version=str(given["version"]),
        fingerprint=str(given["fingerprint"]),
        spec=_shown(given.get("spec", {})),
        parameters=_shown(parameters),
        counts=ReportedCounts(
            **{
                name: int(given["counts"].get(name, 0))
                for name in ReportedCounts.__dataclass_fields__
            }
        ),
        reasons={str(reason): int(n) for reason, n in given.get("reasons", {}).items()},
        curve=_curve(parameters, given.get("spec", {})),
        threshold=_optional_real(parameters.get("threshold")),
        metrics={str(k): _real(v) for k, v in given.get("metrics", {}).items() if v is not None},
        stages=_stages(given, seconds),
        seconds=_optional_real(seconds.get("total")),
        peak_memory=_optional_whole(given.get("peak_memory_bytes")),
        memory_budget=_optional_whole(given.get("memory_budget_bytes")),
        buckets=[_bucket(bucket) for bucket in _buckets(given)],
        inputs=[_input(file) for file in given.get("inputs", [])],
        skipped=[(str(s["file"]), str(s["reason"])) for s in given.get("skipped_files", [])],
        cut=_cut(given.get("cut")),
    )


def _shown(values: dict[str, Any]) -> dict[str, str]:
    """As people read them: what was not given is left out."""
    words = {True: "yes", False: "no"}
    return {
        str(name): words[value] if isinstance(value, bool) else str(value)
        for name, value in values.items()
        if value is not None
    }


def _curve(parameters: dict[str, Any], spec: dict[str, Any]) -> Meeting | None:
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


def _cut(given: dict[str, Any] | None) -> CutCounts | None:
    if given is None:
        return None
    return CutCounts(**{name: int(given[name]) for name in CutCounts.__dataclass_fields__})


def _stages(given: dict[str, Any], seconds: dict[str, Any]) -> list[StageRecord]:
    if "stages" not in given:
        return [StageRecord(str(n), _real(s), None) for n, s in seconds.items() if n != "total"]
    return [
        StageRecord(
            str(s["name"]), _real(s["seconds"]), _optional_whole(s.get("peak_memory_bytes"))
        )
        for s in given["stages"]
    ]


def _buckets(given: dict[str, Any]) -> list[dict[str, Any]]:
    if "hot_buckets" in given:
        return list(given["hot_buckets"])
    return list(given.get("full_buckets", {}).get("listed", []))


def _bucket(given: dict[str, Any]) -> ReportedBucket:
    sample = given.get("sample", [])
    names = sample if isinstance(sample, list) else [sample]
    return ReportedBucket(
        int(given["band"]),
        str(given["key"]),
        int(given["size"]),
        int(given.get("not_compared", 0)),
        [str(name) for name in names],
    )


def _input(given: dict[str, Any]) -> InputRecord:
    return InputRecord(
        str(given["file"]),
        int(given.get("size", 0)),
        int(given.get("documents", 0)),
        str(given.get("xxh3_128", "")),
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
MAY_BE_NULL: Final = {"text"}


class RunTable:
    """A Parquet table of a run, read a batch at a time and only the columns that are needed."""

    def __init__(self, path: Path, schema: pa.Schema, rows: int | None = None) -> None:
        self._path = path
        with self._reading():
            # Opened by bytes: a folder's name need not be UTF-8.
            self._file = pq.ParquetFile(pa.OSFile(os.fsencode(path), "rb"))
            columns, there = self._file.schema_arrow, self._file.metadata.num_rows
        if any(field not in columns for field in schema):
            raise self._damaged("its columns are not those of such a table")
        if rows is not None and rows != there:
            raise self._damaged(f"it has {there:,} rows, run.json says {rows:,}")

    def numbers(self, column: str) -> Iterator[NDArray[Any]]:
        """A column of numbers, in order, a batch at a time."""
        for group, _, _ in self._groups():
            for batch in self._batches(group, BATCH, [column]):
                if batch.column(0).null_count:
                    raise self._damaged("a value is missing")
                # Not to_numpy: it imports pandas wherever that is installed.
                yield np.from_dlpack(batch.column(0))

    def first(self, count: int) -> list[Row]:
        """The first rows."""
        return list(islice(self.each(), count))

    def each(self) -> Iterator[Row]:
        """The rows one by one: they may be large."""
        for group, _, _ in self._groups():
            for batch in self._batches(group, 1):
                yield self._row(batch, 0)

    def at(self, positions: Sequence[int]) -> list[Row]:
        """The rows at these positions, in their order."""
        found: dict[int, Row] = {}
        for group, start, stop in self._groups():
            here = [position for position in positions if start <= position < stop]
            for batch in self._batches(group, BATCH) if here else ():
                stop = start + len(batch)
                found |= {p: self._row(batch, p - start) for p in here if start <= p < stop}
                start = stop
        return [found[position] for position in positions]

    def _batches(
        self, group: int, size: int, columns: list[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        # One row group a call: of several, PyArrow reads all ahead.
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
        """Each row group with the positions where it begins and ends."""
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


# Hundredths, each with its lower edge; exactly 1 has the last bin for itself.
SIMILARITIES: Final = np.append(np.arange(101) / 100, np.nextafter(1.0, 2.0))


def similarity_counts(batches: Iterable[NDArray[Any]]) -> NDArray[np.int64]:
    """How many values are in each bin of `SIMILARITIES`."""
    total = np.zeros(len(SIMILARITIES) - 1, np.int64)
    for values in batches:
        total += np.histogram(values, SIMILARITIES)[0]
    return total


def size_counts(batches: Iterable[NDArray[Any]]) -> dict[tuple[int, int], int]:
    """How many clusters have 2 documents, 3 to 4, 5 to 8, and so on, up to the largest."""
    total = np.zeros(65, np.int64)
    for sizes in batches:
        total += np.bincount(np.frexp(sizes - 1)[1], minlength=len(total))
    last = int(np.flatnonzero(total).max(initial=0))
    return {((1 << n - 1) + 1, 1 << n): int(total[n]) for n in range(1, last + 1)}


def smallest_positions(batches: Iterable[NDArray[Any]], count: int) -> list[int]:
    """The positions of the smallest values, in order; the first ones where values are equal."""
    best, places, start = np.empty(0), np.empty(0, np.int64), 0
    for values in batches:
        # Of equal values the earlier one wins, so only smaller ones can matter once it is full.
        near = np.flatnonzero(values < best[-1]) if len(best) == count else np.arange(len(values))
        best, places = np.append(best, values[near]), np.append(places, near + start)
        order = np.argsort(best, kind="stable")[:count]
        best, places, start = best[order], places[order], start + len(values)
    return [int(place) for place in places]
