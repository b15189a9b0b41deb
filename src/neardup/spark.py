"""Near-duplicates in Spark DataFrames: the keep list of `neardup.dedup`, in people's own jobs.

Needs the extra [spark] on the driver, and neardup on all executors; docs/spark.md shows how.
"""

from __future__ import annotations

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack

from neardup.errors import UsageError
from neardup.keys import Key, to_key
from neardup.option_table import MatchingOptions, takes_options
from neardup.options import Options
from neardup.result import (
    Verdict,
    explain_kept,
    explain_rejected,
    explain_removed,
    format_counts,
    format_example,
    format_largest_clusters,
    format_method,
    format_strip,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from neardup.pipeline.backends.spark.dataframes import DataFrameOutcome
    from neardup.pipeline.backends.spark.inputs import DataFrameInput
    from neardup.pipeline.backends.spark.urls import UrlPath

SHOWN = 3


@takes_options("neardup.spark.dedup")
def dedup(
    df: DataFrame,
    *,
    id: str,
    text: str = "text",
    within: str | None = None,
    against: DataFrame | None = None,
    key: bytes | Key | None = None,
    work: str | None = None,
    memory: int | None = None,
    **options: Unpack[MatchingOptions],
) -> SparkResult:
    """Find the near-duplicates in a Spark DataFrame, and say which copies to keep.

    The answer is that of `neardup.dedup` for the same rows in the order of their ids. A DataFrame
    has no order: of documents that are equally good to keep, the one whose id comes first in
    Spark's order stays.

    The DataFrame is read twice, to sketch it and to compare candidates, and again for `kept`: if it
    takes long to compute, cache or write it before. Every reading must give the same ids; if they
    are generated each time, `kept` has rows that should be removed. That is an error only where a
    candidate is missing, or has another text, when it is compared.

    Args:
        df: The documents.
        id: A column of numbers, strings, bytes or dates, unique and never null.
        text: The column that holds the documents.
        within: Compare only documents with the same value in this column.
        against: An earlier DataFrame with the same columns: its documents rank before all others
            and are never removed.
        key: The secret key of hash siphash: 16 bytes, or 32 hexadecimal digits.
        work: An empty folder, or its URL, for tables between the stages, which all executors can
            write. By default a new one in Spark's checkpoint folder; or, on one machine, a
            temporary one, which is deleted when Python ends. The result's frames read it, until
            its `close()` deletes it.
        memory: Bytes that a task may hold, about; by default 1 GB.
        **options: What counts as similar and which copy stays, as in `neardup.dedup`.

    >>> rows = [(1, "the cat sat on the mat today"), (2, "The cat sat on the mat, today!")]
    >>> df = spark.createDataFrame(rows, "id long, text string")  # doctest: +SKIP
    >>> with dedup(df, id="id") as result:  # doctest: +SKIP
    ...     print(result)
    ...     result.kept.show()
    SparkResult(2 documents: 1 kept, 1 removed (1 identical), 0 rejected)
    +---+--------------------+
    | id|                text|
    +---+--------------------+
    |  1|the cat sat on th...|
    +---+--------------------+
    <BLANKLINE>
    """
    from neardup.pipeline.backends.spark.session import require_spark

    require_spark()
    secret = to_key(key)
    chosen = Options.of(key=secret, **options)
    spark = _session_of(df)

    from neardup.corpus.columns import Source
    from neardup.corpus.documents import Columns
    from neardup.pipeline.backends.spark.arrow import StageTables
    from neardup.pipeline.backends.spark.dataframes import DataFrameRun
    from neardup.pipeline.backends.spark.inputs import DataFrameInput
    from neardup.pipeline.backends.spark.limits import TASK_MEMORY
    from neardup.pipeline.backends.spark.session import check_executors
    from neardup.pipeline.backends.spark.urls import create_work_folder
    from neardup.pipeline.job import Job
    from neardup.runtime import SILENT

    columns = Columns(
        text=text,
        id=id,
        keep=chosen.keep_policy[1],
        within=within,
        tokens=chosen.spec.unit == "token",
    )
    new = DataFrameInput(df, columns)
    earlier = None
    if against is not None:
        earlier = DataFrameInput(against, columns.plain, Source("`against`", "{}="))
    check_executors(spark)
    folder = create_work_folder(spark, work)
    job = Job(
        inputs=[],
        out=Path(),
        options=chosen,
        columns=new.columns,
        workers=spark.sparkContext.defaultParallelism,
        key=secret,
    )
    try:
        run = DataFrameRun(
            job, new, earlier, StageTables(spark, folder.url), memory or TASK_MEMORY, SILENT
        )
        return SparkResult(chosen, new, run.run(), folder)
    except BaseException:
        folder.delete()
        raise


def _session_of(df: object) -> SparkSession:
    from pyspark.sql import DataFrame

    from neardup.pipeline.backends.spark.session import find_context, require_settings

    if not isinstance(df, DataFrame):
        raise UsageError(
            f"a {type(df).__name__} is not a Spark DataFrame: use neardup.dedup for other tables"
        )
    if df.isStreaming:
        raise UsageError("streaming DataFrames are not supported: pass a batch DataFrame")
    if find_context(df.sparkSession) is None:
        raise UsageError(
            "this DataFrame is of Spark Connect, which has no broadcast variables: use a session "
            "that is not a remote one, or neardup dedup --engine spark"
        )
    require_settings(df.sparkSession)
    return df.sparkSession


class SparkResult:
    """The keep list of `neardup.spark.dedup`, as Spark DataFrames.

    `kept` are the rows that stay, `removed` (id, witness, similarity, exact), `rejected` (id,
    reason), `clusters` (id of the kept document, size) and `pairs` (a, b, similarity); `why(id)`
    explains. All of them can be read until `close()`, or the end of a `with` block.
    """

    def __init__(
        self, options: Options, given: DataFrameInput, outcome: DataFrameOutcome, folder: UrlPath
    ) -> None:
        self.options = options
        self._given, self._decided, self._folder = given, outcome, folder
        self._closed = False

    @property
    def _outcome(self) -> DataFrameOutcome:
        if self._closed:
            raise UsageError("this result is closed: read or write its frames before close()")
        return self._decided

    @property
    def record(self) -> dict[str, Any]:
        """What was asked for and what came out, as in run.json."""
        return self._decided.record

    @property
    def counts(self) -> dict[str, int]:
        """How many documents there are, how many are kept, removed, rejected."""
        return dict(self.record["counts"])

    @property
    def kept(self) -> DataFrame:
        """The rows that stay, with all their columns."""
        return self._outcome.kept(self._given)

    @property
    def removed(self) -> DataFrame:
        """The removed documents with their witnesses: (id, witness, similarity, exact)."""
        return self._outcome.removed

    @property
    def rejected(self) -> DataFrame:
        """The documents that could not be compared: (id, reason)."""
        return self._outcome.rejected

    @property
    def clusters(self) -> DataFrame:
        """Every kept document that has copies: (id, size). The kept one counts too."""
        return self._outcome.clusters()

    @cached_property
    def pairs(self) -> DataFrame:
        """All verified pairs that share a bucket: (a, b, similarity), a before b.

        A separate, exhaustive pass.
        """
        return self._outcome.pairs()

    def why(self, id: Any) -> Verdict:
        """What became of a document, by its id."""
        from pyspark.sql import functions as sql

        from neardup.pipeline.backends.spark.failures import translate_spark_errors

        with translate_spark_errors(f"looking for {id!r}"):
            # Every type has a string; not every type can be cast to every other.
            wanted = sql.lit(id).cast("string").try_cast(self._given.id_type)
            own = self._outcome.documents.where((sql.col("id") == wanted) & ~sql.col("earlier"))
            found = own.select("reason").collect()
            if not found:
                raise UsageError(f"no document has the id {id!r}")
            if found[0]["reason"] is not None:
                return explain_rejected(id, found[0]["reason"])
            for row in self.removed.where(sql.col("id") == wanted).collect():
                return explain_removed(self.options, id, *row[1:])
            return explain_kept(id, self.removed.where(sql.col("witness") == wanted).count())

    def summary(self) -> str:
        """The end of a run as a person sees it."""
        from pyspark.sql import functions as sql

        options, counts = self.options, self.counts
        shown = ("documents", "kept", "removed", "identical", "rejected")
        lines = [
            format_counts(**{name: counts[name] for name in shown}),
            format_method(options, options.meeting.probability(options.threshold)),
        ]
        if str(options.strip):
            lines.append(format_strip(options.strip, 0))
        largest = self.clusters.orderBy(sql.desc("size"), "id").limit(SHOWN).collect()
        if largest:
            lines.append(
                format_largest_clusters([(repr(row["id"]), row["size"] - 1) for row in largest])
            )
        lines += [
            format_example(options, repr(row["id"]), repr(row["witness"]), row["similarity"])
            for row in self.removed.orderBy("id").limit(SHOWN).collect()
        ]
        return "\n".join(lines)

    def close(self) -> None:
        """Delete the tables that all frames of this result are read from."""
        if not self._closed:
            self._closed = True
            self._folder.delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        counts = self.counts
        return (
            f"SparkResult({counts['documents']:,} documents: {counts['kept']:,} kept, "
            f"{counts['removed']:,} removed ({counts['identical']:,} identical), "
            f"{counts['rejected']:,} rejected)"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>"
