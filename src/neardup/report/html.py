"""HTML markup with all data escaped, and the frame of every page.

Every string is data and is escaped when it enters markup, unless it is `Html`. Characters that a
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
    """Markup. Concatenated with a plain string it becomes a plain string, which is escaped."""

    __slots__ = ()


def escape(data: str) -> Html:
    """Escape data for markup; markup is returned unchanged.

    >>> escape("<b>\\x00")
    '&lt;b&gt;\\\\x00'
    """
    if isinstance(data, Html):
        return data
    return Html(html.escape(_UNSHOWABLE.sub(_as_escape, data)))


def _as_escape(match: re.Match[str]) -> str:
    return ascii(match.group())[1:-1]


def join(parts: Iterable[str]) -> Html:
    """Concatenate markup and data, which is escaped."""
    return Html("".join(map(escape, parts)))


def tag(name: str, *content: str, **attributes: str | float | bool) -> Html:
    """Return an element. In names of attributes, a final underscore is dropped, others are hyphens.

    >>> tag("p", "1 < 2", class_="note")
    '<p class="note">1 &lt; 2</p>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    return Html(f"<{name}{written}>{join(content)}</{name}>")


def _attribute(key: str, value: str | float | bool) -> str:
    key = key.removesuffix("_").replace("_", "-")
    if isinstance(value, bool):
        return f" {key}" if value else ""
    return f' {key}="{escape(str(value))}"'


def name(data: str) -> Html:
    """Show an id or a file name: shortened, and isolated from the text direction around it."""
    return tag("bdi", shorten(data), class_="name")


def shorten(data: str) -> str:
    """Cut the middle out of a string that is longer than LONGEST_NAME."""
    if len(data) <= LONGEST_NAME:
        return data
    half = LONGEST_NAME // 2
    return f"{data[:half]} … {data[-half:]}"


def document(id: str, file: str, row: int, remark: str = "") -> Html:
    """Show a document: its id, and its file and row unless the id consists of them.

    Args:
        id: the id of the document.
        file: the file that holds it.
        row: its row in the file.
        remark: a short text that is shown as a badge.
    """
    parts = [name(id)]
    if remark:
        parts += [Html(" "), tag("span", remark, class_="badge")]
    if id not in (file, f"{file}:{row}"):
        parts.append(tag("small", name(f"{file}:{row}")))
    return join(parts)


def table(
    label: str, columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Collection[str] = ()
) -> Html:
    """Return a table that scrolls horizontally where the screen is too narrow.

    Args:
        label: its name for screen readers.
        columns: the headers.
        rows: the cells of each row.
        numeric: the columns that are aligned as numbers.
    """
    kinds = ["number" if column in numeric else "" for column in columns]
    heads = (tag("th", c, scope="col", class_=k) for c, k in zip(columns, kinds, strict=True))
    body = (
        tag("tr", *(tag("td", cell, class_=k) for cell, k in zip(row, kinds, strict=True)))
        for row in rows
    )
    filled = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", *body))
    return tag("div", filled, class_="scroll", role="region", aria_label=label, tabindex=0)


def pairs(rows: Iterable[tuple[str, str]]) -> Html:
    """Return a definition list of terms and values."""
    return tag("dl", *(tag("div", tag("dt", term), tag("dd", value)) for term, value in rows))


def note(*content: str) -> Html:
    """Return a paragraph in small print."""
    return tag("p", *content, class_="note")


# The page loads no picture, font or other file, whatever its documents contain.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def security_policy(script: str) -> str:
    """Return the Content-Security-Policy of a page: this script may run, and no other."""
    if not script:
        return POLICY
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{POLICY}; script-src 'sha256-{digest}'"


def make_page(title: str, *content: Html, script: Html | None = None) -> Html:
    """Return a complete page; `script` is the only script that can run in it."""
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
