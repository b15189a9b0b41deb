"""Request bodies: read within limits, and checked for size before they are validated."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Final

import orjson
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from neardup.service.error_responses import Refusal, invalid, too_large
from neardup.service.limits import ServiceLimits

JSON, NDJSON = "application/json", "application/x-ndjson"
Hold = Callable[[int], None]
Charge = Callable[[int], None]
Headers = dict[bytes, bytes]
GZIP: Final = 31  # zlib's number for "gzip alone"
PIECE: Final = 1 << 16
MOST_FIELDS: Final = 16
DEEPEST: Final = 4
TEXTS: Final = ("text", "texts")
"""Fields whose length is that of texts."""


def content_type(headers: Headers) -> str:
    """The Content-Type without its parameters.

    >>> content_type({b"content-type": b"Application/JSON; charset=utf-8"})
    'application/json'
    """
    return headers.get(b"content-type", b"").decode("latin-1").partition(";")[0].strip().lower()


async def read_pieces(receive: Receive, headers: Headers, charge: Charge) -> AsyncIterator[bytes]:
    """Yield the pieces of a body as they arrive, decompressed; each is charged."""
    if b"upgrade" in headers:  # The parser does not read the body of such a request as HTTP.
        raise Refusal(400, "the protocol can't be changed: send it as HTTP/1.1, without Upgrade")
    decompress = _decompressor(headers)
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        more = message.get("more_body", False)
        for number, piece in enumerate(decompress(message.get("body", b""))):
            if number:  # A compressed body may be long: let other requests run.
                await asyncio.sleep(0)
            charge(len(piece))
            yield piece
    decompress(None)


async def read_body(
    receive: Receive, headers: Headers, limits: ServiceLimits, hold: Hold, charge: Charge
) -> bytes:
    """Read a complete body, within the limits of size and time.

    Args:
        receive: returns the next message of the ASGI server.
        headers: the headers of the request.
        limits: the limits of the service.
        hold: called with the number of bytes in memory; it raises if they exceed a limit.
        charge: called with the number of bytes of each piece.
    """
    most = limits.body_bytes
    stated = headers.get(b"content-length", b"0")
    if not stated.isdigit() or int(stated) > most:
        raise too_large("the body", most, "bytes", "body_bytes")
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for piece in read_pieces(receive, headers, charge):
                size += len(piece)
                if size > most:
                    raise too_large("the body", most, "bytes", "body_bytes")
                hold(size)
                pieces.append(piece)
    except TimeoutError:
        raise Refusal(
            408, f"the body did not arrive in {limits.body_seconds} s: send less at once"
        ) from None
    return b"".join(pieces)


async def read_lines(
    receive: Receive, headers: Headers, limits: ServiceLimits, hold: Hold, charge: Charge
) -> AsyncIterator[list[bytes | None]]:
    """Yield the lines of a body in groups as they arrive; None stands for a line that is too long.

    A group may be empty: each piece of the body ends one, so that the reader can be slowed down.

    Args:
        receive: returns the next message of the ASGI server.
        headers: the headers of the request.
        limits: the limits of the service.
        hold: called with the number of bytes in memory; it raises if they exceed a limit.
        charge: called with the number of bytes of each piece.
    """
    rest = bytearray()
    skipping = False
    source = aiter(read_pieces(receive, headers, charge))
    while True:
        try:
            async with asyncio.timeout(limits.idle_seconds):
                piece = await anext(source)
        except StopAsyncIteration:
            break
        except TimeoutError:
            raise Refusal(
                408, f"no data for {limits.idle_seconds} s: send the rest again"
            ) from None
        hold(len(rest) + len(piece))
        *ended, last = piece.split(b"\n")
        lines: list[bytes | None] = []
        for line in ended:
            rest += line
            too_long = skipping or len(rest) > limits.body_bytes
            lines.append(None if too_long else bytes(rest))
            rest.clear()
            skipping = False
        if not skipping:
            rest += last
            if len(rest) > limits.body_bytes:
                skipping = True
                rest.clear()
        yield lines
    if rest or skipping:
        yield [None if skipping else bytes(rest)]


def parse_json(body: bytes, limits: ServiceLimits) -> dict[str, Any]:
    """Parse the JSON object of a body or a line, and check its sizes against the limits.

    Too many fields or items are refused here, because validation would make an error of each.

    >>> parse_json(b'{"text": "a"}', ServiceLimits())
    {'text': 'a'}
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # The message of the parser could quote the body.
        raise Refusal(400, f"not valid JSON, at character {error.pos}: send one object") from None
    if not isinstance(value, dict):
        raise invalid(f"the body must be a JSON object, not {type(value).__name__}")
    _check_sizes(value, limits, DEEPEST)
    return value


