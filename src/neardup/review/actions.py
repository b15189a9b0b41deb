"""What forms change: decisions about a pair, a cluster or many pairs; undo and redo."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response

from neardup.decisions import LONGEST_NOTE, PAIR_ACTIONS
from neardup.formatting import format_count
from neardup.review.cluster_page import find_cluster, find_pair, next_pair
from neardup.review.journal import NewDecision, StoredDecision
from neardup.review.pair_view import DECISIONS, SAID
from neardup.review.run_index import FoundCluster
from neardup.review.visits import ReviewRefusal, Visit, action_route


def decide(visit: Visit) -> Response:
    """Decide about a pair."""
    cluster, copy = find_pair(visit, visit.number("position"))
    action = visit.form.get("action", "")
    if action not in {name for _, name, _, _ in DECISIONS}:
        raise ReviewRefusal(400, "there is no such decision: load the page again")
    decision = (
        NewDecision(action, cluster.called, copy.called, cluster.cluster)
        if action in PAIR_ACTIONS
        else NewDecision(action, copy.called, "", cluster.cluster)
    )
    visit.desk.journal.decide([decision], visit.who, read_note(visit), visit.number("seen"))
    said = f"Stored: {copy.id} is {SAID[action]}."
    if visit.form.get("then") == "cluster":
        return visit.go_to(visit.url(f"cluster/{cluster.cluster}") + f"#copy-{copy.position}", said)
    following = next_pair(visit, copy.position)
    path = f"pair/{following.position}" if following else "next"
    return visit.go_to(visit.url(path), said)


def read_note(visit: Visit) -> str:
    """Return the note of a form, or refuse one that is too long."""
    note = visit.form.get("note", "").strip()
    if len(note) > LONGEST_NOTE:
        raise ReviewRefusal(400, f"a note has at most {LONGEST_NOTE:,} characters: shorten it")
    return note


def decide_cluster(visit: Visit) -> Response:
    """Keep all documents of a cluster, or none."""
    cluster = find_cluster(visit, visit.number("cluster"))
    action = visit.form.get("action", "")
    if action not in ("keep", "drop"):
        raise ReviewRefusal(400, "there is no such decision: load the page again")
    decided = visit.desk.journal.decide(
        (NewDecision(action, one, "", cluster.cluster) for one in _all_names(visit, cluster)),
        visit.who,
        read_note(visit),
        visit.number("seen"),
    )
    said = f"Stored: {format_count(decided, 'document')} {SAID[action]}."
    return visit.go_to(visit.url(f"cluster/{cluster.cluster}"), said)


def _all_names(visit: Visit, cluster: FoundCluster) -> Iterable[str]:
    yield cluster.called
    for copy in visit.desk.index.copies(cluster.cluster, 0, cluster.size):
        yield copy.called


def renew(visit: Visit) -> Response:
    """Make the list of clusters again, of what an index has now."""
    visit.desk.index.renew()
    return visit.go_to(visit.url(""), "The list is being made again.")


def undo(visit: Visit) -> Response:
    """Undo the last decision of this person."""
    return _turned(visit, visit.desk.journal.undo(visit.who), "Undone", "nothing to undo")


def redo(visit: Visit) -> Response:
    """Redo what this person has undone."""
    return _turned(visit, visit.desk.journal.redo(visit.who), "Decided again", "nothing to redo")


def _turned(
    visit: Visit, turned: tuple[StoredDecision | None, int], done: str, nothing: str
) -> Response:
    first, count = turned
    if first is None:
        raise ReviewRefusal(409, f"there is {nothing}")
    more = f" and {count - 1:,} more" if count > 1 else ""
    said = f"{done}: {SAID[first.action]}, {first.b or first.a}{more}."
    return visit.go_to(visit.url(_path_of(visit, first)), said)


def _path_of(visit: Visit, decision: StoredDecision) -> str:
    """Return the page where a decision was made."""
    if decision.cluster is None or not visit.desk.index.is_ready:
        return "decisions"
    copies = visit.desk.index.with_id(decision.b or decision.a)[1]
    if len(copies) == 1:
        return f"pair/{copies[0].position}"
    return f"cluster/{decision.cluster}"


ROUTES = [
    action_route("/decide", decide),
    action_route("/decide-cluster", decide_cluster),
    action_route("/renew", renew),
    action_route("/undo", undo),
    action_route("/redo", redo),
]
