"""What went wrong in Spark, as one line with the cure instead of a stack trace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from neardup import errors
from neardup.errors import NeardupError, UsageError

SHIPPING = (
    "give every executor a Python that has neardup: pack this environment (venv-pack, conda-pack), "
    "send it with --archives env.tar.gz#env and set spark.pyspark.python to ./env/bin/python, "
    "or use an image that has it; docs/spark.md shows how"
)
OURS = re.compile(r"^neardup\.errors\.(\w+): (.*)$", re.M)
RAISED = re.compile(
    r"^(?:: |Caused by: )?((?:\w+\.)*\w*(?:Error|Exception|Exit|Interrupt)(?:: .*)?)$", re.M
)
NO_PYTHON = re.compile(r'Cannot run program "([^"]*)"')
OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH.*", re.S)
VERSIONS = re.compile(r"\d+\.\d+")
LOST = re.compile(r"ExecutorLostFailure \(.*|Python worker exited unexpectedly")


@contextmanager
def in_plain_words(doing: str) -> Iterator[None]:
    """Raise what fails in Spark meanwhile as an error of neardup.

    One that our own code raised on an executor comes back as what it was.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise plain(str(error), doing) from error


def plain(trace: str, doing: str) -> NeardupError:
    """The error that a stack trace of Spark tells of.

    >>> trace = "An error occurred\\nneardup.errors.InputError: a.jsonl is cut off\\n\\tat Java"
    >>> plain(trace, "sketch")
    InputError('a.jsonl is cut off')
    >>> print(plain("Traceback\\nMemoryError: too much\\n\\n\\tat Java", "sketch"))
    sketch failed in Spark: MemoryError: too much; --debug shows the whole trace
    """
    if ours := OURS.findall(trace):
        return _again(*ours[-1])
    if found := NO_PYTHON.search(trace):
        return UsageError(f"executors have no Python at {found[1]}: {SHIPPING}")
    if found := OTHER_PYTHON.search(trace):
        here, there = _versions(found[0])
        return UsageError(
            f"executors run Python {there} and the driver {here}, not the same: {SHIPPING}"
        )
    raised = RAISED.findall(trace)
    if raised and (missing := re.match(r"\w+: No module named '([\w.]+)'", raised[-1])):
        return UsageError(f"the Python of executors has no {missing[1]}: {SHIPPING}")
    if found := LOST.search(trace):
        return NeardupError(
            f"{doing} lost executors again and again ({found[0]}): often they have too little "
            "memory for Python; raise spark.executor.memoryOverhead"
        )
    told = raised[-1] if raised else trace.splitlines()[0]
    return NeardupError(f"{doing} failed in Spark: {told}; --debug shows the whole trace")


def _again(name: str, message: str) -> NeardupError:
    kind = getattr(errors, name)
    try:
        return kind(message)  # type: ignore[no-any-return]
    except TypeError:  # it wants more than its message
        return (UsageError if issubclass(kind, UsageError) else NeardupError)(message)


def _versions(told: str) -> tuple[str, str]:
    there, here = (*VERSIONS.findall(told), "?", "?")[:2]
    return here, there
