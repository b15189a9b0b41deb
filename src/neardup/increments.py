"""`neardup.add_files`: add files to an index, and write what is new of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Unpack

from neardup.corpus.inputs import IndexFileOptions, find_inputs, split_options
from neardup.corpus.urls import hide_secrets, is_url
from neardup.errors import UsageError
from neardup.file_run import PathLike, RunResult, to_paths
from neardup.index.file_vectors import FirstFiles, choose_columns
from neardup.index.folder import delete_empty_index
from neardup.index.increment import confirm_increment
from neardup.index.index import Index
from neardup.index.place import is_stored, require_free
from neardup.index.redis_store.address import is_redis, require_folder
from neardup.index.settings import IndexSettings, require_options
from neardup.index.vector_settings import require_vectors
from neardup.keys import Key, to_key
from neardup.keyword_arguments import takes_options
from neardup.option_table import options_at
from neardup.options import Options
from neardup.pipeline.job import MAX_REJECTED, Job, make_job
from neardup.pipeline.progress_display import ReportStage, show_progress
from neardup.pipeline.record import FinishedRun
from neardup.pipeline.remote import RemotePaths, fetch_urls
from neardup.pipeline.run import run_job
from neardup.pipeline.run_summary import check_rejected
from neardup.report.run_page import write_report
from neardup.runtime import Progress

INCREMENT: Final = "an increment (-o)"


@takes_options("neardup.add_files", find_inputs, is_command=False)
def add_files(
    index: Index | PathLike,
    inputs: PathLike | Sequence[PathLike],
    out: PathLike,
    *,
    text: str | Sequence[str] = "text",
    id: str | None = None,
    within: str | None = None,
    no_kept: bool = False,
    removed: PathLike | None = None,
    report: PathLike | None = None,
    strict: bool = False,
    max_rejected: float = MAX_REJECTED,
    force: bool = False,
    workers: int | None = None,
    progress: bool | ReportStage | None = None,
    key: bytes | Key | None = None,
    **options: Unpack[IndexFileOptions],
) -> RunResult:
    """Add the documents of files to an index; write the new rows and every decision.

    A folder without an index gets one, with the matching options that are given: so the first day
    is written like all others.

    This is `neardup index add -o` of the command line. The answer is that of `neardup dedup` over
    all files that were ever added, in order; witnesses may be documents of earlier files. The same
    call goes on after it was stopped.

    Args:
        index: The open index, or the folder of one; it is made if there is none.
        inputs: Files, folders, globs or URLs, as in `dedup_files`.
        out: The folder to write; or one file with the new rows, by its ending.
        text: The column with the texts, as in `dedup_files`.
        id: The column with the ids, as in `dedup_files`; ids are those of the index.
        within: The column of the groups, if the index has groups; by default that of the index.
            A new index has groups if it is given.
        no_kept: Write the decisions only, not the new rows.
        removed: A file for the table of removed documents, besides `out`.
        report: If `out` is a file: the file for the report.
        strict: Stop at the first bad row, instead of rejecting it.
        max_rejected: The largest share of rejected documents, as in `dedup_files`.
        force: Replace a finished run in `out`; other files there are kept.
        workers: Threads that read; by default one per core.
        progress: As in `dedup_files`.
        key: The secret key of an index with hash siphash, if a folder is given.
        **options: How the inputs are read; and the matching options of a new index, which an
            existing one must have.

    Returns:
        The result, as that of `dedup_files`: counts, tables, the kept files and the report.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = tempfile.TemporaryDirectory()
    >>> day = Path(folder.name, "day")
    >>> day.mkdir()
    >>> size = (day / "a.txt").write_text("the cat sat on the mat today")
    >>> add_files(f"{folder.name}/index", day, f"{folder.name}/clean").counts["kept"]
    1
    >>> folder.cleanup()
    """
    read, matching = split_options(options)
    with (
        show_progress(progress) as shown,
        fetch_increment(to_paths(inputs), os.fspath(out), force, shown) as places,
        _opened(
            index,
            matching,
            to_key(key),
            within,
            FirstFiles(places.inputs, read, text, id, workers, shown),
        ) as opened,
    ):
        job = increment_job(
            opened,
            places,
            text=text,
            id=id,
            input_options=read,
            within=group_column(opened, within),
            asked=matching,
            workers=workers,
            removed=None if removed is None else os.fspath(removed),
            report=None if report is None else os.fspath(report),
            no_kept=no_kept,
            force=force,
            strict=strict,
            max_rejected=max_rejected,
        )
        finished = run_increment(opened, job, shown)
    check_rejected(finished.record, job.rejected_list)
    return RunResult(job, finished, None)


def fetch_increment(
    inputs: Sequence[str], out: str, force: bool, progress: Progress
) -> AbstractContextManager[RemotePaths]:
    """Return a context that fetches the URLs among the inputs; OUT must be local.

    Args:
        inputs: Files, folders, globs and URLs.
        out: The folder or the file to write.
        force: Whether a finished run there is replaced.
        progress: Is told what is fetched.
    """
    if is_url(out):
        raise UsageError(
            f"{hide_secrets(out)}: an increment is written to a local file or folder: choose a "
            "path for -o, and upload it afterwards"
        )
    return fetch_urls(inputs, out, (), force, progress)


def increment_job(index: Index, places: RemotePaths, asked: Mapping[str, Any], **given: Any) -> Job:
    """Return the run that adds files to an index and writes what is new of them.

    Args:
        index: The index, whose options and lists it has.
        places: The inputs and OUT, of `fetch_increment`.
        asked: The matching options that are given with them.
        **given: Other arguments of `make_job`.
    """
    settings = index.settings
    job = make_job(
        places.inputs,
        places.out,
        settings.options,
        write_report=write_report,
        ignored=settings.ignored,
        frequencies=settings.frequencies,
        centre=settings.centre,
        **given,
    )
    own = job.columns
    columns = choose_columns(settings.options, own.text, own.id, own.within, asked)
    return places.name_files(replace(job, columns=columns))


def run_increment(index: Index, job: Job, progress: Progress) -> FinishedRun:
    """Run it; the index notes at the end whether its output is in place.

    Args:
        index: The index.
        job: The run, of `increment_job`.
        progress: Receives the progress.
    """
    try:
        return run_job(job, progress, index.add_increment)
    finally:
        if isinstance(index.path, Path):  # an index on Redis has refused it
            confirm_increment(index.path, progress)


def group_column(index: Index, given: str | None) -> str | None:
    """Return the column of the groups of documents: the given one, or that of the index."""
    if given is not None and not index.settings.within:
        raise UsageError(
            f"{index.path} was made without --within, and compares all documents: leave it out, or "
            "build an index with --within"
        )
    return given or index.settings.within or None


@contextmanager
def _opened(
    index: Index | PathLike,
    matching: dict[str, Any],
    key: Key | None,
    within: str | None,
    first: FirstFiles,
) -> Iterator[Index]:
    """Yield an open index as it is, if it has the options; or open or make the one in a folder."""
    place = index.path if isinstance(index, Index) else to_paths(index)[0]
    folder = require_folder(place, INCREMENT)
    if isinstance(index, Index):
        options = index.settings.options
        require_options(options, None, key, require_vectors(options, matching, None))
        yield index
        return
    with open_or_create(folder, matching, key, first, within=within) as opened:
        yield opened


@contextmanager
def open_or_create(
    place: str | Path,
    matching: dict[str, Any],
    key: Key | None,
    first: FirstFiles,
    *,
    within: str | None = None,
    **others: Any,
) -> Iterator[Index]:
    """Open an index to add to it; make it if there is none.

    Args:
        place: The folder or the address of the index.
        matching: The matching options of a new index, which an existing one must have.
        key: The key of a keyed hash.
        first: The files that a new index is made from; their progress is told of that.
        within: The column of the groups, of a new index.
        **others: Other arguments of `Index.open`.
    """
    if is_stored(place):
        with Index.open(place, key=key, say=first.progress.say, **others, **matching) as index:
            yield index
        return
    first.progress.say(f"{place} is a new index")
    with create_index(place, matching, key, first, within=within, **others) as index:
        yield index


@contextmanager
def create_index(
    place: str | Path,
    matching: dict[str, Any],
    key: Key | None,
    first: FirstFiles,
    **others: Any,
) -> Iterator[Index]:
    """Open a new index; delete it if an error occurs before it has a document.

    Args:
        place: The folder or the address of the index.
        matching: Its matching options.
        key: The key of a keyed hash.
        first: The files that it is made from.
        **others: Other arguments of `Index.open`.
    """
    require_free(place)
    options = _check_options(matching, key)
    given = {name: matching[name] for name in options_at("neardup.Index.open") if name in matching}
    with (
        first.lay_out(options) as counted,
        Index.open(place, key=key, **others, **(given | counted)) as index,
    ):
        try:
            yield index
        except Exception:
            empty = not len(index)
            index.close()
            if empty and not is_redis(place):
                delete_empty_index(Path(place))
            raise


def _check_options(given: dict[str, Any], key: Key | None) -> Options:
    """Return the options; refuse those that need counts over all documents."""
    options = Options.of(key=key, **given)
    if options.strip.lines is not None or options.weights != "tf":
        what = "--strip lines" if options.strip.lines is not None else "tf-idf weights"
        raise UsageError(
            f"{what} are counted over all documents, and an index never has all: leave it out, or "
            "build the index --from a run, which has counted them"
        )
    return IndexSettings(options).options
