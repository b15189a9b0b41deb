"""Find or start a Spark session, and check PySpark, Java, the master and the executors.

Spark's messages while it starts are captured, and quoted if it does not start.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import neardup
from neardup.errors import NeardupError, UsageError
from neardup.pipeline.backends.spark_failures import (
    SHIPPING,
    spark_error_types,
    translate_spark_errors,
)
from neardup.pipeline.run_progress import hold_signals
from neardup.runtime import SILENT, Progress
from neardup.spec import Spec

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


OLDEST_JAVA: Final = 17
ANSWER_SECONDS: Final = 10.0
"""Seconds that a master may take to accept a connection."""
EVERY_SECONDS: Final = 0.05
"""Seconds between two looks for a process that is being started."""
SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    # Where YARN does not answer, Spark would try for a quarter of an hour.
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",
    "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "5000",
}
LARGE_TYPES_SETTING: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def require_spark() -> None:
    """Raise UsageError unless a supported PySpark, and pandas, can be imported."""
    cure = "pip install 'neardup[spark]'"
    try:
        version = str(import_module("pyspark.version").__version__)
    except ImportError:
        raise UsageError(f"the Spark engine needs PySpark, which is missing: {cure}") from None
    if not (4, 1) <= tuple(map(int, version.split(".")[:2])) < (5, 0):
        raise UsageError(
            f"the Spark engine needs PySpark 4.1 or later, before 5, and {version} is installed: "
            f"{cure}"
        )
    try:
        import_module("pandas")
    except ImportError:
        raise UsageError(f"PySpark needs pandas for Arrow, which is missing: {cure}") from None
    # PySpark warns of every new pandas; what is used of it here only checks that it exists.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def find_java() -> str | None:
    """Return the path of the Java that Spark starts, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def is_this_python(command: str) -> bool:
    """Return whether a command is this process's Python, with the same packages.

    Another name of it in the same folder counts; a virtual environment has packages of its own.
    """
    here, there = Path(sys.executable), Path(command)
    return here.parent == there.parent and here.resolve() == there.resolve()


def require_java() -> None:
    """Raise UsageError unless there is a Java that Spark can run on."""
    cure = (
        f"install Java {OLDEST_JAVA} or later (Debian and Ubuntu: apt-get install "
        f"openjdk-{OLDEST_JAVA}-jre-headless), on the PATH or in the folder that JAVA_HOME names"
    )
    java, home = find_java(), os.environ.get("JAVA_HOME")
    if java is None:
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise UsageError(f"Spark needs Java, and there is none {where}: {cure}")
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.search(r'version "(?:1\.)?(\d+)', answer.stderr)
    if version is None:
        raise UsageError(f"{java} does not report its version: {cure}")
    if int(version[1]) < OLDEST_JAVA:
        raise UsageError(
            f"Spark needs Java {OLDEST_JAVA} or later, and {java} is Java {version[1]}: {cure}"
        )


def open_session(master: str | None, name: str = "neardup") -> SparkSession:
    """Return the running session, or start one that prints nothing unless it fails.

    Args:
        master: The URL of the master. None: that of spark-submit or of Spark's own settings, else
            this machine.
        name: The name of the application.
    """
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        require_settings(running)
        return _require_same_master(running, master)
    if master:
        require_reachable(master)
    # Py4J logs a stack trace to the root logger when Ctrl-C interrupts it, which is raised anyway.
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    builder = SparkSession.builder.appName(name)
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    chosen = _choose_python(master)
    spark = _start_session(builder.master(master) if master else builder, master)
    require_settings(spark)
    context = spark.sparkContext
    settings = context.getConf()
    if not chosen:
        # spark-submit applies this setting; a session started from Python would ignore it.
        context.pythonExec = settings.get("spark.pyspark.python") or context.pythonExec
    if settings.get("spark.log.level") is None:
        context.setLogLevel("OFF")  # what fails is raised; lost executors are counted
    return spark


def require_settings(spark: SparkSession) -> None:
    """Raise UsageError if the session's setting of Arrow types is not supported."""
    if spark.conf.get(LARGE_TYPES_SETTING, "false") == "true":
        raise UsageError(
            f"the Spark session has {LARGE_TYPES_SETTING}=true, which is not supported: leave it "
            f'out, or spark.conf.set("{LARGE_TYPES_SETTING}", "false")'
        )


