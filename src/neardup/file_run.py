"""`neardup.dedup_files`: a batch run over files, as the command line makes it, and its result."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, Unpack, overload

import pyarrow as pa
import pyarrow.parquet as pq

from neardup.corpus.frames import to_pandas, to_polars
from neardup.corpus.inputs import FileOptions, find_inputs, split_options
from neardup.corpus.standard_input import DASH
from neardup.corpus.urls import hide_secrets, is_url
from neardup.errors import UsageError
from neardup.formats.decisions import DecisionSource
from neardup.index.redis_store.address import hide_password
from neardup.index.stored_corpus import open_indexes, split_addresses
from neardup.keys import Key, to_key
from neardup.keyword_arguments import takes_options
from neardup.options import Options
from neardup.pipeline.backends.engine import check_engine, use_engine
from neardup.pipeline.job import MAX_REJECTED, Job, make_job
from neardup.pipeline.progress_display import ReportStage, show_progress
from neardup.pipeline.record import FinishedRun
from neardup.pipeline.remote import fetch_urls
from neardup.pipeline.run import run_job
from neardup.pipeline.run_summary import check_rejected, format_summary
from neardup.report.run_explanation import RunExplainer
from neardup.report.run_page import largest_clusters, write_report
from neardup.report.run_verdicts import RunExplanation, RunPair
from neardup.wording import describe_counts, html_table, shorten_id

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

PathLike: TypeAlias = str | os.PathLike[str]


@takes_options("neardup.dedup_files", find_inputs, is_command=False)
def dedup_files(
    inputs: PathLike | Sequence[PathLike],
    out: PathLike | None = None,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    within: str | None = None,
    prefer: str | None = None,
    against: PathLike | Sequence[PathLike] = (),
    merge_rows: str | None = None,
    decisions: DecisionSource | None = None,
    same_ids: bool = False,
    pairs: bool = False,
    annotate: Literal["kept", "all"] | None = None,
    source: str | None = None,
    max_removed: float | None = None,
    max_removed_per_source: float | None = None,
    yes: bool = False,
    no_kept: bool = False,
    removed: PathLike | None = None,
    report: PathLike | None = None,
    save_sketches: bool | Literal["parquet"] = False,
    keep_full: bool = False,
    strict: bool = False,
    skip_bad_files: bool = False,
    max_rejected: float = MAX_REJECTED,
    force: bool = False,
    memory: str | int | None = None,
    workers: int | None = None,
    engine: Literal["local", "spark"] = "local",
    master: str | None = None,
    progress: bool | ReportStage | None = None,
    key: bytes | Key | None = None,
    **options: Unpack[FileOptions],
) -> RunResult:
    """Remove near-duplicates from files of any size; write the kept rows and every decision.

    This is `neardup dedup` of the command line, with the same names, files and answers, in bounded
    memory. The same call resumes a run that was stopped.

    Args:
        inputs: Files, folders or globs: JSONL, JSON, Parquet, CSV/TSV, Arrow/Feather, or a
            folder of text files, one document a file; also URLs, as s3://bucket/pages.
        out: The folder to write. By default a temporary one, which is deleted with the result. A
            name with an ending, such as `clean.jsonl` or `clean.parquet`: one file with the kept
            rows, and nothing else but `removed` and `report`.
        text: The column with the texts of the documents; a field inside of one (`"doc.text"`), or
            several (`["title", "body"]`), joined by a blank line: docs/columns.md.
        id: The column with their ids; by default `id` if it exists, else file:row.
        within: Compare only documents with the same value in this column.
        prefer: Keep copies in the inputs that match this glob rather than copies in the others.
        against: Also remove documents that are similar to one of an earlier run, of an index, of
            saved sketches or of these files, which are only read.
        merge_rows: Join rows with the same value in this column into one document, in any file.
        decisions: What people decided about documents and pairs, which goes before the comparison:
            a file that `neardup review` has exported, or `neardup.decisions.Decision` objects.
        same_ids: Obey decisions that were made about other inputs too: each id still names the
            same document.
        pairs: Also write all similar pairs, not only those that decided.
        annotate: Write the columns `cluster`, `cluster_size`, `witness` and `similarity`: `"kept"`,
            to the rows that are kept; `"all"`, to all rows, of which none is removed.
        source: The column by whose values the removed documents are counted; by default the
            input files.
        max_removed: The largest share of the documents that may be removed; more raise
            `TooManyRemoved` before anything is written, and the same call with `yes=True` goes on.
        max_removed_per_source: The same, for the documents of each source that has 100 or more;
            files that are one document count by their folder.
        yes: Remove more than the two allow.
        no_kept: Write the decisions only, not the kept rows.
        removed: A file for the table of removed documents, besides `out`: .parquet, .jsonl or
            .csv.
        report: If `out` is a file: the file for the report, an HTML page.
        save_sketches: Keep the sketches in `out`, for `against` and for other thresholds;
            `"parquet"`: as Parquet files, which any engine can read.
        keep_full: With `bits`: keep the full slots in the saved sketches too, for other bands.
        strict: Stop at the first bad row, instead of rejecting it.
        skip_bad_files: Skip files that can't be read, instead of stopping.
        max_rejected: The largest share of rejected documents; more raise `TooManyRejected`, after
            `out` is written.
        force: Replace a finished run in `out`; other files there are kept.
        memory: The most memory to use, in bytes or as `"2GB"`; by default half of the free memory.
        workers: Threads to use; by default one per core.
        engine: `"local"`, this machine; or `"spark"`, a cluster whose machines all see the inputs
            and `out` by the same paths: docs/spark.md. `memory` is then that of a task, by default
            1 GB.
        master: With `engine="spark"`: the cluster's master, such as `"spark://host:7077"`; by
            default that of the running session, or of Spark's settings.
        progress: True shows progress: a line in a notebook, a bar on a terminal, else plain lines
            on standard error. False shows nothing. By default it is shown in notebooks only. A
            function is called at every step with the name of the stage, how much of it is done, the
            total (or None), and their unit, such as `bytes`.
        key: The secret key of hash siphash: 16 bytes, or 32 hexadecimal digits.
        **options: How the inputs are read; and the matching options, which determine what counts
            as similar and which copy is kept; see docs/command-line.md.

    Returns:
        The result: counts, tables, the kept files and the report.

    Raises:
        NeardupError: As the command line, with messages that name arguments instead of options.

    >>> import json, tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> corpus = Path(folder.name, "corpus.jsonl")
    >>> texts = ["the cat sat on the mat today", "The cat sat on the mat, today!", "hi"]
    >>> lines = [json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts)]
    >>> size = corpus.write_text("\\n".join(lines))
    >>> with dedup_files(corpus) as result:
    ...     print(result)
    ...     [json.loads(line)["id"] for line in open(result.kept[0])]
    RunResult(3 documents: 2 kept, 1 removed (1 identical), 0 rejected)
    ['0', '2']
    >>> folder.cleanup()
    """
    secret = to_key(key)
    input_options, matching = split_options(options)
    chosen = Options.of(key=secret, **matching)
    check_engine(engine, master, workers)
    paths = to_paths(inputs)
    earlier, addresses = split_addresses(to_paths(against))
    if DASH in (*paths, out):
        raise UsageError("standard input and output (-) are for the command line: pass paths")
    folder = _TemporaryFolder() if out is None else None
    place = folder.path / "run" if folder is not None else Path(os.fspath(out or ""))
    if is_url(out):
        raise UsageError(
            f"{hide_secrets(str(out))}: the result needs a local folder: upload it after"
        )
    with (
        show_progress(progress) as shown,
        fetch_urls(paths, place, earlier, force, shown) as places,
        open_indexes([*places.against, *addresses]) as stored,
    ):
        places.add_earlier(list(map(hide_password, addresses)))
        job = make_job(
            places.inputs,
            place,
            chosen,
            text=text,
            id=id,
            input_options=input_options,
            within=within,
            against=places.against,
            stored=stored,
            merge_rows=merge_rows,
            decisions=decisions,
            same_ids=same_ids,
            memory=memory,
            workers=workers,
            write_report=write_report,
            removed=None if removed is None else os.fspath(removed),
            report=None if report is None else os.fspath(report),
            pairs=pairs,
            annotate=annotate,
            source=source,
            max_removed=max_removed,
            max_removed_per_source=max_removed_per_source,
            yes=yes,
            no_kept=no_kept,
            force=force,
            strict=strict,
            prefer=prefer,
            save_sketches=save_sketches,
            keep_full=keep_full,
            skip_bad_files=skip_bad_files,
            max_rejected=max_rejected,
            key=secret,
        )
        job = use_engine(places.name_files(job), engine, master, memory, shown)
        finished = run_job(job, shown)
    listed = "out=FOLDER keeps a list of them" if out is None else job.rejected_list
    check_rejected(finished.record, listed)
    return RunResult(job, finished, folder)


def to_paths(given: PathLike | Sequence[PathLike]) -> list[str]:
    """Return one path or several as a list of strings."""
    several = [given] if isinstance(given, (str, os.PathLike)) else list(given)
    for path in several:
        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(
                f"a {type(path).__name__} is not a path: pass paths of files or folders; "
                "neardup.dedup takes texts and tables"
            )
    return [os.fspath(path) for path in several]


class _TemporaryFolder:
    """A folder that is deleted when `close` is called, at the latest when Python ends."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="neardup-"))
        self.close = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class RunResult:
    """The result of `neardup.dedup_files`, which makes it: a finished run in a folder.

    Its tables list the removed, rejected and clustered documents, not those that are kept and have
    no copies: these are in the files `kept`. So there is `result.removed.to_pandas()`, and no
    `result.to_pandas()` of all documents, as a `neardup.Result` has it.

    The tables are read when they are asked for. A temporary folder (`out=None`) is deleted by
    `close()`, at the end of a `with` block, or when the result is no longer referenced; an `out`
    that was given stays.

    Attributes:
        path: The folder of the run; or the file with the kept rows, if `out` names one.
        options: The options of the run, checked and complete.
        record: The content of run.json: parameters, counts, metrics and times.
        kept: The files with the kept rows, in input order; none with `no_kept`.

    >>> import tempfile
    >>> from neardup import dedup_files
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for name in ("a.txt", "b.txt"):
    ...         size = Path(folder, name).write_text("one and the same text in two files")
    ...     result = dedup_files(folder, id=None)
    >>> result.counts["kept"], [path.name for path in result.kept]
    (1, ['a.txt'])
    >>> result.removed.to_arrow()["similarity"].to_pylist()
    [1.0]
    >>> result.close()
    """

    def __init__(self, job: Job, finished: FinishedRun, folder: _TemporaryFolder | None) -> None:
        """Wrap a finished run; `neardup.dedup_files` does.

        Args:
            job: What was asked for.
            finished: The record of the run, and what its summary shows besides.
            folder: The temporary folder that the result owns, if any.
        """
        self.path, self.options, self.record = job.out, finished.options, finished.record
        self._job, self._finished, self._folder = job, finished, folder
        files = [self.path / "kept" / file.kept_name for file in job.inputs if job.kept]
        # A text file that is a copy is not written.
        self.kept = [self.path] if job.file else [file for file in files if file.exists()]

    @property
    def advice(self) -> list[str]:
        """What the options can't find in documents like the first ones, and what would."""
        return list(self.record.get("advice", ()))

    @property
    def counts(self) -> dict[str, int]:
        """The numbers of documents, kept, removed, identical and rejected ones, as in run.json."""
        return dict(self.record["counts"])

    @property
    def removed(self) -> TableFile:
        """The removed documents with their witnesses, in input order: removed.parquet."""
        file = self._job.file
        if file is not None and file.removed and file.removed.path.suffix == ".parquet":
            return TableFile(file.removed.path, self)
        return self._table("removed")

    @property
    def clusters(self) -> TableFile:
        """The kept documents that have copies, in input order: clusters.parquet."""
        return self._table("clusters")

    @property
    def rejected(self) -> TableFile:
        """The documents that could not be compared, with the reasons: rejected.parquet."""
        return self._table("rejected")

    @property
    def vetoed(self) -> TableFile:
        """The documents that are kept only because of `distinguish`: vetoed.parquet."""
        if "vetoed" not in self.counts:
            raise UsageError(
                "this run lists no vetoed documents: pass distinguish= to dedup_files, without an "
                "index"
            )
        return self._table("vetoed")

    @property
    def pairs(self) -> TableFile:
        """All similar pairs, if they were asked for with `pairs=True`: pairs.parquet."""
        if not self.record["parameters"]["pairs"]:
            raise UsageError("this run has not written its pairs: pass pairs=True")
        return self._table("pairs")

    @property
    def report(self) -> Path:
        """The path of the report, one HTML page that needs no network; the run has written it.

        `neardup.Result.report(path)`, of documents in memory, is a method that writes it.
        """
        self._require_open()
        if self._job.report_page is None:
            raise UsageError("this run wrote one file, without a report: pass report=, or a folder")
        return Path(self._job.report_page)

    @overload
    def why(self, id: str, *, key: bytes | Key | None = None) -> RunExplanation: ...
    @overload
    def why(self, id: str, other: str, *, key: bytes | Key | None = None) -> RunPair: ...
    def why(
        self, id: str, other: str | None = None, *, key: bytes | Key | None = None
    ) -> RunExplanation | RunPair:
        """Explain the decision about a document, or why two are duplicates of one another or not.

        The inputs must be where they were, unchanged, for everything that the tables don't say.

        Args:
            id: The id of the document, or its file:row.
            other: That of another document, to compare the two.
            key: The secret key of hash siphash, if the run had one.
        """
        self._require_folder()
        explainer = RunExplainer(self.path, to_key(key))
        return explainer.explain(id) if other is None else explainer.explain_pair(id, other)

    def summary(self) -> str:
        """Return the summary that the command line prints."""
        page = self._job.report_page
        return format_summary(self._finished, page).rstrip("\n")

    def close(self) -> None:
        """Delete a temporary folder; an `out` that was given stays."""
        if self._folder is not None:
            self._folder.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_open(self) -> None:
        if self._folder is not None and not self._folder.close.alive:
            raise UsageError(
                "this result is closed, and its temporary folder deleted: read it before close(), "
                "or pass out="
            )

    def _require_folder(self, cure: str = "") -> None:
        self._require_open()
        if self._job.file is not None:
            raise UsageError(f"this run wrote one file, without tables: pass a folder as out{cure}")

    def _table(self, name: str) -> TableFile:
        other = ", or removed= with a name that ends in .parquet" if name == "removed" else ""
        self._require_folder(other)
        return TableFile(self.path / f"{name}.parquet", self)

    def __repr__(self) -> str:
        return f"RunResult({describe_counts(self.record['counts'])})"

    def _repr_html_(self) -> str:
        head = f"<p>{escape(repr(self))}</p>"
        if self._job.file is not None:
            return f"{head}<p><small>{escape(str(self.path))}</small></p>"
        self._require_open()
        rows = [
            (shorten_id(row["id"]), f"{row['file']}:{row['row']}", f"{row['size']:,}")
            for row in largest_clusters(self.path).largest
        ]
        table = html_table("the largest clusters", ("kept document", "place", "documents"), rows)
        return f"{head}{table}<p><small>{escape(str(self.report))}</small></p>"


