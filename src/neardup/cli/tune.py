"""neardup tune: find the cheapest operating point with enough recall, on a sample of documents.

It prints a table of the trials that fits the terminal, and a recommendation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import (
    INPUT,
    MATCH,
    OUTPUT,
    RARE,
    GoldenClusters,
    GoldenPairs,
    Id,
    Inputs,
    Quiet,
    Text,
    Workers,
    flag,
    option,
    read_number,
)
from neardup.cli.console import make_console, print_json, progress_for
from neardup.cli.next_command import print_next
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputOptions
from neardup.formats.config import TUNED
from neardup.pipeline.budget import check_workers

if TYPE_CHECKING:
    from neardup.planner.label_choice import LabelChoice
    from neardup.planner.trial_cache import TrialCache
    from neardup.planner.tuning import TrialPoint, Tuning


AXES = "Axes: values separated by commas; every combination is tried"
FILES = ("tuning.json", "sweep.csv", TUNED, "tuning.html")
"""The files of a sweep; the first shows that the others are of a sweep."""


@with_options("neardup tune")
@with_input_options
def tune(
    inputs: Inputs,
    text: Text = "text",
    *,
    input_options: InputOptions,
    id: Id = None,
    golden: Annotated[
        Path | None,
        option(
            "FILE",
            "Labelled pairs (id1, id2, label) or clusters (id, cluster) of the documents: TSV, "
            "CSV, Parquet or Arrow. They choose the shingle and the threshold; --shingle and "
            "--threshold stay unless others are better on pairs that are held out.",
            default="none, --shingle and --threshold are given",
            panel=MATCH,
            readable=False,
        ),
    ] = None,
    pairs: GoldenPairs = None,
    clusters: GoldenClusters = None,
    sample: Annotated[
        int, option("N", "Try operating points on this many documents.", panel=INPUT)
    ] = 5_000,
    documents: Annotated[
        str | None,
        option(
            "N",
            "The number of documents of the whole corpus, if INPUT is a part of it: 300M. The "
            "cheapest point for few documents is not the cheapest for many.",
            default="those in INPUT",
            panel=INPUT,
        ),
    ] = None,
    compare: Annotated[
        str,
        option(
            "LIST",
            "Compare shingles, each with its threshold, such as char:5@0.5: which pairs does one "
            "find and the other not? none for no comparison; auto: with that of --preset short, if "
            "many documents are short.",
            panel=MATCH,
        ),
    ] = "auto",
    slots: Annotated[str, option("LIST", "Slots of a signature.", panel=AXES)] = "16,32,64,128,256",
    bands: Annotated[
        str,
        option(
            "LIST",
            "Bands and rows, such as 14x8,20x5; auto: those that reach the recall at the threshold "
            "with the given slots, and their neighbours.",
            panel=AXES,
        ),
    ] = "auto",
    sketches: Annotated[
        str, option("LIST", "Sketches: minhash, oneperm, weighted, simhash.", panel=AXES), RARE
    ] = "minhash,oneperm",
    shingles: Annotated[
        str | None,
        option(
            "LIST",
            "Shingles of the trials.",
            default="that of --shingle; with --golden word:5,word:3,word:2,char:9,char:5",
            panel=AXES,
        ),
        RARE,
    ] = None,
    thresholds: Annotated[
        str | None,
        option(
            "LIST",
            "Thresholds of the trials.",
            default="that of --threshold; with --golden 0.3 to 0.99",
            panel=AXES,
        ),
        RARE,
    ] = None,
    verify: Annotated[
        str, option("LIST", "How candidates are verified: exact, estimate, none.", panel=AXES), RARE
    ] = "exact",
    bits: Annotated[
        str | None,
        option(
            "LIST",
            "Bits of a slot, for --verify estimate: 1, 2, 4, 8, 16, 32.",
            default="all bits",
            panel=AXES,
        ),
        RARE,
    ] = None,
    buckets: Annotated[
        str | None,
        option(
            "LIST",
            "Limit the number of buckets of a band, to see the effect; a run has no such option.",
            default="no limit",
            panel=AXES,
        ),
        RARE,
    ] = None,
    vocabulary: Annotated[
        str | None,
        option(
            "LIST",
            "Limit the number of different shingles, to see the effect; a run has no such option.",
            default="no limit",
            panel=AXES,
        ),
        RARE,
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "OUT",
            "The folder to write: sweep.csv, tuning.json, tuning.html, and tuned.toml for neardup "
            "dedup --config.",
            "--out",
            "-o",
            default="print the table only",
            panel=OUTPUT,
            readable=False,
        ),
    ] = None,
    precision: Annotated[
        float,
        option(
            "X",
            "The share of the pairs found that must reach the threshold.",
            panel=MATCH,
            parser=read_number,
        ),
    ] = 0.99,
    force: Annotated[
        bool,
        flag(
            "Replace an earlier sweep in OUT; other files there are kept.", "--force", panel=OUTPUT
        ),
    ] = False,
    time_limit: Annotated[
        float,
        option(
            "SECONDS",
            "End a trial that takes longer; its row of the table has no figures.",
            panel=OUTPUT,
        ),
        RARE,
    ] = 60.0,
    cache: Annotated[
        list[Path] | None,
        option(
            "FOLDER",
            "The folder of the results of earlier trials, which are not run again; repeat it for "
            "several, each of which has a share.",
            default="the user's cache folder",
            panel=OUTPUT,
        ),
        RARE,
    ] = None,
    no_cache: Annotated[
        bool, flag("Run every trial, and store no results.", "--no-cache", panel=OUTPUT), RARE
    ] = False,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[
        bool,
        flag("Print the content of tuning.json instead of the table.", "--json", panel=OUTPUT),
    ] = False,
    **given: Any,
) -> None:
    """Try operating points on a sample of your documents, and recommend one.

    All pairs of the sample are compared, so that each trial's recall and precision are known. The
    cheapest trial that finds enough is recommended. Trials that were finished earlier are not run
    again. With --golden, labelled pairs choose the shingle and the threshold first.
    """
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs, say_notes
    from neardup.evaluation.operating_point import read_named
    from neardup.planner.sweep import SweepRequest
    from neardup.planner.tuner import (
        find_labelled,
        load_labels,
        run_sweep,
        sample_files,
        tune_by_labels,
    )
    from neardup.planner.vector_tuner import has_vectors

    axes = {
        "slots": slots,
        "bands": bands,
        "sketches": sketches,
        "shingles": shingles,
        "thresholds": thresholds,
        "verify": verify,
        "bits": bits,
        "buckets": buckets,
        "vocabulary": vocabulary,
    }
    if has_vectors(given):
        _tune_vectors(
            inputs,
            text,
            id,
            (golden, pairs, clusters),
            input_options,
            given,
            (out, force),
            workers,
            (quiet, as_json),
        )
        return
    request = SweepRequest.of(
        compare=compare,
        precision=precision,
        time_limit=time_limit,
        documents=documents,
        axes=axes,
        by_labels=golden is not None,
        **given,
    )
    labelled = load_labels(golden, pairs, clusters)
    threads = check_workers(workers)
    files = find_inputs(inputs, **input_options)
    if out is not None:
        make_folder(out, force)
    results = None if no_cache else open_cache(cache)
    with progress_for(quiet=quiet or as_json) as progress:
        say_notes(files, progress)
        if labelled is None:
            chosen = sample_files(files, text, sample, request.options, threads, progress)
            tuning = run_sweep(chosen, request, threads, progress, results)
        else:
            named = read_named(files, Columns(text=text, id=id), threads, progress)
            chosen, labels = find_labelled(named, labelled, sample, request.options)
            tuning = tune_by_labels(chosen, labels, request, threads, progress, results)
    if out is not None:
        write_sweep(tuning, out)
    print_tuning(tuning, as_json, quiet)
    if tuning.best.done and not (as_json or quiet):
        command = ["neardup", "dedup", *inputs, "-o", "OUT"]
        best = short_options(tuning) if out is None else out / TUNED
        print_next(command, text, id, input_options, best)


def _tune_vectors(
    inputs: list[str],
    text: str,
    id: str | None,
    golden: tuple[Path | None, str | None, str | None],
    input_options: InputOptions,
    given: dict[str, Any],
    target: tuple[Path | None, bool],
    workers: int | None,
    shown: tuple[bool, bool],
) -> None:
    """Choose the cosine of vectors by labels; write and print what was chosen.

    Args:
        inputs: The documents.
        text: The column of the texts.
        id: The column of the ids.
        golden: The file of labels, and the names of its columns for pairs and for clusters.
        input_options: How the inputs are read.
        given: The options about texts and vectors.
        target: The folder to write, and whether it may be replaced.
        workers: Threads.
        shown: Whether to print nothing, and whether to print JSON.
    """
    from neardup.corpus.documents import Columns
    from neardup.formats.config import write_config
    from neardup.formats.tables import write_json
    from neardup.option_table import given_options
    from neardup.planner.tuner import load_labels
    from neardup.planner.vector_tuner import tune_vectors

    (out, force), (quiet, as_json) = target, shown
    labelled, threads = load_labels(*golden), check_workers(workers)
    if out is not None:
        make_folder(out, force)
    with progress_for(quiet=quiet or as_json) as progress:
        tuning = tune_vectors(
            labelled,
            [Path(path) for path in inputs],
            Columns(text=text, id=id),
            input_options,
            given_options(given),
            threads,
            progress,
        )
    if out is not None:
        write_json(out / "tuning.json", tuning.to_json())
        write_config(out / TUNED, tuning.options, tuning.reasons)
    if as_json:
        print_json(tuning.to_json())
    elif not quiet:
        for line in tuning.reasons:
            print(line)
        best = tuning.options if out is None else out / TUNED
        print_next(["neardup", "dedup", *inputs, "-o", "OUT"], text, id, input_options, best)


def short_options(tuning: Tuning) -> dict[str, Any]:
    """Return the recommended options without those that a run would choose itself."""
    usual = {"verify", "slots", "bands", "rows"} if tuning.best is tuning.default else set()
    return {name: value for name, value in tuning.options.items() if name not in usual}


def open_cache(folders: list[Path] | None) -> TrialCache:
    """Return the results of earlier trials; refuse given folders that can't be written."""
    from neardup.planner.trial_cache import TrialCache

    results = TrialCache(*(folders or ()))
    if folders:
        results.must_be_writable()
    return results


