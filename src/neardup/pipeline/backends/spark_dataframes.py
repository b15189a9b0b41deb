"""DataFrames as a source and a sink of a run.

A DataFrame has no order, so its ids are the order: its documents are written to files, sorted by
id, in a folder that all machines see by the same path, and the run reads these. The tables of the
run are DataFrames again, by ids of the original type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DatetimeType,
    NumericType,
    StringType,
    StructType,
    UserDefinedType,
)

from neardup.corpus.column_check import find_dimension
from neardup.corpus.columns import Source, convert_table, resolve_columns
from neardup.corpus.documents import Columns
from neardup.corpus.fields import JOINT, LIST, parts_of
from neardup.corpus.inputs import InputOptions, find_inputs
from neardup.errors import UsageError
from neardup.pipeline.backends.spark_failures import translate_spark_errors
from neardup.pipeline.backends.spark_ids import (
    ids_to_strings,
    require_ids,
    require_separate_ids,
    strings_to_ids,
)
from neardup.pipeline.job import Job
from neardup.pipeline.output import RUN_FILE, RUN_NAMES, copy_whole
from neardup.pipeline.record import FinishedRun, StageClock
from neardup.pipeline.run import find_near_duplicates
from neardup.pipeline.run_progress import InterruptibleProgress, hold_signals
from neardup.runtime import Progress

LOCAL_SCHEME = "file://"
"""Without it a path belongs to the cluster's default file system."""
GLOB_CHARACTERS = re.compile(r"[\[\]{}*?\\]")
"""Characters that Spark takes for wildcards in paths that it reads."""
MAX_BROADCAST = 1_000_000
"""Ids of dropped rows that are sent to all tasks, instead of sorting all rows by id."""
ID_TYPES = (BinaryType, DatetimeType, NumericType, StringType)


def read_parquet(spark: SparkSession, path: Path) -> DataFrame:
    """Return the table in a file or folder that all machines see by this path."""
    return spark.read.parquet(LOCAL_SCHEME + GLOB_CHARACTERS.sub(r"\\\g<0>", str(path)))