class TableFile:
    """A table of a run, which is read when it is asked for.

    Everything that takes the Arrow stream interface takes it as it is: `polars.DataFrame(table)`,
    `pyarrow.table(table)`, `duckdb.sql(...)`.

    Attributes:
        path: The Parquet file, for readers of their own: `polars.scan_parquet(table.path)`.
    """

    def __init__(self, path: Path, owner: RunResult) -> None:
        self.path = path
        # The folder must not be deleted while one of its tables is still in use.
        self._owner = owner

    @cached_property
    def _file(self) -> pq.ParquetFile:
        # Opened by bytes: a folder's name need not be UTF-8.
        return pq.ParquetFile(pa.OSFile(os.fsencode(self.path), "rb"))

    def __len__(self) -> int:
        return int(self._file.metadata.num_rows)

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._file.schema_arrow.names)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow record batches, so that not all are in memory at once."""
        yield from self._file.iter_batches()

    def to_arrow(self) -> pa.Table:
        """Return the whole table as an Arrow table."""
        return self._file.read()

    def to_pandas(self) -> pd.DataFrame:
        """Return the whole table as a pandas DataFrame."""
        return to_pandas(self.to_arrow())

    def to_polars(self) -> pl.DataFrame:
        """Return the whole table as a Polars DataFrame."""
        return to_polars(self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        reader = pa.RecordBatchReader.from_batches(self._file.schema_arrow, self.to_batches())
        return reader.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"TableFile({self.path.name}, {len(self):,} rows: {', '.join(self.columns)})"
