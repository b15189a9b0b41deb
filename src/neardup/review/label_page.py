"""Labelling: one drawn pair after the other, blind; and what the answers say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from starlette.responses import RedirectResponse, Response

from neardup.evaluation.label_figures import ANSWERS, DrawnPair
from neardup.formatting import format_count, format_similarity
from neardup.report.html import Html, name, note, table, tag
from neardup.review.cluster_page import choose_view
from neardup.review.frame import KeyHelp, button, hidden, key_link, share_bar
from neardup.review.label_desk import LabelDesk, TwoPeople
from neardup.review.label_files import EXPORTS, export_labels
from neardup.review.pair_view import SAID, compared_texts
from neardup.review.visits import ReviewRefusal, Visit, action_route, page_route

BUTTONS: Final = (
    ("s", "same", "Same", "they are the same document"),
    ("d", "different", "Different", "they are not"),
    ("u", "unsure", "Unsure", "you can't tell: the pair counts nowhere"),
)
KEYS: Final = (
    *(KeyHelp(key, what) for key, _, _, what in BUTTONS),
    KeyHelp("i", "side by side, or in one text"),
    KeyHelp("r", "what the answers say so far"),
)
MOST_SHOWN: Final = 200
"""Pairs on which two people differ that are listed."""


def _desk(visit: Visit) -> LabelDesk:
    """Return the desk for labels, or refuse the request."""
    if visit.desk.labels is None:
        raise ReviewRefusal(
            404, "no pairs were drawn: end neardup review, and start it with --label 200"
        )
    return visit.desk.labels


def _find_pair(visit: Visit, number: int) -> DrawnPair:
    pairs = _desk(visit).draw.pairs
    if number >= len(pairs):
        raise ReviewRefusal(404, f"there is no drawn pair {number + 1:,}: there are {len(pairs):,}")
    return pairs[number]


def go_to_next(visit: Visit) -> Response:
    """Go to the next pair that this person has not answered."""
    pair = _desk(visit).next(visit.who)
    return RedirectResponse(visit.url("labels" if pair is None else f"label/{pair.number}"), 303)


def show_pair(visit: Visit) -> Response:
    """Show a drawn pair, with the buttons to answer."""
    choose_view(visit)
    labels = _desk(visit)
    pair = _find_pair(visit, visit.number("number"))
    left, right = labels.sides(pair)
    texts = (labels.journal.text(left), labels.journal.text(right))
    answers = labels.answers(visit.who)
    one = visit.session.in_one_text
    view = key_link(
        "i",
        "Side by side" if one else "In one text",
        visit.url(f"label/{pair.number}", view="two" if one else "one"),
        "quiet",
    )
    return visit.render(
        f"Pair {pair.number + 1:,}",
        tag("h1", "Are these two the same?"),
        *_progress(labels, len(answers)),
        *_figures(labels, visit.who),
        *([] if labels.blind else [_names(labels, pair, left, right)]),
        _form(visit, pair, answers.get(pair.number, "")),
        tag(
            "p", view, " ", key_link("r", "Figures", visit.url("labels"), "quiet"), class_="toggle"
        ),
        tag("article", compared_texts(visit, *texts, ("left", "right")), class_="equals"),
        at="label",
        keys=KEYS,
        turned="label-",
    )


def _progress(labels: LabelDesk, answered: int) -> Iterator[Html]:
    total = len(labels.draw.pairs)
    counted = tag("p", f"{answered:,} of {total:,} answered", class_="note")
    yield tag("div", counted, share_bar(answered / total), class_="progress")


def _figures(labels: LabelDesk, who: str | None) -> Iterator[Html]:
    yield tag("p", str(labels.figures(who)), class_="figures")


def _names(labels: LabelDesk, pair: DrawnPair, left: str, right: str) -> Html:
    verdict = "the run has found them" if labels.found[pair.number] else "the run has not"
    return tag(
        "div",
        tag("p", name(left)),
        tag("p", name(right)),
        tag(
            "p",
            tag("strong", format_similarity(pair.similarity)),
            f" similar; {verdict}",
            class_="similarity",
        ),
        class_="names",
    )


def _form(visit: Visit, pair: DrawnPair, given: str) -> Html:
    buttons = (
        button(key, label, name_="answer", value=answer, kind=answer, title=what)
        if answer != given
        else button(
            key, label, name_="answer", value=answer, kind=answer, title=what, aria_pressed="true"
        )
        for key, answer, label, what in BUTTONS
    )
    form = visit.action(
        "label", hidden("pair", str(pair.number)), tag("div", *buttons, class_="buttons")
    )
    return tag("div", form, class_="deciding")


def answer(visit: Visit) -> Response:
    """Store an answer, and go on with the next pair."""
    labels = _desk(visit)
    pair = _find_pair(visit, visit.number("pair"))
    given = visit.form.get("answer", "")
    if given not in ANSWERS:
        raise ReviewRefusal(400, "there is no such answer: load the page again")
    labels.journal.answer([(pair.number, given)], visit.who)
    return visit.go_to(visit.url("label"), f"Stored: pair {pair.number + 1:,} is {SAID[given]}.")


def undo(visit: Visit) -> Response:
    """Undo the last answer of this person."""
    return _turned(visit, _desk(visit).journal.undo(visit.who), "Undone", "undo")


def redo(visit: Visit) -> Response:
    """Redo what this person has undone."""
    return _turned(visit, _desk(visit).journal.redo(visit.who), "Answered again", "redo")


def _turned(visit: Visit, pair: int | None, done: str, what: str) -> Response:
    if pair is None:
        raise ReviewRefusal(409, f"there is nothing to {what}")
    return visit.go_to(visit.url(f"label/{pair}"), f"{done}: pair {pair + 1:,}.")


def show_labels(visit: Visit) -> Response:
    """Show what the answers say, how far people agree, and the files."""
    labels = _desk(visit)
    answers = labels.journal.answers()
    mine = len(answers.get(visit.who, {}))
    rows = [(tag("bdi", who), f"{len(given):,}") for who, given in answers.items()]
    pair = labels.next(visit.who)
    go_on = [] if pair is None else [key_link("n", "Go on", visit.url("label"), "primary")]
    return visit.render(
        "Labels",
        tag("h1", "What the answers say"),
        *_progress(labels, mine),
        *_figures(labels, visit.who if len(answers) < 2 else None),
        *_of_random(labels),
        tag("p", *go_on),
        table("Answers", ("who", "answers"), rows, ("answers",)) if rows else "",
        *(part for two in labels.people() for part in _of_two(visit, two, answers)),
        *_links(visit, any(answers.values())),
        at="label",
        keys=(KeyHelp("n", "the next pair"),),
        turned="label-",
    )


def _of_random(labels: LabelDesk) -> Iterator[Html]:
    draw = labels.draw
    yield note(
        f"Drawn of {draw.about}; identical documents count once. Pairs that are at least "
        f"{draw.floor:.2f} similar were searched for without buckets. Where people differ or are "
        "unsure, a pair counts nowhere."
    )
    looked_at = labels.figures().random
    if looked_at:
        yield note(
            f"None of {format_count(looked_at, 'pair')} of all others, drawn at random, is the "
            "same: recall is that of similar pairs."
        )


def _of_two(visit: Visit, two: TwoPeople, answers: dict[str, dict[int, str]]) -> Iterator[Html]:
    yield tag("h2", tag("bdi", two.mine), " and ", tag("bdi", two.theirs))
    yield tag("p", str(two.agreement), ".")
    rows = [
        (
            tag("a", f"Pair {pair.number + 1:,}", href=visit.url(f"label/{pair.number}")),
            SAID[answers[two.mine][pair.number]],
            SAID[answers[two.theirs][pair.number]],
        )
        for pair in two.differing[:MOST_SHOWN]
    ]
    if rows:
        yield table("Pairs on which they differ", ("pair", two.mine, two.theirs), rows)


def _links(visit: Visit, some: bool) -> Iterator[Html]:
    if some:
        links = [
            tag("a", one.file, href=visit.url(f"labels/export/{kind}"), download=True)
            for kind, one in EXPORTS.items()
        ]
        listed = [part for link in links for part in (link, " ")]
        yield tag("p", *listed, class_="note")


def send_labels(visit: Visit) -> Response:
    """Send the labels as a file."""
    kind = visit.path["kind"]
    if kind not in EXPORTS:
        raise ReviewRefusal(404, f"there is no such file: choose {' or '.join(EXPORTS)}")
    export = EXPORTS[kind]
    headers = {"content-disposition": f'attachment; filename="{export.file}"'}
    return Response(export_labels(_desk(visit), kind), headers=headers, media_type=export.type)


ROUTES = [
    page_route("/label", go_to_next),
    page_route("/label/{number}", show_pair),
    page_route("/labels", show_labels),
    page_route("/labels/export/{kind}", send_labels),
    action_route("/label", answer),
    action_route("/label-undo", undo),
    action_route("/label-redo", redo),
]
