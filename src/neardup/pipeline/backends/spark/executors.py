"""Do the executors have what a run needs? One tiny job asks them, before the work begins."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import neardup
from neardup.errors import UsageError
from neardup.pipeline.backends.spark.failures import SHIPPING, in_plain_words
from neardup.pipeline.backends.spark.session import context_of
from neardup.runtime import SILENT, Progress
from neardup.spec import Spec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUESSED_CORES = 8
PATIENCE_SECONDS = 20.0
"""After which somebody who waits for executors is told so."""


def check_executors(spark: SparkSession, progress: Progress = SILENT) -> None:
    """Refuse to go on if an executor's Python lacks neardup, or has another one.

    One task for each core that there is by now; executors that come later are not asked. Works in
    every session, also one of Spark Connect.
    """
    with in_plain_words("asking executors what they have"):
        with _told_if_long(progress):
            answers = _ask(spark, 1)  # the first answer comes when there is an executor
        answers += _ask(spark, cores(spark))
    for answer in answers:
        if trouble := _trouble(answer):
            raise UsageError(f"the Python of executors ({answer['python']}) {trouble}: {SHIPPING}")


def cores(spark: SparkSession) -> int:
    """How many tasks run at once; a guess where Spark Connect does not tell."""
    context = context_of(spark)
    return GUESSED_CORES if context is None else int(context.defaultParallelism)


def _ask(spark: SparkSession, tasks: int) -> list[dict[str, Any]]:
    # Pickled, not Arrow: whether there is an Arrow is a part of the question.
    from pyspark.sql.functions import udf

    asked = spark.range(0, tasks, 1, tasks).select(udf(_question(), "string", useArrow=False)("id"))
    return [json.loads(row[0]) for row in asked.collect()]


def _question() -> Callable[[int], str]:
    """A function that goes to executors as code, because they may not have this module."""

    def answer(_: int) -> str:
        import json
        import os
        import sys

        found = {"python": sys.executable}
        try:
            import numba  # noqa: F401
            import pyarrow  # noqa: F401

            import neardup
            from neardup.spec import Spec

            found["version"] = neardup.__version__
            found["fingerprint"] = Spec().fingerprint
            found["place"] = os.path.dirname(neardup.__file__)
            found["folder"] = str(os.path.isdir(found["place"]))
        except ImportError as error:
            found["missing"] = str(error)
        return json.dumps(found)

    return answer


def _trouble(answer: dict[str, Any]) -> str | None:
    if missing := answer.get("missing"):
        return f"can't import what is needed ({missing})"
    if answer["version"] != neardup.__version__:
        return f"has neardup {answer['version']}, and here is {neardup.__version__}"
    if answer["fingerprint"] != Spec().fingerprint:
        return f"has a neardup of version {neardup.__version__} that makes other sketches"
    if answer["folder"] != "True":
        return f"imports neardup from an archive ({answer['place']}), where it can't compile"
    return None


@contextmanager
def _told_if_long(progress: Progress) -> Iterator[None]:
    """Queues may be long, so this waits for executors as long as Spark does; but not in silence."""
    message = (
        "waiting for executors: the cluster has given none so far; is it full, or do its workers "
        "have less than spark.executor.memory and spark.executor.cores?"
    )
    timer = threading.Timer(PATIENCE_SECONDS, progress.say, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
