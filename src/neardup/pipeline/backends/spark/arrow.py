"""Arrow batches in and out of Spark, and the stored tables between stages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from neardup.errors import UsageError
from neardup.formats.tables import to_arrow, write_text
from neardup.pipeline.backends.spark.failures import tag_errors, translate_spark_errors
from neardup.pipeline.output import discard
from neardup.pipeline.stage_files import KEY_FILE
from neardup.text.arrays import Ragged

Batches = Iterable[pa.RecordBatch]
SUCCESS_FILE = "_SUCCESS"
"""Spark writes this file into the folder of a table when the table is complete."""
LOCAL_SCHEME = "file://"
"""Without it a path belongs to the cluster's default file system."""
GLOB_CHARACTERS = re.compile(r"[\[\]{}*?\\]")
"""Characters that Spark takes for wildcards in paths it reads."""

MAX_COLUMN_BYTES = 2**31 - 1
"""Most bytes in a column of a batch: Spark's offsets have 32 bits."""

OnBatches = Callable[[Batches], Iterator[pa.RecordBatch]]


@dataclass
class StageTables:
    """Tables between the stages, in a folder that every executor can write, named by its URL."""

    spark: SparkSession
    folder: str
    _resumes: bool = False

    @classmethod
    def at(cls, spark: SparkSession, folder: Path) -> StageTables:
        """Use a folder that all executors know by the same path."""
        return cls(spark, f"{LOCAL_SCHEME}{folder.absolute()}")

    def begin(self, key: str) -> bool:
        """Reuse the tables of a stopped run if its key is the same, else delete them.

        For a folder with a path. Returns whether there are complete tables.
        """
        folder = self._local
        key_file = folder / KEY_FILE
        self._resumes = key_file.is_file() and key_file.read_text("utf-8") == key
        if not self._resumes:
            discard(folder)
            folder.mkdir(mode=0o700)
            write_text(key_file, key)
        return self._resumes and any(folder.glob(f"*/{SUCCESS_FILE}"))

    @property
    def _local(self) -> Path:
        return Path(self.folder.removeprefix(LOCAL_SCHEME))

    def store(self, frame: DataFrame, name: str) -> DataFrame:
        """Write the frame, and return the stored table: lost executors cost no recomputation."""
        path = f"{self.folder}/{name}"
        if not (self._resumes and (self._local / name / SUCCESS_FILE).exists()):
            with translate_spark_errors(f"making {name}"):
                frame.write.mode("overwrite").option("compression", "zstd").parquet(path)
        return self.spark.read.schema(frame.schema).parquet(GLOB_CHARACTERS.sub(r"\\\g<0>", path))


def run_in_arrow(frame: DataFrame, function: OnBatches, schema: str | StructType) -> DataFrame:
    """Apply a function to the batches of each partition."""

    def tagged(batches: Batches) -> Iterator[pa.RecordBatch]:
        with tag_errors():
            yield from function(batches)

    return frame.mapInArrow(tagged, schema)


def group_in_arrow(
    frame: DataFrame, by: str, function: Callable[[pa.Table], pa.Table], schema: str
) -> DataFrame:
    """Apply a function to the rows of each group, as one table."""

    def tagged(table: pa.Table) -> pa.Table:
        with tag_errors():
            return function(table)

    return frame.groupBy(by).applyInArrow(tagged, schema)


def cogroup_in_arrow(
    left: tuple[DataFrame, str],
    right: tuple[DataFrame, str],
    function: Callable[[pa.Table, pa.Table], pa.Table],
    schema: str,
) -> DataFrame:
    """Apply a function to the rows of each group of two frames, as two tables."""

    def tagged(one: pa.Table, other: pa.Table) -> pa.Table:
        with tag_errors():
            return function(one, other)

    groups = [frame.groupBy(by) for frame, by in (left, right)]
    return groups[0].cogroup(groups[1]).applyInArrow(tagged, schema)


def make_batch(**columns: NDArray[Any] | list[Any] | pa.Array) -> pa.RecordBatch:
    """Return a batch with these columns: NumPy arrays, lists of bytes, or Arrow arrays."""
    arrays = [
        pa.array(values, pa.binary()) if isinstance(values, list) else to_arrow(values)
        for values in columns.values()
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def read_numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Return a column of whole numbers as int64."""
    return batch.column(name).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def read_rows(array: pa.Array, dtype: Any) -> Ragged:
    """Return a column of bytes as rows of numbers, without a copy if they are aligned."""
    wide = pa.types.is_large_binary(array.type)
    _, ends, data = array.buffers()
    offsets = np.frombuffer(ends, np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    whole = np.frombuffer(data, np.uint8)[first:last] if data else np.empty(0, np.uint8)
    each = np.dtype(dtype).itemsize
    aligned = whole if whole.ctypes.data % each == 0 else whole.copy()
    return Ragged(aligned.view(dtype), (offsets - first) // each)


def pack_rows(rows: Ragged) -> pa.Array:
    """Return rows of numbers as a column of bytes, without a copy."""
    each = rows.data.itemsize
    begin, end = int(rows.offsets[0]), int(rows.offsets[-1])
    if (end - begin) * each > MAX_COLUMN_BYTES:
        raise UsageError(
            f"{(end - begin) * each:,} bytes of documents in one batch are more than the "
            f"{MAX_COLUMN_BYTES:,} that Spark supports: remove or split very long texts, or use "
            "--engine local"
        )
    offsets = ((rows.offsets - begin) * each).astype(np.int32)
    data = np.ascontiguousarray(rows.data[begin:end]).view(np.uint8)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(rows), buffers)


def pack_matrix(data: NDArray[Any]) -> pa.Array:
    """Return the rows of a matrix as a column of bytes."""
    width = data.shape[1]
    offsets = np.arange(len(data) + 1, dtype=np.int64) * width
    return pack_rows(Ragged(np.ascontiguousarray(data).reshape(-1), offsets))


def narrow_strings(values: Any) -> pa.Array:
    """Return strings with 32-bit offsets, as Spark requires; other values as they are."""
    return values.cast(pa.string()) if pa.types.is_large_string(values.type) else values
