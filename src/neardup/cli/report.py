"""neardup report: a finished run as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="The folder that neardup dedup wrote.",
            show_default=False,
            readable=False,
        ),
    ],
    show: Annotated[bool, typer.Option("--open", help="Open the report in a browser.")] = False,
) -> None:
    """Make RUN/report.html: what was kept and removed and why, to look at.

    It is one file that needs nothing else, no network either.
    """
    from neardup.report.page import write_report

    path = write_report(run)
    print(path)
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
