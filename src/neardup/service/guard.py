"""Around every request: let it in, answer errors, log it, count it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Receive, Scope, Send

from neardup.errors import Busy, FormatError, NeardupError, OutputError
from neardup.service.bodies import Gone
from neardup.service.gate import OPEN
from neardup.service.problems import described, place_of, problem
from neardup.service.visits import Visit, visit_of

if TYPE_CHECKING:
    from neardup.service.state import Service

CLOSED_BY_CLIENT = 499
"""In the log and the metrics; nobody is there to see it as an answer."""


class Guard:
    """ASGI middleware. Plain, because it is passed by every request."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service = self._service
        visit = visit_of(scope, time.monotonic())
        scope["visit"] = visit
        answer = self._answering(visit, send)
        try:
            service.gate.enter(visit, scope["path"])
            await self._app(scope, receive, answer)
        except Gone:
            visit.status = CLOSED_BY_CLIENT
        except asyncio.CancelledError:
            stopped = Busy("the service is being stopped: send it to the next one")
            await self._refuse(visit, stopped, scope, receive, answer)
        except Exception as error:
            await self._refuse(visit, error, scope, receive, answer)
        finally:
            service.gate.leave(visit)
            self._record(visit)

    def _answering(self, visit: Visit, send: Send) -> Send:
        """Adds what every answer carries; who is not let in is told nothing of the index."""
        common = self._service.headers
        own = (b"x-request-id", visit.id.encode())

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                visit.status = message["status"]
                message["headers"] = [*message["headers"], own]
                if visit.inside:
                    message["headers"] += common()
                if not visit.body_read:
                    # What is left of the body is not wanted: nothing can follow it.
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        return answer

    async def _refuse(
        self, visit: Visit, error: Exception, scope: Scope, receive: Receive, answer: Send
    ) -> None:
        status, told, _ = described(error)
        visit.error = told["error"]
        if isinstance(error, FormatError | OutputError):
            self._service.log.event("failed", request_id=visit.id, message=str(error))
        if not isinstance(error, NeardupError):
            self._service.log.event(
                "mistake", request_id=visit.id, kind=type(error).__name__, place=place_of(error)
            )
        if visit.status:  # The answer has begun: all that can be done is to end it.
            visit.status = status
            raise ConnectionAbortedError
        if scope["path"] not in OPEN:  # "Not ready yet" turns nobody away.
            self._service.metrics.observe_rejected(visit.error)
        await problem(error, visit.id)(scope, receive, answer)

    def _record(self, visit: Visit) -> None:
        seconds = time.monotonic() - visit.started
        status = visit.status or 500
        told = None if visit.streamed else seconds
        self._service.metrics.observe_request(visit.route, visit.method, status, told)
        more = {} if visit.error is None else {"error": visit.error}
        if visit.key is not None:
            more["key"] = visit.key.name
        self._service.log.event(
            "request",
            request_id=visit.id,
            method=visit.method,
            route=visit.route,
            status=status,
            seconds=round(seconds, 6),
            documents=visit.documents,
            source=visit.source,
            **more,
        )
