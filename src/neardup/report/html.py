"""How does data become markup that can do nothing but be looked at?

Every string is data, and is escaped where it enters markup, unless it is `Html`. What a page
can't hold, what nobody would see and what would rearrange the text around it (lone surrogates,
control characters, direction overrides) is shown as its escape: \\x00, \\u202e.
"""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterable, Sequence

LONGEST_NAME = 160

_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Html(str):
    """Markup. Joined with a plain string it is a plain string again, and gets escaped."""

    __slots__ = ()


def escaped(data: str) -> Html:
    """
    >>> escaped("<b>\\x00")
    '&lt;b&gt;\\\\x00'
    """
    if isinstance(data, Html):
        return data
    return Html(html.escape(_UNSHOWABLE.sub(_as_escape, data)))


def _as_escape(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]


def joined(parts: Iterable[str]) -> Html:
    return Html("".join(map(escaped, parts)))


def tag(name: str, *content: str, **attributes: str | float | bool) -> Html:
    """An element. A last underscore of an attribute is dropped, others become hyphens.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{given}>{joined(content)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:
    key = key.removesuffix("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {key}" if value else ""
    return f' {key}="{escaped(str(value))}"'


def name(data: str) -> Html:
    """A document's id or a file's name: kept short, and its direction to itself."""
    return tag("bdi", shortened(data), class_="name")


def shortened(data: str) -> str:
    if len(data) <= LONGEST_NAME:
        return data
    half = LONGEST_NAME // 2
    return f"{data[:half]} … {data[-half:]}"


def document(id: str, file: str, row: int, remark: str = "") -> Html:
    """An id and where the document is, unless the id says just that."""
    parts = [name(id)]
    if remark:
        parts += [Html(" "), tag("span", remark, class_="badge")]
    if id not in (file, f"{file}:{row}"):
        parts.append(tag("small", name(f"{file}:{row}")))
    return joined(parts)


def table(
    label: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Collection[str] = ()
) -> Html:
    """A table with headers, that scrolls by itself where the screen is too narrow."""
    kinds = ["number" if column in numeric else "" for column in columns]
    heads = (tag("th", c, scope="col", class_=k) for c, k in zip(columns, kinds, strict=True))
    body = (
        tag("tr", *(tag("td", cell, class_=k) for cell, k in zip(row, kinds, strict=True)))
        for row in rows
    )
    filled = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body))
    return tag("div", filled, class_="scroll", role="region", aria_label=label, tabindex=0)


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Names and their values, as a definition list."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", value)) for term, value in rows))


def note(*content: str) -> Html:
    return tag("p", *content, class_="note")
