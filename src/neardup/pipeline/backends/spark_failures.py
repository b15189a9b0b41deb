"""Translate failures in Spark into errors of neardup: one line with the cure, no stack trace."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager

from neardup import errors
from neardup.errors import InputError, NeardupError, UsageError

SHIPPING = (
    "give every executor a Python that has neardup: pack this environment (venv-pack, conda-pack), "
    "send it with --archives env.tar.gz#env and set spark.pyspark.python to ./env/bin/python, "
    "or use an image that has it; docs/spark.md shows how"
)
TAGGED = re.compile(r"neardup-error: (\{.*\})$", re.M)
"""How a task raises a NeardupError: it passes through Java as a line of text."""
RAISED = re.compile(
    r"^(?:: |Caused by: )?((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$", re.M
)
NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH.*", re.S)
VERSIONS = re.compile(r"\d+\.\d+")
QUOTING = r"(Value|Key|Index|Type|UnicodeDecode|UnicodeEncode|pyarrow\..*)Error:"
"""Errors of Python whose messages may quote a document."""
LOST = re.compile(r"ExecutorLostFailure \(.*|Python worker exited unexpectedly")


@contextmanager
def tag_errors() -> Iterator[None]:
    """In a task: raise a NeardupError as text from which the driver can restore it."""
    try:
        yield
    except NeardupError as error:
        raise RuntimeError(encode_error(error)) from None


def encode_error(error: NeardupError) -> str:
    """Return the line by which `translate_trace` finds a NeardupError in a trace of Spark."""
    kind = next(one for one in type(error).__mro__ if hasattr(errors, one.__name__))
    fields = {"name": kind.__name__, "message": str(error), "file": getattr(error, "file", None)}
    return f"neardup-error: {json.dumps(fields)}\n"


def spark_error_types() -> tuple[type[Exception], ...]:
    """Return the classes of all errors that Spark, or the bridge to Java, raises."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return PySparkException, Py4JError


@contextmanager
def translate_spark_errors(doing: str) -> Iterator[None]:
    """Raise errors of Spark inside the block as errors of neardup.

    A NeardupError that a task raised is restored. `doing` names the step in other messages.
    """
    try:
        yield
    except spark_error_types() as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # which Py4J failed to pass on
            raise error.__context__ from None
        raise translate_trace(str(error), doing) from error


def translate_trace(trace: str, doing: str) -> NeardupError:
    """Return the error of neardup for a stack trace of Spark.

    >>> print(translate_trace("Traceback\\nMemoryError: too much\\n\\n\\tat Java", "sketch"))
    sketch failed in Spark: MemoryError: too much; --debug shows the whole trace
    """
    if tagged := TAGGED.findall(trace):
        return _restore_error(**json.loads(tagged[-1]))
    if match := NO_PYTHON.search(trace):
        return UsageError(f"executors have no Python at {match[1]}: {SHIPPING}")
    if match := OTHER_PYTHON.search(trace):
        driver, executors = _parse_versions(match[0])
        return UsageError(
            f"executors run Python {executors}, the driver runs Python {driver}: {SHIPPING}"
        )
    raised = RAISED.findall(trace)
    if raised and (missing := re.match(r"\w+: No module named '([\w.]+)'", raised[-1])):
        return UsageError(f"the Python of executors has no {missing[1]}: {SHIPPING}")
    if match := LOST.search(trace):
        return NeardupError(
            f"{doing} lost executors repeatedly ({match[0]}), often for lack of memory for "
            "Python: raise spark.executor.memoryOverhead"
        )
    cause = raised[-1] if raised else trace.splitlines()[0]
    if re.match(QUOTING, cause):
        cause = cause.partition(":")[0]
    return NeardupError(f"{doing} failed in Spark: {cause}; --debug shows the whole trace")


def _restore_error(name: str, message: str, file: str | None) -> NeardupError:
    kind = getattr(errors, name)
    if issubclass(kind, InputError):
        return kind(message, file)  # type: ignore[no-any-return]
    try:
        return kind(message)  # type: ignore[no-any-return]
    except TypeError:  # its constructor takes more than a message
        return (UsageError if issubclass(kind, UsageError) else NeardupError)(message)


def _parse_versions(message: str) -> tuple[str, str]:
    executors, driver = (*VERSIONS.findall(message), "?", "?")[:2]
    return driver, executors
