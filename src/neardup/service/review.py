"""The review page of a service, at /review: behind an API key, which opens a session.

It is made when it is first asked for. Requests to it have the rates and places of all others, by
their address; who they come from is the session's business, not that of the header Authorization.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from neardup.index.redis_store.address import is_redis
from neardup.report.html import note, tag
from neardup.review.application import create_review, set_session
from neardup.review.desk import ReviewDesk
from neardup.review.frame import field
from neardup.review.index_subject import NO_STORE, IndexSubject
from neardup.review.visits import ReviewPage, ReviewRefusal
from neardup.service.access import REVIEW_PATH, RateBuckets
from neardup.service.api_keys import ADMIN, ApiKey, ApiKeys
from neardup.service.middleware import RequestRecord

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.index_service import IndexService

LOGINS_PER_SECOND: Final = 1
LOGIN_BURST: Final = 10
"""Seconds of that rate which may be used at once: so many wrong keys, then one a second."""
ADDRESSES: Final = 10_000


class ServiceDesk(ReviewDesk):
    """The index of a service, which people with a key of scope admin review.

    Args:
        index: The index.
        keys: The keys of the service.
    """

    stranger = "log in first: the key of your session has been revoked, or the session is over"
    login_path = "login"

    def __init__(self, index: Index, keys: ApiKeys) -> None:
        super().__init__(IndexSubject(index), "", 0, prefix=REVIEW_PATH)
        self.cookie = "neardup-review"
        self._keys = keys
        self._logins = RateBuckets(LOGINS_PER_SECOND, LOGIN_BURST, ADDRESSES)
        self.token.value = ""  # nobody enters without a key

    def has_host(self, name: str) -> bool:
        """Return True: behind a proxy a service has any name, and the key is asked in any case."""
        del name
        return True

    def log_in(self, token: str, source: str, now: float) -> str:
        """Begin the session of a key, and return its secret for the cookie.

        Args:
            token: The API key.
            source: The address that it came from.
            now: Seconds of a monotonic clock.
        """
        wait = self._logins.take(source, 1, now)
        if wait:
            raise ReviewRefusal(429, f"too many attempts: try again in {wait:.0f} seconds")
        key = self._keys.find(token)
        if key is None or not _may_review(key):
            raise ReviewRefusal(
                403,
                "this API key is unknown, has expired or lacks the scope admin: use another one "
                "(neardup keys add NAME --scope admin makes one)",
            )

        def may_continue() -> bool:
            stored = (one for one in self._keys.all() if one.sha256 == key.sha256)
            return any(map(_may_review, stored))

        return self.sessions.begin(key.name, may_continue)


def _may_review(key: ApiKey) -> bool:
    return not key.expired and ADMIN in key.scopes


class ServiceReview:
    """The ASGI application of the page, for the paths that begin with /review.

    Args:
        service: The service with the index and its keys.
    """

    def __init__(self, service: IndexService) -> None:
        self._service = service
        self._desk: ServiceDesk | None = None
        self._app: Starlette | None = None
        self._lock = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        record: RequestRecord = scope["record"]
        record.route = REVIEW_PATH
        limits = self._service.limits

        async def receive_in_time() -> Message:
            try:
                async with asyncio.timeout(limits.body_seconds):
                    message = await receive()
            except TimeoutError:
                raise ReviewRefusal(408, "the form did not arrive in time: send it again") from None
            record.body_read |= not message.get("more_body", False)
            return message

        if is_redis(self._service.index.path):
            raise ReviewRefusal(404, f"there is no such page: {NO_STORE}")
        app = await self._prepare()
        await app(scope, receive_in_time, send)

    async def _prepare(self) -> Starlette:
        async with self._lock:
            if self._app is None:
                index, keys = self._service.index, self._service.keys
                self._desk = await run_in_threadpool(ServiceDesk, index, keys)
                self._app = create_review(self._desk, LOGIN_ROUTES)
            return self._app

    async def close(self) -> None:
        """Close all files."""
        if self._desk is not None:
            await run_in_threadpool(self._desk.close)


def _show_login(request: Request) -> Response:
    desk: ServiceDesk = request.scope["desk"]
    if "session" in request.scope:
        return RedirectResponse(desk.frame.url(""), 303)
    form = tag(
        "form",
        field("API key", "password", "key", required=True, autocomplete="current-password"),
        " ",
        tag("button", "Log in", class_="primary"),
        action=desk.frame.url("login"),
        method="post",
        class_="controls",
    )
    asked = note("The page needs an API key of scope admin: neardup keys add makes one.")
    return ReviewPage(desk.frame.page("Log in", tag("h1", "Log in"), asked, form))


async def _log_in(request: Request) -> Response:
    desk: ServiceDesk = request.scope["desk"]
    record: RequestRecord = request.scope["record"]
    secret = desk.log_in(request.scope["form"].get("key", ""), record.source, time.monotonic())
    answer = RedirectResponse(desk.frame.url(""), 303)
    # A proxy that ends TLS may not say so; the browser does, and the guard has compared the host.
    by_tls = request.url.scheme == "https" or request.headers.get("origin", "").startswith("https:")
    set_session(answer, desk, secret, secure=by_tls)
    return answer


async def go_to_review(_: Request) -> Response:
    """Go from the path without a slash at its end to the one with it."""
    return RedirectResponse(f"{REVIEW_PATH}/", 308)


LOGIN_ROUTES: Final = (
    Route("/login", _show_login, methods=["GET"]),
    Route("/login", _log_in, methods=["POST"]),
)
