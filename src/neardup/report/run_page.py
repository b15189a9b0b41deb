"""report.html: a finished run as one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from neardup.formats import tables
from neardup.report import plots, sections
from neardup.report.clusters import ClusterFigures, clusters_section, group_samples
from neardup.report.html import Html, make_page
from neardup.report.run_folder import (
    Row,
    RunRecord,
    RunTable,
    read_record,
    similarity_counts,
    size_counts,
    smallest_positions,
)

REPORT: Final = "report.html"
LARGEST: Final = 10
CLOSEST: Final = 5
REJECTED: Final = 10


def write_report(run: Path, title: str | None = None) -> Path:
    """Make RUN/report.html of a finished run, and say where it is.

    The title is the run's name, unless it is going to be moved to another place.
    """
    path = run / REPORT
    tables.write_text(path, run_page(run, title or run.resolve().name))
    return path


def run_page(run: Path, title: str) -> Html:
    """The whole report."""
    record = read_record(run)
    parts = dict(sections_of(run, record))
    return make_page(
        f"{title}: neardup report",
        sections.overview(record, parts),
        *parts.values(),
        script=plots.explorer_script() if sections.has_explorer(record) else None,
    )


def sections_of(run: Path, record: RunRecord) -> Iterator[tuple[str, Html]]:
    """What there is to say about such a run, by the names of the parts."""
    if not record.is_exact:
        yield "similarity", sections.candidates(record, removals(run, record))
    if record.cut is not None:
        unit = record.spec.get("unit", "part")
        yield "cut", sections.cut(record.cut, unit, most_cut(run))
    yield "clusters", clusters_section(largest_clusters(run))
    if not record.is_exact:
        yield "buckets", sections.hot_buckets(record.buckets)
    yield "rejected", sections.rejected(record, rejected(run, record))
    yield "resources", sections.resources(record)
    yield "settings", sections.settings(record)


def removals(run: Path, record: RunRecord) -> sections.Removals:
    table = RunTable(run / "removed.parquet", tables.REMOVED, record.counts.removed)
    closest = smallest_positions(table.numbers("similarity"), CLOSEST)
    return sections.Removals(
        similarity_counts(table.numbers("similarity")),
        [row for row in table.at(closest) if row["similarity"] < 1.0],
    )


def most_cut(run: Path) -> list[Row]:
    table = RunTable(run / "cut.parquet", tables.CUT)
    return table.at(smallest_positions((-sizes for sizes in table.numbers("bytes")), LARGEST))


def largest_clusters(run: Path) -> ClusterFigures:
    table = RunTable(run / "clusters.parquet", tables.CLUSTERS)
    largest = table.at(smallest_positions((-sizes for sizes in table.numbers("size")), LARGEST))
    return ClusterFigures(
        size_counts(table.numbers("size")),
        largest,
        samples(run, {int(row["cluster"]) for row in largest}),
    )


def samples(run: Path, wanted: set[int]) -> dict[int, list[Row]] | None:
    path = run / "samples.parquet"
    if not path.exists():
        return None
    return group_samples(RunTable(path, tables.SAMPLES).each(), wanted)


def rejected(run: Path, record: RunRecord) -> list[Row]:
    table = RunTable(run / "rejected.parquet", tables.REJECTED, record.counts.rejected)
    return table.first(REJECTED)
