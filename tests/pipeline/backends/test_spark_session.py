"""A missing, unsupported or unreachable Spark is one line; a usable one starts silently."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from neardup.errors import NeardupError, UsageError
from neardup.pipeline.backends.spark_session import open_session, require_java, require_reachable

START = """
import sys
from neardup.pipeline.backends.spark_session import check_executors
from neardup.pipeline.backends.spark_session import open_session
from neardup.errors import NeardupError
for master in sys.argv[1:]:
    try:
        check_executors(open_session(master))
        print("started")
    except NeardupError as error:
        print(f"{type(error).__name__}: {error}")
"""
SHORT_LIVED = {"SPARK_SUBMIT_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""A Java that starts faster, and would be slower later on."""


def start(*masters, **environment):
    """Start a session with one master after the other, until the end of a process."""
    done = subprocess.run(
        [sys.executable, "-c", START, *(masters or ["local[1]"])],
        env={
            "HOME": os.environ.get("HOME", "/"),
            "PATH": os.environ["PATH"],
            **SHORT_LIVED,
            **environment,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done


def path(*folders):
    """What this process imports from, behind some folders."""
    return os.pathsep.join([*map(str, folders), *filter(None, sys.path)])


@pytest.fixture
def python3_without_packages(tmp_path):
    """A folder for the PATH with a python3 that has nothing but the standard library."""
    program = tmp_path / "bin" / "python3"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH= exec {sys.executable} -S -s "$@"\n')
    program.chmod(0o755)
    return program.parent


def test_session_starts_silently_or_reports_the_reason_in_one_line(
    python3_without_packages,
):
    searched = f"{python3_without_packages}{os.pathsep}{os.environ['PATH']}"
    done = start("local[many]", "local[1]", PATH=searched, PYTHONPATH=path())
    assert done.stderr == ""
    refused, started = done.stdout.splitlines()
    assert started == "started"
    assert refused.startswith(
        "UsageError: Spark did not start with master local[many], which is none: give one such"
    )


INTERRUPT = """
import os, signal, sys, threading
from pyspark import SparkContext
from neardup.pipeline.backends.spark_session import open_session, require_spark
require_spark()  # no import is interrupted, which could not be done again
threading.Timer(float(sys.argv[1]), os.kill, [os.getpid(), signal.SIGINT]).start()
try:
    open_session("local[1]")
except KeyboardInterrupt:
    print("interrupted", SparkContext._active_spark_context)
print(open_session("local[1]").range(3).count())
"""


@pytest.mark.parametrize("seconds", [0.05, pytest.param(2.5, marks=pytest.mark.slow)])
def test_ctrl_c_does_not_wait_until_spark_has_started(seconds):
    """It took twenty seconds; and a session can be started after it."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPT, str(seconds)],
        env=os.environ | SHORT_LIVED,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "interrupted None\n3\n", done.stderr


CALLER = """
import os, signal, subprocess, threading, time
from neardup.pipeline.backends import spark_session
class Slow:
    def getOrCreate(self):
        time.sleep(1)
        raise RuntimeError
proc = subprocess.Popen(["sleep", "60"])
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try: spark_session._start_session(Slow(), None)
except BaseException: pass
print(proc.poll())
proc.kill()
"""


def test_ctrl_c_ends_no_process_of_the_caller():
    done = subprocess.run([sys.executable, "-c", CALLER], capture_output=True, text=True)
    assert done.stdout == "None\n", done.stderr


def test_missing_java_is_reported_before_spark_starts():
    done = start(PATH="/nonexistent", PYTHONPATH=path())
    assert done.stdout.startswith("UsageError: Spark needs Java, and there is none on the PATH:")
    assert "openjdk-17-jre-headless" in done.stdout
    assert done.stderr == ""


def test_a_java_home_without_java_is_reported(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=f"none in JAVA_HOME, {tmp_path}"):
        require_java()


@pytest.mark.parametrize(
    ("output", "trouble"),
    [
        ('openjdk version "11.0.2" 2019-01-15', "is Java 11"),
        ('java version "1.8.0_392"', "is Java 8"),
        ("Segmentation fault", "does not report its version"),
    ],
)
def test_an_old_java_is_refused(output, trouble, monkeypatch, tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{output}' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(UsageError, match=trouble):
        require_java()


@pytest.mark.parametrize(
    ("module", "content", "message"),
    [
        (
            "version",
            "__version__ = '3.5.1'",
            "needs PySpark 4.1 or later, before 5, and 3.5.1 is installed",
        ),
        (
            "version",
            "__version__ = '4.0.2'",
            "needs PySpark 4.1 or later, before 5, and 4.0.2 is installed",
        ),
        (
            "version",
            "__version__ = '5.0.0'",
            "needs PySpark 4.1 or later, before 5, and 5.0.0 is installed",
        ),
        ("__init__", "raise ImportError", "needs PySpark, which is missing"),
    ],
)
def test_an_unsupported_pyspark_is_refused(module, content, message, tmp_path):
    folder = tmp_path / "pyspark"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / f"{module}.py").write_text(content)
    done = start(PYTHONPATH=path(tmp_path))
    assert done.stdout == f"UsageError: the Spark engine {message}: pip install 'neardup[spark]'\n"


def test_an_unreachable_master_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        require_reachable(f"spark://127.0.0.1:{port}")
        require_reachable(f"spark://127.0.0.1:1,127.0.0.1:{port}")
        require_reachable(f"k8s://https://127.0.0.1:{port}")
    for master in (f"spark://127.0.0.1:1,127.0.0.1:{port}", f"k8s://https://127.0.0.1:{port}"):
        with pytest.raises(NeardupError, match=f"no Spark master answers at {master} "):
            require_reachable(master)


def test_a_running_session_is_reused(spark):
    assert open_session(None) is spark
    assert open_session(spark.sparkContext.master) is spark
    with pytest.raises(
        UsageError, match=r"master local\[2,2\] is running already, not one with yarn"
    ):
        open_session("yarn")


def test_settings_of_the_user_take_precedence(spark):
    assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    assert spark.sparkContext.uiWebUrl is None
