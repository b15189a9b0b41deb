"""The clusters of a run: their sizes, and the largest side by side with differences marked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from neardup.report import plots
from neardup.report.differences import (
    COMPARED,
    SHOWN,
    Hunk,
    TextComparison,
    TextPiece,
    compare_texts,
)
from neardup.report.html import Html, document, note, table, tag
from neardup.report.run_folder import Row
from neardup.report.sections import section

COPIES: Final = 3
EXCERPT: Final = 400


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
        return section("clusters", note("No document has a copy."))
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
    return section(
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


def side_by_side(kept: str, copy: str, sides: tuple[str, str]) -> Iterator[Html]:
    """Two texts side by side, each under its name, with what differs marked."""
    found = compare_texts(kept, copy)
    if not found.hunks:
        yield from _same(found, kept)
        return
    yield tag("div", *_hunks(found, sides), class_="differences")
    if not found.complete:
        yield note(
            f"There may be more: only the first {COMPARED:,} characters of the texts are "
            f"compared, and {SHOWN:,} shown."
        )


def _same(found: TextComparison, kept: str) -> Iterator[Html]:
    """Two texts without a difference are shown once."""
    where = "" if found.complete else f" in the first {COMPARED:,} characters"
    yield note(f"Word for word the same{where}.")
    more = "…" if len(kept) > EXCERPT else ""
    text = tag("div", f"{kept[:EXCERPT]}{more}", class_="text", dir="auto")
    yield tag("div", text, class_="differences same")


def _hunks(found: TextComparison, sides: tuple[str, str]) -> Iterator[Html]:
    yield tag("div", sides[0], class_="side kept")
    yield tag("div", sides[1], class_="side removed")
    for hunk in found.hunks:
        yield from _fold(hunk.same_before)
        yield from _hunk(hunk)
    yield from _fold(found.same_after)


def _fold(words: int) -> Iterator[Html]:
    if words:
        yield tag("div", f"{words:,} equal word{'s' * (words > 1)}", class_="fold")


def _hunk(hunk: Hunk) -> Iterator[Html]:
    yield tag("div", *_pieces(hunk.kept, "del"), class_="text", dir="auto")
    yield tag("div", *_pieces(hunk.copy, "ins"), class_="text removed", dir="auto")


def _pieces(pieces: Sequence[TextPiece], mark: str) -> Iterator[str]:
    for piece in pieces:
        if piece.changed:
            words = piece.text.rstrip()
            yield tag(mark, words)
            yield piece.text[len(words) :]
        else:
            yield piece.text
