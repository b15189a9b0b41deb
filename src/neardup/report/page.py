"""How does a finished run's folder become report.html? One file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from neardup.formats import tables
from neardup.report import sections
from neardup.report.clusters import Clusters, clusters, sampled
from neardup.report.html import Html, tag
from neardup.report.record import Record, read_record
from neardup.report.tables import Row, Table, similarity_counts, size_counts, smallest

REPORT: Final = "report.html"
LARGEST: Final = 10
CLOSEST: Final = 5
REJECTED: Final = 10

# No script, no picture, no font, nothing from elsewhere: whatever a document holds, it is shown.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def write_report(run: Path) -> Path:
    """Make RUN/report.html of a finished run, and say where it is."""
    path = run / REPORT
    tables.write_text(path, page(run))
    return path


def page(run: Path) -> Html:
    """The whole report."""
    record = read_record(run)
    parts = (
        sections.overview(record),
        sections.candidates(record, removals(run, record)),
        clusters(largest_clusters(run)),
        sections.hot_buckets(record.buckets),
        sections.rejected(record, rejected(run, record)),
        sections.resources(record),
        sections.settings(record),
    )
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    head = (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", f"{run.resolve().name}: neardup report"),
        tag("style", Html(style)),
    )
    body = tag("body", tag("main", *parts))
    return Html(f"<!doctype html>\n{tag('html', tag('head', *head), body, lang='en')}\n")


def removals(run: Path, record: Record) -> sections.Removals:
    table = Table(run / "removed.parquet", tables.REMOVED, record.counts.removed)
    closest = smallest(table.numbers("similarity"), CLOSEST)
    return sections.Removals(
        similarity_counts(table.numbers("similarity")),
        [row for row in table.at(closest) if row["similarity"] < 1.0],
    )


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
