"""The frame of all bytes that are stored or sent: a magic number in front, a checksum at the end.

    0   m  magic, which includes the version of the format
    m   n  the content
    m+n 8  XXH3-64 of everything before, little-endian

Sketches, lists of ignored lines, document frequencies and the headers of filters and of files of
blocks have this frame; blocks and filters have an XXH3-64 for each of their arrays, too.
"""

from __future__ import annotations

from struct import Struct

import xxhash

from neardup.errors import FormatError

CHECKSUM = Struct("<Q")


def checksum(data: bytes | memoryview) -> int:
    """Return the XXH3-64 of bytes."""
    return xxhash.xxh3_64_intdigest(data)


def seal(content: bytes) -> bytes:
    """Append the checksum to content that begins with its magic number.

    >>> is_sealed(seal(b"nds1 and more")), is_sealed(b"nds1 and more")
    (True, False)
    """
    return content + CHECKSUM.pack(checksum(content))


def is_sealed(data: bytes) -> bool:
    """Return whether the last eight bytes are the checksum of all bytes before them."""
    return data[-CHECKSUM.size :] == CHECKSUM.pack(checksum(data[: -CHECKSUM.size]))


def unseal(data: bytes, magic: bytes, name: str, smallest: int = 0) -> bytes:
    """Return the content of framed bytes, magic number included, or raise `FormatError`.

    Args:
        data: The bytes that `seal` returned.
        magic: The magic number that the content must begin with.
        name: What the bytes are, for messages: "a neardup sketch".
        smallest: The least number of bytes that the content may have.

    >>> unseal(seal(b"nds1 and more"), b"nds1", "a neardup sketch")
    b'nds1 and more'
    """
    if not data.startswith(magic):
        raise FormatError(f"not {name}: expected {magic!r} first, got {data[: len(magic)]!r}")
    if len(data) >= smallest + CHECKSUM.size and is_sealed(data[:-8] + data[:-9:-1]):
        raise FormatError(
            f"the checksum of {name} has its bytes in the other order: write numbers little-endian"
        )
    if len(data) < smallest + CHECKSUM.size or not is_sealed(data):
        raise FormatError(
            f"the bytes of {name} are truncated or altered: make them again, or fetch them again"
        )
    return data[: -CHECKSUM.size]
