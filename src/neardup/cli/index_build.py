"""neardup index build, neardup index add: load files, or the sketches of a run, into an index."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neardup.cli.arguments import (
    INPUT,
    OUTPUT,
    Config,
    Force,
    Id,
    Inputs,
    MaxRejected,
    NoKept,
    PlainJson,
    Quiet,
    Removed,
    ReportFile,
    Text,
    Workers,
    argument,
    flag,
    option,
)
from neardup.cli.console import print_json, print_run, progress_for
from neardup.cli.index import Dir, IndexKey, Replicas, TableMemory
from neardup.cli.key_files import read_key
from neardup.cli.option_values import chosen_options
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputFiles, InputOptions
from neardup.errors import UsageError
from neardup.formatting import format_count
from neardup.pipeline.budget import check_workers

if TYPE_CHECKING:
    from neardup.index.from_run import LoadedRun
    from neardup.index.index import Index
    from neardup.index.load import LoadCounts
    from neardup.options import Options
    from neardup.pipeline.job import Job
    from neardup.runtime import Progress

StrictIndex = Annotated[
    bool, flag("Stop at the first bad row, instead of skipping it.", "--strict", panel=INPUT)
]


GroupColumn = Annotated[
    str | None,
    option(
        "COLUMN",
        "Compare only documents with the same value in this column; folder:1 for the first folder "
        "below INPUT.",
        "--within",
        default="of a new index compare all, else that of the index",
        panel=INPUT,
    ),
]

KeepTexts = Annotated[
    bool,
    flag(
        "Store the texts too, so that neardup index reindex can change the specification.",
        "--keep-texts",
        panel=OUTPUT,
    ),
]


@with_options("neardup index build")
@with_input_options
def build(
    context: typer.Context,
    folder: Dir,
    inputs: Annotated[
        list[str] | None,
        argument("INPUT", "As in dedup: files, folders or quoted globs."),
    ] = None,
    sketches: Annotated[
        Path | None,
        option(
            "RUN",
            "Instead of INPUT: a run with --save-sketches, or a set of sketches. No texts are "
            "needed; similarity to these documents is estimated.",
            "--from",
            default="none",
            panel=INPUT,
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    *,
    input_options: InputOptions,
    within: GroupColumn = None,
    strict: StrictIndex = False,
    max_rejected: MaxRejected = 0.5,
    keep_texts: KeepTexts = False,
    config: Config = None,  # noqa: ARG001 -- its callback reads it
    key_file: IndexKey = None,
    memory: TableMemory = None,
    replicas: Replicas = 0,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Make a new index from files, or from the sketches that a run has saved.

    If it is interrupted, neardup index add with the same INPUT continues.
    """
    from neardup.corpus.inputs import find_inputs, say_notes
    from neardup.increments import create_index
    from neardup.index.file_vectors import FirstFiles, choose_columns
    from neardup.index.load import fill

    if bool(inputs) == (sketches is not None):
        raise UsageError("give either INPUT, or --from with a run that has saved its sketches")
    given = chosen_options(context, given)
    if sketches is not None:
        if within is not None:
            raise UsageError(f"the sketches of {sketches} decide --within: leave it out")
        _load_sketches(folder, sketches, given, quiet, as_json)
        return
    files, threads = find_inputs(inputs or [], **input_options), check_workers(workers)
    key = read_key(key_file, quiet)
    with (
        progress_for(quiet=quiet or as_json) as progress,
        create_index(
            folder,
            given,
            key,
            FirstFiles(inputs or [], input_options, text, id, workers, progress),
            keep_texts=keep_texts,
            memory=memory,
            within=within,
            replicas=replicas,
        ) as index,
    ):
        say_notes(files, progress)
        columns = choose_columns(index.options, text, id, within, given)
        filled = fill(index, files, columns, progress, workers=threads, strict=strict)
        print_filled(filled, index, files, quiet, as_json)
        _check_rejected(filled, max_rejected, index.path)


