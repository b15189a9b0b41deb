"""neardup demo, report, status, merge: try a run, look at one, join the sketches of several.

The demo runs on real data that every Python installation has: its standard library.
"""

from __future__ import annotations

import difflib
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from neardup.cli.arguments import Out, PlainJson, argument, flag
from neardup.cli.console import print_json, progress_for
from neardup.cli.signatures import with_options
from neardup.formatting import format_count, format_similarity

if TYPE_CHECKING:
    from neardup.corpus.inputs import InputFile


SHOWN_LINES = 12
"""The most lines of a difference that the demo shows."""


@with_options("neardup demo")
def demo(
    **given: Any,
) -> None:
    """Deduplicate the Python standard library's source files and show what was found."""
    import pyarrow.parquet as pq

    from neardup.options import Options

    library = Path(sysconfig.get_paths()["stdlib"])
    options = Options.of(**given)
    with tempfile.TemporaryDirectory() as folder, progress_for(quiet=False) as progress:
        from neardup.corpus.documents import Columns
        from neardup.pipeline.job import Job
        from neardup.pipeline.run import run_job
        from neardup.pipeline.run_summary import format_summary

        out = Path(folder) / "clean"
        job = Job(source_files(library), out, options, Columns(), workers=1, kept=False)
        finished = run_job(job, progress)
        removed = pq.ParquetFile(out / "removed.parquet").read(use_threads=False).to_pylist()
    sys.stdout.write(f"{library}, every .py file\n\n")
    sys.stdout.write(format_summary(finished, None).rsplit("\n", 2)[0] + "\n")
    families: dict[str, list[str]] = {}
    for row in removed:
        copy = f"{row['id']} ({format_similarity(row['similarity'], 2)})"
        families.setdefault(row["witness"], []).append(copy)
    for witness, copies in sorted(families.items(), key=lambda family: -len(family[1]))[:5]:
        more = f" and {len(copies) - 4} more" if len(copies) > 4 else ""
        print(f"\n{witness} is kept for\n    {', '.join(copies[:4])}{more}")
    near = [row for row in removed if row["similarity"] < 1.0]
    if near:
        show_difference(library, max(near, key=lambda row: (row["similarity"], row["id"])))
    print("\nYour own files: neardup dedup INPUT... -o OUT    (neardup dedup --help)")


def source_files(library: Path) -> list[InputFile]:
    """Return the source files of a library, each as one document; installed packages excluded."""
    from neardup.corpus.inputs import InputFile

    paths = sorted(
        path
        for path in library.rglob("*.py")
        if path.is_file() and "site-packages" not in path.parts and "__pycache__" not in path.parts
    )
    return [
        InputFile(
            path, str(path.relative_to(library)), path.relative_to(library).as_posix(), "text", None
        )
        for path in paths
    ]


def show_difference(library: Path, row: dict[str, Any]) -> None:
    """Print the lines in which a removed document differs from its witness."""
    kept, removed = (
        (library / str(row[name])).read_text("utf-8", "replace").splitlines()
        for name in ("witness", "id")
    )
    print(
        f"\nWhy was {row['id']} removed? It is {format_similarity(row['similarity'])} similar to "
        f"{row['witness']}:"
    )
    changed = (
        line
        for line in difflib.unified_diff(kept, removed, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    )
    for _, line in zip(range(SHOWN_LINES), changed, strict=False):
        print(f"    {line[:100]}")


def report(
    run: Annotated[
        Path,
        argument("RUN", "The folder that neardup dedup or exact wrote.", readable=False),
    ],
    show: Annotated[bool, flag("Open the report in a browser.", "--open")] = False,
) -> None:
    """Write RUN/report.html again: what was kept and removed, and why.

    The page is one file that needs neither other files nor a network.
    """
    from neardup.report.run_page import write_report

    path = write_report(run)
    print(path)
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())


def status(
    out: Annotated[Path, argument("OUT", "The folder that a run writes.")],
    as_json: PlainJson = False,
) -> None:
    """Show how far a run is: stage, rate, time left, memory; or that it stopped or finished."""
    from neardup.pipeline.run_progress import find_status

    found = find_status(out)
    if as_json:
        print_json(found.as_dict())
    else:
        print(found)


def merge(
    sets: Annotated[
        list[Path],
        argument("SET", "Runs made with --save-sketches, or merged sets."),
    ],
    out: Out,
) -> None:
    """Join saved sketches, to compare new documents with all of them by --against OUT.

    The sketches are checked. They are linked, not copied, where the file system allows it.
    """
    from neardup.pipeline.saved import merge_sketch_sets

    joined = merge_sketch_sets(sets, out)
    kept = int(joined.kept.sum())
    print(f"{format_count(len(joined.kept), 'document')}, {kept:,} of them kept; {out}")
