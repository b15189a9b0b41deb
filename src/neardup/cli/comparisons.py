"""neardup compare-sketches, neardup hashes: sketches and hash functions measured side by side.

The sketches on a sample of the user's own documents, the hash functions on this machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from neardup.cli.arguments import Format, Inputs, Quiet, Text, TextProfile, Workers, check_workers

if TYPE_CHECKING:
    from neardup.evaluation.contest import Measured
    from neardup.evaluation.hashes import Figures, Theory


def compare_sketches(
    inputs: Inputs,
    text: Text = "text",
    format: Format = "auto",
    sample: Annotated[
        int,
        typer.Option(metavar="N", help="Look at so many documents, and at an edited copy of each."),
    ] = 2_000,
    threshold: Annotated[
        float, typer.Option(help="Pairs at least this similar are to be found.")
    ] = 0.8,
    recall: Annotated[
        float,
        typer.Option(help="The share of pairs exactly at the threshold that bands are chosen for."),
    ] = 0.99,
    shingle: Annotated[str, typer.Option(metavar="UNIT:SIZE", help="As in dedup.")] = "word:5",
    text_profile: TextProfile = "standard",
    seed: Annotated[int, typer.Option(help="Of the sample, the edits and the hashes.")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html", help="Also write a page with a plot.", show_default=False
        ),
    ] = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure every sketch on a sample of your documents, against brute force.

    Bytes, speed, error, recall and precision at the threshold, with sorted neighbourhood beside
    them as the way to do without.
    """
    from neardup.cli.progress import progress_for
    from neardup.corpus.documents import Columns
    from neardup.corpus.inputs import find_inputs
    from neardup.errors import ParameterError
    from neardup.evaluation.contest import CONTENDERS, Contest
    from neardup.evaluation.sample import choose, with_copies
    from neardup.formats.tables import write_text
    from neardup.spec import Spec, whole

    count = whole("--sample", sample, 2, 20_000)
    if plot is not None and not (plot.suffix == ".html" and plot.parent.is_dir()):
        raise ParameterError(
            f"--plot {plot}: give a name that ends in .html, in a folder that exists"
        )
    threads = check_workers(workers)
    spec = Spec.of(shingle, profile=text_profile)
    with progress_for(quiet=quiet or as_json) as progress:
        chosen = choose(
            find_inputs(inputs, format), Columns(text=text), count, seed, spec, progress, threads
        )
        texts = with_copies(chosen.texts, seed)
        progress.stage("comparing", len(CONTENDERS) + 3, "sketches")
        contest = Contest.of(
            texts,
            threshold,
            threads,
            recall=recall,
            shingle=shingle,
            text_profile=text_profile,
            seed=seed,
        )
        progress.advance(1)
        rows = []
        for row in contest.results():
            rows.append(row)
            progress.advance(1)
    about = (
        f"{len(texts):,} documents, half of them edited copies of the others "
        f"({chosen.about}); "
        f"{contest.truth.similar(threshold):,} pairs are at least {threshold:g} similar "
        f"({shingle} shingles, every pair compared)"
    )
    if plot is not None:
        from neardup.report.sketches import page

        write_text(plot, page(rows, about))
    print_sketches(rows, about, as_json, quiet)


def print_sketches(rows: list[Measured], about: str, as_json: bool, quiet: bool) -> None:
    """The table, on standard output."""
    if as_json:
        import json
        from dataclasses import asdict

        print(json.dumps({"about": about, "sketches": [asdict(row) for row in rows]}, indent=2))
    elif not quiet:
        from rich.console import Console
        from rich.table import Table

        from neardup.report.sketches import COLUMNS, MEANING, cells

        table = Table(*COLUMNS, box=None, header_style="bold")
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows:
            table.add_row(*cells(row))
        console = Console()
        table.columns[0].no_wrap = True
        console.print(about)
        console.print(table)
        console.print(MEANING)


def hashes(
    keys: Annotated[
        int,
        typer.Option(
            metavar="N", min=1_000, max=10_000_000, help="How many different words to hash."
        ),
    ] = 500_000,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.html",
            help="Also write a page with the figures as bars.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure hash functions: speed, avalanche, collisions and the longest chain of a table.

    The first four are those of neardup dedup --hash; the others are there for comparison.
    """
    from neardup.evaluation.hashes import buckets_for, measure, theory
    from neardup.formats.tables import write_text

    found, expected = measure(keys), theory(keys)
    about = f"{keys:,} different words; a table of {buckets_for(keys):,} buckets"
    if plot is not None:
        from neardup.report.hashes import page

        write_text(plot, page(found, expected, about))
    print_hashes(found, expected, about, as_json)


def print_hashes(found: list[Figures], expected: Theory, about: str, as_json: bool) -> None:
    """The table, on standard output."""
    if as_json:
        import json
        from dataclasses import asdict

        record = {"functions": [asdict(one) for one in found], "theory": asdict(expected)}
        print(json.dumps({"about": about} | record, indent=2))
        return
    from textwrap import fill

    from neardup.report.hashes import COLUMNS, MEANING, cells

    for row in (COLUMNS, *cells(found, expected)):
        print(f"{row[0]:18}" + "".join(f"{cell:>13}" for cell in row[1:]))
    for text in ("", f"{about}.", *MEANING):
        print(fill(text, 100))
