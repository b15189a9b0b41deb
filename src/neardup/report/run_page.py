"""report.html: the report of a finished run, one file that loads nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from neardup.formats import tables
from neardup.formatting import format_similarity
from neardup.report import plots, sections
from neardup.report.cluster_list import cluster_list, list_script
from neardup.report.differences import side_by_side
from neardup.report.html import Html, document, make_page, note, shorten, table, tag
from neardup.report.run_folder import (
    Row,
    RunRecord,
    RunTable,
    read_record,
    similarity_counts,
    size_counts,
    smallest_positions,
)
from neardup.wording import describe_decisions

REPORT: Final = "report.html"
LARGEST: Final = 10
"""Clusters, and documents that were cut, that are listed."""
CLOSEST: Final = 5
REJECTED: Final = 10
DECIDED: Final = 20
Reals = NDArray[np.float64]
ABSENT: Final = 2.0
"""Stands for the similarity of a document that has no witness: more than any."""
COPIES: Final = 3
"""Copies of a cluster whose texts are shown."""


def write_report(run: Path, title: str | None = None) -> Path:
    """Write RUN/report.html for a finished run, and return its path.

    Args:
        run: the folder of the run.
        title: the title of the page, for a folder that will be renamed; its name by default.
    """
    path = run / REPORT
    tables.write_text(path, run_page(run, title or run.resolve().name))
    return path


def run_page(run: Path, title: str) -> Html:
    """Return the complete page."""
    record = read_record(run)
    parts = dict(sections_of(run, record))
    return make_page(
        f"{title}: neardup report",
        sections.overview(record, parts),
        *parts.values(),
        script=_scripts(record, parts["clusters"]),
    )


def _scripts(record: RunRecord, clusters: Html) -> Html | None:
    """Return the scripts of the page as one; None if it needs none."""
    needed = []
    if sections.has_explorer(record):
        needed.append(plots.explorer_script())
    if "data-missing=" in clusters:
        needed.append(list_script())
    return Html("\n".join(needed)) if needed else None


def sections_of(run: Path, record: RunRecord) -> Iterator[tuple[str, Html]]:
    """Yield the sections that apply to this kind of run, each with its anchor."""
    if not record.is_exact:
        yield "similarity", sections.candidates(record, removals(run, record))
    if record.sources.count > 1:
        yield "sources", sections.by_source(record.sources)
    if record.cut is not None:
        unit = record.spec.get("unit", "part")
        yield "cut", sections.cut(record.cut, unit, most_cut(run))
    if record.counts.vetoed is not None:
        yield "vetoed", vetoed_section(run, record)
    figures = largest_clusters(run, of_vectors=record.of_vectors)
    if record.decisions is not None:
        yield "decisions", decisions_section(run, record.decisions)
    none = sections.keeps_none(record)
    listed = cluster_list(run, record.counts, none) if figures.largest else Html()
    yield "clusters", clusters_section(figures, listed, none)
    if not record.is_exact:
        yield "buckets", sections.hot_buckets(record.buckets)
    yield "rejected", sections.rejected(record, rejected(run, record))
    yield "resources", sections.resources(record)
    yield "settings", sections.settings(record)


def removals(run: Path, record: RunRecord) -> sections.Removals:
    """Read the similarities of the removed documents, and the least similar ones."""
    counts = record.counts
    table = RunTable(run / "removed.parquet", tables.REMOVED, counts.removed)
    absent = counts.dropped and ABSENT
    margins = table.numbers("similarity", absent)
    if record.has_two_signals:
        margins = _margins(table, record, absent)
    closest = smallest_positions(margins, CLOSEST)
    closest = closest[: counts.removed - (counts.dropped or 0)]
    return sections.Removals(
        similarity_counts(table.numbers("similarity", absent)),
        [row for row in table.at(closest) if row["similarity"] < 1.0],
        table.tally("by") if record.has_two_signals else {},
        similarity_counts(table.numbers("cosine", ABSENT)) if record.has_two_signals else None,
    )


def _margins(table: RunTable, record: RunRecord, absent: float | None) -> Iterator[Reals]:
    """Yield by how much the removed documents reach the thresholds of the two signals.

    Args:
        table: The removed documents.
        record: The run.
        absent: What stands for a similarity that is missing.
    """
    signal = record.vectors
    assert signal is not None  # noqa: S101  # the caller has two signals
    of_both = np.maximum if signal.finds else np.minimum
    similarities = table.numbers("similarity", absent)
    for similarity, cosine in zip(similarities, table.numbers("cosine", ABSENT), strict=True):
        yield of_both(similarity - (record.threshold or 0.0), cosine - signal.threshold)


def most_cut(run: Path) -> list[Row]:
    """Read the documents that lost the most bytes."""
    table = RunTable(run / "cut.parquet", tables.CUT)
    return table.at(smallest_positions((-sizes for sizes in table.numbers("bytes")), LARGEST))


def largest_clusters(run: Path, of_vectors: bool = False) -> ClusterFigures:
    """Read the sizes of all clusters, and the largest ones with their sampled texts.

    Args:
        run: The folder of the run.
        of_vectors: Whether vectors alone were compared, so that no text was read.
    """
    table = RunTable(run / "clusters.parquet", tables.CLUSTERS)
    largest = table.at(smallest_positions((-sizes for sizes in table.numbers("size")), LARGEST))
    return ClusterFigures(
        size_counts(table.numbers("size")),
        largest,
        None if of_vectors else samples(run, {int(row["cluster"]) for row in largest}),
        of_vectors,
    )


def samples(run: Path, clusters: set[int]) -> dict[int, list[Row]] | None:
    """Read the sampled texts of these clusters; None if the run has none."""
    path = run / "samples.parquet"
    if not path.exists():
        return None
    return group_samples(RunTable(path, tables.SAMPLES).each(), clusters)


def rejected(run: Path, record: RunRecord) -> list[Row]:
    """Read the first rejected documents."""
    table = RunTable(run / "rejected.parquet", tables.REJECTED, record.counts.rejected)
    return table.first(REJECTED)


@dataclass(frozen=True)
class ClusterFigures:
    """The clusters of a run.

    Attributes:
        sizes: the number of clusters by range of sizes (smallest, largest).
        largest: the rows of the largest clusters.
        samples: texts by cluster; None if the run has no samples.parquet, or has read no texts.
        of_vectors: whether it has read none, because vectors alone were compared.
    """

    sizes: dict[tuple[int, int], int]
    largest: list[Row]
    samples: dict[int, list[Row]] | None
    of_vectors: bool = False


def group_samples(rows: Iterable[Row], clusters: set[int]) -> dict[int, list[Row]]:
    """Return the sampled documents of these clusters. Rows of one cluster are adjacent."""
    by_cluster = groupby(rows, key=lambda row: int(row["cluster"]))
    return {
        cluster: list(islice(texts, COPIES + 1))
        for cluster, texts in by_cluster
        if cluster in clusters
    }


def clusters_section(figures: ClusterFigures, listed: Html, keeps_none: bool = False) -> Html:
    """Return the section about cluster sizes, with the largest clusters side by side.

    Args:
        figures: The clusters of the run.
        listed: The list of all of them.
        keeps_none: Whether the first document of a cluster was removed, too.
    """
    if not figures.largest:
        return sections.section("clusters", note("No document has a copy."))
    most = max(figures.sizes.values())
    rows = (
        (
            f"{low:,}" if low == high else f"{low:,} to {high:,}",
            f"{count:,}",
            plots.bar(plots.log_share(count, most)),
        )
        for (low, high), count in figures.sizes.items()
    )
    sizes = table(
        "Cluster sizes",
        ("documents", "clusters", "on a logarithmic scale"),
        rows,
        {"documents", "clusters"},
    )
    return sections.section(
        "clusters",
        note(
            "A cluster is a document and its copies, all of which were removed."
            if keeps_none
            else "A cluster is a kept document and the documents that were removed as its copies."
        ),
        sizes,
        listed,
        tag("h3", "The largest, side by side"),
        _cluster_note(figures),
        *(
            _cluster(place, row, figures.samples or {}, keeps_none)
            for place, row in enumerate(figures.largest, 1)
        ),
    )


def vetoed_section(run: Path, record: RunRecord) -> Html:
    """Return the section about documents that are kept because of an option, with texts."""
    count, given = record.counts.vetoed, f"--distinguish {record.parameters['distinguish']}"
    if record.parameters.get("role") == "unless":
        given = f"--unless {record.parameters['vectors']}:{record.parameters['cosine']}"
    path = run / "vetoed-samples.parquet"
    rows = list(RunTable(path, tables.SAMPLES).each()) if path.exists() else []
    shown = group_samples(rows, {int(row["cluster"]) for row in rows})
    are = "document is" if count == 1 else "documents are"
    return sections.section(
        "vetoed",
        note(
            f"{count:,} {are} kept that would be removed without {shorten(given)}; "
            "vetoed.parquet lists them with their witnesses."
        ),
        *(_vetoed(*texts) for texts in shown.values() if len(texts) > 1),
    )


def decisions_section(run: Path, counts: Mapping[str, int]) -> Html:
    """Return the section about the decisions of people that were obeyed, with the first ones.

    Args:
        run: The folder of the run.
        counts: How many decisions there are, and documents that they are about.
    """
    decided = RunTable(run / "decided.parquet", tables.DECIDED, counts["documents"])
    first = range(min(counts["documents"], DECIDED))
    rows = [
        (document(row["id"], row["file"], row["row"]), row["outcome"], shorten(row["decisions"]))
        for row in decided.select(first, ["id", "file", "row", "outcome", "decisions"])
    ]
    heads = ("document", "outcome", "decisions")
    return sections.section(
        "decisions",
        note(
            f"{describe_decisions(counts)}. Decisions go before the comparison; decided.parquet "
            "lists all documents that they name, removed.parquet names those that removed one."
        ),
        *([table("Decisions", heads, rows)] if rows else []),
    )


def _vetoed(witness: Row, sample: Row, *_: Row) -> Html:
    title = tag("h4", document(witness["id"], witness["file"], witness["row"]))
    return tag("article", title, _copy(witness["text"], sample, True, ("kept", "also kept")))


def _cluster_note(figures: ClusterFigures) -> Html:
    if figures.of_vectors:
        return note("Texts are not shown: vectors alone were compared, and no text was read.")
    if figures.samples is None:
        return note("Texts are not shown: this run has no samples.parquet.")
    return note(
        "Words that are in only one of the two texts are marked. Differences in case or "
        "punctuation are marked too, although they may not count for the similarity. Equal "
        "passages are folded."
    )


def _cluster(place: int, row: Row, samples: dict[int, list[Row]], keeps_none: bool) -> Html:
    size, texts = row["size"], samples.get(row["cluster"], [])
    copies = "1 copy" if size == 2 else f"{size - 1:,} copies"
    title = tag("h4", f"{place}. ", document(row["id"], row["file"], row["row"], copies))
    kept = next((sample["text"] for sample in texts if sample["kept"]), None)
    removed = islice((sample for sample in texts if not sample["kept"]), COPIES)
    sides = ("removed too" if keeps_none else "kept", "removed")
    shown = (_copy(kept, sample, n == 0, sides) for n, sample in enumerate(removed))
    return tag("article", title, *shown)


def _copy(kept: str | None, sample: Row, unfolded: bool, sides: tuple[str, str]) -> Html:
    summary = tag(
        "summary",
        tag("span", format_similarity(sample["similarity"]), class_="number"),
        " ",
        document(sample["id"], sample["file"], sample["row"]),
    )
    if kept is None or sample["text"] is None:
        body = iter([note("The text could not be read again.")])
    else:
        body = side_by_side(kept, sample["text"], sides)
    return tag("details", summary, *body, open=unfolded)
