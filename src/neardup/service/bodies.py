"""Reading what a client sends, never more than is allowed, and never for ever."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any, Final

from neardup.service.error_responses import Refusal, too_large
from neardup.service.limits import ServiceLimits

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
JSON, LINES = "application/json", "application/x-ndjson"
Hold = Callable[[int], None]
GZIP: Final = 31  # zlib's number for "gzip alone"
PIECE: Final = 1 << 16


class Gone(Exception):  # noqa: N818  # reads as what happened
    """The client has closed the connection: there is nobody to answer."""


async def pieces(receive: Receive, headers: dict[bytes, bytes]) -> AsyncIterator[bytes]:
    """A body as it comes in, unpacked."""
    if b"upgrade" in headers:  # What follows such headers is not read as HTTP any more.
        raise Refusal(400, "the protocol can't be changed: send it as HTTP/1.1, without Upgrade")
    unpack = _unpacker(headers)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Gone
        more = message.get("more_body", False)
        for number, piece in enumerate(unpack(message.get("body", b""))):
            if number:  # A packed body may go on for long: others have their turn.
                await asyncio.sleep(0)
            yield piece
    unpack(None)


async def whole_body(
    receive: Receive, headers: dict[bytes, bytes], settings: ServiceLimits, hold: Hold
) -> bytes:
    """A body of at most the size that is allowed. `hold` hears how many bytes there are so far."""
    most = settings.body_bytes
    stated = headers.get(b"content-length", b"0")
    if not stated.isdigit() or int(stated) > most:
        raise too_large("the body", most, "bytes", "body_bytes")
    held: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for piece in pieces(receive, headers):
                size += len(piece)
                if size > most:
                    raise too_large("the body", most, "bytes", "body_bytes")
                hold(size)
                held.append(piece)
    except TimeoutError:
        raise Refusal(
            408, f"the body did not arrive in {settings.body_seconds} s: send less at once"
        ) from None
    return b"".join(held)


async def lines(
    receive: Receive, headers: dict[bytes, bytes], settings: ServiceLimits, hold: Hold
) -> AsyncIterator[list[bytes | None]]:
    """The lines of a body, as many at a time as have come in; None is one that is too long."""
    rest = bytearray()
    skipping = False
    source = aiter(pieces(receive, headers))
    while True:
        try:
            async with asyncio.timeout(settings.idle_seconds):
                piece = await anext(source)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise Refusal(
                408, f"nothing came for {settings.idle_seconds} s: send the rest again"
            ) from None
        hold(len(rest) + len(piece))
        *ended, last = piece.split(b"\n")
        found: list[bytes | None] = []
        for line in ended:
            rest += line
            too_long = skipping or len(rest) > settings.body_bytes
            found.append(None if too_long else bytes(rest))
            rest.clear()
            skipping = False
        if not skipping:
            rest += last
            if len(rest) > settings.body_bytes:
                skipping = True
                rest.clear()
        if found:
            yield found
    if rest or skipping:
        yield [None if skipping else bytes(rest)]


def _unpacker(headers: dict[bytes, bytes]) -> Callable[[bytes | None], Iterable[bytes]]:
    """How pieces of a body are unpacked; None says that there are no more."""
    coding = headers.get(b"content-encoding", b"").strip().lower()
    if coding in (b"", b"identity"):
        return lambda piece: (piece,) if piece else ()
    if coding == b"gzip":
        return Gunzip()
    raise Refusal(
        415, "this Content-Encoding is not known: use gzip, or none", [("accept-encoding", "gzip")]
    )


class Gunzip:
    """Unpacks in pieces of a bounded size: a body that unpacks to a huge one is found early."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(GZIP)
        self._started = False

    def __call__(self, packed: bytes | None) -> Iterator[bytes]:
        if packed is None:
            if self._started and not self._state.eof:
                raise Refusal(400, "the gzip body ends too early: send all of it")
            return iter(())
        return self._unpacked(packed)

    def _unpacked(self, packed: bytes) -> Iterator[bytes]:
        while packed:
            if self._state.eof:  # Another member follows.
                self._state = zlib.decompressobj(GZIP)
            self._started = True
            try:
                piece = self._state.decompress(packed, PIECE)
            except zlib.error:
                raise Refusal(
                    400, "the body is not gzip, as its header says: send it again"
                ) from None
            packed = self._state.unused_data if self._state.eof else self._state.unconsumed_tail
            if piece:
                yield piece
