"""Executors without the package, or with another one, are found before the work begins."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JError
from support.sizes import full

import neardup
from neardup.errors import ColumnError, InputError, NeardupError, UsageError
from neardup.pipeline.backends.spark_failures import (
    tag_errors,
    translate_spark_errors,
    translate_trace,
)
from neardup.pipeline.backends.spark_session import check_executors

CURE = "--archives env.tar.gz#env"


@pytest.fixture
def executors_run(spark, monkeypatch, tmp_path):
    """Let executors run a shell script instead of Python, which may set it up otherwise."""

    def script(how: str) -> None:
        program = tmp_path / "python"
        program.write_text(f'#!/bin/sh\n{how} "$@"\n')
        program.chmod(0o755)
        monkeypatch.setattr(spark.sparkContext, "pythonExec", str(program))

    return script


def test_complete_executors_pass_the_check(spark):
    check_executors(spark)


def test_executors_without_neardup_are_refused(spark, executors_run):
    executors_run(f"exec {sys.executable} -S -s")
    with pytest.raises(
        UsageError, match=r"can't import what is needed \(No module named"
    ) as raised:
        check_executors(spark)
    assert CURE in str(raised.value)
    assert "\n" not in str(raised.value)


def test_executors_without_python_are_refused(spark, monkeypatch):
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nonexistent/python")
    with pytest.raises(
        UsageError, match="executors have no Python at /nonexistent/python"
    ) as raised:
        check_executors(spark)
    assert CURE in str(raised.value)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("0.0.1", f"has neardup 0.0.1, the driver has {neardup.__version__}"),
        full(neardup.__version__, "that makes other sketches"),
    ],
)
def test_executors_with_another_version_are_refused(
    version, message, spark, executors_run, tmp_path
):
    other = tmp_path / "other" / "neardup"
    other.mkdir(parents=True)
    (other / "__init__.py").write_text(f"__version__ = {version!r}\n")
    (other / "spec.py").write_text("class Spec:\n    fingerprint = 'other'\n")
    executors_run(f'PYTHONPATH="{other.parent}:$PYTHONPATH" exec {sys.executable}')
    with pytest.raises(UsageError, match=message):
        check_executors(spark)


@pytest.mark.slow
def test_executors_that_import_from_an_archive_are_refused(spark, executors_run, tmp_path):
    source = Path(neardup.__file__).parents[1]
    archive = shutil.make_archive(str(tmp_path / "neardup"), "zip", source, "neardup")
    executors_run(f'PYTHONPATH="{archive}:$PYTHONPATH" exec {sys.executable}')
    with pytest.raises(UsageError, match=f"imports neardup from an archive .{archive}"):
        check_executors(spark)


def raised_in_java(last: str) -> str:
    """The text of an error as it comes from Spark."""
    return (
        "An error occurred while calling o59.parquet.\n"
        ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 failed\n"
        f"Traceback (most recent call last):\n  File 'x.py', line 1\n{last}\n\n"
        "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)\n"
    )


def told_by(error: NeardupError) -> str:
    """The last line of a task's trace that such an error ends."""
    with pytest.raises(RuntimeError) as raised, tag_errors():
        raise error
    return f"RuntimeError: {raised.value}"


@pytest.mark.parametrize(
    ("last", "kind", "message"),
    [
        (told_by(InputError("a.jsonl is cut off")), InputError, "a.jsonl is cut off"),
        (told_by(ColumnError("x", ["y"], "a.csv", "text=")), UsageError, "a.csv has no column 'x'"),
        (
            "ModuleNotFoundError: No module named 'neardup'",
            UsageError,
            "has no neardup: give every",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in "
            "driver: 3.11, PySpark cannot run",
            UsageError,
            "run Python 3.12, the driver runs Python 3.11",
        ),
        ("MemoryError: no room", NeardupError, "band failed in Spark: MemoryError: no room"),
        ("Caused by: java.io.IOException: disk", NeardupError, "java.io.IOException: disk"),
        ("ExecutorLostFailure (executor 1 exited)", NeardupError, "spark.executor.memoryOverhead"),
        (
            "Python worker exited unexpectedly (crashed)",
            NeardupError,
            "spark.executor.memoryOverhead",
        ),
    ],
)
def test_a_stack_trace_becomes_one_line(last, kind, message):
    error = translate_trace(raised_in_java(last), "band")
    assert type(error) is kind
    assert not isinstance(error, ColumnError)
    assert message in str(error)
    assert "\n" not in str(error)


def test_an_interrupt_hidden_by_py4j_is_raised():
    with pytest.raises(KeyboardInterrupt), translate_spark_errors("sketching"):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise Py4JError("Gateway must be connected to send cancel cmd.")  # noqa: B904
