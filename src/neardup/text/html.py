"""Convert HTML pages to the text that they show.

A library cuts the page into tags and text by the HTML standard; which text is shown, and where
lines break, is decided here by the tag alone: style sheets and scripts are not evaluated. No tree
is built, so that neither deep nesting nor tags in the wrong order cost time or memory.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from neardup.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from neardup.spec import Spec


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HIDDEN = _names("iframe noembed noframes noscript object script style template title")
"""The content of these elements is not shown."""

INLINE = _names("""
    a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark nobr q rp
    rt ruby s samp small span strike strong sub sup time tt u var wbr
""")
"""These elements are part of a line; every other tag, known or not, breaks the line."""

BREAKING = _names("""
    address applet area article aside audio base basefont blockquote body br button canvas caption
    center col colgroup datalist dd details dialog dir div dl dt embed fieldset figcaption figure
    footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html input legend li link
    main map marquee math menu meta meter nav ol optgroup option output p param picture plaintext
    pre progress search section select slot source summary svg table tbody td textarea tfoot th
    thead tr track ul video xmp
""")
"""With the others, all elements of HTML, old and new: a text without any of them is not a page."""

PAGE = f"(?i)</?(?:{'|'.join(sorted(HIDDEN | INLINE | BREAKING))})[\\s/>]"


def require_html_library() -> None:
    """Raise `UsageError` if the HTML library is not installed."""
    if find_spec("turbohtml") is None:
        raise UsageError("strip html needs a library that is missing: pip install 'neardup[html]'")


def html_to_text(texts: pa.Array) -> pa.Array:
    """Return a large_string column with each page replaced by the text that it shows.

    A text without any HTML tag stays as it is, and so does a page that shows nothing.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    require_html_library()
    pages = pc.match_substring_regex(texts, PAGE).fill_null(False)
    shown = [render_page(page) for page in texts.filter(pages).to_pylist()]
    return pc.replace_with_mask(texts, pages, pa.array(shown, texts.type))


def strip_markup(texts: pa.Array, spec: Spec) -> pa.Array:
    """Return the texts without their markup if the specification strips it."""
    return html_to_text(texts) if spec.strip else texts


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
