"""The overview of an index: how many copies it has, and how similar they are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from starlette.responses import Response

from neardup.explanation import describe_rule
from neardup.report.html import Html, note, tag
from neardup.report.run_folder import SIMILARITIES
from neardup.review.frame import share_bar
from neardup.review.index_subject import IndexSubject
from neardup.review.overview_page import show_beginning, show_shares, show_similarities
from neardup.review.visits import Visit


def show_index(visit: Visit) -> Response:
    """Show the overview of an index."""
    subject = visit.desk.subject
    assert isinstance(subject, IndexSubject)  # noqa: S101  # a subject is a run or an index
    visit.desk.index.begin()
    stats, rule = subject.opened.stats(), describe_rule(subject.opened.options)
    return visit.render(
        "Overview",
        tag("h1", f"{stats.copies:,} of {stats.documents:,} documents are copies"),
        show_shares([("kept", "kept", stats.kept), ("near", "copies", stats.copies)]),
        tag("p", f"A document is a copy if it is similar to one that was kept before it ({rule})."),
        show_beginning(visit),
        *_list_state(visit),
        *_similarities(visit, subject),
        at="",
    )


def _list_state(visit: Visit) -> Iterator[Html]:
    """Yield whether the list of clusters is there, and whether the index has changed since."""
    index = visit.desk.index
    if index.failure is not None:
        yield tag("p", str(index.failure), class_="refused")
    elif not index.is_ready:
        yield tag("p", "The list of clusters is being made.", class_="note")
        yield share_bar(index.done, f"{index.done:.0%} done")
        yield tag("p", tag("a", "Go on", href="", data_wait=True))
    elif index.is_stale:
        again = tag("button", "Make the list again")
        yield visit.action("renew", note("The index has changed since the list was made. "), again)


def _similarities(visit: Visit, subject: IndexSubject) -> Iterator[Html]:
    index, options = visit.desk.index, subject.opened.options
    counted = index.similarities() if index.is_ready else []
    if counted:
        values, weights = zip(*counted, strict=True)
        counts = np.histogram(values, SIMILARITIES, weights=weights)[0].astype(np.int64)
        yield show_similarities(options.meeting, options.threshold, counts)