@dataclass(frozen=True)
class DataFrameInput:
    """A user's DataFrame, and the columns of it that are used.

    `called` names the DataFrame and its options in messages.
    """

    frame: DataFrame
    columns: Columns
    called: Source = field(default_factory=lambda: Source("this DataFrame", "{}="))

    format = "parquet"
    """The format of the files that `write` makes."""

    def __post_init__(self) -> None:
        self.refuse_beside()
        columns = resolve_columns(self.columns, self._fields, self.called)
        if columns.id is None:
            raise UsageError(
                "rows that Spark reads have no order: give a column of unique ids with "
                f"{self.called.name_option('id')}"
            )
        object.__setattr__(self, "columns", columns)
        if not isinstance(self.id_type, ID_TYPES):
            raise UsageError(
                f"ids of type {self.id_type.simpleString()} are not supported: "
                "use numbers, strings, bytes or dates"
            )
        # Refuse what can't be text or can't be ranked, before a task does.
        table = self._read().limit(0).toArrow()
        named = {
            name: table.column(self._alias(option)) for option, name in columns.asked().items()
        }
        convert_table(pa.Table.from_pydict(named), columns, self.called)

    def refuse_beside(self) -> None:
        """Refuse a file of vectors, whose rows belong to documents in the order of files."""
        if self.columns.vectors is not None and self.columns.vector_column is None:
            raise UsageError(
                f"rows that Spark reads have no order, by which those of {self.columns.vectors} "
                "could belong to them: put the vectors into a column"
            )

    @property
    def id_type(self) -> DataType:
        """The type of the ids."""
        return self._find(self.columns.id or "")[1]

    @property
    def written(self) -> Columns:
        """The columns of the files that `write` makes."""
        names = self._names()
        apart = tuple(names[one] for one in names if one.startswith("distinguish"))
        return replace(
            self.columns,
            text="text",
            id="id",
            keep=names.get("keep"),
            within=names.get("within"),
            source=names.get("source"),
            distinguish=apart,
            vectors=names.get("vectors"),
        )

    def write(self, folder: Path) -> None:
        """Write the documents to files in the order of their ids, which become strings.

        The rows of one document are in the order of their groups (`within`): the first one counts.
        """
        rows = self._read()
        order = ["id", "within"] if "within" in rows.columns else ["id"]
        rows = rows.repartitionByRange("id").sortWithinPartitions(*order)
        names = self._names()
        named = rows.withColumn("id", ids_to_strings(sql.col("id"), self.id_type)).toDF(
            *(names.get(name, name) for name in rows.columns)
        )
        with translate_spark_errors("reading the documents"):
            named.write.parquet(f"{LOCAL_SCHEME}{folder}")
        self._require_ids(folder)

    def keep_rows(self, run: DataFrameRun) -> DataFrame:
        """Return the rows that a run has kept, with all columns of the user."""
        names = self.frame.columns
        rows = self.identified("id")
        removed, rejected = (run.table(name).select("id") for name in ("removed", "rejected"))
        dropped = removed.union(rejected).where("id IS NOT NULL")
        counts = run.finished.record["counts"]
        if counts["removed"] + counts["rejected"] <= MAX_BROADCAST:
            dropped = sql.broadcast(dropped)
        kept = rows.where("id IS NOT NULL").join(dropped, "id", "left_anti")
        return kept.drop("id").toDF(*names)

    def identified(self, name: str) -> DataFrame:
        """Return the frame with columns named by position, and the ids in a column of this name."""
        return self._numbered().withColumn(name, self._find(self.columns.id or "")[0])

    def _require_ids(self, folder: Path) -> None:
        """Raise UsageError unless every document has an id, its own or that of its rows."""
        documents = read_parquet(self.frame.sparkSession, folder)
        contents = {"text": not self.columns.textless, "vectors": bool(self.columns.vectors)}
        usable = " AND ".join(f"{name} IS NOT NULL" for name in contents if contents[name])
        missing = documents.where(f"id IS NULL AND {usable}").count()
        require_ids(missing, None if self.columns.merges_rows else self.ids(folder))

    def ids(self, folder: Path) -> DataFrame:
        """Return the ids of the documents that `write` has written to a folder."""
        # Of their own type, by which some are equal that have different strings, as 0.0 and -0.0.
        restored = strings_to_ids(sql.col("id"), self.id_type)
        return read_parquet(self.frame.sparkSession, folder).select(restored.alias("id"))

    def _read(self) -> DataFrame:
        """Return the columns that are used, named by their options."""
        made = {"text": self._text, "vectors": self._vectors}
        named = [
            (made[option]() if option in made else self._find(name)[0]).alias(self._alias(option))
            for option, name in self.columns.asked().items()
        ]
        return self._numbered().select(*named)

    def _names(self) -> dict[str, str]:
        """Return option -> the name of its column in the files."""
        names = {option: option.replace(":", "") for option in self.columns.asked()}
        group = self.columns.within or ""
        if group.isidentifier() and group.lower() not in {"id", *names.values()}:
            names["within"] = group  # an index that is made of saved sketches has it by this name
        return names

    def _alias(self, option: str) -> str:
        """Return the name of a column that an option asks for, while Spark writes it."""
        return "id" if option == self.columns.id_option else option

    @property
    def _fields(self) -> list[str]:
        """The columns, and the fields inside of them."""
        names = self.frame.columns
        return [
            *names,
            *(name for name in _list_inner_fields(self.frame.schema) if name not in names),
        ]

    def _numbered(self) -> DataFrame:
        """Return the frame with columns named by position: the user's names may need quotes."""
        return self.frame.toDF(*(f"c{place}" for place in range(len(self.frame.columns))))

    def _find(self, name: str) -> tuple[Column, DataType]:
        """Return a column, or a field inside of structs, and its type."""
        names = self.frame.columns
        head = name if name in names else name.partition(".")[0]
        place, rest = names.index(head), name[len(head) + 1 :]
        column, kind = sql.col(f"c{place}"), self.frame.schema.fields[place].dataType
        while rest and isinstance(kind, StructType):
            head = rest if rest in kind.names else rest.partition(".")[0]
            column, kind = column.getField(head), kind[head].dataType
            rest = rest[len(head) + 1 :]
        return column, kind

    def _text(self) -> Column:
        """Return the texts; those of several columns joined, as `corpus.fields` does."""
        names = parts_of(self.columns, "text", self._fields)
        if len(names) == 1:
            return self._find(names[0])[0]
        for name in names:
            if not isinstance(kind := self._find(name)[1], StringType):
                raise UsageError(
                    f"{self.called.name}: column {name!r} is {kind.simpleString()}, not text: "
                    f"choose another with {self.called.name_option('text')}"
                )
        parts = [self._find(name)[0] for name in names]
        joined = sql.concat_ws(JOINT, *(sql.when(part != "", part) for part in parts))
        return sql.when(sql.coalesce(*parts).isNotNull(), joined)

    def _vectors(self) -> Column:
        """Return the vectors as lists: those of Spark ML, too."""
        column, kind = self._find(self.columns.vectors or "")
        if isinstance(kind, UserDefinedType) and type(kind).__name__ == "VectorUDT":
            from pyspark.ml.functions import vector_to_array

            return sql.when(column.isNotNull(), vector_to_array(column))  # it refuses null
        return column


def _list_inner_fields(kind: DataType, prefix: str = "") -> Iterator[str]:
    """Yield the fields inside of the columns of a schema, as `corpus.fields` names them."""
    if isinstance(kind, ArrayType):
        yield from _list_inner_fields(kind.elementType, prefix + LIST)
    elif isinstance(kind, StructType):
        for field_ in kind.fields:
            name = f"{prefix}.{field_.name}" if prefix else field_.name
            if prefix:
                yield name
            yield from _list_inner_fields(field_.dataType, name)


