"""report.html: a finished run as one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Final

from neardup.formats import tables
from neardup.report import plots, sections
from neardup.report.differences import side_by_side
from neardup.report.html import Html, document, make_page, note, table, tag
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
COPIES: Final = 3


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


@dataclass(frozen=True)
class ClusterFigures:
    """How large the clusters are, and the largest ones; `samples` holds texts by cluster."""

    sizes: dict[tuple[int, int], int]
    largest: list[Row]
    samples: dict[int, list[Row]] | None


def group_samples(rows: Iterable[Row], wanted: set[int]) -> dict[int, list[Row]]:
    """The sampled documents of the wanted clusters; rows of one cluster are together."""
    by_cluster = groupby(rows, key=lambda row: int(row["cluster"]))
    return {
        cluster: list(islice(texts, COPIES + 1))
        for cluster, texts in by_cluster
        if cluster in wanted
    }


def clusters_section(found: ClusterFigures) -> Html:
    if not found.largest:
        return sections.section("clusters", note("No document has a copy."))
    most = max(found.sizes.values())
    rows = (
        (
            f"{low:,}" if low == high else f"{low:,} to {high:,}",
            f"{count:,}",
            plots.bar(plots.log_share(count, most)),
        )
        for (low, high), count in found.sizes.items()
    )
    sizes = table(
        "Cluster sizes",
        ("documents", "clusters", "on a logarithmic scale"),
        rows,
        {"documents", "clusters"},
    )
    return sections.section(
        "clusters",
        note("A cluster is a kept document and those that were removed for it."),
        sizes,
        tag("h3", "The largest, side by side"),
        *_cluster_notes(found),
        *(_cluster(place, row, found.samples or {}) for place, row in enumerate(found.largest, 1)),
    )


def _cluster_notes(found: ClusterFigures) -> Iterator[Html]:
    if found.samples is None:
        yield note("The texts are not there: this run has no samples.parquet.")
    else:
        yield note(
            "Words in only one of the two texts are marked, also those that differ in "
            "case or punctuation, which may not count for the similarity. What is equal "
            "is folded."
        )


def _cluster(place: int, row: Row, samples: dict[int, list[Row]]) -> Html:
    size, texts = row["size"], samples.get(row["cluster"], [])
    copies = "1 copy" if size == 2 else f"{size - 1:,} copies"
    title = tag("h4", f"{place}. ", document(row["id"], row["file"], row["row"], copies))
    kept = next((sample["text"] for sample in texts if sample["kept"]), None)
    gone = islice((sample for sample in texts if not sample["kept"]), COPIES)
    return tag("article", title, *(_copy(kept, sample, n == 0) for n, sample in enumerate(gone)))


def _copy(kept: str | None, sample: Row, unfolded: bool) -> Html:
    summary = tag(
        "summary",
        tag("span", f"{sample['similarity']:.4f}", class_="number"),
        " ",
        document(sample["id"], sample["file"], sample["row"]),
    )
    if kept is None or sample["text"] is None:
        body = iter([note("The text could not be read again.")])
    else:
        body = side_by_side(kept, sample["text"], ("kept", "removed"))
    return tag("details", summary, *body, open=unfolded)
