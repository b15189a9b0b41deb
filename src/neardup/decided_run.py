"""`neardup.apply_decisions`: a finished run again, with the decisions of people."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from neardup.corpus.inputs import InputOptions
from neardup.decisions import Decisions, fingerprint_run
from neardup.errors import FormatError, UsageError
from neardup.file_run import PathLike, RunResult
from neardup.formats.decisions import DecisionSource, load_decisions, read_decisions
from neardup.formatting import parse_bytes
from neardup.index.stored_corpus import open_indexes
from neardup.keys import Key, to_key
from neardup.pipeline.budget import Budget, check_workers
from neardup.pipeline.job import Job, to_earlier
from neardup.pipeline.output import OBEYED_FILE, RUN_FILE
from neardup.pipeline.progress_display import ReportStage, show_progress
from neardup.pipeline.run import run_job
from neardup.pipeline.run_inputs import RunInputs
from neardup.pipeline.saved import read_centre_file
from neardup.report.run_comparison import options_of_run
from neardup.report.run_documents import read_run_record
from neardup.report.run_page import write_report


def apply_decisions(
    run: PathLike,
    decisions: DecisionSource,
    out: PathLike,
    *,
    same_ids: bool = False,
    force: bool = False,
    memory: str | int | None = None,
    workers: int | None = None,
    progress: bool | ReportStage | None = None,
    key: bytes | Key | None = None,
) -> RunResult:
    """Make a finished run again with the decisions of people, in a folder beside it.

    The answer is that of `neardup dedup --decisions` with the inputs and options of the run, and
    with the decisions that the run itself has obeyed: later ones of a person replace these. Only
    what the decisions change is decided again, unless the run had `against`, `distinguish`,
    `merge_rows` or `pairs`; and the inputs are sketched again only if the run has not saved its
    sketches (`save_sketches`).

    Args:
        run: The folder of the run; it stays as it is. Its inputs must be unchanged.
        decisions: A file that `neardup review` has exported, or `neardup.decisions.Decision`
            objects.
        out: The folder to write.
        same_ids: Obey decisions that were made about other inputs too: each id still names the
            same document.
        force: Replace a finished run in `out`; other files there are kept.
        memory: The most memory to use, in bytes or as `"2GB"`; by default half of the free memory.
        workers: Threads to use; by default one per core.
        progress: As in `dedup_files`.
        key: The secret key of hash siphash, if the run had one.

    Returns:
        The result, as of `dedup_files`.

    Raises:
        UsageError: The decisions contradict one another, or are about other documents.
        InputError: An input is gone or has changed, or the decisions can't be read.

    >>> import json, tempfile, neardup
    >>> from neardup.decisions import Decision
    >>> folder = tempfile.TemporaryDirectory()
    >>> corpus = Path(folder.name, "corpus.jsonl")
    >>> texts = ["the cat sat on the mat today", "The cat sat on the mat, today!", "hi"]
    >>> lines = [json.dumps({"id": str(n), "text": text}) for n, text in enumerate(texts)]
    >>> size = corpus.write_text("\\n".join(lines))
    >>> first = neardup.dedup_files(corpus, Path(folder.name, "clean"))
    >>> said = [Decision("different", "0", "1", who="ann", when="2026-03-01T12:00:00Z")]
    >>> neardup.apply_decisions(first.path, said, Path(folder.name, "decided"))
    RunResult(3 documents: 3 kept, 0 removed (0 identical), 0 rejected)
    >>> folder.cleanup()
    """
    source, place = Path(os.fspath(run)), Path(os.fspath(out))
    record = read_run_record(source)
    job = replace(
        repeat_job(source, record, place, key=to_key(key)),
        same_ids=True,  # it was checked, here or by the run
        force=force,
        budget=Budget(parse_bytes(memory) if isinstance(memory, str) else memory),
        workers=check_workers(workers),
    )
    said = load_decisions(decisions, job.options.cluster, job.options.keep)
    assert said is not None  # noqa: S101  # they are given
    if not same_ids:
        said.check_documents("decisions", fingerprint_run(record))
    if (obeyed := source / OBEYED_FILE).exists():
        said = Decisions.of([*read_decisions(obeyed), *said])
        said.check(f"the decisions and those of {obeyed}")
    with show_progress(progress) as shown, ExitStack() as stack:
        stored = stack.enter_context(open_indexes(job.against))
        job = replace(job, decisions=said, stored=stored)
        finished = run_job(job, shown)
    return RunResult(job, finished, None)


def repeat_job(run: Path, record: dict[str, Any], out: Path, key: Key | None = None) -> Job:
    """Return the job that makes a finished run again, from the same inputs with the same options.

    Args:
        run: The folder of the run.
        record: The content of its run.json.
        out: The folder to write.
        key: The secret of keyed hashes.

    Raises:
        InputError: An input is gone, or has changed since the run.
        UsageError: The run can't be repeated.
    """
    if out.resolve() == run.resolve():
        raise UsageError(f"{run} stays as it is: choose another folder for the run with decisions")
    try:
        options, inputs = options_of_run(record), RunInputs.of(record)
        parameters = record["parameters"]
        if options is None or inputs is None or not inputs.files:
            raise UsageError(
                f"{run} has no files whose near-duplicates were found: decisions are obeyed by "
                "neardup dedup --decisions, and by neardup.dedup of documents in memory"
            )
        if options.vectors is not None and options.vectors.embed is not None:
            # A folder may come from elsewhere: what it says does not decide which code is run.
            raise UsageError(
                f"the vectors of {run} were made by a function, and none is called because a file "
                f"names it: run neardup dedup --embed {options.vectors.embed} --decisions"
            )
        given: Any = {
            name: parameters[name]
            for name in InputOptions.__annotations__
            if parameters.get(name) is not None
        }
        job = Job(
            inputs=inputs.files,
            out=out,
            options=options.uncounted,
            columns=inputs.reading.columns,
            workers=1,
            input_options=given,
            max_rejected=parameters["max_rejected"],
            pairs=parameters["pairs"],
            kept=parameters["kept_files"],
            strict=parameters["strict"],
            skip_bad_files=parameters["skip_bad_files"],
            against=to_earlier(parameters["against"]),
            prefer=parameters["prefer"],
            save_sketches=parameters["save_sketches"],
            annotate=parameters.get("annotate"),
            keep_full=parameters["keep_full"],
            merge_rows=bool(parameters["merge_rows"]),
            key=key,
            centre=read_centre_file(run),
            repeats=run,
            finish=lambda folder: write_report(folder, out.resolve().name),
            shard=inputs.reading.shard,
            chunk=inputs.reading.chunk,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise FormatError(
            f"{run / RUN_FILE} does not say how the run was made ({type(error).__name__}): run "
            "neardup dedup --decisions"
        ) from None
    inputs.check(inputs.files)
    return job
