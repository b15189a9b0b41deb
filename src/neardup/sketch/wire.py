"""A sketch as bytes, for a file, a database or a message.

0   4  magic "nds1"
4   4  length of the specification, little-endian
8   n  the specification's canonical JSON
8+n m  the sketch's own bytes; for MinHash its slots, little-endian
..  8  XXH3-64 of everything before, little-endian
"""

from __future__ import annotations

from collections.abc import Callable

import xxhash

from neardup.errors import FormatError, ParameterError
from neardup.spec import Spec

MAGIC = b"nds1"
HEAD, TAIL = 8, 8


def pack(spec: Spec, payload: bytes) -> bytes:
    text = spec.canonical.encode()
    body = MAGIC + len(text).to_bytes(4, "little") + text + payload
    return body + xxhash.xxh3_64_intdigest(body).to_bytes(TAIL, "little")


def unpack(
    data: bytes,
    require: Callable[[Spec], None],
    payload_size: Callable[[Spec], int] | None = None,
) -> tuple[Spec, bytes]:
    """The specification and the sketch's own bytes, checked in every respect.

    `require` refuses, by a `ParameterError`, the specifications that the sketch can't have.
    Without `payload_size` the sketch checks itself how many bytes of its own there are.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise FormatError(f"a sketch is read from bytes, not from {type(data).__name__}")
    data = bytes(data)
    if data[:4] != MAGIC:
        raise FormatError(f"not a neardup sketch: expected {MAGIC!r} first, got {data[:4]!r}")
    body = data[:-TAIL]
    if len(data) < HEAD + TAIL or data[-TAIL:] != xxhash.xxh3_64_intdigest(body).to_bytes(
        TAIL, "little"
    ):
        raise FormatError("the sketch's bytes are truncated or altered: make or fetch it again")
    end = HEAD + int.from_bytes(data[4:HEAD], "little")
    try:
        spec = Spec.from_json(body[HEAD:end])
    except ParameterError as error:
        raise FormatError(f"the sketch needs another version of neardup: {error}") from None
    try:
        require(spec)
    except ParameterError as error:
        raise FormatError(f"these are the bytes of another sketch: {error}") from None
    payload = body[end:]
    if payload_size is not None and len(payload) != payload_size(spec):
        raise FormatError(
            f"the sketch holds {len(payload)} bytes, its specification says {payload_size(spec)}"
        )
    return spec, payload
