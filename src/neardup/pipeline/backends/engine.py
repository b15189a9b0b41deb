"""The engine that a user names: local, this machine; or spark, a cluster."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from neardup.corpus.standard_input import is_standard_input
from neardup.errors import UsageError
from neardup.pipeline.budget import Budget
from neardup.pipeline.job import Job
from neardup.runtime import Progress
from neardup.spec import check_choice

ENGINES: Final = ("local", "spark")


def check_engine(engine: str, master: str | None, workers: int | None) -> None:
    """Refuse an unknown engine, options of the other one, and Spark where it is not installed."""
    check_choice("engine", engine, ENGINES)
    if engine == "local":
        if master is not None:
            raise UsageError("--master belongs to --engine spark: give both, or drop --master")
        return
    if workers is not None:
        raise UsageError(
            "--workers belongs to --engine local: Spark's master sets the number of tasks, as in "
            "--master local[4]"
        )
    from neardup.pipeline.backends.spark_session import require_spark

    require_spark()


def use_engine(
    job: Job, engine: str, master: str | None, memory: str | int | None, progress: Progress
) -> Job:
    """Return the job with its work done by an engine, which `check_engine` has accepted.

    Spark is started when the work begins, after OUT was checked.

    Args:
        job: The job.
        engine: local or spark.
        master: The URL of the cluster's master; None for Spark's own setting.
        memory: What a task may use; None for the default.
        progress: Told that Spark starts, which takes seconds.
    """
    if engine == "local":
        return job
    if job.file is not None or any(map(is_standard_input, job.inputs)):
        raise UsageError(
            "--engine spark reads files and writes a folder: choose a name without an ending for "
            "-o, and no -, or use --engine local"
        )
    from neardup.pipeline.backends.spark import TASK_MEMORY, SparkBackend
    from neardup.pipeline.backends.spark_session import start_spark

    budget = job.budget if memory is not None else Budget(TASK_MEMORY)
    return replace(job, backend=SparkBackend(partial(start_spark, master, progress)), budget=budget)
