"""The application of the review page: all routes, behind the guard, and the entrance."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from neardup import report
from neardup.report.html import Html, tag
from neardup.review import (
    actions,
    apply_page,
    bulk_page,
    cluster_page,
    clusters_page,
    decisions_page,
    document_page,
    label_page,
    overview_page,
)
from neardup.review.guard import ReviewGuard
from neardup.review.visits import ReviewPage, ReviewRefusal

if TYPE_CHECKING:
    from neardup.review.desk import ReviewDesk

STATIC: Final = Path(__file__).parent / "static"
STYLES_OF_REPORTS: Final = Path(report.__file__).with_name("page.css")
TYPES: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGES: Final = (
    overview_page,
    clusters_page,
    cluster_page,
    document_page,
    label_page,
    bulk_page,
    decisions_page,
    apply_page,
    actions,
)
"""The modules with pages; each has its routes in ROUTES."""


def create_review(desk: ReviewDesk, entrance: Sequence[BaseRoute] = ()) -> Starlette:
    """Return the application of the review page.

    Args:
        desk: What the pages work on; it is closed when the application ends.
        entrance: Routes by which people enter, besides the address with the token.
    """

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(desk.close)

    routes: list[BaseRoute] = [
        *entrance,
        Route("/static/{name}", _send_file),
        Route("/favicon.ico", _send_icon),
        Route("/open", _open_session),
        Route("/alive", _say_alive),
        Route("/logout", _end_session, methods=["POST"]),
    ]
    return Starlette(
        routes=routes + [route for module in PAGES for route in module.ROUTES],
        middleware=[Middleware(ReviewGuard, desk=desk)],
        exception_handlers={HTTPException: _refuse_path},
        lifespan=lifespan,
    )


@cache
def static_files() -> dict[str, bytes]:
    """Return the scripts, styles and pictures of the page by their names."""
    found = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in TYPES}
    return found | {STYLES_OF_REPORTS.name: STYLES_OF_REPORTS.read_bytes()}


async def _send_file(request: Request) -> Response:
    name = request.path_params["name"]
    content = static_files().get(name)
    if content is None:
        raise ReviewRefusal(404, "there is no such file: load the page again")
    return Response(content, media_type=TYPES[Path(name).suffix])


async def _send_icon(_: Request) -> Response:
    """Send the icon that browsers ask for beside a plain text, which names none."""
    return Response(static_files()["icon.svg"], media_type=TYPES[".svg"])


async def _open_session(request: Request) -> Response:
    """Exchange the token of the address for a session."""
    desk: ReviewDesk = request.scope["desk"]
    if "session" in request.scope:  # the same address again, in the same browser
        return RedirectResponse(desk.frame.url(desk.start), 303)
    token = request.query_params.get("token", "")
    if request.method == "HEAD" or not desk.token.redeem(token):
        raise ReviewRefusal(
            403,
            "this address has been used, or is not complete: open the one that neardup review "
            "printed last",
        )
    # Not a redirect: after one from elsewhere, the browser would not send a strict cookie yet.
    first = desk.frame.url(desk.start)
    onward = Html(f'<meta http-equiv="refresh" content="0;url={first}">')
    link = tag("p", tag("a", "To the review", href=first))
    answer = ReviewPage(desk.frame.page("Welcome", onward, link))
    set_session(answer, desk, desk.sessions.begin(desk.who))
    return answer


def set_session(answer: Response, desk: ReviewDesk, secret: str, secure: bool = False) -> None:
    """Have the browser keep a session.

    Args:
        answer: The answer that tells it.
        desk: The desk that the session is of.
        secret: The secret of the session.
        secure: Whether the browser sends it by TLS alone.
    """
    place = desk.frame.url("")
    answer.set_cookie(
        desk.cookie, secret, path=place, httponly=True, samesite="strict", secure=secure
    )


async def _end_session(request: Request) -> Response:
    desk: ReviewDesk = request.scope["desk"]
    desk.sessions.end(request.scope["session_secret"])
    page = desk.frame.page(
        "Logged out", tag("h1", "You are logged out"), tag("p", "Everything decided is stored.")
    )
    answer = ReviewPage(page)
    answer.delete_cookie(desk.cookie, path=desk.frame.url(""), httponly=True, samesite="strict")
    return answer


async def _say_alive(_: Request) -> Response:
    return Response(status_code=204)


async def _refuse_path(_: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    raise ReviewRefusal(status, "there is no such page: follow the links of the overview")
