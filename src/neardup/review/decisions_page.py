"""What was decided: the list, contradictions, and the files of decisions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from starlette.responses import Response

from neardup.decisions import LISTED, Contradiction, Decisions
from neardup.report.html import Html, join, name, note, table, tag
from neardup.review.frame import KeyHelp, key_link
from neardup.review.journal import UNDONE, VALID, StoredDecision
from neardup.review.pair_view import SAID
from neardup.review.run_subject import RunSubject
from neardup.review.visits import ReviewRefusal, Visit, page_route

SHOWN: Final = 50
"""Decisions on a page."""
NAMES: Final = {"parquet": "application/vnd.apache.parquet", "jsonl": "application/x-ndjson"}
KEYS: Final = (KeyHelp("]", "the next page"), KeyHelp("[", "the page before"))


def show_decisions(visit: Visit) -> Response:
    """Show the decisions, the last first."""
    journal, start = visit.desk.journal, visit.number("start", 0)
    found = journal.recent(start, SHOWN + 1)
    counts = journal.counts()
    total = sum(counts.values())
    told = ", ".join(f"{count:,} {SAID[action]}" for action, count in sorted(counts.items()))
    rows = [_row(visit, one) for one in found[:SHOWN]]
    heads = ("decision", "documents", "who", "when (UTC)", "note")
    listed = table("Decisions", heads, rows) if rows else note("Nothing is decided yet.")
    return visit.render(
        "Decisions",
        tag("h1", f"{total:,} decisions" if total != 1 else "1 decision"),
        *([tag("p", f"{told[:1].upper()}{told[1:]}.")] if told else []),
        *_contradictions(visit),
        *(_files(visit) if total else ()),
        listed,
        _pages(visit, start, len(found) > SHOWN),
        at="decisions",
        keys=KEYS,
    )


def _row(visit: Visit, one: StoredDecision) -> tuple[str, ...]:
    shown: list[str] = [tag("strong", SAID[one.action])]
    if one.state != VALID:
        shown = [tag("s", SAID[one.action]), " ", tag("span", "undone", class_="badge")]
        if one.state != UNDONE:
            shown[-1] = tag("span", "undone for good", class_="badge")
    documents = join([name(one.a), *([Html("<br>"), name(one.b)] if one.b else [])])
    if one.cluster is not None:
        documents = tag("a", documents, href=visit.url(f"cluster/{one.cluster}"))
    when = one.time[:19].replace("T", " ")
    return join(shown), documents, tag("bdi", one.who), when, tag("bdi", one.note)


def _contradictions(visit: Visit) -> Iterator[Html]:
    """Yield the decisions that can't all be right: they are shown, not guessed."""
    found = list(islice(Decisions.of(visit.desk.journal.contested()).contradictions(), LISTED + 1))
    if not found:
        return
    more = " or more" if len(found) > LISTED else ""
    yield tag(
        "section",
        tag("h2", f"Contradictions: {min(len(found), LISTED)}{more}"),
        tag(
            "p",
            "These decisions can't all be right. Decide again about one of the documents of each: "
            "as long as they stand, the decisions can't be applied.",
        ),
        tag("ul", *(_contradiction(visit, one) for one in found[:LISTED])),
        class_="contradictions",
    )


def _contradiction(visit: Visit, one: Contradiction) -> Html:
    listed = []
    for decision in one.decisions:
        said = f" {SAID[decision.action]} ({decision.who}, {decision.when[:16]}Z)"
        both = [tag("a", name(id), href=visit.url("document", id=id)) for id in decision.subject]
        joined = [both[0], *([Html(" and "), both[1]] if len(both) > 1 else [])]
        listed.append(tag("li", *joined, ":", said))
    return tag("li", f"{one.reason}:", tag("ul", *listed))


def _files(visit: Visit) -> Iterator[Html]:
    yield tag(
        "p",
        tag("a", "decisions.parquet", href=visit.url("export/parquet"), download=True),
        " for neardup, ",
        tag("a", "decisions.jsonl", href=visit.url("export/jsonl"), download=True),
        " for people.",
        class_="note",
    )
    if isinstance(visit.desk.subject, RunSubject):
        yield tag("p", tag("a", "Apply them", href=visit.url("apply")), " to the run.")


def _pages(visit: Visit, start: int, more: bool) -> Html:
    links = []
    if start:
        url = visit.url("decisions", start=max(start - SHOWN, 0) or None)
        links.append(key_link("[", "Later ones", url))
    if more:
        links.append(key_link("]", "Earlier ones", visit.url("decisions", start=start + SHOWN)))
    return tag("nav", *links, aria_label="Pages of the decisions", class_="pages")


def send_decisions(visit: Visit) -> Response:
    """Send the decisions as a file."""
    kind = visit.path["kind"]
    if kind not in NAMES:
        raise ReviewRefusal(404, f"there is no such file: choose {' or '.join(NAMES)}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"decisions.{kind}"
        visit.desk.journal.write(path)
        content = path.read_bytes()
    headers = {"content-disposition": f'attachment; filename="decisions.{kind}"'}
    return Response(content, headers=headers, media_type=NAMES[kind])


ROUTES = [
    page_route("/decisions", show_decisions),
    page_route("/export/{kind}", send_decisions),
]