def find_context(spark: SparkSession) -> SparkContext | None:
    """Return the session's context; None for Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except (AttributeError, NotImplementedError):
        return None
    except spark_error_types():  # each kind of session raises another error
        return None


def require_reachable(master: str) -> None:
    """Raise NeardupError if a standalone or Kubernetes master does not accept a connection.

    Spark itself would try for minutes, with a stack trace for each attempt.
    """
    places = re.findall(r"([^/,:\[\]]+|\[[^\]]+\]):(\d+)(?:,|/|$)", master.partition("://")[2])
    last_error: OSError | None = None
    for host, port in places:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
            return
        except OSError as error:
            last_error = error
    if last_error is not None:
        raise NeardupError(
            f"no Spark master answers at {master} ({last_error.strerror or last_error}): start it, "
            "or give the URL that its page or log shows as --master"
        )


def _require_same_master(spark: SparkSession, master: str | None) -> SparkSession:
    """Return the session if it has this master; a process can have one Spark only."""
    theirs = spark.conf.get("spark.master", None)
    if master and master != theirs:
        raise UsageError(
            f"a Spark session with master {theirs} is running already, not one with {master}: "
            "stop it, or drop the master"
        )
    return spark


def _choose_python(master: str | None) -> bool:
    """Make executors run this Python where they probably have it; return whether the user chose.

    Spark's own choice is the first python3 of the PATH, which seldom has the package.
    """
    if "PYSPARK_PYTHON" in os.environ:
        return True
    if master is None or master.startswith(("local", "spark://")):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return False


class _StartingJava:
    """The process of Java that PySpark starts: an interrupt ends it, and does not wait for Spark.

    A process that is there already, of an earlier session or of spark-submit, is left alone.

    Attributes:
        is_stopped: Whether an interrupt has ended it.
    """

    def __init__(self) -> None:
        from pyspark import SparkContext

        self._context, self._is_ours = SparkContext, SparkContext._gateway is None
        self._thread, self._is_over, self.is_stopped = threading.get_ident(), False, False

    def stop(self) -> None:
        """End the process as soon as there is one; PySpark then raises an error."""
        if self._is_ours:
            threading.Thread(target=self._stop, name="neardup-stop-java", daemon=True).start()

    def _stop(self) -> None:
        while not self._is_over:
            if (process := self._find_process()) is not None:
                self.is_stopped = True
                process.kill()
                return
            time.sleep(EVERY_SECONDS)

    def _find_process(self) -> subprocess.Popen[bytes] | None:
        process = getattr(self._context._gateway, "proc", None)
        # Until it has reported its port, only the function that waits for it knows it.
        frame = sys._current_frames().get(self._thread)
        while process is None and frame is not None:
            if frame.f_globals.get("__name__") == "pyspark.java_gateway":
                process = frame.f_locals.get("proc")
            frame = frame.f_back
        return process if isinstance(process, subprocess.Popen) else None

    def end(self) -> None:
        """Note that PySpark has started, or failed; the next session starts another process."""
        self._is_over = True
        if self.is_stopped:
            self._context._gateway = self._context._jvm = None


_NO_MASTER: Final = re.compile("Could not parse Master URL|Master must either be")


def _start_session(builder: SparkSession.Builder, master: str | None) -> SparkSession:
    # An interrupt before Java has reported its port would leave the process behind.
    java = _StartingJava()
    with hold_signals(java.stop), _capture_stderr() as captured:
        try:
            return builder.getOrCreate()
        except Exception as error:  # of Spark, of Java, of the files and ports of either
            failure, reason = error, _find_reason(error, list(captured))
        finally:
            java.end()
    if java.is_stopped:
        signal.raise_signal(signal.SIGINT)  # the second one, if the first is held further out
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started Java
        require_java()
    at = f" with master {master}" if master else ""
    if _NO_MASTER.search(reason):
        raise UsageError(
            f"Spark did not start{at}, which is none: give one such as local[4], spark://host:7077,"
            " yarn or k8s://https://host:6443 as --master"
        ) from failure
    home = os.environ.get("SPARK_HOME")
    hint = f" (SPARK_HOME is {home})" if home else ""
    raise NeardupError(f"Spark did not start{at}: {reason}{hint}") from failure


def _find_reason(error: Exception, captured: list[str]) -> str:
    """Return the most informative line: the first exception in Java, or the first line at all."""
    lines = [*str(error).splitlines(), *captured]
    exceptions = [line for line in lines if re.search(r"\w(Exception|Error): \S", line)]
    line = exceptions[0] if exceptions else lines[0]
    return re.sub(r"^.*?\w(Exception|Error): ", "", line).strip()


@contextmanager
def _capture_stderr() -> Iterator[deque[str]]:
    """Collect what processes started inside write to standard error; later lines are passed on."""
    captured: deque[str] = deque(maxlen=1_000)
    reading, writing = os.pipe()
    ours = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    starting = True

    def listen() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if starting:
                    captured.append(line)
                else:
                    os.write(2, line.encode())

    threading.Thread(target=listen, name="neardup-spark-log", daemon=True).start()
    try:
        yield captured
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        starting = False


def start_spark(master: str | None, progress: Progress = SILENT) -> SparkSession:
    """Return a session whose executors can import neardup.

    Args:
        master: The URL of the cluster's master; None for Spark's own setting.
        progress: Told that Spark starts, which takes seconds.
    """
    progress.say("starting Spark")
    spark = open_session(master)
    local = str(spark.sparkContext.master).startswith("local")
    if not local or not is_this_python(spark.sparkContext.pythonExec):
        check_executors(spark, progress)
    return spark


GUESSED_CORES = 8
PATIENCE_SECONDS = 20.0
"""After this time the user is told that the run waits for executors."""


def check_executors(spark: SparkSession, progress: Progress = SILENT) -> None:
    """Raise UsageError if an executor's Python lacks neardup, or has another version of it.

    One task runs for each core that exists by now; executors that join later are not checked. Works
    in every session, also one of Spark Connect.
    """
    with translate_spark_errors("checking the Python of executors"):
        with _report_waiting(progress):
            answers = _ask_executors(spark, 1)  # returns when the first executor has joined
        answers += _ask_executors(spark, count_cores(spark))
    for answer in answers:
        if trouble := _find_mismatch(answer):
            raise UsageError(f"the Python of executors ({answer['python']}) {trouble}: {SHIPPING}")


def count_cores(spark: SparkSession) -> int:
    """Return how many tasks run at once; a guess for Spark Connect, which does not report it."""
    context = find_context(spark)
    return GUESSED_CORES if context is None else int(context.defaultParallelism)


def _ask_executors(spark: SparkSession, tasks: int) -> list[dict[str, Any]]:
    if (context := find_context(spark)) is not None:  # the first query of SQL takes seconds
        answers = context.parallelize(range(tasks), tasks).map(_make_question()).collect()
        return [json.loads(answer) for answer in answers]
    # Pickled, not Arrow: executors may lack PyArrow.
    from pyspark.sql.functions import udf

    asked = spark.range(0, tasks, 1, tasks).select(
        udf(_make_question(), "string", useArrow=False)("id")
    )
    return [json.loads(row[0]) for row in asked.collect()]


def _make_question() -> Callable[[int], str]:
    """Return a function that is pickled with its code: executors may not have this module."""

    def answer(_: int) -> str:
        import json
        import os
        import sys

        facts = {"python": sys.executable}
        try:
            import numpy  # noqa: F401
            import pyarrow  # noqa: F401

            import neardup
            from neardup.spec import Spec

            facts["version"] = neardup.__version__
            facts["fingerprint"] = Spec().fingerprint
            facts["place"] = os.path.dirname(neardup.__file__)
            facts["folder"] = str(os.path.isdir(facts["place"]))
        except ImportError as error:
            facts["missing"] = str(error)
        return json.dumps(facts)

    return answer


def _find_mismatch(answer: dict[str, Any]) -> str | None:
    if missing := answer.get("missing"):
        return f"can't import what is needed ({missing})"
    if answer["version"] != neardup.__version__:
        return f"has neardup {answer['version']}, the driver has {neardup.__version__}"
    if answer["fingerprint"] != Spec().fingerprint:
        return f"has a neardup of version {neardup.__version__} that makes other sketches"
    if answer["folder"] != "True":
        return f"imports neardup from an archive ({answer['place']}), where it can't compile"
    return None


@contextmanager
def _report_waiting(progress: Progress) -> Iterator[None]:
    """Report after a while that no executor has joined. Spark waits on: queues may be long."""
    message = (
        "waiting for executors: the cluster has started none so far; is it full, or do its workers "
        "have less than spark.executor.memory and spark.executor.cores?"
    )
    timer = threading.Timer(PATIENCE_SECONDS, progress.say, [message])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
