"""neardup review: look at what a run has decided, in a browser, and decide otherwise."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

from neardup.cli.arguments import argument, flag, option
from neardup.cli.index import IndexKey, open_to_read
from neardup.cli.key_files import read_key
from neardup.cli.review_labels import LabelRequest, answer_request, open_label_desk

LABELS = "Labels"

if TYPE_CHECKING:
    from neardup.review.subject import ReviewSubject


def review(
    where: Annotated[
        str,
        argument(
            "RUN",
            "The folder that neardup dedup or exact wrote; the folder of an index, or its address "
            "on Redis; or the address of a service: http://HOST:PORT.",
        ),
    ],
    export: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the decisions to a .parquet or .jsonl file, and end.",
            default="none",
        ),
    ] = None,
    apply: Annotated[
        Path | None,
        option(
            "OUT",
            "Make the run again with the decisions, in the folder OUT, and end. RUN stays as it "
            "is; only what the decisions change is decided again.",
            default="none",
        ),
    ] = None,
    who: Annotated[
        str | None,
        option("NAME", "The name that decisions are stored under.", default="your login name"),
    ] = None,
    store: Annotated[
        Path | None,
        option(
            "FOLDER",
            "Where the decisions about an index on Redis are stored: a folder for it alone.",
            default="none",
        ),
    ] = None,
    port: Annotated[
        int,
        option("N", "The port; 0 takes a free one.", default="a free one", least=0, most=65_535),
    ] = 0,
    label: Annotated[
        int | None,
        option(
            "N",
            "Draw N pairs with known chances for you to label, blind, and begin with them.",
            default="none are drawn",
            panel=LABELS,
            least=20,
            most=10_000,
        ),
    ] = None,
    seen: Annotated[
        bool,
        flag("Show names, similarities and what the run has found, too.", "--seen", panel=LABELS),
    ] = False,
    export_labels: Annotated[
        Path | None,
        option(
            "FILE",
            "Write the labels, and end: a golden set (.csv, .parquet) or tasks of Label Studio "
            "(.json).",
            default="none",
            panel=LABELS,
        ),
    ] = None,
    labels_as: Annotated[
        str | None,
        option(
            "KIND",
            "What --export-labels writes: golden, label-studio or splink.",
            default="by the end of the name",
            panel=LABELS,
        ),
    ] = None,
    import_labels: Annotated[
        Path | None,
        option(
            "FILE",
            "Store the answers of tasks of Label Studio (.json) or of labels of Splink (.csv, "
            ".parquet), and end.",
            default="none",
            panel=LABELS,
        ),
    ] = None,
    agreement: Annotated[
        bool,
        flag("Print the figures and how far people agree, and end.", "--agreement", panel=LABELS),
    ] = False,
    no_open: Annotated[bool, flag("Print the address, and open no browser.", "--no-open")] = False,
    key_file: IndexKey = None,
) -> None:
    """Look at what was removed in a browser, and decide otherwise: pair by pair, or in bulk.

    The page is served on 127.0.0.1 to whoever opens the address that is printed, until Ctrl-C.
    Decisions are stored at once, in RUN/review, and outlive a new run in the same folder. A service
    has the page itself, behind an API key of scope admin.
    """
    if urlsplit(where).scheme in ("http", "https"):
        _go_to_service(where, opens_browser=not no_open)
        return
    asked = LabelRequest(label, seen, export_labels, labels_as, import_labels, agreement)
    if export is None and apply is None and not asked.ends:
        require_pages()
    with _open_subject(where, key_file, store) as subject:
        if export is not None:
            from neardup.review.desk import open_journal

            count = open_journal(subject).write(export)
            print(f"{export}: {count:,} decisions", file=sys.stderr)
        if apply is not None:
            _apply_decisions(subject, apply, key_file)
        if export is not None or apply is not None:
            return
        labels = open_label_desk(subject, asked)
        if labels is not None and answer_request(labels, asked, who):
            return
        from neardup.review.server import serve_review

        start = "" if label is None else "label"
        serve_review(subject, who, port, opens_browser=not no_open, labels=labels, start=start)


def _apply_decisions(subject: ReviewSubject, out: Path, key_file: Path | None) -> None:
    """Make a run again with what was decided about it."""
    from neardup.decided_run import apply_decisions
    from neardup.decisions import Decisions
    from neardup.errors import UsageError
    from neardup.review.desk import open_journal
    from neardup.review.run_subject import RunSubject

    if not isinstance(subject, RunSubject):
        raise UsageError("--apply is for runs: give the folder that neardup dedup wrote")
    decisions = Decisions.of(open_journal(subject).export())
    if not decisions:
        raise UsageError(f"nothing is decided about {subject.run}: neardup review {subject.run}")
    key = read_key(key_file)
    print(apply_decisions(subject.run, decisions, out, progress=True, key=key).summary())


@contextmanager
def _open_subject(where: str, key_file: Path | None, store: Path | None) -> Iterator[ReviewSubject]:
    """Open a finished run, or an index to read."""
    from neardup.errors import UsageError
    from neardup.index.folder import is_index
    from neardup.index.redis_store.address import is_redis
    from neardup.pipeline.output import is_run
    from neardup.pipeline.run_progress import no_run_error

    folder, on_redis = Path(where), is_redis(where)
    if store is not None and not on_redis:
        raise UsageError(f"--store is for an index on Redis: {where} has a folder for decisions")
    if on_redis or is_index(folder):
        from neardup.review.index_subject import NO_STORE, IndexSubject

        if on_redis and store is None:
            raise UsageError(NO_STORE)
        with open_to_read(where, key_file) as index:
            yield IndexSubject(index, store)
    elif is_run(folder):
        from neardup.review.run_subject import RunSubject

        yield RunSubject(folder, read_key(key_file))
    else:
        raise no_run_error(folder)


def _go_to_service(url: str, opens_browser: bool) -> None:
    """Open the page that a service has itself."""
    import webbrowser

    from neardup.review.browser import has_screen

    page = f"{url.rstrip('/').removesuffix('/review')}/review/"
    print(f"{page}\nThe service asks for an API key of scope admin.", file=sys.stderr)
    if opens_browser and has_screen():
        webbrowser.open(page)


def require_pages() -> None:
    """Refuse to run without the packages that serve pages."""
    from importlib.util import find_spec

    from neardup.errors import UsageError

    if not all(find_spec(name) for name in ("starlette", "uvicorn")):
        raise UsageError("neardup review needs more packages: pip install 'neardup[serve]'")
