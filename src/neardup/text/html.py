"""Convert HTML pages to the text that they show.

A library cuts the page into tags and text by the HTML standard; which text is shown, and where
lines break, is decided here by the tag alone: style sheets and scripts are not evaluated. No tree
is built, so that neither deep nesting nor tags in the wrong order cost time or memory.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from neardup.errors import UsageError
from neardup.text.html_elements import HIDDEN, INLINE, PAGE
from neardup.text.main_text import render_main

if TYPE_CHECKING:
    import pyarrow as pa

    from neardup.spec import Spec


def require_html_library() -> None:
    """Raise `UsageError` if the HTML library is not installed."""
    if find_spec("turbohtml") is None:
        raise UsageError("strip html needs a library that is missing: pip install 'neardup[html]'")


def html_to_text(texts: pa.Array, markup: str = "html") -> pa.Array:
    """Return a large_string column with each page replaced by the text that it shows.

    A text without any HTML tag stays as it is, and so does a page that shows nothing.

    Args:
        texts: A large_string column.
        markup: What is taken out, as the specification states it: `html` or `html:main`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    require_html_library()
    pages = pc.match_substring_regex(texts, PAGE).fill_null(False)
    render = RENDER[markup]
    shown = [render(page) for page in texts.filter(pages).to_pylist()]
    return pc.replace_with_mask(texts, pages, pa.array(shown, texts.type))


def strip_markup(texts: pa.Array, spec: Spec) -> pa.Array:
    """Return the texts without their markup if the specification strips it."""
    return html_to_text(texts, spec.strip) if spec.strip else texts


def render_page(page: str) -> str:
    """Return the text that a page shows, a line a block; the page itself if it shows nothing.

    >>> render_page("<title>Hi</title><p>Fish &amp; <b>chip</b>s<p>twice")
    '\\nFish & chips\\ntwice'
    """
    from turbohtml import TokenType, tokenize

    text, start = TokenType.TEXT, TokenType.START_TAG
    step = {start: 1, TokenType.END_TAG: -1}
    shown: list[str] = []
    hidden_by, depth, preformatted = "", 0, 0
    for token in tokenize(page, capture_attributes=False):
        tag = token.tag
        if tag is None:
            if token.type == text and not hidden_by:
                data = token.data or ""
                shown.append(data if preformatted else data.replace("\n", " "))
        elif hidden_by:
            if tag == hidden_by:
                depth += step[token.type]
                hidden_by = tag if depth else ""
        elif tag in HIDDEN and token.type == start:
            hidden_by, depth = tag, 1
        elif tag not in INLINE:
            shown.append("\n")
            if tag == "pre":
                preformatted = max(0, preformatted + step[token.type])
    result = "".join(shown)
    return result if result.strip() else page


def render_main_page(page: str) -> str:
    """Return the main text of a page; all that it shows if that is nothing.

    >>> render_main_page("<nav>Home<p>About</nav><p>Fish <i hidden>not </i>and chips")
    '\\n\\n\\nFish and chips'
    """
    main = render_main(page)
    return main if main.strip() else render_page(page)


RENDER = {"html": render_page, "html:main": render_main_page}
"""The markup that a specification strips -> the function that does it."""
