"""All limits of the service, in one frozen value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Self

from neardup.errors import ParameterError

MIB = 1 << 20


@dataclass(frozen=True)
class ServiceLimits:
    """The limits of sizes, rates, numbers and times. `docs/service.md` lists them all.

    >>> ServiceLimits().with_limits(["batch=100"]).batch
    100
    """

    body_bytes: int = 16 * MIB
    """Bytes of a request's body, also after decompression; of a stream, bytes of one line."""
    batch: int = 1_000
    """Documents or texts in one request."""
    text_length: int = 1_000_000
    """Characters of a text."""
    vector_length: int = 4_096
    """Numbers of a vector."""
    metadata_bytes: int = 16_384
    """Bytes of a document's metadata as JSON."""
    metadata_depth: int = 16
    """Levels of nested objects and lists in metadata."""
    members: int = 1_000
    """Copies that an answer about a cluster lists; its size counts all of them."""
    cluster_text_bytes: int = 16 * MIB
    """Bytes of the copies' texts in one answer about a cluster."""
    clusters: int = 1_000
    """Clusters of one page of their list."""
    header_bytes: int = 32_768
    """Bytes of a request's line and headers."""
    requests: int = 256
    """Requests under way; further ones get 503."""
    key_requests: int = 128
    """Requests of one API key under way, so that one client can't use all of `requests`."""
    streams: int = 128
    """Streams under way, which don't count as requests; further ones get 503."""
    key_streams: int = 64
    """Streams of one API key under way."""
    bytes_under_way: int = 256 * MIB
    """Bytes of the bodies of all requests under way; one key gets at most half of them."""
    connections: int = 1_024
    """Open connections; further ones are closed, but for a few that ask for health or metrics."""
    source_connections: int = 512
    """Open connections of one address that is not the proxy."""
    key_rate: int = 10_000
    """Documents per second of one API key; 0 is no limit. A request counts as at least one, and an
    empty line of a stream as one."""
    source_rate: int = 10_000
    """The same of one client address, by requests without a valid key."""
    key_byte_rate: int = 64 * MIB
    """Bytes of bodies per second of one API key, after decompression; 0 is no limit."""
    source_byte_rate: int = 64 * MIB
    """The same of one client address, by requests without a valid key."""
    burst_seconds: int = 2
    """Seconds of a rate that may be used at once."""
    sources: int = 10_000
    """Addresses and keys whose rates are remembered."""
    log_bytes: int = 4 * MIB
    """Bytes of the lines of the log that may wait to be written; further lines are dropped."""
    header_seconds: int = 10
    """Seconds until the headers of a request must have arrived."""
    body_seconds: int = 30
    """Seconds until the body of a request must have arrived."""
    idle_seconds: int = 60
    """Seconds that a stream may be silent, and that a client may take to read an answer."""
    keep_alive_seconds: int = 15
    """Seconds after which a connection without a request is closed."""
    request_seconds: int = 60
    """Seconds after which a request is cancelled; a stream is not."""
    shutdown_seconds: int = 30
    """Seconds that requests under way may take after the signal to stop."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, least = getattr(self, field.name), 0 if field.name.endswith("_rate") else 1
            if value < least:
                raise ParameterError(f"{field.name} must be at least {least}, not {value}")

    def with_limits(self, settings: Iterable[str]) -> Self:
        """Return the limits with those of `settings` changed, each written name=value."""
        changed = {}
        names = [field.name for field in fields(self)]
        for setting in settings:
            name, _, value = setting.partition("=")
            if name not in names:
                raise ParameterError(f"unknown limit {name!r}: use {', '.join(names)}")
            if not (value.isascii() and value.isdigit() and len(value) < 16):
                raise ParameterError(f"limit {name} takes a whole number, as in {name}=100")
            changed[name] = int(value)
        return replace(self, **changed)
