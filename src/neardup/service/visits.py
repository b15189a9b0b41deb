"""One request on its way: who sent it, what it has cost so far, how it ended."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Network, ip_address
from typing import Any, Final

from neardup.service.api_keys import ApiKey

SANE_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
UNKNOWN: Final = "unknown"


@dataclass(slots=True)
class Visit:
    """A request, from its headers to the line in the log."""

    id: str
    method: str
    headers: dict[bytes, bytes]
    source: str
    started: float
    key: ApiKey | None = None
    guarded: bool = True
    """Whether scopes are checked: not where access is open."""
    route: str = UNKNOWN
    """The pattern of the path: ids in it are not logged."""
    inside: bool = False
    """Whether it counts as one that is under way."""
    streamed: bool = False
    """Whether it takes as long as the client likes."""
    documents: int = 0
    bytes: int = 0
    status: int = 0
    error: str | None = None
    body_read: bool = True
    """Whether nothing of the body is left."""


def visit_of(scope: Mapping[str, Any], now: float) -> Visit:
    headers = dict(scope["headers"])
    client = scope.get("client")
    return Visit(
        request_id(headers.get(b"x-request-id", b"")),
        scope["method"],
        headers,
        source_of(client[0]) if client else UNKNOWN,
        now,
        body_read=headers.get(b"content-length", b"0") == b"0"
        and headers.keys().isdisjoint((b"transfer-encoding", b"upgrade")),
    )


def request_id(given: bytes) -> str:
    """The client's, if it is a harmless one."""
    text = given.decode("latin-1")
    return text if SANE_ID.fullmatch(text) else uuid.uuid4().hex


def source_of(address: str) -> str:
    """Whom an address stands for. In IPv6 people have whole networks.

    >>> source_of("192.0.2.7"), source_of("2001:db8:1:2:3::4")
    ('192.0.2.7', '2001:db8:1:2::/64')
    """
    if ":" not in address:
        return address
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    mapped = getattr(found, "ipv4_mapped", None)
    return str(mapped or IPv6Network((int(found), 64), strict=False))
