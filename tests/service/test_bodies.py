"""Bodies: bounded whatever is sent, packed or not; lines are the same however they are cut."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect

from neardup.service.bodies import read_body, read_lines
from neardup.service.error_responses import Refusal
from neardup.service.limits import ServiceLimits

SMALL = ServiceLimits(body_bytes=1_000, body_seconds=1, idle_seconds=1)
GZIP = {b"content-encoding": b"gzip"}
Receive = Callable[[], Awaitable[dict[str, Any]]]


def sent(*parts: bytes, end: dict[str, Any] | None = None) -> Receive:
    messages = [{"type": "http.request", "body": part, "more_body": True} for part in parts]
    messages.append(end or {"type": "http.request", "body": b"", "more_body": False})
    left = iter(messages)

    async def receive() -> dict[str, Any]:
        return next(left)

    return receive


def ignore(_: int) -> None:
    """What holds memory and what charges bytes."""


def whole(receive: Receive, headers: dict[bytes, bytes], settings: ServiceLimits = SMALL) -> bytes:
    return asyncio.run(read_body(receive, headers, settings, ignore, ignore))


def all_lines(
    receive: Receive, headers: dict[bytes, bytes], settings: ServiceLimits = SMALL
) -> list[bytes | None]:
    async def read() -> list[bytes | None]:
        return [
            line
            async for group in read_lines(receive, headers, settings, ignore, ignore)
            for line in group
        ]

    return asyncio.run(read())


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({min(place, len(data)) for place in places})
    return [data[a:b] for a, b in zip([0, *ends], [*ends, len(data)], strict=True)]


PLACES = st.lists(st.integers(0, 2_000), max_size=8)


@given(st.binary(max_size=1_000), PLACES, st.booleans())
def test_body_equals_what_was_sent_however_it_is_cut(
    data: bytes, places: list[int], packed: bool
) -> None:
    body = gzip.compress(data) if packed else data
    assert whole(sent(*cut(body, places)), GZIP if packed else {}) == data


@given(st.lists(st.binary(max_size=40), max_size=20), PLACES, st.booleans())
def test_lines_are_the_same_however_they_are_cut(
    given_lines: list[bytes], places: list[int], packed: bool
) -> None:
    data = b"\n".join(given_lines)
    expected = data.split(b"\n")
    if expected[-1] == b"":
        expected.pop()
    body = gzip.compress(data) if packed else data
    assert all_lines(sent(*cut(body, places)), GZIP if packed else {}) == expected


@given(PLACES)
def test_oversized_line_is_reported_as_one_line(places: list[int]) -> None:
    data = b"a\n" + b"x" * 1_500 + b"\nb\n" + b"y" * 1_001
    assert all_lines(sent(*cut(data, places)), {}) == [b"a", None, b"b", None]


@pytest.mark.parametrize("headers", [{b"content-length": b"1001"}, {b"content-length": b"-1"}, {}])
def test_oversized_body_is_refused(headers: dict[bytes, bytes]) -> None:
    with pytest.raises(Refusal) as caught:
        whole(sent(b"x" * 600, b"x" * 401), headers)
    assert caught.value.http_status == 413


def bomb() -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b"".join([*(packer.compress(bytes(1 << 20)) for _ in range(64)), packer.flush()])


def test_gzip_bomb_is_refused_in_bounded_memory() -> None:
    packed = bomb()
    assert len(packed) < 100_000
    tracemalloc.start()
    with pytest.raises(Refusal) as caught:
        whole(sent(packed), GZIP)
    assert all_lines(sent(packed, gzip.compress(b"\nb")), GZIP) == [None, b"b"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert caught.value.http_status == 413
    assert peak < 4_000_000


@pytest.mark.parametrize(
    ("body", "coding", "status"),
    [
        (b"plain", b"gzip", 400),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], b"gzip", 400),
        (b"x", b"br", 415),
        (b"x", b"gzip, gzip", 415),
    ],
)
def test_broken_or_unsupported_content_encoding_is_refused(
    body: bytes, coding: bytes, status: int
) -> None:
    for read in (whole, all_lines):
        with pytest.raises(Refusal) as caught:
            read(sent(body), {b"content-encoding": coding})
        assert caught.value.http_status == status


def test_disconnect_is_raised_and_silence_gives_408() -> None:
    async def silent() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    for read in (whole, all_lines):
        with pytest.raises(ClientDisconnect):
            read(sent(b"x", end={"type": "http.disconnect"}), {})
        with pytest.raises(Refusal) as caught:
            read(silent, {})
        assert caught.value.http_status == 408
