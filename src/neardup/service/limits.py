"""Every limit of the service, in one frozen value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Self

from neardup.errors import ParameterError

MIB = 1 << 20


@dataclass(frozen=True)
class ServiceLimits:
    """What the service takes in, from whom, how much at once, and how long it waits.

    >>> ServiceLimits().with_limits(["batch=100"]).batch
    100
    """

    body_bytes: int = 16 * MIB
    """Of a request's body, also after it was unpacked; of a stream, of one line."""
    batch: int = 1_000
    """Documents, or texts, of one request."""
    text_length: int = 1_000_000
    """Characters of a text."""
    metadata_bytes: int = 16_384
    """Of a document's metadata as JSON."""
    metadata_depth: int = 16
    """Objects and lists inside one another."""
    members: int = 1_000
    """Copies that an answer about a cluster lists; the size counts all of them."""
    header_bytes: int = 32_768
    """Of a request's line and headers."""
    requests: int = 256
    """Under way at once; more are told to come back."""
    key_requests: int = 128
    """Of one API key; so one client can't take all the room."""
    bytes_under_way: int = 256 * MIB
    """Of the bodies of all requests that are under way."""
    connections: int = 1_024
    """Open at once; more are closed."""
    key_rate: int = 10_000
    """Documents a second for one API key; 0 is no limit. A request counts as one at least."""
    source_rate: int = 10_000
    """The same for one address that requests come from."""
    burst_seconds: int = 2
    """So many seconds of a rate may come at once."""
    sources: int = 10_000
    """Addresses and keys whose rates are remembered."""
    header_seconds: int = 10
    """Until a request's headers must be there."""
    body_seconds: int = 30
    """Until a request's body must be there."""
    idle_seconds: int = 60
    """A stream may be silent for so long, and who was answered take so long to read it."""
    keep_alive_seconds: int = 15
    """A connection without a request is closed after these."""
    request_seconds: int = 60
    """A request is given up after these; a stream is not."""
    shutdown_seconds: int = 30
    """What is under way may take so long when the service is told to stop."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name.endswith("_rate") else 1
            if value < least:
                raise ParameterError(f"{field.name} must be at least {least}, not {value}")

    def with_limits(self, given: Iterable[str]) -> Self:
        """The same with some limits given as people write them, name=value."""
        changed = {}
        for text in given:
            name, _, value = text.partition("=")
            known = [field.name for field in fields(self)]
            if name not in known:
                raise ParameterError(f"limit {name!r} is not known: use {', '.join(known)}")
            if not (value.isascii() and value.isdigit() and len(value) < 16):
                raise ParameterError(f"limit {name} takes a whole number, as in {name}=100")
            changed[name] = int(value)
        return replace(self, **changed)
