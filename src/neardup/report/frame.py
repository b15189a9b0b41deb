"""What is around the content of every page: one file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from neardup.report.html import Html, tag

# No script, no picture, no font, nothing from elsewhere: whatever a document holds, it is shown.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def whole(title: str, *content: Html) -> Html:
    """A complete page."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    head = (
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Html('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Html(style)),
    )
    body = tag("body", tag("main", *content))
    return Html(f"<!doctype html>\n{tag('html', tag('head', *head), body, lang='en')}\n")