DOCUMENTS, EARLIER, RUN = "documents", "earlier", "run"
"""Folders in the work folder of a run over DataFrames."""


@dataclass(frozen=True)
class DataFrameRun:
    """A run over a DataFrame, in a folder that all machines see by the same path.

    job     its inputs are found when they are written
    folder  empty at first; what it contains is needed as long as the frames of the run are
    clock   times the run, and its reading of the frames
    """

    job: Job
    new: DataFrameInput
    earlier: DataFrameInput | None
    folder: Path
    progress: Progress
    clock: StageClock = field(default_factory=StageClock)

    @cached_property
    def finished(self) -> FinishedRun:
        """The finished run; it begins when this is first asked for."""
        with self.clock.stage("read"):
            self._write_documents()
        return self._run(self.job, self.clock)

    def _write_documents(self) -> None:
        """Write the documents to files, which Spark reads for it."""
        documents, earlier = self.folder / DOCUMENTS, self.folder / EARLIER
        self.new.write(documents)
        if self.earlier is not None:
            if self.earlier.id_type != self.new.id_type:
                raise UsageError(
                    f"ids are {self.new.id_type.simpleString()}, those of `against` "
                    f"{self.earlier.id_type.simpleString()}: cast one of them"
                )
            self.earlier.write(earlier)
            require_separate_ids(self.new.ids(documents), self.earlier.ids(earlier))

    def _run(self, job: Job, clock: StageClock) -> FinishedRun:
        earlier = (self.folder / EARLIER,) if self.earlier is not None else ()
        options = InputOptions(format=self.new.format)
        files = find_inputs([self.folder / DOCUMENTS], **options)
        named = [
            replace(file, name=f"{self.new.called.name}, part {number}")
            for number, file in enumerate(files)
        ]
        run = self.folder / RUN
        run.mkdir(mode=0o700, exist_ok=True)
        columns = find_dimension(named, self.new.written, self.new.columns.vectors)
        job = replace(
            job,
            inputs=named,
            out=run,
            columns=columns,
            input_options=options,
            against=earlier,
        )
        with hold_signals() as obey:
            shown = InterruptibleProgress(self.progress, obey)
            finished = find_near_duplicates(job, run, shown, clock)
        names = [] if self.earlier is None else [self.earlier.called.name]
        finished.record["parameters"]["against"] = names
        return finished

    @property
    def _spark(self) -> SparkSession:
        return self.new.frame.sparkSession

    def has(self, name: str) -> bool:
        """Return whether a document has this id, as a string."""
        documents = read_parquet(self._spark, self.folder / DOCUMENTS)
        return bool(documents.where(sql.col("id") == name).limit(1).count())

    def table(self, name: str, *more: str) -> DataFrame:
        """Return a table of the run, and more columns of it, with ids of their original type."""
        rows = read_parquet(self._spark, self.folder / RUN / f"{name}.parquet")
        if name == "rejected":  # a document without an id is named by its place
            place = sql.concat("file", sql.lit(":"), "row")
            rows = rows.withColumn("id", sql.when(sql.col("id") != place, sql.col("id")))
        kind = self.new.id_type
        restored: dict[str, Column] = {
            column: strings_to_ids(sql.col(column), kind)
            for column in rows.columns
            if column in ("id", "witness", "a", "b")
        }
        rare = [column for column in RARE_COLUMNS if column in rows.columns]
        return rows.withColumns(restored).select(*TABLE_COLUMNS[name], *rare, *more)

    @cached_property
    def pairs(self) -> DataFrame:
        """All similar pairs that share a bucket; found when first asked for, by the same files."""
        job = replace(self.job, pairs=True, kept=False, save_sketches=False)
        self._run(job, StageClock())
        return self.table("pairs")

    def copy_result(self, folder: Path) -> None:
        """Copy the tables of the run, and the sketches if it has saved them, to a folder."""
        for name in RUN_NAMES:
            source = self.folder / RUN / name
            if name in NOT_COPIED or not source.exists():
                continue
            for path in [source] if source.is_file() else sorted(source.iterdir()):
                copy_whole(path, folder / path.relative_to(self.folder / RUN))


TABLE_COLUMNS: dict[str, tuple[Any, ...]] = {
    "removed": ("id", "witness", "similarity", "exact"),
    "rejected": ("id", "reason"),
    "clusters": ("id", "size"),
    "pairs": ("a", "b", "similarity"),
    "vetoed": ("id", "witness", "similarity", "exact"),
}
"""The columns of the tables that users see."""
NOT_COPIED = ("kept", "pairs.parquet", "report.html", RUN_FILE)
"""What a saved run lacks, or has of its own."""
RARE_COLUMNS = ("cosine", "by", "decision")
"""Columns that tables of some runs have: with two signals, or with decisions of people."""
