"""Connections: bounded in number, time and memory, whatever a client sends or leaves unread."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from neardup.service.limits import ServiceLimits
from neardup.service.metrics import Metrics
from neardup.service.middleware import UNKNOWN, source_name

TOO_LARGE: Final = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\n"
    b"content-length: 0\r\nconnection: close\r\n\r\n"
)
AHEAD: Final = 16
"""Requests that a connection may send before earlier ones are answered."""
RESERVED: Final = 8
"""Connections beyond the limit, for health and metrics alone."""
RESERVED_PATHS: Final = frozenset([b"/healthz", b"/readyz", b"/metrics"])


class BoundedHttpProtocol(HttpToolsProtocol):
    """HTTP with limits on the size of headers and trailers, on the time for headers and for reading
    answers, on pipelined requests, and on the number of connections, of one address too.

    A client that has closed its side gets its answers; one that is gone ends its requests.
    """

    limits: ServiceLimits
    metrics: Metrics
    proxies: frozenset[str]
    """Addresses that may hold all connections; a star stands for all."""
    held: Counter[str]
    """Open connections by address."""

    def __init__(self, *args: Any, **others: Any) -> None:
        super().__init__(*args, **others)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._in_head = True
        self._unparsed = 0
        """Bytes since a request began, or since the last piece of its body."""
        self._source = UNKNOWN
        self._reserved = False
        """Whether it is one of those for health and metrics."""
        self._cycles: deque[RequestResponseCycle] = deque()
        """Requests that are being answered or wait for it; uvicorn knows the last one alone."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        # Writing pauses as soon as the other side does not read.
        transport.set_write_buffer_limits(0)
        if self.client is not None:
            self._source = source_name(self.client[0])
        self.held[self._source] += 1
        beyond = len(self.connections) - self.limits.connections
        self._reserved = beyond > 0
        refused = beyond > RESERVED or self._holds_too_many()
        self.metrics.observe_connections(len(self.connections) - refused, refused=refused)
        if refused:
            transport.abort()
        else:
            self._wait()

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        # The start of a request, or bytes that can't become one.
        if self._in_head and self._idle:
            self._wait()
        # Headers, or trailers after the last chunk of a body.
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
        elif self._reserved and self.url.partition(b"?")[0] not in RESERVED_PATHS:
            self.metrics.observe_connections(len(self.connections) - 1, refused=True)
            self.transport.abort()
        elif _size(self.url, self.headers) > self.limits.header_bytes:
            self._refuse()
        else:
            super().on_headers_complete()
            self._follow(self.cycle)

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

    def eof_received(self) -> bool:  # type: ignore[override]
        """Return whether requests are left to answer, of a client that has closed its side."""
        if self._idle or self.cycle.more_body:
            return False
        self.cycle.keep_alive = False
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._cancel_unread()
        for cycle in self._cycles:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()
        super().connection_lost(exc)
        self.held[self._source] -= 1
        if not self.held[self._source]:
            del self.held[self._source]
        self.metrics.observe_connections(len(self.connections))

    def _holds_too_many(self) -> bool:
        proxied = self.client is not None and self.client[0] in self.proxies
        most = self.limits.source_connections
        return self.held[self._source] > most and not (proxied or "*" in self.proxies)

    def _follow(self, cycle: RequestResponseCycle) -> None:
        while self._cycles and self._cycles[0].response_complete:
            self._cycles.popleft()
        self._cycles.append(cycle)
        if self._reserved:
            cycle.keep_alive = False

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
        else:  # An answer would be read as that to the request before.
            self.transport.abort()


def _size(url: bytes, headers: list[tuple[bytes, bytes]]) -> int:
    return len(url) + sum(len(name) + len(value) for name, value in headers)
