"""A window over the pieces of a stream, for readers that must look ahead."""

from __future__ import annotations

from collections.abc import Iterable


class ByteWindow:
    """The part of a stream that is held: `data` from `at` on.

    Args:
        pieces: The stream.

    `before` is the number of bytes of the stream before `data`.
    """

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.data, self.at, self.before = b"", 0, 0

    def has(self, count: int) -> bool:
        """Return whether the stream goes on for `count` bytes; they are in `data` then."""
        have = len(self.data) - self.at
        if have >= count:
            return True
        parts = [self.data[self.at :]]
        while have < count and (piece := next(self._pieces, None)) is not None:
            parts.append(piece)
            have += len(piece)
        self.before += self.at
        self.data, self.at = b"".join(parts), 0
        return have >= count

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, fewer at the end, and go on after them."""
        self.has(count)
        taken = self.data[self.at : self.at + count]
        self.at += len(taken)
        return taken

    def skip(self, count: int) -> bool:
        """Go on after `count` bytes without holding them; return whether there were so many."""
        while count and self.has(1):
            step = min(count, len(self.data) - self.at)
            self.at, count = self.at + step, count - step
        return not count
