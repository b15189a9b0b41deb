"""neardup merge: several sets of saved sketches become one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def merge(
    sets: Annotated[
        list[Path],
        typer.Argument(
            metavar="SET...",
            help="Runs made with --save-sketches, or merged sets.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="OUT", help="The folder to write.", show_default=False),
    ],
) -> None:
    """Join saved sketches, to compare new documents with all of them by --against OUT.

    The sketches are checked; they take no further space where the disk allows two names for a file.
    """
    from neardup.pipeline import saved

    joined = saved.merge(sets, out)
    print(f"{len(joined.kept):,} documents, {int(joined.kept.sum()):,} of them kept; {out}")