@with_options(
    "neardup index add", unset="that of the index; of a new one, that of neardup index build"
)
@with_input_options
def add(
    context: typer.Context,
    folder: Dir,
    inputs: Inputs,
    out: Annotated[
        str | None,
        option(
            "OUT",
            "Also write what is new: a folder with the kept rows and every decision, as dedup "
            "does; or one file with the kept rows by its ending, such as new.jsonl.",
            "--out",
            "-o",
            default="none",
        ),
    ] = None,
    text: Text = "text",
    id: Id = None,
    *,
    input_options: InputOptions,
    within: GroupColumn = None,
    replace: Annotated[
        bool,
        flag(
            "Replace a document whose id exists with another content, instead of rejecting the "
            "new one.",
            "--replace",
            panel=INPUT,
        ),
    ] = False,
    strict: StrictIndex = False,
    max_rejected: MaxRejected = 0.5,
    removed: Removed = None,
    report: ReportFile = None,
    no_kept: NoKept = False,
    force: Force = False,
    keep_texts: KeepTexts = False,
    config: Config = None,  # noqa: ARG001 -- its callback reads it
    key_file: IndexKey = None,
    memory: TableMemory = None,
    replicas: Replicas = 0,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Add the documents of files to an index. Those that it has already are not changed.

    With -o OUT, the rows whose documents are new are written as neardup dedup does it, and
    removed.parquet names the witnesses, which may be of earlier days: the answer is that of dedup
    over all days in order. The first day makes the index, with the matching options; later days
    may repeat them. If it is stopped, the same command continues.
    """
    from neardup.corpus.inputs import find_inputs, say_notes
    from neardup.increments import (
        INCREMENT,
        fetch_increment,
        group_column,
        increment_job,
        open_or_create,
    )
    from neardup.index.file_vectors import FirstFiles, choose_columns
    from neardup.index.load import fill
    from neardup.index.place import require_stored
    from neardup.index.redis_store.address import require_folder

    matching, key = chosen_options(context, given), read_key(key_file, quiet)
    others: dict[str, Any] = {"memory": memory, "keep_texts": keep_texts or None}
    others["replicas"] = replicas
    if out is not None:
        require_folder(folder, INCREMENT)
        if replace:
            raise UsageError(
                "--replace can't take back rows that earlier outputs have: leave out --replace, "
                "or -o"
            )
        with (
            progress_for(quiet=quiet or as_json) as progress,
            fetch_increment(inputs, out, force, progress) as places,
            open_or_create(
                folder,
                matching,
                key,
                FirstFiles(places.inputs, input_options, text, id, workers, progress),
                within=within,
                **others,
            ) as index,
        ):
            job = increment_job(
                index,
                places,
                asked=matching,
                text=text,
                id=id,
                input_options=input_options,
                within=group_column(index, within),
                workers=workers,
                removed=removed,
                report=report,
                no_kept=no_kept,
                force=force,
                strict=strict,
                max_rejected=max_rejected,
            )
            print_increment(index, job, progress, quiet, as_json)
        return
    for name, value in (
        ("--removed", removed),
        ("--report", report),
        ("--no-kept", no_kept),
        ("--force", force),
    ):
        if value:
            raise UsageError(f"{name} goes with -o OUT: give both, or leave it out")
    require_stored(folder)
    files, threads = find_inputs(inputs, **input_options), check_workers(workers)
    with (
        progress_for(quiet=quiet or as_json) as progress,
        open_or_create(folder, matching, key, FirstFiles([], progress=progress), **others) as index,
    ):
        say_notes(files, progress)
        columns = choose_columns(index.options, text, id, group_column(index, within), matching)
        filled = fill(
            index, files, columns, progress, workers=threads, replace=replace, strict=strict
        )
        print_filled(filled, index, files, quiet, as_json)
        _check_rejected(filled, max_rejected, index.path)


def print_increment(index: Index, job: Job, progress: Progress, quiet: bool, as_json: bool) -> None:
    """Run it, and print its summary."""
    from neardup.increments import run_increment
    from neardup.pipeline.run_summary import check_rejected, format_summary

    finished = run_increment(index, job, progress)
    summary = format_summary(finished, job.report_page)
    print_run(finished.record, summary, quiet, as_json)
    check_rejected(finished.record, job.rejected_list)


def _load_sketches(
    folder: str, sketches: Path, given: dict[str, Any], quiet: bool, as_json: bool
) -> None:
    """Make an index from saved sketches."""
    from neardup.index.from_run import load_sketches
    from neardup.index.settings import POINT_NAMES

    for name in given:
        if name not in POINT_NAMES:
            flag_name = name.replace("_", "-")
            raise UsageError(f"the sketches of {sketches} decide --{flag_name}: leave it out")
    with progress_for(quiet=quiet or as_json) as progress:
        loaded = load_sketches(sketches, folder, given, progress)
    print_loaded(loaded, quiet, as_json)


def _check_rejected(filled: LoadCounts, allowed: float, place: Path | str) -> None:
    """Raise an error if too many documents were rejected; the others stay in the index."""
    from neardup.pipeline.run_summary import require_few_rejected

    is_some = filled.documents > filled.rejected
    others = f"the others are in {place}" if is_some else "nothing is added"
    require_few_rejected(
        {"documents": filled.documents, "rejected": filled.rejected},
        dict(filled.reasons.most_common()),
        allowed,
        f"{others}, and --strict stops at the first and names it",
    )


def print_filled(
    filled: LoadCounts, index: Index, files: InputFiles, quiet: bool, as_json: bool
) -> None:
    """Print how many documents of files were new, copies, known or rejected."""
    from neardup.pipeline.budget import peak_memory
    from neardup.wording import format_advice, format_second_signal

    counts = {
        "documents": filled.documents,
        "new": filled.new,
        "copies": filled.copies,
        "again": filled.again,
        "rejected": filled.rejected,
    }
    reasons = dict(filled.reasons.most_common())
    record = {"counts": counts, "reasons": reasons}
    if as_json:
        more = {
            "advice": filled.advice,
            "seconds": filled.seconds,
            "peak_memory_bytes": peak_memory(),
            "index_documents": len(index),
            "fingerprint": index.spec.fingerprint,
            "not_documents": dict(filled.not_documents.most_common()),
            "unread_files": files.unread.describe(),
        }
        print_json(record | more)
    elif not quiet:
        from neardup.pipeline.run_summary import unread_lines
        from neardup.wording import add_cures, format_rejected

        again = f"   {filled.again:,} already indexed" if filled.again else ""
        rate, memory = filled.documents / max(filled.seconds, 1e-9), peak_memory() / 10**6
        _print(
            (
                f"{format_count(filled.documents, 'document')}   {filled.new:,} new   "
                f"{format_count(filled.copies, 'copy', 'copies')}{again}   "
                f"{filled.rejected:,} rejected",
                _method(index.options),
                *format_second_signal(index.options),
                *format_rejected(add_cures(reasons), filled.rejected),
                *map(format_advice, filled.advice),
                *unread_lines(
                    dict(filled.not_documents.most_common()),
                    files.unread.reasons,
                    files.unread.entries,
                ),
                f"{filled.seconds:.1f} s, {rate:,.0f} documents/s, {memory:,.0f} MB at most; "
                f"{format_count(len(index), 'document')} in {index.path}",
            )
        )


def print_loaded(loaded: LoadedRun, quiet: bool, as_json: bool) -> None:
    """Print how many documents of a run are in the index, and what was left out."""
    if as_json:
        counts = {
            "documents": loaded.documents,
            "kept": loaded.kept,
            "copies": loaded.copies,
            "left_out": loaded.left_out,
            "renamed": loaded.renamed,
        }
        fingerprint = loaded.settings.options.spec.fingerprint
        print_json({"counts": counts, "fingerprint": fingerprint})
    elif not quiet:
        lines = [
            f"{format_count(loaded.documents, 'document')}   {loaded.kept:,} kept   "
            f"{format_count(loaded.copies, 'copy', 'copies')}   "
            f"{loaded.left_out:,} left out (rejected, or copies of documents outside the run)",
            _method(loaded.settings.options),
        ]
        if loaded.renamed:
            lines.append(
                f"{loaded.renamed:,} have the id of another document: their ids are file and row"
            )
        if loaded.settings.options.verify == "exact":
            lines.append("they came without texts: similarity to them is estimated by signatures")
        _print(lines)


def _method(options: Options) -> str:
    from neardup.wording import format_method

    return format_method(options, options.meeting.probability(options.threshold))


def _print(lines: Iterable[str]) -> None:
    print("\n".join(lines))
