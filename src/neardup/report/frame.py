"""What is around the content of every page: one file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Final

from neardup.report.html import Html, tag

# No picture, no font, nothing from elsewhere: whatever a document holds, it is shown.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def policy(script: str) -> str:
    """What a browser may do with the page: run this very script, if there is one, and no other."""
    if not script:
        return POLICY
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"{POLICY}; script-src 'sha256-{digest}'"


def whole(title: str, *content: Html, script: Html | None = None) -> Html:
    """A complete page, with the only script that can run in it."""
    style = Path(__file__).with_name("page.css").read_text("utf-8")
    allowed = policy(script or "")
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
