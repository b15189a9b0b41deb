"""The guard in front of the review page: who may see it, and which requests are really its own.

The server listens on 127.0.0.1, where every page in the browser can reach it too: so the name in
the address is checked (DNS rebinding), every change must carry the token of the session's forms,
and each answer states a policy by which nothing of a document can run or load anything.
"""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from neardup.errors import NeardupError
from neardup.report.html import tag
from neardup.review.frame import POLICY
from neardup.review.visits import ReviewPage, ReviewRefusal

if TYPE_CHECKING:
    from neardup.review.desk import ReviewDesk

LONGEST_FORM: Final = 1 << 20
MOST_FIELDS: Final = 1_000
FORM_TYPE: Final = b"application/x-www-form-urlencoded"
HEADERS: Final = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
OPEN: Final = ("/static/", "/open", "/login")
"""Beginnings of paths that need no session."""
UNCHECKED: Final = (*OPEN, "/alive", "/logout")
"""Beginnings of paths that have nothing to do with what is reviewed."""


class ReviewGuard:
    """ASGI middleware around the review page.

    Args:
        app: The application with the pages.
        desk: What the pages work on.
    """

    def __init__(self, app: ASGIApp, desk: ReviewDesk) -> None:
        self._app, self._desk = app, desk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["desk"] = self._desk
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        answer = _with_headers(send, cached=path.startswith("/static/"))
        try:
            headers = dict(scope["headers"])
            self._check_place(headers)
            self._find_session(scope, headers)
            if "session" not in scope and not path.startswith(OPEN):
                await self._refuse_stranger(scope, receive, answer)
                return
            if scope["method"] == "POST":
                scope["form"] = await _read_form(headers, receive)
                self._check_form(scope)
            if "session" in scope and not path.startswith(UNCHECKED):
                self._desk.subject.check()
            await self._app(scope, receive, answer)
        except NeardupError as error:
            await self._refuse(error, scope, receive, answer)

    def _check_place(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a request that was made for another name, or by a page from elsewhere."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._desk.has_host(host):
            raise ReviewRefusal(421, "this server has another name: use the address it printed")
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").partition("://")[2].lower() != host:
            raise ReviewRefusal(403, "the request came from another page: open this one itself")
        if headers.get(b"sec-fetch-site") == b"cross-site" and b"sec-fetch-user" not in headers:
            raise ReviewRefusal(403, "the request came from another site: open this page itself")

    def _find_session(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        try:
            cookies = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1"))
        except CookieError:
            return
        cookie = cookies.get(self._desk.cookie)
        session = None if cookie is None else self._desk.sessions.find(cookie.value)
        if cookie is not None and session is not None:
            scope["session"], scope["session_secret"] = session, cookie.value

    @staticmethod
    def _check_form(scope: Scope) -> None:
        session = scope.get("session")
        if session is not None and not session.accepts(scope["form"].get("form_token", "")):
            raise ReviewRefusal(403, "the form is not one of this page: load the page again")

    async def _refuse_stranger(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._desk.login_path and scope["method"] == "GET":
            await RedirectResponse(self._desk.frame.url(self._desk.login_path), 303)(
                scope, receive, send
            )
            return
        await self._refuse(ReviewRefusal(403, self._desk.stranger), scope, receive, send)

    async def _refuse(
        self, error: NeardupError, scope: Scope, receive: Receive, send: Send
    ) -> None:
        answer: Response
        if dict(scope["headers"]).get(b"x-sent-by") == b"script":
            content = json.dumps({"message": str(error)})
            answer = Response(content, error.http_status, media_type="application/json")
        else:
            session = scope.get("session")
            page = self._desk.frame.page(
                "Not possible",
                tag("h1", "That is not possible"),
                tag("p", str(error), class_="refused"),
                tag("p", tag("a", "To the overview", href=self._desk.frame.url(""))),
                **({"who": session.who, "form_token": session.form_token} if session else {}),
            )
            answer = ReviewPage(page, error.http_status)
        await answer(scope, receive, send)


async def _read_form(headers: dict[bytes, bytes], receive: Receive) -> dict[str, str]:
    """Return the fields of a form; refuse a body that is no form, or too long."""
    if headers.get(b"content-type", b"").partition(b";")[0].strip().lower() != FORM_TYPE:
        raise ReviewRefusal(415, "this is not a form of the page: load the page again")
    body = bytearray()
    more = True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ReviewRefusal(400, "the form was not sent to its end: send it again")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > LONGEST_FORM:
            raise ReviewRefusal(413, f"the form is longer than {LONGEST_FORM:,} bytes: send less")
    try:
        text = body.decode("ascii")
        fields = parse_qsl(text, True, errors="strict", max_num_fields=MOST_FIELDS)
    except ValueError:
        raise ReviewRefusal(400, "the form can't be read: load the page again") from None
    return dict(fields)


def _with_headers(send: Send, cached: bool) -> Send:
    """Return `send` with the headers of every answer."""
    kept = b"private, max-age=300" if cached else b"no-store"

    async def answer(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message["headers"], *HEADERS, (b"cache-control", kept)]
        await send(message)

    return answer
