"""How does a finished run's folder become report.html? One file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from neardup.formats import tables
from neardup.report import curves, sections
from neardup.report.clusters import Clusters, clusters, sampled
from neardup.report.frame import whole
from neardup.report.html import Html
from neardup.report.record import Record, read_record
from neardup.report.tables import Row, Table, similarity_counts, size_counts, smallest

REPORT: Final = "report.html"
LARGEST: Final = 10
CLOSEST: Final = 5
REJECTED: Final = 10


def write_report(run: Path, title: str | None = None) -> Path:
    """Make RUN/report.html of a finished run, and say where it is.

    The title is the run's name, unless it is going to be moved to another place.
    """
    path = run / REPORT
    tables.write_text(path, page(run, title or run.resolve().name))
    return path


def page(run: Path, title: str) -> Html:
    """The whole report."""
    record = read_record(run)
    parts = dict(sections_of(run, record))
    return whole(
        f"{title}: neardup report",
        sections.overview(record, parts),
        *parts.values(),
        script=curves.script() if sections.has_explorer(record) else None,
    )


def sections_of(run: Path, record: Record) -> Iterator[tuple[str, Html]]:
    """What there is to say about such a run, by the names of the parts."""
    if not record.is_exact:
        yield "similarity", sections.candidates(record, removals(run, record))
    if record.cut is not None:
        unit = record.spec.get("unit", "part")
        yield "cut", sections.cut(record.cut, unit, most_cut(run))
    yield "clusters", clusters(largest_clusters(run))
    if not record.is_exact:
        yield "buckets", sections.hot_buckets(record.buckets)
    yield "rejected", sections.rejected(record, rejected(run, record))
    yield "resources", sections.resources(record)
    yield "settings", sections.settings(record)


def removals(run: Path, record: Record) -> sections.Removals:
    table = Table(run / "removed.parquet", tables.REMOVED, record.counts.removed)
    closest = smallest(table.numbers("similarity"), CLOSEST)
    return sections.Removals(
        similarity_counts(table.numbers("similarity")),
        [row for row in table.at(closest) if row["similarity"] < 1.0],
    )


def most_cut(run: Path) -> list[Row]:
    table = Table(run / "cut.parquet", tables.CUT)
    return table.at(smallest((-sizes for sizes in table.numbers("bytes")), LARGEST))


def largest_clusters(run: Path) -> Clusters:
    table = Table(run / "clusters.parquet", tables.CLUSTERS)
    largest = table.at(smallest((-sizes for sizes in table.numbers("size")), LARGEST))
    return Clusters(
        size_counts(table.numbers("size")),
        largest,
        samples(run, {int(row["cluster"]) for row in largest}),
    )


def samples(run: Path, wanted: set[int]) -> dict[int, list[Row]] | None:
    path = run / "samples.parquet"
    if not path.exists():
        return None
    return sampled(Table(path, tables.SAMPLES).each(), wanted)


def rejected(run: Path, record: Record) -> list[Row]:
    table = Table(run / "rejected.parquet", tables.REJECTED, record.counts.rejected)
    return table.first(REJECTED)