def make_folder(out: Path, force: bool) -> None:
    """Make the folder; refuse one that can't be written, or holds other files of these names."""
    import tempfile

    from neardup.errors import OutputTaken, UsageError
    from neardup.formats.tables import write_error

    if out.suffix == ".toml":
        name = out.with_suffix("")
        raise UsageError(f"-o {out}: name a folder, such as {name}; its {TUNED} is the config file")
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise write_error(out, error) from None
    existing = [name for name in FILES if (out / name).exists()]
    if existing and not is_sweep(out / FILES[0]):
        raise OutputTaken(f"{out / existing[0]} is not from a sweep: choose another folder")
    if existing and not force:
        raise OutputTaken(f"{out} holds an earlier sweep: choose another folder, or use --force")


def is_sweep(path: Path) -> bool:
    """Return whether a file is the tuning.json of a sweep."""
    import json

    try:
        return {"trials", "reasons"} <= set(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError):
        return False


def write_sweep(tuning: Tuning, out: Path) -> None:
    """Write the files of a sweep."""
    from neardup.formats.config import write_config
    from neardup.formats.tables import write_json, write_text
    from neardup.report.tuning_page import tuning_page

    write_json(out / "tuning.json", tuning.to_json())
    tuning.to_csv(out / "sweep.csv")
    write_config(out / TUNED, tuning.options, [*tuning.labelled, *tuning.reasons])
    write_text(out / "tuning.html", tuning_page(tuning))


