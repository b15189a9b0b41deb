"""neardup review: look at what a run has decided, in a browser, and decide otherwise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from neardup.cli.arguments import argument, flag, option


def review(
    run: Annotated[
        Path,
        argument("RUN", "The folder that neardup dedup or exact wrote.", readable=False),
    ],
    export: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the decisions to a .parquet or .jsonl file, and end.",
            default="none",
        ),
    ] = None,
    who: Annotated[
        str | None,
        option("NAME", "The name that decisions are stored under.", default="your login name"),
    ] = None,
    port: Annotated[
        int,
        option("N", "The port; 0 takes a free one.", default="a free one", least=0, most=65_535),
    ] = 0,
    no_open: Annotated[bool, flag("Print the address, and open no browser.", "--no-open")] = False,
) -> None:
    """Look at what a run has decided in a browser, and decide otherwise: pair by pair, or in bulk.

    The page is served on 127.0.0.1 to whoever opens the address that is printed, until Ctrl-C.
    Decisions are stored at once, in RUN/review, and outlive a new run in the same folder.
    """
    from neardup.pipeline.output import is_run
    from neardup.pipeline.run_progress import no_run_error

    if not is_run(run):
        raise no_run_error(run)
    if export is not None:
        from neardup.review.desk import open_journal
        from neardup.review.run_subject import RunSubject

        count = open_journal(RunSubject(run)).write(export)
        print(f"{export}: {count:,} decisions", file=sys.stderr)
        return
    require_pages()
    from neardup.review.run_subject import RunSubject
    from neardup.review.server import serve_review

    serve_review(RunSubject(run), who, port, opens_browser=not no_open)


def require_pages() -> None:
    """Refuse to run without the packages that serve pages."""
    from importlib.util import find_spec

    from neardup.errors import UsageError

    if not all(find_spec(name) for name in ("starlette", "uvicorn")):
        raise UsageError("neardup review needs more packages: pip install 'neardup[serve]'")
