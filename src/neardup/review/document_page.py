"""One document: what became of it and why, and what is similar to it; and two documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from starlette.responses import Response

from neardup.errors import InputError, UsageError
from neardup.formatting import format_similarity
from neardup.report.html import Html, document, name, note, pairs, table, tag
from neardup.review.cluster_page import choose_view
from neardup.review.clusters_page import wait_for_index
from neardup.review.frame import field, hidden
from neardup.review.pair_view import compared_texts
from neardup.review.run_index import FoundCluster, FoundCopy
from neardup.review.visits import ReviewRefusal, Visit, page_route

MOST_COPIES = 50
"""Documents of a cluster that are listed with one of them."""


def read_id(visit: Visit, parameter: str) -> str:
    """Return the id of a document from the address."""
    id = visit.query.get(parameter, "").strip()
    if not id:
        raise ReviewRefusal(400, f"{parameter} is missing: give the id of a document")
    return id


def find_listed(visit: Visit, id: str) -> list[FoundCluster | FoundCopy]:
    """Return the kept documents with copies and the removed ones that have this very id."""
    clusters, copies = visit.desk.index.with_id(id)
    return [*clusters, *copies]


def show_document(visit: Visit) -> Response:
    """Show a document with what the tables say; and, asked to, what only its inputs tell."""
    if (waiting := wait_for_index(visit, "clusters")) is not None:
        return waiting
    id = read_id(visit, "id")
    listed = find_listed(visit, id)
    if len(listed) > 1:
        return _choose(visit, id, listed)
    explained = list(_explained(visit, id)) if "explain" in visit.query else []
    own = list(_listed(visit, listed[0])) if listed else []
    if not listed and not explained:
        own = [note("No table has it: it was kept and has no copies, or does not exist.")]
    return visit.render(
        id,
        tag("h1", name(id)),
        *own,
        *explained,
        *([] if explained else [_ask(visit, id)]),
        _other(visit, id),
        at="clusters",
    )


def _choose(visit: Visit, id: str, listed: Sequence[FoundCluster | FoundCopy]) -> Response:
    links = (
        tag("li", tag("a", name(f"{one.file}:{one.row}"), href=visit.url("document", id=place)))
        for one in listed
        for place in [f"{one.file}:{one.row}"]
    )
    title = tag("h1", "Several documents have the id ", name(id))
    return visit.render(id, title, tag("ul", *links), at="clusters")


def _listed(visit: Visit, one: FoundCluster | FoundCopy) -> Iterator[Html]:
    """Yield what the tables say about a document."""
    index = visit.desk.index
    cluster = one if isinstance(one, FoundCluster) else index.cluster(one.cluster)
    if cluster is None:
        yield note("It was removed; its witness is not known.")
        return
    link = tag(
        "a", document(cluster.id, cluster.file, cluster.row), href=_cluster_url(visit, cluster)
    )
    if isinstance(one, FoundCopy):
        similar = "" if one.similarity is None else format_similarity(one.similarity)
        shown = [("decision", "removed"), ("its witness, which was kept", link)]
        shown.append(("similarity of the two", similar))
        if one.cosine is not None:
            shown.append(("cosine of the two", format_similarity(one.cosine)))
        yield pairs(shown)
        yield tag("p", tag("a", "Decide about it", href=visit.url(f"pair/{one.position}")))
    else:
        yield pairs([("decision", "kept"), ("its cluster", link)])
    copies = index.copies(cluster.cluster, 0, MOST_COPIES + 1)
    rows = [
        (
            "" if copy.similarity is None else format_similarity(copy.similarity),
            tag(
                "a",
                document(copy.id, copy.file, copy.row),
                href=visit.url("compare", a=one.id, b=copy.id),
            ),
        )
        for copy in copies[:MOST_COPIES]
        if copy.place != one.place
    ]
    if rows:
        yield tag("h2", "In the same cluster")
        yield note(
            "The similarity is that to the kept document. Copies of one document need not be "
            "similar to one another: follow a link to compare two."
        )
        yield table("In the same cluster", ("similarity", "document"), rows, {"similarity"})


def _cluster_url(visit: Visit, cluster: FoundCluster) -> str:
    return visit.url(f"cluster/{cluster.cluster}")


def _ask(visit: Visit, id: str) -> Html:
    """Return the button that has the document compared again."""
    return tag(
        "form",
        hidden("id", id),
        hidden("explain", "1"),
        tag("button", "Why, and what else is similar?"),
        " ",
        tag("span", visit.desk.texts.cost, class_="note"),
        action=visit.url("document"),
        method="get",
    )


def _explained(visit: Visit, id: str) -> Iterator[Html]:
    """Yield why the document was kept or removed, and what is similar to it."""
    try:
        explained = visit.desk.subject.explain(id)
    except (InputError, UsageError) as error:
        yield tag("p", str(error), class_="refused")
        return
    yield tag("h2", "Why")
    yield tag("p", explained.sentence)
    yield pairs(explained.facts)
    if explained.nearest:
        yield tag("h2", "What is most similar")
        rows = [
            (
                format_similarity(near.similarity),
                tag("a", name(near.id), href=visit.url("compare", a=id, b=near.id)),
                near.status,
            )
            for near in explained.nearest
        ]
        heads = ("similarity", "document", "decision")
        yield table("What is most similar", heads, rows, {"similarity"})
    yield from (note(one) for one in explained.notes)


def _other(visit: Visit, id: str) -> Html:
    return tag(
        "form",
        hidden("a", id),
        field("Compare it with", "text", "b", required=True, placeholder="the id of another one"),
        " ",
        tag("button", "Compare"),
        action=visit.url("compare"),
        method="get",
        class_="controls",
    )


def show_comparison(visit: Visit) -> Response:
    """Show how two documents compare, and why they are duplicates or not."""
    choose_view(visit)
    a, b = read_id(visit, "a"), read_id(visit, "b")
    try:
        compared = visit.desk.subject.compare(a, b)
    except (InputError, UsageError) as error:
        raise ReviewRefusal(404, str(error)) from None
    found = visit.desk.texts.of_ids([a, b])
    return visit.render(
        f"{a} beside {b}",
        tag("h1", name(a), " beside ", name(b)),
        tag("p", compared.sentence),
        pairs(compared.facts),
        *(note(one) for one in compared.notes),
        compared_texts(visit, found.get(a), found.get(b), (a, b)),
        at="clusters",
    )


def show_text(visit: Visit) -> Response:
    """Send the whole text of a document, as plain text."""
    place = visit.query.get("file", ""), visit.number("row")
    texts = visit.desk.texts
    found = texts.read([place])
    if place not in found:
        raise ReviewRefusal(404, f"the text can't be read: {texts.problem or 'check the address'}")
    return Response(found[place].encode("utf-8", "replace"), media_type="text/plain; charset=utf-8")


ROUTES = [
    page_route("/document", show_document),
    page_route("/compare", show_comparison),
    page_route("/text", show_text),
]
