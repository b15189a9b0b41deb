"""JSON lines of a JSON array or of a sequence of JSON values, a byte at a time.

The twin of `kernels/json_records.py`, which states the rules; both have the places and errors of
this module.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

START: Final = 0
"""Before the first value."""
FIRST: Final = 1
"""After the opening bracket of the array."""
NEXT: Final = 2
"""After a comma of the array."""
INSIDE: Final = 3
"""Inside an object, a list or a string."""
SCALAR: Final = 4
"""Inside anything else; in a sequence it ends with the line."""
AFTER: Final = 5
"""After an element of the array."""
END: Final = 6
"""After the closing bracket of the array."""
BETWEEN: Final = 7
"""In a sequence, between two values."""
ENDED: Final = 8
"""In a sequence, after a value on the same line."""

DONE: Final = 0
STRAY: Final = 1
"""A closing bracket too many, or data after the array."""
NO_COMMA: Final = 2
"""Two elements without a comma between them."""
LOOSE_COMMA: Final = 3
"""A comma that has no value on one side, or is between the values of a sequence."""

WHITE: Final = b" \t\r\n"
MARK: Final = b"\xef\xbb\xbf"


@dataclass
class JsonLines:
    """The lines that were made so far.

    Attributes:
        lines: As many bytes as were read, and a newline more for each of `breaks`.
        error: Why the last byte can't be read on from: STRAY, NO_COMMA, LOOSE_COMMA; or DONE.
        breaks: Places in the data where a record begins on a line after another one.
    """

    lines: bytearray = field(default_factory=bytearray)
    error: int = DONE
    breaks: list[int] = field(default_factory=list)
    _is_array: bool = False
    _place: int = START
    _closers: int = 0
    _string: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether the data may end here."""
        if self._is_array:
            return self._place == END
        return self._place != INSIDE

    def read(self, data: bytes) -> None:
        """Go on with these bytes, until there is an error."""
        for byte in data:
            if not self.error:
                written = self._next(bytes([byte]))
                if not self.error:
                    self.lines += written

    def _next(self, byte: bytes) -> bytes:
        """Return what stands for one byte, and find out where it leads."""
        if self._place == INSIDE:
            return self._inside(byte)
        if self._place == SCALAR and not (self._is_array and byte in b",]"):
            if byte == b"\n" and not self._is_array:
                self._place = BETWEEN
            return b" " if byte == b"\n" and self._is_array else byte
        if self._place == SCALAR:
            self._place = AFTER
        if byte in WHITE:
            if byte != b"\n":
                return byte
            if self._place not in (ENDED, BETWEEN):
                return b" "
            self._place = BETWEEN
            return byte
        if self._place == START:
            if byte in MARK:
                return byte
            if byte == b"[":
                self._is_array, self._place = True, FIRST
                return b" "
            self._place = BETWEEN
        if self._is_array:
            return self._element(byte)
        if byte == b",":
            self.error = LOOSE_COMMA
        elif self._place == ENDED:
            self.breaks.append(len(self.lines) - len(self.breaks))
            self._place = BETWEEN
            return b"\n" + self._value(byte)
        return self._value(byte)

    def _element(self, byte: bytes) -> bytes:
        """Return what stands for a byte between the elements of the array."""
        if self._place == END or byte == b"}":
            self.error = STRAY
        elif byte == b"]" and self._place in (FIRST, AFTER):
            self._place = END
            return b" "
        elif byte == b"," and self._place == AFTER:
            self._place = NEXT
            return b"\n"
        elif byte in b",]":
            self.error = LOOSE_COMMA
        elif self._place == AFTER:
            self.error = NO_COMMA
        return self._value(byte)

    def _value(self, byte: bytes) -> bytes:
        self._place, self._closers, self._string = SCALAR, 0, ""
        if byte in b"{[":
            self._place, self._closers = INSIDE, 1
        elif byte == b'"' and self._is_array:
            self._place, self._string = INSIDE, "open"
        return byte

    def _inside(self, byte: bytes) -> bytes:
        if self._string == "escape":
            self._string = "open"
        elif self._string:
            self._string = {b'"': "", b"\\": "escape"}.get(byte, "open")
        elif byte == b'"':
            self._string = "open"
        elif byte in b"{[":
            self._closers += 1
        elif byte in b"}]":
            self._closers -= 1
        elif byte == b"\n":
            return b" "
        if not self._closers and not self._string:
            self._place = AFTER if self._is_array else ENDED
        return b"\x01" if byte == b"\n" else byte