TABLE_WIDTH = 100
"""The columns of a table that is not shown on a terminal."""
WIDEST = 1_000
"""Wider than any table."""
OPTIONAL_COLUMNS = ("bucket", "pairs", "t_sig s", "t_rest s", "candidates", "MB")
"""The columns to leave out if the table is too wide, in this order; sweep.csv has all of them."""
VARYING: dict[str, Callable[[TrialPoint], str]] = {
    "bits": lambda point: str(point.bits),
    "shingle": lambda point: point.shingle,
    "threshold": lambda point: f"{point.threshold:g}",
    "verify": lambda point: point.verify,
    "buckets": lambda point: "" if point.buckets is None else str(point.buckets),
    "vocabulary": lambda point: "" if point.vocabulary is None else str(point.vocabulary),
}
"""Columns of the operating points that are shown if the points differ in them."""


def print_tuning(tuning: Tuning, as_json: bool, quiet: bool) -> None:
    """Print the table and the recommendation; JSON with `as_json`, nothing if quiet."""
    if as_json:
        print_json(tuning.to_json())
    elif not quiet:
        console = make_console(TABLE_WIDTH)
        if tuning.labels is not None and tuning.labels.tried:
            console.print(label_table(tuning.labels))
        for line in tuning.labelled:
            console.print(line)
        console.print(describe_sample(tuning))
        table, width = fit_table(tuning, console)
        terminal_width, console.width = console.width, max(console.width, width)
        console.print(table)
        console.width = terminal_width
        console.print(legend(tuning))
        for line in (*tuning.reasons, *tuning.compared):
            console.print(line)


