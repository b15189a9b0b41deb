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
"""What a task makes of an error of ours: it passes through Java as a line of text."""
RAISED = re.compile(
    r"^(?:: |Caused by: )?((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$", re.M
)
NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH.*", re.S)
VERSIONS = re.compile(r"\d+\.\d+")
LOST = re.compile(r"ExecutorLostFailure \(.*|Python worker exited unexpectedly")


@contextmanager
def tag_errors() -> Iterator[None]:
    """In a task: an error of ours is told so that the driver can raise it again."""
    try:
        yield
    except NeardupError as error:
        raise RuntimeError(encode_error(error)) from None


def encode_error(error: NeardupError) -> str:
    """What `translate_trace` finds an error of ours by, in whatever Spark makes of it."""
    kind = next(one for one in type(error).__mro__ if hasattr(errors, one.__name__))
    found = {"name": kind.__name__, "message": str(error), "file": getattr(error, "file", None)}
    return f"neardup-error: {json.dumps(found)}\n"


@contextmanager
def translate_spark_errors(doing: str) -> Iterator[None]:
    """Raise what fails in Spark meanwhile as an error of neardup.

    One that our own code raised in a task comes back as what it was.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # which Py4J failed to pass on
            raise error.__context__ from None
        raise translate_trace(str(error), doing) from error


def translate_trace(trace: str, doing: str) -> NeardupError:
    """The error that a stack trace of Spark tells of.

    >>> print(translate_trace("Traceback\\nMemoryError: too much\\n\\n\\tat Java", "sketch"))
    sketch failed in Spark: MemoryError: too much; --debug shows the whole trace
    """
    if ours := TAGGED.findall(trace):
        return _restore_error(**json.loads(ours[-1]))
    if found := NO_PYTHON.search(trace):
        return UsageError(f"executors have no Python at {found[1]}: {SHIPPING}")
    if found := OTHER_PYTHON.search(trace):
        here, there = _parse_versions(found[0])
        return UsageError(
            f"executors run Python {there}, the driver runs Python {here}: {SHIPPING}"
        )
    raised = RAISED.findall(trace)
    if raised and (missing := re.match(r"\w+: No module named '([\w.]+)'", raised[-1])):
        return UsageError(f"the Python of executors has no {missing[1]}: {SHIPPING}")
    if found := LOST.search(trace):
        return NeardupError(
            f"{doing} lost executors repeatedly ({found[0]}), often for lack of memory for "
            "Python: raise spark.executor.memoryOverhead"
        )
    told = raised[-1] if raised else trace.splitlines()[0]
    return NeardupError(f"{doing} failed in Spark: {told}; --debug shows the whole trace")


def _restore_error(name: str, message: str, file: str | None) -> NeardupError:
    kind = getattr(errors, name)
    if issubclass(kind, InputError):
        return kind(message, file)  # type: ignore[no-any-return]
    try:
        return kind(message)  # type: ignore[no-any-return]
    except TypeError:  # it wants more than its message
        return (UsageError if issubclass(kind, UsageError) else NeardupError)(message)


def _parse_versions(told: str) -> tuple[str, str]:
    there, here = (*VERSIONS.findall(told), "?", "?")[:2]
    return here, there
