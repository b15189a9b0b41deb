"""The list of all clusters in report.html, largest first, with a search by id.

The list is part of the page, up to a number of clusters and of characters; a script (`clusters.js`)
shows it in pages, and without scripts it is shown whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from neardup.formats import tables
from neardup.report.html import Html, join, name, note, table, tag
from neardup.report.run_folder import ReportedCounts, Row, RunTable, smallest_positions

MOST_CLUSTERS: Final = 2_000
MOST_COPIES: Final = 5
"""Copies of a cluster whose ids are listed, and can be searched for."""
MOST_CHARACTERS: Final = 250_000
"""Of the list in the page: a page of a run with long ids is not much larger."""


COMMAND: Final = "neardup why RUN ID"


def list_script() -> Html:
    """Return the script of a page with a list of clusters."""
    return Html(Path(__file__).with_name("clusters.js").read_text("utf-8"))


def cluster_list(run: Path, counts: ReportedCounts, keeps_none: bool = False) -> Html:
    """Return the list of the clusters of a run.

    Args:
        run: The folder of the run.
        counts: What run.json states.
        keeps_none: Whether the first document of a cluster was removed, too.
    """
    clusters = RunTable(run / "clusters.parquet", tables.CLUSTERS)
    total = sum(len(sizes) for sizes in clusters.numbers("size"))
    places = smallest_positions((-sizes for sizes in clusters.numbers("size")), MOST_CLUSTERS)
    listed = clusters.select(sorted(places), ["cluster", "id", "file", "row", "size"])
    largest = sorted(listed, key=lambda row: (-row["size"], row["cluster"]))
    copies = _copies(run, counts, largest)
    rows = list(_fitting(_row(row, copies.get(int(row["cluster"]), [])) for row in largest))
    complete = len(rows) == total and all(row["size"] - 1 <= MOST_COPIES for row in largest)
    missing = "not all ids are in it"
    if complete:
        missing = "a document that is kept without copies, or is rejected, is in none"
    return tag(
        "details",
        tag("summary", f"All clusters: {total:,}"),
        _explained(len(rows), total),
        tag(
            "div",
            _controls(),
            table(
                "All clusters",
                ("documents", "removed too" if keeps_none else "kept", "removed"),
                rows,
                {"documents"},
            ),
            class_="list",
            data_missing=f"{missing}: {COMMAND}",
        ),
        open=False,
    )


def _copies(run: Path, counts: ReportedCounts, clusters: list[Row]) -> dict[int, list[str]]:
    """Return the ids of the first copies of these clusters, without those that name them."""
    removals = RunTable(run / "removed.parquet", tables.REMOVED, counts.removed)
    names = {int(row["cluster"]): (row["file"], row["row"]) for row in clusters}
    room = dict.fromkeys(names, MOST_COPIES)
    wanted = np.array(sorted(names), np.int64)
    positions: list[int] = []
    start = 0
    for batch in removals.numbers("cluster", counts.dropped and -1):
        for place in np.flatnonzero(np.isin(batch, wanted)).tolist():
            cluster = int(batch[place])
            if room[cluster]:
                room[cluster] -= 1
                positions.append(start + place)
        start += len(batch)
    found: dict[int, list[str]] = {}
    for row in removals.select(positions, ["cluster", "id", "file", "row"]):
        if (row["file"], row["row"]) != names[int(row["cluster"])]:
            found.setdefault(int(row["cluster"]), []).append(row["id"])
    return found


def _row(row: Row, copies: list[str]) -> tuple[str, Html, Html]:
    shown: list[str] = []
    for id in copies:
        shown += [*([", "] if shown else []), name(id)]
    more = row["size"] - 1 - len(copies)
    if more:
        shown.append(f" and {more:,} more")
    return f"{row['size']:,}", name(row["id"]), join(shown)


def _fitting(rows: Iterable[tuple[str, Html, Html]]) -> Iterator[tuple[str, Html, Html]]:
    """Yield rows until they have MOST_CHARACTERS."""
    room = MOST_CHARACTERS
    for row in rows:
        room -= sum(map(len, row))
        if room < 0:
            return
        yield row


def _explained(listed: int, total: int) -> Html:
    which = "All clusters are listed" if listed == total else f"The {listed:,} largest are listed"
    return note(
        f"{which}, with up to {MOST_COPIES} of the removed documents each; clusters.parquet and "
        f"removed.parquet have all. To explain the decision about a document: {COMMAND}"
    )


def _controls() -> Html:
    search = tag("label", "search by id ", Html('<input type="search">'))
    buttons = (tag("button", word, type="button") for word in ("back", "next"))
    return tag("fieldset", search, *buttons, tag("output", aria_live="polite"), hidden=True)
