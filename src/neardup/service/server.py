"""The server: the FastAPI application, and the process that serves it with uvicorn.

One event loop; connections are bounded in time and memory.
"""

from __future__ import annotations

import asyncio
import ctypes
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import neardup
from neardup.errors import NeardupError, ParameterError
from neardup.service.error_responses import Refusal, validation_refusal
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.logs import forward
from neardup.service.middleware import RequestMiddleware, refuse
from neardup.service.routes import router

DESCRIPTION: Final = "Is this new document a copy of something that came before?"
NOT_ALLOWED: Final = 405
ROUTING_MESSAGES: Final = {
    404: "there is no such path: /openapi.json lists them",
    NOT_ALLOWED: "this path has other methods: the header Allow lists them",
}


def create_app(service: IndexService) -> FastAPI:
    """The application of a service; its index is loaded when it starts.

    There are no pages of documentation in it, because they would fetch scripts from elsewhere:
    `/openapi.json` is for tools.

    Args:
        service: the index, its limits, its log and its metrics.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = DescribedApp(
        title="neardup",
        version=neardup.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=[*router.routes],
        exception_handlers={
            NeardupError: _answer_refusal,
            RequestValidationError: _answer_invalid,
            HTTPException: _answer_unroutable,
        },
    )
    app.state.service = service
    app.add_middleware(RequestMiddleware, service=service)
    return app


class DescribedApp(FastAPI):
    """FastAPI, whose OpenAPI description states the limits of the service too."""

    def openapi(self) -> dict[str, Any]:
        made = self.openapi_schema is not None
        description = super().openapi()
        if not made:
            _state_limits(description["components"]["schemas"], self.state.service.limits)
        return description


def _state_limits(schemas: dict[str, Any], limits: ServiceLimits) -> None:
    for name in ("OneDocument", "NewDocument"):
        schemas[name]["properties"]["text"]["anyOf"][0]["maxLength"] = limits.text_length
    schemas["CheckText"]["properties"]["text"]["maxLength"] = limits.text_length
    texts = schemas["CheckTexts"]["properties"]["texts"]
    texts["maxItems"], texts["items"]["maxLength"] = limits.batch, limits.text_length
    schemas["NewDocuments"]["properties"]["documents"]["maxItems"] = limits.batch


async def _answer_refusal(request: Request, error: NeardupError) -> Response:
    return refuse(request.app.state.service, request.scope, error)


async def _answer_invalid(request: Request, error: RequestValidationError) -> Response:
    # A location begins with body, path or query.
    return await _answer_refusal(request, validation_refusal(error.errors(), prefix=1))


async def _answer_unroutable(request: Request, error: HTTPException) -> Response:
    """The answer to a path that is no route, or not with this method."""
    headers = list((error.headers or {}).items())
    if error.status_code == NOT_ALLOWED:
        headers = [("allow", ", ".join(_methods_of_path(request)))]
    message = ROUTING_MESSAGES.get(error.status_code, "the request can't be answered")
    return await _answer_refusal(request, Refusal(error.status_code, message, headers))


def _methods_of_path(request: Request) -> list[str]:
    """All methods of a path: the framework names those of its first route."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in route.methods or ()})


TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
AHEAD: Final = 16
"""Requests that a connection may send while others are answered."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """HTTP with limits: headers and trailers must be small and headers must come in time, answers
    must be read, and few requests may come ahead of their turn."""

    limits: ServiceLimits

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = True
        self._unparsed = 0
        """Bytes since a request began, or since the last piece of its body."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Writing pauses as soon as the other side does not read.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > self.limits.connections:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # The beginning of a request, or nothing that could become one.
        if self._in_head and self._idle:
            self._wait()
        # Headers, or what follows the last chunk of a body.
        if self._unparsed > self.limits.header_bytes:
            self._refuse()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # Trailers are not used.
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._cancel_deadline()
        self._in_head, self._unparsed = False, 0
        if self.transport.is_closing():
            return
        if len(self.pipeline) >= AHEAD:
            self.transport.abort()
        elif _size(self.url, self.headers) > self.limits.header_bytes:
            self._refuse()
        else:
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        if not self.transport.is_closing():
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head, self._unparsed = True, 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.limits.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_unread()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_unread()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.limits.header_seconds, self._close_idle)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close_idle(self) -> None:
        self._deadline = None
        if self._idle and not self.transport.is_closing():
            self.transport.abort()

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _refuse(self) -> None:
        if self._idle:
            self.transport.write(TOO_LARGE)
            self.transport.close()
        else:  # It would be taken for the answer to the request before it.
            self.transport.abort()


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) for name, value in headers)


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound.

    Args:
        host: a name or address of this machine.
        port: 0 is a free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            f"can't listen on {host} port {port} ({why}): choose others with --host and --port"
        ) from None


def run(app: FastAPI, bound: socket.socket, proxy: str | None) -> None:
    """Serve until a signal says to stop; then finish the requests under way. An index that can't be
    loaded ends it too, with the error.

    Args:
        app: with the service in its state.
        bound: the socket to listen on.
        proxy: the address of a proxy whose X-Forwarded-For is believed.
    """
    service: IndexService = app.state.service
    limits = service.limits
    forward(service.log, "uvicorn", "uvicorn.error", "asyncio")
    config = uvicorn.Config(
        app,
        http=type("Protocol", (BoundedHttpProtocol,), {"limits": limits}),
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.shutdown_seconds,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    service.when_failed, service.stopping = end, lambda: server.should_exit
    # Before the server listens to signals, and when it has stopped: then it sends itself the one
    # that it was stopped by.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())
    name, port = bound.getsockname()[:2]
    where = f"[{name}]" if ":" in name else name
    service.log.event("listening", url=f"http://{where}:{port}")
    server.run(sockets=[bound])
    if service.failure is not None:
        raise service.failure


SWITCH_SECONDS: Final = 0.0005
MMAP_THRESHOLD: Final = -3
"""As <malloc.h> has it."""
LARGE: Final = 256 << 10


def tune_process() -> None:
    """Let threads take turns more often, and give back the memory of large arrays at once.

    With Python's usual five milliseconds a thread that is busy makes all others wait that long.
    The C library raises by itself the size from which memory is given back, up to 32 MB; what is
    smaller is kept in pieces, and a process that runs for months grows without end.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)
