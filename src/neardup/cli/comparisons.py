"""neardup compare-sketches, neardup hashes: measure sketches and hash functions side by side.

Sketches are measured on a sample of the user's own documents, hash functions on this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import INPUT, OUTPUT, Inputs, PlainJson, Quiet, Text, Workers, option
from neardup.cli.console import print_json, progress_for
from neardup.cli.signatures import with_input_options, with_options
from neardup.corpus.inputs import InputOptions
from neardup.pipeline.budget import check_workers

if TYPE_CHECKING:
    from neardup.evaluation.hash_functions import HashFigures, RandomFunction
    from neardup.evaluation.sketch_comparison import SketchFigures

Plot = Annotated[
    Path | None,
    option("FILE.html", "Also write a page with plots.", default="no page", panel=OUTPUT),
]


@with_options("neardup compare-sketches")
@with_input_options
def compare_sketches(
    inputs: Inputs,
    text: Text = "text",
    *,
    input_options: InputOptions,
    sample: Annotated[
        int,
        option("N", "Measure on this many documents and an edited copy of each.", panel=INPUT),
    ] = 2_000,
    plot: Plot = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: PlainJson = False,
    **given: Any,
) -> None:
    """Measure every sketch on a sample of your documents, against brute force.

    Bytes, speed, error, recall and precision at the threshold, and those of sorted neighbourhood,
    a method without sketches.
    """
    from dataclasses import replace

    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs, say_notes
    from neardup.errors import ParameterError
    from neardup.evaluation.sample import add_edited_copies, choose_from_files
    from neardup.evaluation.sketch_comparison import VARIANTS, SketchComparison
    from neardup.formats.tables import write_text
    from neardup.options import Options
    from neardup.spec import check_whole

    count = check_whole("--sample", sample, 2, 20_000)
    if plot is not None and not (plot.suffix == ".html" and plot.parent.is_dir()):
        raise ParameterError(
            f"--plot {plot}: give a name that ends in .html, in a folder that exists"
        )
    threads = check_workers(workers)
    options = Options.of(**given)
    spec = replace(options.spec, seed=0)  # the sample does not depend on the seed of the hashes
    threshold, seed = options.threshold, options.spec.seed
    with progress_for(quiet=quiet or as_json) as progress:
        files = find_inputs(inputs, **input_options)
        say_notes(files, progress)
        chosen = choose_from_files(files, Columns(text=text), count, seed, spec, progress, threads)
        texts = add_edited_copies(chosen.texts, seed)
        progress.stage("comparing", len(VARIANTS) + 3, "sketches")
        comparison = SketchComparison.of(
            texts,
            threshold,
            threads,
            **{name: value for name, value in given.items() if name != "threshold"},
        )
        progress.advance(1)
        rows = []
        for row in comparison.results():
            rows.append(row)
            progress.advance(1)
    about = (
        f"{len(texts):,} documents, half of them edited copies of the others "
        f"({chosen.about}); "
        f"{comparison.truth.similar(threshold):,} pairs are at least {threshold:g} similar "
        f"({spec.shingle} shingles, every pair compared)"
    )
    if plot is not None:
        from neardup.report.comparison_pages import sketches_page

        write_text(plot, sketches_page(rows, about))
    print_sketches(rows, about, as_json, quiet)


def print_sketches(rows: list[SketchFigures], about: str, as_json: bool, quiet: bool) -> None:
    """Print the table of the sketches; JSON with `as_json`, nothing if quiet."""
    if as_json:
        from dataclasses import asdict

        print_json({"about": about, "sketches": [asdict(row) for row in rows]})
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        from neardup.report.comparison_pages import SKETCH_COLUMNS, SKETCH_MEANING, sketch_cells

        table = Table(*SKETCH_COLUMNS, box=None, header_style="bold")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*sketch_cells(row))
        console = Console()
        table.columns[0].no_wrap = True
        console.print(about)
        console.print(table)
        console.print(SKETCH_MEANING)


def hashes(
    keys: Annotated[
        int,
        option("N", "The number of different words to hash.", least=1_000, most=10_000_000),
    ] = 500_000,
    plot: Plot = None,
    as_json: PlainJson = False,
) -> None:
    """Measure hash functions: speed, avalanche, collisions and the longest chain of a table.

    The first four are those of neardup dedup --hash; the others are for comparison.
    """
    from neardup.evaluation.hash_functions import buckets_for, expect_of_random, measure_hashes
    from neardup.formats.tables import write_text

    figures, expected = measure_hashes(keys), expect_of_random(keys)
    about = f"{keys:,} different words; a table of {buckets_for(keys):,} buckets"
    if plot is not None:
        from neardup.report.comparison_pages import hashes_page

        write_text(plot, hashes_page(figures, expected, about))
    print_hashes(figures, expected, about, as_json)


def print_hashes(
    figures: list[HashFigures], expected: RandomFunction, about: str, as_json: bool
) -> None:
    """Print the table of the hash functions, or JSON."""
    if as_json:
        from dataclasses import asdict

        record = {"functions": [asdict(one) for one in figures], "theory": asdict(expected)}
        print_json({"about": about} | record)
        return
    from textwrap import fill

    from neardup.report.comparison_pages import HASH_COLUMNS, HASH_MEANING, hash_cells

    for row in (HASH_COLUMNS, *hash_cells(figures, expected)):
        print(f"{row[0]:18}" + "".join(f"{cell:>13}" for cell in row[1:]))
    for text in ("", f"{about}.", *HASH_MEANING):
        print(fill(text, 100))
