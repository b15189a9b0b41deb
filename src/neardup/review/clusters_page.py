"""The list of clusters, sorted and by source; and the search by id, path or words."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from neardup.formatting import format_similarity
from neardup.report.html import Html, document, note, table, tag
from neardup.review.frame import KeyHelp, choice, key_link, share_bar
from neardup.review.run_index import MOST_FOUND, ORDERS, PAGE, FoundCluster, FoundCopy
from neardup.review.visits import ReviewRefusal, Visit, page_route

KEYS: Final = (
    KeyHelp("j", "the next one"),
    KeyHelp("k", "the one before"),
    KeyHelp("Enter", "open it"),
    KeyHelp("]", "the next page"),
    KeyHelp("[", "the page before"),
)
ORDER_LABELS: Final = {
    "size": "the largest first",
    "similarity": "the least similar first",
    "uncertainty": "the least certain first",
    "source": "by source",
}
LONGEST_QUERY: Final = 1_000
SEARCH_SECONDS: Final = 10
"""How long texts are looked through."""


def wait_for_index(visit: Visit, at: str) -> Response | None:
    """Return a page that waits until the index is made; None if it is.

    Args:
        visit: The request.
        at: The path of the page that needs the index.
    """
    index = visit.desk.index
    if index.is_ready:
        return None
    if index.failure is not None:
        raise index.failure
    index.begin()
    return visit.render(
        "One moment",
        tag("h1", "One moment"),
        tag(
            "p",
            "The list of clusters is being made, once for this run. The page goes on by itself.",
        ),
        share_bar(index.done, f"{index.done:.0%} done"),
        tag("p", tag("a", "Go on", href="", data_wait=True)),
        at=at,
    )


def show_clusters(visit: Visit) -> Response:
    """Show a page of the list, or what a search has found."""
    if (waiting := wait_for_index(visit, "clusters")) is not None:
        return waiting
    query = visit.query.get("q", "").strip()
    if len(query) > LONGEST_QUERY:
        raise ReviewRefusal(400, f"a search has at most {LONGEST_QUERY:,} characters: use fewer")
    if query:
        return _show_found(visit, query)
    order, source = visit.query.get("order", "size"), visit.query.get("source", "")
    if order not in ORDERS:
        raise ReviewRefusal(400, f"clusters are sorted by {', '.join(ORDERS)}: choose one of them")
    start = visit.number("start", 0)
    found = visit.desk.index.clusters(order, source, start)
    shown, more = found[:PAGE], len(found) > PAGE
    rows = _rows(visit, shown)
    heads = ("kept document", "documents", "lowest similarity", "decided")
    listed = (
        table("Clusters", heads, rows, set(heads[1:]))
        if rows
        else note("There is no cluster here.")
    )
    return visit.render(
        "Clusters",
        tag("h1", "Clusters"),
        note("A cluster is a kept document and the documents that were removed as its copies."),
        _controls(visit, order, source),
        tag("div", listed, data_list=True),
        _pages(visit, order, source, start, more),
        at="clusters",
        keys=KEYS,
    )


def _controls(visit: Visit, order: str, source: str) -> Html:
    sources = visit.desk.index.sources()
    listed = [("", "all sources"), *((one, one) for one in sources)]
    return tag(
        "form",
        choice("Sorted", "order", ORDER_LABELS.items(), order),
        choice("Source", "source", listed, source),
        tag("button", "Show"),
        action=visit.url("clusters"),
        method="get",
        class_="controls",
    )


def _rows(visit: Visit, clusters: Sequence[FoundCluster]) -> list[tuple[str, ...]]:
    decided = visit.desk.journal.count_by_cluster([one.cluster for one in clusters])
    return [_row(visit, cluster, decided.get(cluster.cluster, 0)) for cluster in clusters]


def _row(visit: Visit, cluster: FoundCluster, decided: int) -> tuple[str, ...]:
    link = tag(
        "a",
        document(cluster.id, cluster.file, cluster.row),
        href=visit.url(f"cluster/{cluster.cluster}"),
        class_="row",
    )
    lowest = "" if cluster.lowest is None else format_similarity(cluster.lowest)
    return link, f"{cluster.size:,}", lowest, f"{decided:,}" if decided else ""


def _pages(visit: Visit, order: str, source: str, start: int, more: bool) -> Html:
    links = []
    if start:
        before = max(start - PAGE, 0) or None
        url = visit.url("clusters", order=order, source=source, start=before)
        links.append(key_link("[", "Back", url))
    if more:
        url = visit.url("clusters", order=order, source=source, start=start + PAGE)
        links.append(key_link("]", "Next", url))
    return tag("nav", *links, aria_label="Pages of the list", class_="pages")


def _show_found(visit: Visit, query: str) -> Response:
    index = visit.desk.index
    clusters, copies = index.by_id(query)
    if not clusters and not copies:
        clusters, copies = index.containing(query)
    told = ""
    in_texts = "texts" in visit.query or not (clusters or copies)
    if in_texts:
        clusters, copies, told = _find_in_texts(visit, query)
    parts = [_found("Kept documents with copies", _rows(visit, clusters))]
    parts.append(_found("Removed documents", _copy_rows(visit, copies)))
    if len(clusters) >= MOST_FOUND or len(copies) >= MOST_FOUND:
        parts.append(note(f"Only the first {MOST_FOUND:,} are listed: write more."))
    other = tag("a", "Look in the texts", href=visit.url("clusters", q=query, texts=1))
    alone = tag(
        "a", "Look for a document of this id without copies", href=visit.url("document", id=query)
    )
    return visit.render(
        "Search",
        tag("h1", "Found for ", tag("bdi", query)),
        *parts,
        *([note(told)] if told else []),
        tag("p", *([] if in_texts else [other, " · "]), alone),
        at="clusters",
        keys=KEYS,
    )


def _find_in_texts(visit: Visit, query: str) -> tuple[list[FoundCluster], list[FoundCopy], str]:
    """Return the documents of the list whose texts contain the query, and what is to be said."""
    clusters: list[FoundCluster] = []
    copies: list[FoundCopy] = []
    ends, others = time.monotonic() + SEARCH_SECONDS, 0
    for place in visit.desk.texts.containing(query):
        if place is not None:
            kept, removed = visit.desk.index.at(place)
            clusters += kept
            copies += removed
            others += not (kept or removed)
        if max(len(clusters), len(copies)) >= MOST_FOUND:
            break
        if time.monotonic() > ends:
            looked = f"The search was ended after {SEARCH_SECONDS} seconds: write an id or a path."
            return clusters, copies, looked
    if clusters or copies:
        return clusters, copies, ""
    if others:
        return [], [], f"Only kept documents without copies contain this: {others:,} of them."
    return [], [], "No id, path or text of a cluster contains this."


def _copy_rows(visit: Visit, copies: Sequence[FoundCopy]) -> list[tuple[str, ...]]:
    return [
        (
            tag(
                "a",
                document(copy.id, copy.file, copy.row),
                href=visit.url(f"pair/{copy.position}"),
                class_="row",
            ),
            "",
            "" if copy.similarity is None else format_similarity(copy.similarity),
            "",
        )
        for copy in copies
    ]


def _found(title: str, rows: Sequence[tuple[str, ...]]) -> Html:
    if not rows:
        return Html()
    heads = ("document", "documents", "similarity", "decided")
    listed = table(title, heads, rows, set(heads[1:]))
    return tag("section", tag("h2", f"{title}: {len(rows):,}"), listed, data_list=True)


ROUTES = [page_route("/clusters", show_clusters)]
