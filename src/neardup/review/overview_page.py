"""The overview: how much was removed, of which sources, and how similar it was.

It is made from run.json and two columns of removed.parquet, not from the index, which is made in
the background after the page was first sent.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray
from starlette.responses import Response

from neardup.errors import FormatError
from neardup.lsh.curve import Meeting
from neardup.report import plots, sections
from neardup.report.html import Html, join, name, note, table, tag
from neardup.report.run_folder import RunRecord, similarity_counts
from neardup.review.frame import key_link, share_bar, stacked_bar
from neardup.review.run_subject import RunSubject
from neardup.review.visits import Visit, page_route
from neardup.source_counts import name_source

MOST_LISTED: Final = 50
BATCH: Final = 1 << 14


class RemovedFigures(NamedTuple):
    """Removed documents counted by the bins of `SIMILARITIES`, and by source."""

    similarities: NDArray[np.int64]
    by_source: Counter[str]


def count_removed(run: Path, source_of: Callable[[str], str]) -> RemovedFigures:
    """Count the removed documents of a run.

    Args:
        run: The folder of the run.
        source_of: Returns the source of a file.
    """
    path = run / "removed.parquet"
    counted: Counter[str] = Counter()

    def similarities(table: pq.ParquetFile) -> Iterator[NDArray[Any]]:
        for batch in table.iter_batches(BATCH, columns=["file", "similarity"], use_threads=False):
            for one in pc.value_counts(batch.column(0)).to_pylist():
                counted[source_of(one["values"])] += one["counts"]
            yield np.from_dlpack(batch.column(1).drop_null())

    try:
        with pa.OSFile(os.fsencode(path), "rb") as opened:
            table = pq.ParquetFile(opened, read_dictionary=["file"])
            return RemovedFigures(similarity_counts(similarities(table)), counted)
    except (OSError, pa.ArrowException) as error:
        raise FormatError(
            f"{path} is damaged ({type(error).__name__}): run neardup dedup again"
        ) from None


def show_overview(visit: Visit) -> Response:
    """Show the overview."""
    desk = visit.desk
    if not isinstance(desk.subject, RunSubject):
        from neardup.review.index_overview import show_index  # a review of a run does without it

        return show_index(visit)
    record = desk.record
    figures = count_removed(desk.run, desk.subject.tables.source_of)
    answer = visit.render(
        "Overview",
        tag("h1", sections.headline(record)),
        show_shares(sections.counted_parts(record)),
        *sections.rule(record),
        show_beginning(visit),
        *_unheeded(desk.subject),
        *_closer(record, figures),
        *_by_column(record),
        *_by_source(visit, record, figures),
        *_by_script(record),
        at="",
    )
    desk.index.begin()
    return answer


def show_shares(parts: Sequence[tuple[str, str, int]]) -> Html:
    """Return counts as a bar and as tiles.

    Args:
        parts: CSS class, name and count of each part.
    """
    bar = stacked_bar([(kind, count) for kind, _, count in parts])
    return join([bar, sections.tiles(parts)])


def show_beginning(visit: Visit) -> Html:
    """Return the link to the next pair, and how many decisions there are."""
    counts = visit.desk.journal.counts()
    decided = sum(counts.values())
    said = "Nothing is decided yet." if not decided else f"{decided:,} decisions so far."
    return tag(
        "p",
        key_link("g", "Go on" if decided else "Start the review", visit.url("next"), "primary"),
        " ",
        tag("span", f"{said} The least certain removals come first.", class_="note"),
    )


def _unheeded(subject: RunSubject) -> Iterator[Html]:
    """Yield that decisions can be stored and not applied, before anybody makes them."""
    if subject.unheeded:
        yield note(f"Decisions about this run can't be applied to it: {subject.unheeded}.")


def _closer(record: RunRecord, figures: RemovedFigures) -> Iterator[Html]:
    """Yield how similar the removed documents are to the kept ones."""
    if record.counts.removed and record.curve is not None and record.threshold is not None:
        yield show_similarities(record.curve, record.threshold, figures.similarities)


def show_similarities(curve: Meeting, threshold: float, counts: NDArray[np.int64]) -> Html:
    """Return the section about the similarities of removed documents.

    Args:
        curve: The probability that two documents are compared, by their similarity.
        threshold: The similarity from which documents are removed.
        counts: The removed documents in each bin of `SIMILARITIES`.
    """
    plot = plots.s_curve(curve, threshold, counts, "removed documents")
    said = (
        "The bars count the removed documents by their similarity to the kept one; the line is the "
        "probability that two documents of a similarity are compared at all."
    )
    return tag(
        "section",
        tag("h2", "Similarities"),
        tag("figure", plot, tag("figcaption", said), class_="narrow"),
    )


def _by_column(record: RunRecord) -> Iterator[Html]:
    """Yield how much of each value of the column of sources is gone, such as of each language."""
    sources = record.sources
    if sources.column is None:
        return
    rows = [
        _row(name(name_source(one.source)), one.documents, one.removed) for one in sources.listed
    ]
    if sources.others is not None:
        count = sources.count - len(sources.listed)
        shown = tag("em", f"{count:,} others together")
        rows.append(_row(shown, sources.others.documents, sources.others.removed))
    yield _source_table(f"By {sources.column}", rows)


def _by_source(visit: Visit, record: RunRecord, figures: RemovedFigures) -> Iterator[Html]:
    """Yield how much of each file or folder is gone, the most first."""
    if not figures.by_source:
        return
    documents: Counter[str] = Counter()
    for file in record.inputs:
        documents[visit.desk.subject.tables.source_of(file.file)] += file.documents
    most = figures.by_source.most_common(MOST_LISTED)
    rows = [
        # Documents of an earlier corpus are of no input.
        _row(
            tag("a", name(source), href=visit.url("clusters", source=source)),
            max(documents[source], removed),
            removed,
        )
        for source, removed in most
    ]
    more = len(figures.by_source) > len(most)
    yield _source_table(
        "By file or folder", rows, "Further sources are not listed." if more else ""
    )


def _row(shown: Html, documents: int, removed: int) -> tuple[str, ...]:
    share = removed / documents if documents else 0.0
    return shown, f"{documents:,}", f"{removed:,}", f"{share:.1%}", share_bar(share)


def _source_table(title: str, rows: Sequence[tuple[str, ...]], remark: str = "") -> Html:
    heads = ("source", "documents", "removed", "share", "how much is gone")
    listed = table(title, heads, rows, set(heads[1:4]))
    return tag("section", tag("h2", title), listed, *([note(remark)] if remark else []))


def _by_script(record: RunRecord) -> Iterator[Html]:
    listed = list(sections.by_script(record.scripts))
    if listed:
        yield tag("section", *listed)


ROUTES = [page_route("/", show_overview)]
