"""The page at `/`: what this service is, its version, its routes, and where they are documented.

It is the same for all: it shows nothing of the index, the settings or the keys, so it needs no key.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any, Final

from fastapi import Response

import neardup
from neardup import report
from neardup.report.html import Html, make_page, note, table, tag
from neardup.service.error_responses import Header, JsonResponse
from neardup.service.service_route import ServiceRoute

DESCRIPTION: Final = "Is this new document a copy of something that came before?"
OPENAPI: Final = "/openapi.json"
GUIDE: Final = "https://github.com/neardup/neardup/blob/main/docs/service.md"
LONGEST_ACCEPT: Final = 1_000
HTML_TYPE, JSON_TYPE = "text/html", "application/json"


def answer_start(accept: str, page: str) -> Response:
    """Return the page, or a description as JSON for a client that prefers JSON.

    Args:
        accept: the Accept header of the request.
        page: the page, as `make_start_page` makes it.
    """
    headers: list[Header] = [("vary", "Accept")]
    if quality(accept, JSON_TYPE) > quality(accept, HTML_TYPE):
        content = {
            "name": "neardup",
            "version": neardup.__version__,
            "description": DESCRIPTION,
            "openapi": OPENAPI,
            "documentation": GUIDE,
        }
        return JsonResponse(content, headers=headers)
    headers += [("content-security-policy", security_policy()), ("referrer-policy", "no-referrer")]
    return Response(page, media_type=HTML_TYPE, headers=dict(headers))


def quality(accept: str, wanted: str) -> float:
    """Return how much a client wants a media type, from 0 to 1; without a header, everything.

    >>> quality("text/html, application/json;q=0.9, */*;q=0.1", "application/json")
    0.9
    >>> quality("text/*", "application/json"), quality("", "text/html")
    (0.0, 1.0)
    """
    ranges = {}
    # Everybody may ask, as often as they like: a long header must not cost more than a short one.
    for part in accept[:LONGEST_ACCEPT].split(",") if accept.strip() else ["*/*"]:
        name, *parameters = (each.strip().lower() for each in part.split(";"))
        ranges[name] = next((_weight(each[2:]) for each in parameters if each[:2] == "q="), 1.0)
    general = f"{wanted.partition('/')[0]}/*"
    return next((ranges[name] for name in (wanted, general, "*/*") if name in ranges), 0.0)


def _weight(text: str) -> float:
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


@cache
def security_policy() -> str:
    """Return the Content-Security-Policy of the page: its own style, and nothing else."""
    style = Path(report.__file__).with_name("page.css").read_bytes()
    digest = base64.b64encode(hashlib.sha256(style).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def make_start_page(routes: Iterable[Any]) -> Html:
    """Return the page with a table of the routes that the OpenAPI description has.

    Args:
        routes: the routes of the service.
    """
    rows = [
        (
            tag("code", f"{' '.join(sorted(route.methods or ()))} {route.path_format}"),
            route.description.partition("\n")[0],
            ", ".join(route.scopes) or "no key",
        )
        for route in routes
        if isinstance(route, ServiceRoute) and route.include_in_schema
    ]
    return make_page(
        "neardup",
        tag("p", f"neardup {neardup.__version__}", class_="brand"),
        tag("h1", DESCRIPTION),
        tag(
            "p",
            "This is a neardup service: an index of documents behind HTTP. It finds out whether a "
            "text is a near-duplicate, of which document, and how similar they are.",
        ),
        tag(
            "nav",
            tag("a", "The API for programs (OpenAPI)", href=OPENAPI.lstrip("/")),
            tag("a", "Guide", href=GUIDE, rel="noreferrer"),
            tag("a", "Ready?", href="readyz"),
        ),
        tag(
            "section",
            tag("h2", "Routes"),
            table("Routes", ("route", "answer", "scope"), rows),
            note(
                "Where keys are in use, a request needs one with the scope, in the header ",
                tag("code", "Authorization: Bearer KEY"),
                ". On the machine of the service, ",
                tag("code", "neardup keys add"),
                " makes one.",
            ),
        ),
    )
