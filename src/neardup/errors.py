"""What can go wrong, and what the caller should do about it.

    NeardupError                 exit 1, HTTP 500   anything below; catch this one
    ├── UsageError               exit 2, HTTP 400   the caller asked for something impossible
    │   ├── ParameterError       exit 2, HTTP 400   a parameter out of its range
    │   └── ColumnError          exit 2, HTTP 400   a column that the data does not have
    ├── InputError               exit 1, HTTP 422   a file that can't be read as what it claims
    │   └── RowError             exit 1, HTTP 422   one bad document, and --strict was asked for
    ├── FilterFull               exit 1, HTTP 507   a filter that has no room for one more key
    ├── OutputError              exit 1, HTTP 507   the result cannot be written where it should go
    ├── FormatError              exit 1, HTTP 422   bytes that are truncated, altered or foreign
    ├── SpecMismatch             exit 1, HTTP 409   two things made by different specifications
    ├── Conflict                 exit 1, HTTP 409   an id that an index has for another document
    ├── IndexLocked              exit 1, HTTP 503   an index that somebody else writes to
    ├── Busy                     exit 1, HTTP 503   more work than there is room for: try later
    └── StaleSketch              exit 1, HTTP 409   a sketch that no longer knows what is asked

Every message is one line: what happened, on which side, and the cure.
"""

from __future__ import annotations


class NeardupError(Exception):
    """Base of every error that neardup raises on purpose."""

    exit_code = 1
    http_status = 500


class UsageError(NeardupError):
    """The request itself is wrong; trying again unchanged cannot help."""

    exit_code = 2
    http_status = 400


class ParameterError(UsageError, ValueError):
    """A parameter is outside the range in which it has a meaning."""


class ColumnError(UsageError, KeyError):
    """A column was asked for that the data does not have."""

    def __init__(self, wanted: str, there: list[str], where: str, option: str) -> None:
        self.wanted, self.there, self.where = wanted, there, where
        names = ", ".join(there) if there else "none"
        message = f"{where} has no column {wanted!r}; it has: {names}. Choose one with {option}"
        super().__init__(message)
        self.option = option

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from their message by default; workers send this one.
        return type(self), (self.wanted, self.there, self.where, self.option)

    def __str__(self) -> str:
        # KeyError shows its argument in quotes; a sentence should not be quoted.
        return str(self.args[0])


class InputError(NeardupError):
    """A file cannot be read as what it claims to be. `file` is its name, where it is known."""

    http_status = 422

    def __init__(self, message: str, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file


class RowError(InputError):
    """A document was refused while strict reading was asked for."""


class FilterFull(NeardupError):  # noqa: N818  # reads as what happened
    """A filter has no room for one more key. `taken` keys of the batch are in it."""

    http_status = 507

    def __init__(self, message: str, taken: int = 0) -> None:
        super().__init__(message)
        self.taken = taken


class OutputError(NeardupError):
    """The result cannot be written where it should go."""

    http_status = 507


class FormatError(NeardupError):
    """Bytes are truncated, altered, or not ours."""

    http_status = 422


class SpecMismatch(NeardupError, ValueError):  # noqa: N818  # reads as what happened
    """Two things made by different specifications were about to be compared."""

    http_status = 409


class Conflict(NeardupError):  # noqa: N818  # reads as what happened
    """An index has this id already, for a document with another content."""

    http_status = 409


class IndexLocked(NeardupError):  # noqa: N818  # reads as what happened
    """Somebody else writes to this index."""

    http_status = 503


class Busy(NeardupError):  # noqa: N818  # reads as what happened
    """There is more to do than there is room for; trying again later can help."""

    http_status = 503


class StaleSketch(NeardupError):  # noqa: N818  # reads as what happened
    """A sketch does not hold enough to answer: it must be made again of what is in the set now."""

    http_status = 409
