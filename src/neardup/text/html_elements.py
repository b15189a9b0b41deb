"""The elements of HTML, by what they do to the text that a page shows."""

from __future__ import annotations


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

ASIDE = _names("aside footer form header nav")
"""What stands beside the text of a page, in elements that HTML has for it."""

VOID = _names("""
    area base basefont bgsound br col embed frame hr img input keygen link meta param source track
    wbr
""")
"""These elements have no end tag and no content."""

_PARAGRAPH_ENDS = _names("""
    address article aside blockquote center details dialog dir div dl fieldset figcaption figure
    footer form h1 h2 h3 h4 h5 h6 header hgroup hr listing main menu nav ol p plaintext pre search
    section summary table ul xmp
""")
_CELL_ENDS = _names("tbody td tfoot th thead tr")
ENDED_BY = {
    "p": _PARAGRAPH_ENDS,
    "li": _names("li"),
    "dt": _names("dd dt"),
    "dd": _names("dd dt"),
    "td": _CELL_ENDS,
    "th": _CELL_ENDS,
    "tr": _CELL_ENDS - _names("td th"),
    "option": _names("optgroup option"),
}
"""Element that may have no end tag -> the start tags that end it."""
