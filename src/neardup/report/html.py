"""Markup that shows data and can do nothing else; the frame of every page.

Every string is data, and is escaped where it enters markup, unless it is `Html`. Characters that a
page can't hold, that are invisible or that would rearrange the text around them (lone surrogates,
control characters, direction overrides) are shown as their escapes: \\x00, \\u202e.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Final

LONGEST_NAME = 160

_UNSHOWABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


class Html(str):
    """Markup. Joined with a plain string it is a plain string again, and gets escaped."""

    __slots__ = ()


def escape(data: str) -> Html:
    """
    >>> escape("<b>\\x00")
    '&lt;b&gt;\\\\x00'
    """
    if isinstance(data, Html):
        return data
    return Html(html.escape(_UNSHOWABLE.sub(_as_escape, data)))


def _as_escape(found: re.Match[str]) -> str:
    return ascii(found.group())[1:-1]


def join(parts: Iterable[str]) -> Html:
    return Html("".join(map(escape, parts)))


def tag(name: str, *content: str, **attributes: str | float | bool) -> Html:
    """An element. A last underscore of an attribute is dropped, others become hyphens.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{given}>{join(content)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:
    key = key.removesuffix("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {key}" if value else ""
    return f' {key}="{escape(str(value))}"'


def name(data: str) -> Html:
    """A document's id or a file's name: kept short, and its direction to itself."""
    return tag("bdi", shorten(data), class_="name")


def shorten(data: str) -> str:
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
    return join(parts)


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


# No picture, no font, nothing from elsewhere: whatever a document holds, it is shown.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def security_policy(script: str) -> str:
    """What a browser may do with the page: run this very script, if there is one, and no other."""
    if not script:
        return POLICY
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{POLICY}; script-src 'sha256-{digest}'"


def make_page(title: str, *content: Html, script: Html | None = None) -> Html:
    """A complete page, with the only script that can run in it."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    allowed = security_policy(script or "")
    head = (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{allowed}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag("body", tag("main", *content), *([tag("script", script)] if script else []))
    return Html(f"<!doctype html>\n{tag('html', tag('head', *head), body, lang='en')}\n")
