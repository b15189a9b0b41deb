"""Decisions about many pairs at once, with their number said before."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from starlette.responses import Response

from neardup.formatting import format_count
from neardup.report.html import Html, note, tag
from neardup.review.actions import read_note
from neardup.review.clusters_page import wait_for_index
from neardup.review.frame import choice, field, hidden
from neardup.review.journal import NewDecision
from neardup.review.pair_view import SAID
from neardup.review.visits import ReviewRefusal, Visit, action_route, page_route

CHOICES: Final = (
    ("same", "they are the same"),
    ("different", "they are different"),
    ("keep", "keep the removed ones"),
    ("drop", "drop the removed ones"),
)


class ChosenPairs(NamedTuple):
    """The pairs of a source with a similarity in a range, and what is decided about them."""

    source: str
    least: float
    most: float
    action: str

    def __str__(self) -> str:
        where = f"of {self.source} " if self.source else ""
        return f"{where}with a similarity from {self.least:g} to {self.most:g}"


def read_chosen(visit: Visit) -> ChosenPairs:
    """Return the pairs that the address or the form describes."""
    given = visit.form or visit.query
    action = given.get("action", "same")
    if action not in dict(CHOICES):
        raise ReviewRefusal(400, "there is no such decision: load the page again")
    least, most = (_read_share(given.get(one, ""), at) for one, at in (("least", 0), ("most", 1)))
    return ChosenPairs(given.get("source", ""), least, most, action)


def _read_share(text: str, default: float) -> float:
    try:
        value = float(text.replace(",", ".")) if text else float(default)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ReviewRefusal(400, "a similarity is a number from 0 to 1, such as 0.97: write one")
    return value


def show_bulk(visit: Visit) -> Response:
    """Show the form; and how many pairs are meant, before anything is decided about them."""
    if (waiting := wait_for_index(visit, "bulk")) is not None:
        return waiting
    asked = "least" in visit.query
    chosen = read_chosen(visit) if asked else ChosenPairs("", visit.desk.threshold, 1.0, "same")
    return visit.render(
        "In bulk",
        tag("h1", "Decide about many at once"),
        note("First see how many pairs are meant. They are decided in one step, undone in one."),
        _question(visit, chosen),
        *([_answer(visit, chosen)] if asked else []),
        at="bulk",
    )


def _question(visit: Visit, chosen: ChosenPairs) -> Html:
    sources = [("", "all sources"), *((one, one) for one in visit.desk.index.sources())]
    return tag(
        "form",
        choice("Removed documents of", "source", sources, chosen.source),
        field("similarity from", "text", "least", f"{chosen.least:g}", inputmode="decimal", size=6),
        field("to", "text", "most", f"{chosen.most:g}", inputmode="decimal", size=6),
        choice("Decision", "action", CHOICES, chosen.action),
        tag("button", "How many are they?"),
        action=visit.url("bulk"),
        method="get",
        class_="controls",
    )


def _open_pairs(visit: Visit, chosen: ChosenPairs) -> list[tuple[int, str, str]]:
    """Return the pairs about which nobody has decided: what was looked at one by one stays."""
    decided = visit.desk.journal.decided_subjects()
    return [
        (cluster, kept, copy)
        for cluster, kept, copy in visit.desk.index.pairs(*chosen[:3])
        if decided.isdisjoint([(kept, copy), (copy, kept), (kept,), (copy,)])
    ]


def _answer(visit: Visit, chosen: ChosenPairs) -> Html:
    total = count = visit.desk.index.count_pairs(*chosen[:3])
    if total and visit.desk.journal.counts():
        count = len(_open_pairs(visit, chosen))
    pairs = format_count(count, "pair")
    left_out = f", and {total - count:,} that are decided already and stay so" * (count < total)
    if not count:
        return tag("p", tag("strong", "There is none "), str(chosen), left_out, ".")
    return visit.action(
        "bulk",
        hidden("source", chosen.source),
        hidden("least", str(chosen.least)),
        hidden("most", str(chosen.most)),
        hidden("action", chosen.action),
        hidden("count", str(count)),
        tag("p", tag("strong", f"{pairs} "), str(chosen), left_out, "."),
        field("Note", "text", "note", autocomplete="off", data_draft="note-bulk"),
        tag("button", f"Decide: {dict(CHOICES)[chosen.action]} ({pairs})", class_="primary"),
        class_="controls",
    )


def decide_many(visit: Visit) -> Response:
    """Decide about all pairs that were counted."""
    chosen, count = read_chosen(visit), visit.number("count")
    pairs = _open_pairs(visit, chosen)
    if len(pairs) != count:
        raise ReviewRefusal(409, f"they are {len(pairs):,} now, not {count:,}: count them again")
    of_pairs = chosen.action in ("same", "different")
    decided = visit.desk.journal.decide(
        (
            NewDecision(chosen.action, kept, copy, cluster)
            if of_pairs
            else NewDecision(chosen.action, copy, "", cluster)
            for cluster, kept, copy in pairs
        ),
        visit.who,
        read_note(visit),
    )
    said = f"Stored: {format_count(decided, 'decision')}, {SAID[chosen.action]}."
    return visit.go_to(visit.url("decisions"), said)


ROUTES = [page_route("/bulk", show_bulk), action_route("/bulk", decide_many)]
