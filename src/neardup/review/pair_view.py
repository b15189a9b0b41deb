"""A removed document beside the kept one: how their texts differ, and the buttons to decide."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from neardup.decisions import LONGEST_NOTE
from neardup.formatting import format_similarity
from neardup.report.differences import COMPARED, in_one_text, side_by_side
from neardup.report.html import Html, document, note, tag
from neardup.review.frame import KeyHelp, button, field, hidden
from neardup.review.journal import StoredDecision
from neardup.review.run_index import FoundCluster, FoundCopy
from neardup.review.visits import Visit

DECISIONS: Final = (
    ("s", "same", "Same", "they are the same: the removal is right"),
    (
        "d",
        "different",
        "Different",
        "they are not the same: neither is removed because of the other",
    ),
    ("u", "unsure", "Unsure", "you can't tell: nothing changes"),
    ("p", "prefer", "Keep this instead", "the removed one is kept instead of the other"),
    ("x", "keep", "Keep this too", "the removed one is kept too: it leaves the cluster"),
)
"""The key of each decision, what is sent, what is shown, and what it does."""
PAIR_KEYS: Final = (
    *(KeyHelp(key, what) for key, _, _, what in DECISIONS),
    KeyHelp("t", "write a note, which is stored with the decision"),
    KeyHelp("i", "side by side, or in one text"),
)
SAID: Final = {
    "same": "the same",
    "different": "different",
    "unsure": "unsure",
    "prefer": "kept instead",
    "keep": "kept",
    "drop": "dropped",
}
"""Decisions in a badge."""


def texts_of_pair(visit: Visit, kept: FoundCluster, copy: FoundCopy) -> Html:
    """Show the texts of a pair with their differences, or why they can't be shown.

    Args:
        visit: The request, which may change how differences are shown.
        kept: The kept document.
        copy: The removed one.
    """
    texts = visit.desk.texts.read([kept.place, copy.place], kept.cluster)
    return compared_texts(visit, texts.get(kept.place), texts.get(copy.place), ("kept", "removed"))


def compared_texts(
    visit: Visit, kept: str | None, copy: str | None, sides: tuple[str, str]
) -> Html:
    """Show two texts with their differences, as far as they could be read.

    Args:
        visit: The request.
        kept: The one text.
        copy: The other one.
        sides: What they are called.
    """
    if kept is None or copy is None:
        shown = [note(f"The texts can't be compared: {visit.desk.texts.problem}.")]
        for side, text in zip(sides, (kept, copy), strict=True):
            if text is not None:
                shown.append(tag("h3", f"The text of the {side} one"))
                shown.append(tag("div", text[:EXCERPT], class_="text whole", dir="auto"))
    else:
        start = folded_beginning(kept, copy)
        shown = [note(f"The first {start:,} characters are equal.")] if start else []
        kept, copy = kept[start : start + LOOKED_AT], copy[start : start + LOOKED_AT]
        if visit.session.in_one_text:
            shown += in_one_text(kept, copy)
        else:
            shown += side_by_side(kept, copy, sides)
    return tag("div", *shown, class_="texts")


EXCERPT: Final = 4_000
"""Characters that are shown of a text without another one."""
LOOKED_AT: Final = 5 * COMPARED
"""Characters of each text that are looked through, for a page that comes at once."""
BEFORE: Final = 400
"""Equal characters that are shown before the first difference of long texts."""


def folded_beginning(a: str, b: str) -> int:
    """Return how much of the beginnings of two long texts is equal and need not be compared.

    Comparing words is bounded, and would not reach a difference far behind.

    >>> folded_beginning("one two three", "one two four")
    0
    >>> folded_beginning("same " * 9_000 + "one", "same " * 9_000 + "two")
    44600
    """
    equal, most = 0, min(len(a), len(b))
    if most <= COMPARED:
        return 0
    while equal < most:
        middle = (equal + most + 1) // 2
        if a[equal:middle] == b[equal:middle]:
            equal = middle
        else:
            most = middle - 1
    return a.rfind(" ", 0, max(equal - BEFORE, 0)) + 1


def decision_form(
    visit: Visit,
    copy: FoundCopy,
    made: Sequence[StoredDecision],
    then: str,
) -> Html:
    """Return the buttons to decide about a pair, with the decisions so far.

    Args:
        visit: The request.
        copy: The removed one.
        made: The decisions about it.
        then: The page that comes next: `next`, or `cluster`.
    """
    mine = [one for one in made if copy.called in (one.a, one.b)]
    chosen = {one.action for one in mine if one.who == visit.who}
    buttons = (
        button(key, label, name_="action", value=action, kind=action, title=what)
        if action not in chosen
        else button(
            key, label, name_="action", value=action, kind=action, title=what, aria_pressed="true"
        )
        for key, action, label, what in DECISIONS
    )
    form = visit.action(
        "decide",
        hidden("position", str(copy.position)),
        hidden("seen", str(visit.desk.journal.changes)),
        hidden("then", then),
        tag("div", *buttons, class_="buttons"),
        field(
            "Note",
            "text",
            "note",
            maxlength=LONGEST_NOTE,
            autocomplete="off",
            data_key="t",
            data_draft=f"note-{copy.position}",
        ),
    )
    return tag("div", *_made(mine), form, class_="deciding")


def _made(decisions: Sequence[StoredDecision]) -> Iterator[Html]:
    for one in decisions:
        words = [
            tag("strong", SAID[one.action]),
            " · ",
            tag("bdi", one.who),
            " · ",
            one.time[:16],
            "Z",
        ]
        if one.note:
            words += [" · ", tag("bdi", one.note)]
        yield tag("p", *words, class_=f"made {one.action}")


def describe_cosine(copy: FoundCopy) -> str:
    """Return the cosine of a removed document and the kept one, behind their similarity."""
    return "" if copy.cosine is None else f", cosine {format_similarity(copy.cosine)}"


def pair_heading(kept: FoundCluster, copy: FoundCopy) -> Html:
    """Return the names of the two documents, and how similar they are."""
    similar = "" if copy.similarity is None else format_similarity(copy.similarity)
    how = f" similar{'' if copy.exact else ' (estimated)'}{describe_cosine(copy)}"
    return tag(
        "div",
        tag("p", tag("span", "kept", class_="label kept"), document(kept.id, kept.file, kept.row)),
        tag(
            "p", tag("span", "removed", class_="label near"), document(copy.id, copy.file, copy.row)
        ),
        tag(
            "p",
            tag("strong", similar),
            f" similar{how}{describe_cosine(copy)}",
            class_="similarity",
        ),
        class_="names",
    )
