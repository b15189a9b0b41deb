"""The tree of errors; exit codes and HTTP statuses derive from it.

    NeardupError                 exit 1, HTTP 500   anything below; catch this one
    ├── UsageError               exit 2, HTTP 400   a request that can't be fulfilled as it is
    │   ├── ParameterError       exit 2, HTTP 400   a parameter out of its range
    │   └── ColumnError          exit 2, HTTP 400   a column that the data does not have
    ├── InputError               exit 1, HTTP 422   a file that can't be read in its format
    │   ├── MissingInput         exit 2, HTTP 422   a file, folder or object that does not exist
    │   ├── RowError             exit 1, HTTP 422   a bad document while reading with --strict
    │   └── TooManyRejected      exit 1, HTTP 422   more bad documents than --max-rejected allows
    ├── TooManyRemoved           exit 3, HTTP 422   more removals than --max-removed allows
    ├── FilterFull               exit 1, HTTP 507   a filter that has no room for one more key
    ├── OutputError              exit 1, HTTP 507   an output that can't be written
    │   ├── OutputTaken          exit 2, HTTP 507   an output that exists: name another, or force
    │   └── OutputClosed         exit 141, HTTP 507 the reader of standard output is gone
    ├── FormatError              exit 1, HTTP 422   bytes that are truncated, altered or foreign
    │   └── ConfigError          exit 2, HTTP 422   a config file whose options can't be read
    ├── SpecMismatch             exit 1, HTTP 409   sketches of different specifications
    ├── Conflict                 exit 1, HTTP 409   an id that an index has with other content
    ├── IndexLocked              exit 1, HTTP 503   an index that another process writes to
    ├── Busy                     exit 1, HTTP 503   too many requests at once: try again later
    ├── ServersUnavailable       exit 1, HTTP 503   servers that can't be reached, or refuse
    └── StaleSketch              exit 1, HTTP 409   a sketch that lost values by removals

Every message is one line: what happened, on which side, and the cure.
"""

from __future__ import annotations

from typing import Any


class NeardupError(Exception):
    """Base of every error that neardup raises on purpose."""

    exit_code = 1
    http_status = 500


class UsageError(NeardupError):
    """The request itself is wrong; repeating it unchanged can't help."""

    exit_code = 2
    http_status = 400


class ParameterError(UsageError, ValueError):
    """A parameter is outside the range in which it has a meaning."""


class ColumnError(UsageError, KeyError):
    """The data does not have a column.

    Args:
        wanted: The name of the missing column.
        columns: The columns that the data has.
        where: What the data is called in the message.
        option: The option that chooses the column.
        near: The column that may be meant.
    """

    def __init__(
        self, wanted: str, columns: list[str], where: str, option: str, near: str | None = None
    ) -> None:
        self.wanted, self.columns, self.where, self.near = wanted, columns, where, near
        names = ", ".join(columns) if columns else "none"
        hint = f" Did you mean {near!r}?" if near else ""
        super().__init__(
            f"{where} has no column {wanted!r}; it has: {names}.{hint} Choose one with {option}"
        )
        self.option = option

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are rebuilt from their message by default; workers send this one.
        return type(self), (self.wanted, self.columns, self.where, self.option, self.near)

    def __str__(self) -> str:
        # KeyError shows its argument in quotes; a sentence should not be quoted.
        return str(self.args[0])


class InputError(NeardupError):
    """A file can't be read in its format; `file` is its name, if it is known."""

    http_status = 422

    def __init__(self, message: str, file: str | None = None) -> None:
        super().__init__(message)
        self.file = file


class MissingInput(InputError):  # noqa: N818  # reads as what happened
    """A file, folder or object that is named does not exist: another name has to be given."""

    exit_code = UsageError.exit_code


class RowError(InputError):
    """A document was refused while reading with --strict."""


class TooManyRejected(InputError):  # noqa: N818  # reads as what happened
    """More documents were rejected than --max-rejected allows; what was written is complete."""


class TooManyRemoved(NeardupError):  # noqa: N818  # reads as what happened
    """More would be removed than --max-removed or --max-removed-per-source allows.

    Nothing is written. `sources` has the counts by source, a `source_counts.SourceSummary`.
    """

    exit_code = 3
    http_status = 422

    def __init__(self, message: str, sources: Any) -> None:
        super().__init__(message)
        self.sources = sources


class FilterFull(NeardupError):  # noqa: N818  # reads as what happened
    """A filter has no room for one more key; the first `taken` keys of the batch are in it."""

    http_status = 507

    def __init__(self, message: str, taken: int = 0) -> None:
        super().__init__(message)
        self.taken = taken


class OutputError(NeardupError):
    """An output can't be written."""

    http_status = 507


class OutputTaken(OutputError):  # noqa: N818  # reads as what happened
    """What is to be written exists already: another name has to be given, or force."""

    exit_code = UsageError.exit_code


class OutputClosed(OutputError):  # noqa: N818  # reads as what happened
    """The reader of standard output is gone; the exit code is the one of other commands then."""

    exit_code = 141


class FormatError(NeardupError):
    """Bytes are truncated, altered, or of another format."""

    http_status = 422


class ConfigError(FormatError):
    """Options that stand in a file can't be read: the file has to be changed."""

    exit_code = UsageError.exit_code


class SpecMismatch(NeardupError, ValueError):  # noqa: N818  # reads as what happened
    """Sketches of different specifications can't be compared."""

    http_status = 409


class Conflict(NeardupError):  # noqa: N818  # reads as what happened
    """An index has this id already, with other content."""

    http_status = 409


class IndexLocked(NeardupError):  # noqa: N818  # reads as what happened
    """Another process writes to this index."""

    http_status = 503


class Busy(NeardupError):  # noqa: N818  # reads as what happened
    """Too many requests at once; trying again later can help."""

    http_status = 503


class ServersUnavailable(NeardupError):  # noqa: N818  # reads as what happened
    """The servers of an index can't be reached, or don't do what they are asked for."""

    http_status = 503


class StaleSketch(NeardupError):  # noqa: N818  # reads as what happened
    """A sketch lost values by removals: make it again from the elements of the set."""

    http_status = 409


def state_reason(error: BaseException) -> str:
    """Return why something failed, for logs and reports.

    Messages of neardup and of the system never quote documents; those of other errors may, so
    only their class is named.
    """
    return str(error) if isinstance(error, (NeardupError, OSError)) else type(error).__name__
