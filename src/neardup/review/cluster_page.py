"""One cluster: its kept document and its copies; one pair; and the next pair to decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.responses import RedirectResponse, Response

from neardup.formatting import format_count
from neardup.report.html import Html, document, note, tag
from neardup.review.clusters_page import wait_for_index
from neardup.review.frame import KeyHelp, button, hidden, key_link
from neardup.review.journal import StoredDecision
from neardup.review.pair_view import (
    PAIR_KEYS,
    SAID,
    decision_form,
    pair_heading,
    texts_of_pair,
)
from neardup.review.run_index import FoundCluster, FoundCopy
from neardup.review.visits import ReviewRefusal, Visit, page_route

COPIES: Final = 5
"""Copies on a page of a cluster."""
LOOKED_AT: Final = 64
"""Pairs that are looked at together for one about which nobody has decided; later ones more."""
MOST_LOOKED_AT: Final = 4_096
CLUSTER_KEYS: Final = (
    *PAIR_KEYS,
    KeyHelp("j", "the next copy"),
    KeyHelp("k", "the copy before"),
    KeyHelp("a", "keep all documents of the cluster"),
    KeyHelp("0", "keep none of them"),
)
REVIEW_KEYS: Final = (
    *PAIR_KEYS,
    KeyHelp("n", "the next pair, without a decision"),
    KeyHelp("c", "the whole cluster"),
    KeyHelp("e", "why it was removed"),
)


def find_cluster(visit: Visit, number: int) -> FoundCluster:
    """Return a cluster by its number, or refuse the request."""
    found = visit.desk.index.cluster(number)
    if found is None:
        raise ReviewRefusal(
            404, f"this run has no cluster {number}: it may be one of another run; search by id"
        )
    return found


def find_pair(visit: Visit, position: int) -> tuple[FoundCluster, FoundCopy]:
    """Return a removed document by its row in removed.parquet with its cluster, or refuse."""
    copy = visit.desk.index.copy(position)
    if copy is None:
        raise ReviewRefusal(
            404, f"this run has no removal {position}: it may be one of another run; search by id"
        )
    return find_cluster(visit, copy.cluster), copy


def show_cluster(visit: Visit) -> Response:
    """Show a cluster."""
    choose_view(visit)
    number = visit.number("number")
    if (waiting := wait_for_index(visit, "clusters")) is not None:
        return waiting
    cluster = find_cluster(visit, number)
    start = visit.number("start", 0)
    copies = visit.desk.index.copies(number, start, COPIES + 1)
    shown, more = copies[:COPIES], len(copies) > COPIES
    made = visit.desk.journal.about([copy.called for copy in shown], cluster.called)
    articles = (_copy(visit, cluster, copy, made) for copy in shown)
    count = format_count(cluster.size - 1, "copy", "copies")
    return visit.render(
        f"Cluster of {cluster.id}",
        tag("h1", document(cluster.id, cluster.file, cluster.row)),
        tag("p", f"Kept, and {count} of it removed. The least similar come first."),
        *_of_kept(cluster, made),
        _whole(visit, cluster),
        _toggle(visit, f"cluster/{number}", start=start or None),
        tag("div", *articles, data_list=True),
        _pages(visit, number, start, more),
        at="clusters",
        keys=CLUSTER_KEYS,
    )


def _of_kept(cluster: FoundCluster, made: list[StoredDecision]) -> Iterator[Html]:
    for one in made:
        if one.a == cluster.called and not one.b:
            said = tag("strong", f"{SAID[one.action]}: ")
            yield tag("p", said, tag("bdi", one.who), class_=f"made {one.action}")


def _whole(visit: Visit, cluster: FoundCluster) -> Html:
    """Return the buttons for a decision about all documents of a cluster."""
    return visit.action(
        "decide-cluster",
        hidden("cluster", str(cluster.cluster)),
        hidden("seen", str(visit.desk.journal.changes)),
        button("a", f"Keep all {cluster.size:,}", name_="action", value="keep"),
        " ",
        button("0", f"Keep none of {cluster.size:,}", name_="action", value="drop"),
    )


def _copy(visit: Visit, cluster: FoundCluster, copy: FoundCopy, made: list[StoredDecision]) -> Html:
    title = f"Removed: {copy.id}"
    return tag(
        "article",
        pair_heading(cluster, copy),
        decision_form(visit, copy, made, "cluster"),
        texts_of_pair(visit, cluster, copy),
        _more(visit, copy),
        aria_label=title,
        tabindex=-1,
        id=f"copy-{copy.position}",
    )


def _more(visit: Visit, copy: FoundCopy) -> Html:
    return tag(
        "p",
        tag("a", "Why was it removed?", href=visit.url("document", id=copy.id)),
        " · ",
        tag("a", "The whole text", href=visit.url("text", file=copy.file, row=copy.row)),
        class_="note",
    )


def _pages(visit: Visit, number: int, start: int, more: bool) -> Html:
    links = []
    if start:
        url = visit.url(f"cluster/{number}", start=max(start - COPIES, 0) or None)
        links.append(key_link("[", "Back", url))
    if more:
        url = visit.url(f"cluster/{number}", start=start + COPIES)
        links.append(key_link("]", "Next", url))
    return tag("nav", *links, aria_label="Pages of the cluster", class_="pages")


def choose_view(visit: Visit) -> None:
    """Remember how this person wants differences to be shown, if the address says so."""
    if "view" in visit.query:
        visit.session.in_one_text = visit.query["view"] == "one"


def _toggle(visit: Visit, path: str, **query: object) -> Html:
    one = visit.session.in_one_text
    label = "Show side by side" if one else "Show in one text"
    url = visit.url(path, view="two" if one else "one", **query)
    return tag("p", key_link("i", label, url, "quiet"), class_="toggle")


def show_pair(visit: Visit) -> Response:
    """Show one pair, and go on with the next one after a decision."""
    choose_view(visit)
    if (waiting := wait_for_index(visit, "next")) is not None:
        return waiting
    position = visit.number("position")
    cluster, copy = find_pair(visit, position)
    made = visit.desk.journal.about([copy.called], cluster.called)
    size = format_count(cluster.size, "document")
    return visit.render(
        f"{copy.id} beside {cluster.id}",
        tag("h1", "Is the removed one the same?"),
        pair_heading(cluster, copy),
        decision_form(visit, copy, made, "next"),
        tag(
            "p",
            key_link("n", "Skip", visit.url("next", after=position), "quiet"),
            " ",
            key_link("c", f"The cluster: {size}", visit.url(f"cluster/{cluster.cluster}"), "quiet"),
            " ",
            key_link("e", "Why?", visit.url("document", id=copy.id), "quiet"),
            " ",
            key_link("i", *_view_link(visit, f"pair/{position}"), "quiet"),
            class_="toggle",
        ),
        tag("article", texts_of_pair(visit, cluster, copy), _more(visit, copy)),
        at="next",
        keys=REVIEW_KEYS,
    )


def _view_link(visit: Visit, path: str) -> tuple[str, str]:
    one = visit.session.in_one_text
    label = "Side by side" if one else "In one text"
    return label, visit.url(path, view="two" if one else "one")


def next_pair(visit: Visit, after: int | None) -> FoundCopy | None:
    """Return the next removal about which nobody has decided, the least certain first.

    Args:
        visit: The request.
        after: The removal that it comes after; None for the first.
    """
    desk = visit.desk
    last, most = None if after is None else desk.index.copy(after), LOOKED_AT
    while copies := desk.index.doubtful(last, most):
        kept = desk.index.kept_names({copy.cluster for copy in copies})
        decided = desk.journal.decided_pairs([(kept[one.cluster], one.called) for one in copies])
        for copy in copies:
            if (kept[copy.cluster], copy.called) not in decided:
                return copy
        last, most = copies[-1], min(2 * most, MOST_LOOKED_AT)
    return None


def show_next(visit: Visit) -> Response:
    """Go to the next pair to decide."""
    if (waiting := wait_for_index(visit, "next")) is not None:
        return waiting
    after = visit.number("after") if "after" in visit.query else None
    copy = next_pair(visit, after)
    if copy is not None:
        return RedirectResponse(visit.url(f"pair/{copy.position}"), 303)
    counts = visit.desk.journal.counts()
    said = "There is no removal left about which nobody has decided."
    if after is not None:
        said = "There is none after this one; you may have skipped some."
    return visit.render(
        "Done",
        tag("h1", "That was the last one"),
        tag("p", said),
        note(f"{sum(counts.values()):,} decisions are stored."),
        tag(
            "p",
            key_link("n", "From the beginning", visit.url("next")),
            " ",
            key_link("Enter", "Decisions", visit.url("decisions"), "primary"),
        ),
        at="next",
    )


ROUTES = [
    page_route("/cluster/{number}", show_cluster),
    page_route("/pair/{position}", show_pair),
    page_route("/next", show_next),
]
