"""Listening: one process, one event loop, and connections that can't be held open for nothing."""

from __future__ import annotations

import asyncio
import signal
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from neardup.errors import ParameterError
from neardup.service.logs import forward
from neardup.service.settings import Settings
from neardup.service.state import Service

TOO_LARGE = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)


class Patient(HttpToolsProtocol):
    """HTTP, with an end to patience: headers must come in time, and must not be huge."""

    settings: Settings

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._deadline: asyncio.TimerHandle | None = None
        self._head = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.settings.connections:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.is_closing() or not self._idle:
            return
        # The beginning of a request, or nothing that could become one.
        self._wait()
        self._head += len(data)
        if self._head > self.settings.header_bytes:
            self.transport.write(TOO_LARGE)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._patience_kept()
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._patience_kept()
        super().connection_lost(exc)

    @property
    def _idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.settings.header_seconds, self._give_up)

    def _patience_kept(self) -> None:
        self._head = 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if self._idle and not self.transport.is_closing():
            self.transport.abort()


def listen(host: str, port: int) -> socket.socket:
    """A socket that is bound, or an error that names the cure."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ParameterError(
            f"can't listen on {host} port {port} ({why}): choose others with --host and --port"
        ) from None


def run(app: FastAPI, bound: socket.socket, proxy: str | None) -> None:
    """Serve until told to stop; then finish what is under way. An index that can't be loaded
    ends it too, with the error."""
    service: Service = app.state.service
    settings = service.settings
    forward(service.log, "uvicorn", "uvicorn.error", "asyncio")
    config = uvicorn.Config(
        app, http=type("Protocol", (Patient,), {"settings": settings}), loop="uvloop", ws="none",
        log_config=None, access_log=False, server_header=False, lifespan="on",
        proxy_headers=proxy is not None, forwarded_allow_ips=proxy or "",
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )  # fmt: skip
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    service.when_failed = end
    # When it has stopped, the server sends itself the signal that it was stopped by.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    name, port = bound.getsockname()[:2]
    where = f"[{name}]" if ":" in name else name
    service.log.event("listening", url=f"http://{where}:{port}")
    server.run(sockets=[bound])
    if service.failure is not None:
        raise service.failure
