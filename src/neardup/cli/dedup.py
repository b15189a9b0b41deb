"""neardup dedup: files in, the files without near-duplicates out, with every decision."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from neardup.batch.record import Finished
    from neardup.options import Options

INPUT = "Input"
MATCH = "What counts as similar"
KEEP = "What is kept"
OUTPUT = "Output"

SHOWN_REASONS = 3


def dedup(
    inputs: Annotated[list[str], typer.Argument(
        metavar="INPUT",
        help="Files, folders or quoted globs: JSONL (.gz, .zst), Parquet, CSV/TSV, Arrow/Feather, "
        "or a folder of text files, one document a file.", show_default=False)],
    out: Annotated[Path, typer.Option(
        "--out", "-o", metavar="OUT", help="The folder to write.", show_default=False,
        readable=False)],
    text: Annotated[str, typer.Option(
        metavar="COLUMN", help="The column that holds the documents.",
        rich_help_panel=INPUT)] = "text",
    id: Annotated[str | None, typer.Option(
        metavar="COLUMN", help="The column that names them.  [default: id if there is one, else "
        "file:row]", show_default=False, rich_help_panel=INPUT)] = None,
    format: Annotated[str, typer.Option(
        help="auto, or the format of all inputs: jsonl, parquet, csv, tsv, arrow, text (every "
        "file is one document).", rich_help_panel=INPUT)] = "auto",
    strict: Annotated[bool, typer.Option(
        "--strict", help="Stop at the first document that can't be used, instead of setting it "
        "aside in rejected.parquet.", rich_help_panel=INPUT)] = False,
    skip_bad_files: Annotated[bool, typer.Option(
        "--skip-bad-files", help="Leave out files that can't be read, and list them in run.json, "
        "instead of stopping.", rich_help_panel=INPUT)] = False,
    threshold: Annotated[float, typer.Option(
        help="Documents at least this similar are duplicates: above 0, at most 1.",
        rich_help_panel=MATCH)] = 0.8,
    recall: Annotated[float, typer.Option(
        help="The share of pairs exactly at the threshold to find at least; bands and rows are "
        "chosen for it.", rich_help_panel=MATCH)] = 0.99,
    bands: Annotated[int | None, typer.Option(
        help="Use this many bands...", show_default=False, rich_help_panel=MATCH)] = None,
    rows: Annotated[int | None, typer.Option(
        help="...of this many rows, instead of choosing.", show_default=False,
        rich_help_panel=MATCH)] = None,
    slots: Annotated[int | None, typer.Option(
        help="Slots of a signature.  [default: 128]", show_default=False,
        rich_help_panel=MATCH)] = None,
    shingle: Annotated[str | None, typer.Option(
        metavar="UNIT:SIZE", help="What is compared: word:5, char:24, line:1, or token:5 for a "
        "column of token ids.  [default: word:5]", show_default=False,
        rich_help_panel=MATCH)] = None,
    text_profile: Annotated[str, typer.Option(
        help="conservative (case counts), standard, or aggressive (accents, digits and "
        "compatibility forms folded).", rich_help_panel=MATCH)] = "standard",
    preset: Annotated[str | None, typer.Option(
        help="A published operating point: fineweb (word:5, 14 x 8) or nemo (char:24, 20 x 13).",
        show_default=False, rich_help_panel=MATCH)] = None,
    seed: Annotated[int, typer.Option(
        help="Seed of all hashes.", rich_help_panel=MATCH)] = 0,
    verify: Annotated[str, typer.Option(
        help="exact Jaccard of the shingles, estimate from the signatures, or none.",
        rich_help_panel=MATCH)] = "exact",
    strip: Annotated[list[str] | None, typer.Option(
        metavar="WHAT", help="Ignore markup (html), or lines that are in more than a share of the "
        "documents (lines:0.1%). Can be given several times.", show_default=False,
        rich_help_panel=MATCH)] = None,
    within: Annotated[str | None, typer.Option(
        metavar="COLUMN", help="Compare only documents with the same value in this column.",
        show_default=False, rich_help_panel=MATCH)] = None,
    keep: Annotated[str, typer.Option(
        metavar="POLICY", help="Which copy stays: first, longest, max:COLUMN or min:COLUMN.",
        rich_help_panel=KEEP)] = "first",
    prefer: Annotated[str | None, typer.Option(
        metavar="GLOB", help="Copies in these inputs go before copies in the others.",
        show_default=False, rich_help_panel=KEEP)] = None,
    merge_rows: Annotated[str | None, typer.Option(
        metavar="COLUMN", help="Rows with the same value are one document, wherever they are.",
        show_default=False, rich_help_panel=INPUT)] = None,
    against: Annotated[list[Path] | None, typer.Option(
        metavar="PATH", help="Also remove what is similar to a document of an earlier run, of "
        "saved sketches or of these files, which are only read. Can be given several times.",
        show_default=False, rich_help_panel=KEEP)] = None,
    cluster: Annotated[str, typer.Option(
        help="stars: each removed document is similar to a kept one. components: whole chains "
        "are merged, without that promise.", rich_help_panel=KEEP)] = "stars",
    pairs: Annotated[bool, typer.Option(
        "--pairs", help="Also write pairs.parquet: all similar pairs, not only those that decided.",
        rich_help_panel=OUTPUT)] = False,
    no_kept: Annotated[bool, typer.Option(
        "--no-kept", help="Decide only, copy nothing.", rich_help_panel=OUTPUT)] = False,
    save_sketches: Annotated[bool, typer.Option(
        "--save-sketches", help="Keep the sketches in OUT, for --against and for other thresholds.",
        rich_help_panel=OUTPUT)] = False,
    force: Annotated[bool, typer.Option(
        "--force", help="Replace a finished run in OUT; other files there are left alone.",
        rich_help_panel=OUTPUT)] = False,
    memory: Annotated[str | None, typer.Option(
        metavar="SIZE", help="The most memory to use, such as 2GB.  [default: half of the free]",
        show_default=False, rich_help_panel=OUTPUT)] = None,
    workers: Annotated[int | None, typer.Option(
        help="Threads.  [default: one a core]", show_default=False,
        rich_help_panel=OUTPUT)] = None,
    quiet: Annotated[bool, typer.Option(
        "--quiet", "-q", help="Print nothing but errors.", rich_help_panel=OUTPUT)] = False,
    as_json: Annotated[bool, typer.Option(
        "--json", help="Print the content of run.json instead of the summary.",
        rich_help_panel=OUTPUT)] = False,
) -> None:  # fmt: skip
    """Remove near-duplicates from files and write what is kept, removed and why.

    OUT holds kept/ (same file names, formats and rows), removed.parquet,
    clusters.parquet, rejected.parquet, report.html and run.json. A run that was stopped goes on
    with the same command.
    """
    from neardup.cli.progress import progress_for
    from neardup.corpus.inputs import find_inputs
    from neardup.errors import ParameterError, UsageError
    from neardup.options import Options

    options = Options.of(
        preset=preset, shingle=shingle, slots=slots, text_profile=text_profile, seed=seed,
        threshold=threshold, recall=recall, bands=bands, rows=rows, verify=verify, keep=keep,
        cluster=cluster, strip=strip,
    )  # fmt: skip
    if workers is not None and workers < 1:
        raise ParameterError(f"--workers must be at least 1, not {workers}")
    found = find_inputs(inputs, format)
    with progress_for(quiet=quiet or as_json) as progress:
        progress.compile_kernels()
        from neardup.batch.budget import Budget, parse_size
        from neardup.batch.job import Job
        from neardup.batch.run import run
        from neardup.corpus.documents import Columns
        from neardup.report.page import write_report

        if merge_rows is not None and id is not None:
            raise UsageError("--merge-rows names the documents: leave out --id")
        columns = Columns(
            text=text, id=merge_rows or id, keep=options.keep_policy[1], within=within,
            tokens=options.spec.unit == "token",
        )  # fmt: skip
        finished = run(
            Job(
                inputs=found, out=out, options=options, columns=columns,
                workers=workers or usable_cores(), pairs=pairs, kept=not no_kept,
                folders=tuple(filter(os.path.isdir, inputs)), force=force, strict=strict,
                against=tuple(against or ()), prefer=prefer, save_sketches=save_sketches,
                merge_rows=merge_rows is not None,
                skip_bad_files=skip_bad_files, finish=write_report,
                budget=Budget(None if memory is None else parse_size(memory)),
            ),
            progress,
        )  # fmt: skip
    if as_json:
        # ASCII: what reads this may not know the encoding of a pipe.
        print(json.dumps(finished.record, indent=2))
    elif not quiet:
        sys.stdout.write(summary(finished, options, out))


def usable_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def summary(finished: Finished, options: Options, out: Path) -> str:
    """The end of a run, as a person sees it."""
    from neardup.result import counts_line, largest_line, method_line

    record = finished.record
    counts = {name: record["counts"][name] for name in
              ("documents", "kept", "removed", "identical", "rejected")}  # fmt: skip
    lines = [
        counts_line(**counts),
        method_line(options, record["predicted"]["recall_at_threshold"]),
    ]
    if finished.largest:
        lines.append(largest_line(finished.largest))
    for name, witness, similarity in finished.examples:
        lines.append(f"an example          {name} removed, {similarity:.2f} similar to {witness}")
    if record["reasons"]:
        shown = dict(islice(record["reasons"].items(), SHOWN_REASONS))
        reasons = [f"{count:,} {reason}" for reason, count in shown.items()]
        if more := counts["rejected"] - sum(shown.values()):
            reasons.append(f"{more:,} for other reasons")
        lines.append("rejected            " + "   ".join(reasons))
    if record["full_buckets"]["count"]:
        lines.append(
            f"hot buckets         {record['full_buckets']['count']:,} in which not every document "
            "was compared; run.json lists them"
        )
    seconds, memory = record["seconds"]["total"], record["peak_memory_bytes"] / 2**20
    if record["skipped_files"]:
        skipped = len(record["skipped_files"])
        lines.append(f"skipped             {skipped:,} bad files; run.json lists them")
    lines.append(f"{seconds:.1f} s, {memory:,.0f} MB at most; {out}/report.html shows it")
    return "\n".join(lines) + "\n"
