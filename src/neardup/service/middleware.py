"""The middleware around every request: access, answers to errors, the log line, the counts."""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from neardup.errors import Busy, FormatError, NeardupError, OutputError
from neardup.service.access import OPEN_PATHS, is_review
from neardup.service.api_keys import ApiKey
from neardup.service.error_responses import (
    JsonResponse,
    describe_error,
    error_place,
    error_response,
)

if TYPE_CHECKING:
    from neardup.service.access import Places
    from neardup.service.index_service import IndexService

SANE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNKNOWN: Final = "unknown"


@dataclass(slots=True)
class RequestRecord:
    """The state of one request, from its headers to its log line."""

    id: str
    method: str
    headers: dict[bytes, bytes]
    source: str
    started: float
    key: ApiKey | None = None
    guarded: bool = True
    """Whether scopes are checked; False if access is open."""
    route: str = UNKNOWN
    """The pattern of the path, so that ids are not logged."""
    places: Places | None = None
    """Where it has a place, once it is admitted."""
    streamed: bool = False
    """Whether it is a stream, which takes as long as the client decides."""
    documents: int = 0
    bytes: int = 0
    """Bytes of its body that are in memory."""
    body_bytes: int = 0
    """Bytes of its body so far, after decompression."""
    status: int = 0
    error: str | None = None
    body_read: bool = True
    """Whether the body was read to its end."""
    http_version: str = "1.1"
    several_keys: bool = False
    """Whether there is more than one Authorization header."""

    @property
    def party(self) -> str:
        """Whose request it is, of those that take turns: the key, or the address without one."""
        return self.source if self.key is None else self.key.name


def start_record(scope: Mapping[str, Any], now: float) -> RequestRecord:
    """Return the record of a request that has just arrived.

    Args:
        scope: the scope of the ASGI server.
        now: seconds of a monotonic clock.
    """
    listed = scope["headers"]
    headers = dict(listed)
    client = scope.get("client")
    return RequestRecord(
        choose_request_id(headers.get(b"x-request-id", b"")),
        scope["method"],
        headers,
        source_name(client[0]) if client else UNKNOWN,
        now,
        body_read=headers.get(b"content-length", b"0") == b"0"
        and headers.keys().isdisjoint((b"transfer-encoding", b"upgrade")),
        http_version=scope.get("http_version", "1.1"),
        several_keys=len(listed) > len(headers)
        and sum(name == b"authorization" for name, _ in listed) > 1,
    )


def choose_request_id(sent: bytes) -> str:
    """Return the id that the client sent, if it is safe to log, or else a random id."""
    text = sent.decode("latin-1")
    return text if SANE_ID.fullmatch(text) else uuid.uuid4().hex


def source_name(address: str) -> str:
    """Return the name of an address for rates and the log: of IPv6, its /64 network.

    >>> source_name("192.0.2.7"), source_name("2001:db8:1:2:3::4")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(parsed, "ipv4_mapped", None)
    return str(mapped or IPv6Network((int(parsed), 64), strict=False))


CLOSED_BY_CLIENT: Final = 499
"""For the log and the metrics: the client has disconnected and gets no answer."""


class RequestMiddleware:
    """ASGI middleware. It does without Starlette's slower helpers because every request passes it.

    Args:
        app: the application that answers.
        service: the service, with its gate, log and metrics.
    """

    def __init__(self, app: ASGIApp, service: IndexService) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        service = self._service
        record = start_record(scope, time.monotonic())
        scope["record"] = record
        answer = self._add_headers(record, send, index=not is_review(scope["path"]))
        try:
            service.gate.enter(record, scope["path"])
            await self._app(scope, receive, answer)
        except ClientDisconnect:
            record.status = CLOSED_BY_CLIENT
        except asyncio.CancelledError:
            stopped = Busy("the service is being stopped: send it to the next one")
            await self._refuse(stopped, scope, receive, answer)
        except Exception as error:  # answered as 500, and logged, if it is no error of a request
            await self._refuse(error, scope, receive, answer)
        finally:
            service.gate.leave(record)
            self._finish(record)

    def _add_headers(self, record: RequestRecord, send: Send, index: bool) -> Send:
        """Wrap `send` to add the headers of every answer; those of the index to admitted requests
        alone, and not to pages that people without a key see too."""
        index_headers = self._service.headers
        own = (b"x-request-id", record.id.encode())

        async def answer(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                record.status = message["status"]
                message["headers"] = [*message["headers"], own]
                if index and record.places is not None:
                    message["headers"] += index_headers()
                if not record.body_read:
                    # The rest of the body is not read: no other request can follow it.
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        return answer

    async def _refuse(self, error: Exception, scope: Scope, receive: Receive, answer: Send) -> None:
        response = refuse(self._service, scope, error)
        record: RequestRecord = scope["record"]
        if record.status:  # The answer has begun: only the connection can be closed.
            record.status = response.status_code
            raise ConnectionAbortedError
        await response(scope, receive, answer)

    def _finish(self, record: RequestRecord) -> None:
        seconds = time.monotonic() - record.started
        status = record.status or 500
        self._service.metrics.observe_request(
            record.route, record.method, status, None if record.streamed else seconds
        )
        more = {} if record.error is None else {"error": record.error}
        if record.key is not None:
            more["key"] = record.key.name
        self._service.log.event(
            "request",
            request_id=record.id,
            method=record.method,
            route=record.route,
            status=status,
            seconds=round(seconds, 6),
            documents=record.documents,
            bytes=record.body_bytes,
            source=record.source,
            **more,
        )


def refuse(service: IndexService, scope: Scope, error: Exception) -> JsonResponse:
    """Return the answer to a failed request; its reason is logged and counted.

    Args:
        service: the service, with its log and metrics.
        scope: the scope of the request.
        error: the reason of the failure.
    """
    record: RequestRecord = scope["record"]
    _, body, _ = describe_error(error)
    record.error = body["error"]
    if isinstance(error, FormatError | OutputError):
        service.log.event("failed", request_id=record.id, message=str(error))
    elif not isinstance(error, NeardupError):
        service.log.event(
            "internal_error",
            request_id=record.id,
            kind=type(error).__name__,
            place=error_place(error),
        )
    if scope["path"] not in OPEN_PATHS:  # /readyz before the index is loaded is no refusal.
        service.metrics.observe_rejected(record.error)
    return error_response(error, record.id)