def describe_sample(tuning: Tuning) -> str:
    """Describe the sample, its similar pairs, and the points that were not tried."""
    reference = tuning.reference
    pairs = f"{tuning.true_pairs:,} pairs are" if tuning.true_pairs else "no pair is"
    copies = f"; {tuning.copies:,} identical ones are left out" if tuning.copies else ""
    lines = [
        f"{tuning.about}{copies}.",
        f"Of the {tuning.sampled:,} that are left, {pairs} at least {reference.threshold:g} "
        f"similar ({reference.shingle} shingles, every pair compared).",
        *(f"Not tried: {many:,} x {why}." for why, many in tuning.pruned.items()),
    ]
    return "\n".join(lines)


def legend(tuning: Tuning) -> str:
    """Explain the marks and the columns of the table."""
    default = f"the default for a recall of {tuning.recall:g}"
    marks = f"> recommended, {default}" if tuning.best is tuning.default else "> recommended"
    if any(row is tuning.default is not tuning.best for row in tuning.ordered):
        marks = f"> recommended, d {default}"
    return f"{marks}; t_sig and t_rest of the sample, all s of all documents, on one core"


def label_table(labels: LabelChoice) -> Any:
    """Return a table with the held-out figures of each shingle that labels could choose."""
    from rich.table import Table

    from neardup.formatting import format_ratio

    heads = ("", "shingle", "threshold", "as good", "recall", "precision", "F1, held out")
    table = Table(*heads, box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    for one in labels.tried:
        used = labels.changed and one.shingle == labels.chosen.shingle
        low, high = one.as_good
        scores = one.held_out
        table.add_row(
            ">" if used else "",
            one.shingle,
            f"{one.threshold:g}",
            f"{low:g} to {high:g}",
            format_ratio(scores.recall.value),
            format_ratio(scores.precision.value),
            str(scores.f1),
            style="bold" if used else None,
        )
    return table


def fit_table(tuning: Tuning, console: Any) -> tuple[Any, int]:
    """Return the table with as many columns as the console has room for, and its width.

    It is wider than the console only if no more columns can be left out: no cell is cut.
    """
    for count in range(len(OPTIONAL_COLUMNS) + 1):
        table = trial_table(tuning, OPTIONAL_COLUMNS[:count])
        width = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
        if width <= console.width:
            break
    return table, width


def trial_table(tuning: Tuning, left_out: Collection[str]) -> Any:
    """Return a table with a row for each trial."""
    from rich.table import Table

    from neardup.report.tuning_page import FIGURES

    points = [row.point for row in tuning.rows]
    varying = [name for name, cell in VARYING.items() if len(set(map(cell, points))) > 1]
    shown = [name for name in FIGURES if name not in left_out]
    heads = ["", "sketch", "slots", "bands", *varying, *shown]
    table = Table(*heads, box=None, header_style="bold", padding=(0, 1, 0, 0))
    for column in table.columns:
        column.no_wrap = True
    for column in table.columns[2:]:
        column.justify = "right"
    for row in tuning.ordered:
        point, best = row.point, row is tuning.best
        mark = ">" if best else "d" if row is tuning.default else ""
        bands = "" if point.bands is None else f"{point.bands}x{point.rows}"
        cells = [mark, point.sketch, str(point.slots), bands]
        cells += [VARYING[name](point) for name in varying]
        cells += [FIGURES[name](row) for name in shown] if row.done else [row.status]
        table.add_row(*cells, style="bold" if best else None)
    return table
