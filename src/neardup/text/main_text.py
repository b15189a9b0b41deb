"""The main text of an HTML page: what it shows, without navigation, forms and hidden parts.

Tags are read in their order, with a stack of the elements that are open: each is put there and
taken away once, so that neither deep nesting nor missing end tags cost time. An end tag also ends
what is open inside of its element, and is ignored if its element isn't open.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from neardup.text.html_elements import ASIDE, BREAKING, ENDED_BY, HIDDEN, INLINE, VOID

if TYPE_CHECKING:
    from turbohtml import Token

NOT_DISPLAYED = re.compile(r"display\s*:\s*none", re.ASCII | re.IGNORECASE)
NOT_CLOSED_BY_SLASH = (BREAKING | INLINE) - {"math", "svg"}


class OpenElements:
    """The elements that are open, and whether one of them hides what is in it."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._blocks: list[int] = []  # the places of those that are not inside of a line
        self._counts: defaultdict[str, int] = defaultdict(int)
        self._hiding: int | None = None

    @property
    def hidden(self) -> bool:
        """Whether what comes next is left out."""
        return self._hiding is not None

    @property
    def preformatted(self) -> bool:
        """Whether line breaks are those of the page."""
        return self._counts["pre"] > 0

    def end_before(self, tag: str) -> None:
        """End the elements that this start tag ends: a paragraph by a block, an item by an item."""
        while self._blocks:
            block = self._names[self._blocks[-1]]
            if tag not in ENDED_BY.get(block, ()):
                return
            self.end(block)

    def begin(self, tag: str, hides: bool) -> None:
        """Begin an element.

        Args:
            tag: Its name.
            hides: Whether it hides what is in it.
        """
        if hides and self._hiding is None:
            self._hiding = len(self._names)
        if tag not in INLINE:
            self._blocks.append(len(self._names))
        self._names.append(tag)
        self._counts[tag] += 1

    def end(self, tag: str) -> None:
        """End the innermost element of this name, and what is open in it."""
        if self._counts[tag]:
            while self._end() != tag:
                pass

    def _end(self) -> str:
        name = self._names.pop()
        self._counts[name] -= 1
        if name not in INLINE:
            self._blocks.pop()
        if self._hiding == len(self._names):
            self._hiding = None
        return name


def render_main(page: str) -> str:
    """Return the main text of a page, a line a block; only white space if there is none."""
    from turbohtml import TokenType, tokenize

    text, start = TokenType.TEXT, TokenType.START_TAG
    elements = OpenElements()
    shown: list[str] = []
    unseen, depth = "", 0
    for token in tokenize(page, capture_attributes=True):
        tag = token.tag
        if tag is None:
            if token.type == text and not unseen and not elements.hidden:
                data = token.data or ""
                shown.append(data if elements.preformatted else data.replace("\n", " "))
        elif unseen:
            if tag == unseen:
                depth += 1 if token.type == start else -1
                unseen = tag if depth else ""
        elif tag in HIDDEN and token.type == start:
            unseen, depth = tag, 1
        else:
            was_hidden = elements.hidden
            if token.type == start:
                _begin(elements, token, tag)
            else:
                elements.end(tag)
            if tag not in INLINE and not (was_hidden and elements.hidden):
                shown.append("\n")
    return "".join(shown)


def _begin(elements: OpenElements, token: Token, tag: str) -> None:
    """Begin the element of a start tag, if it has content that may be hidden or has to be ended."""
    elements.end_before(tag)
    if tag in VOID:
        return
    if token.self_closing and tag not in NOT_CLOSED_BY_SLASH:
        return
    hides = tag in ASIDE or _is_hidden(token)
    # Elements inside of a line are ended by name only where they hide something.
    if hides or elements.hidden or tag not in INLINE:
        elements.begin(tag, hides)


def _is_hidden(token: Token) -> bool:
    """Return whether the attributes of a tag hide its element."""
    for name, value in token.attrs or ():
        if name == "hidden":
            return True
        if name == "aria-hidden" and (value or "").strip().lower() == "true":
            return True
        if name == "style" and NOT_DISPLAYED.search(value or ""):
            return True
    return False