def _check_sizes(value: Any, limits: ServiceLimits, depth: int, *, text: bool = False) -> None:
    if isinstance(value, str):
        if text and len(value) > limits.text_length:
            raise too_large("a text", limits.text_length, "characters", "text_length")
    elif isinstance(value, list):
        if len(value) > limits.batch:
            raise too_large("the batch", limits.batch, "documents", "batch")
        for item in value if depth else ():
            _check_sizes(item, limits, depth - 1, text=text)
    elif isinstance(value, dict):
        if len(value) > MOST_FIELDS:
            raise invalid(f"an object has more than {MOST_FIELDS} fields: send the documented ones")
        for name, item in value.items() if depth else ():
            if name == "metadata":
                _check_metadata(item, limits)
            elif name == "vector":
                _check_vectors([item], limits)
            elif name == "vectors" and isinstance(item, list):
                _check_vectors(item, limits)
            else:
                _check_sizes(item, limits, depth - 1, text=name in TEXTS)


def _check_vectors(vectors: list[Any], limits: ServiceLimits) -> None:
    """Check the sizes of vectors, whose numbers are not looked at one by one."""
    if len(vectors) > limits.batch:
        raise too_large("the batch", limits.batch, "documents", "batch")
    for vector in vectors:
        if isinstance(vector, list) and len(vector) > limits.vector_length:
            raise too_large("a vector", limits.vector_length, "numbers", "vector_length")


def _check_metadata(metadata: Any, limits: ServiceLimits) -> None:
    level: list[Any] = [metadata]
    for _ in range(limits.metadata_depth):
        level = [inner for each in level for inner in _containers_in(each)]
    if level:
        raise invalid(f"metadata is nested deeper than {limits.metadata_depth}: make it flatter")
    if len(orjson.dumps(metadata)) > limits.metadata_bytes:
        raise invalid(
            f"metadata is longer than {limits.metadata_bytes} bytes: keep it elsewhere, by id"
        )


def _containers_in(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, dict | list)]


def _decompressor(headers: Headers) -> Callable[[bytes | None], Iterable[bytes]]:
    """Return the function that decompresses the pieces of a body; None ends the body."""
    coding = headers.get(b"content-encoding", b"").strip().lower()
    if coding in (b"", b"identity"):
        return lambda piece: (piece,) if piece else ()
    if coding == b"gzip":
        return Gunzip()
    raise Refusal(
        415,
        "this Content-Encoding is not supported: use gzip, or none",
        [("accept-encoding", "gzip")],
    )


class Gunzip:
    """Decompresses in pieces of a bounded size, so that a decompression bomb is detected early."""

    def __init__(self) -> None:
        self._state = zlib.decompressobj(GZIP)
        self._started = False

    def __call__(self, compressed: bytes | None) -> Iterator[bytes]:
        if compressed is None:
            if self._started and not self._state.eof:
                raise Refusal(400, "the gzip body ends too early: send all of it")
            return iter(())
        return self._decompress(compressed)

    def _decompress(self, compressed: bytes) -> Iterator[bytes]:
        while compressed:
            if self._state.eof:  # Another member follows.
                self._state = zlib.decompressobj(GZIP)
            self._started = True
            try:
                piece = self._state.decompress(compressed, PIECE)
            except zlib.error:
                raise Refusal(
                    400,
                    "the body is not gzip: compress it, or drop Content-Encoding",
                ) from None
            state = self._state
            compressed = state.unused_data if state.eof else state.unconsumed_tail
            if piece:
                yield piece
