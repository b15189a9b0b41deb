"""Is there a Spark that fits, and how is it started? PySpark, Java, a master: each with its cure.

What Spark says while it starts is kept back, and quoted if it does not start.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from neardup.errors import NeardupError, UsageError
from neardup.pipeline.backends.spark.java_classes import Archive, java_command
from neardup.pipeline.backends.spark.little import is_little, set_up
from neardup.pipeline.interrupts import held

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

OLDEST_JAVA: Final = 17
ANSWER_SECONDS: Final = 10.0
"""How long a master may take to accept a connection."""
SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    # Where YARN does not answer, Spark would try for a quarter of an hour.
    "spark.hadoop.yarn.resourcemanager.connect.max-wait.ms": "30000",
    "spark.hadoop.yarn.resourcemanager.connect.retry-interval.ms": "5000",
}
LARGE: Final = "spark.sql.execution.arrow.useLargeVarTypes"


def require_spark() -> None:
    """Refuse to go on without a PySpark that fits."""
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
    # PySpark warns of every new pandas; it only asks whether there is one for what is used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)


def require_java() -> None:
    """Refuse to go on without a Java that Spark can run on."""
    cure = (
        f"install Java {OLDEST_JAVA} or later (Debian and Ubuntu: apt-get install "
        f"openjdk-{OLDEST_JAVA}-jre-headless), on the PATH or in the folder that JAVA_HOME names"
    )
    java, home = java_command(), os.environ.get("JAVA_HOME")
    if java is None:
        where = f"in JAVA_HOME, {home}" if home else "on the PATH"
        raise UsageError(f"Spark needs Java, and there is none {where}: {cure}")
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    if found is None:
        raise UsageError(f"{java} does not say which Java it is: {cure}")
    if int(found[1]) < OLDEST_JAVA:
        raise UsageError(f"Spark needs a later Java than {found[1]}, which is {java}: {cure}")


def spark_session(
    master: str | None, name: str = "neardup", size: int | None = None
) -> SparkSession:
    """The session that runs already, or a new one, which says nothing but what went wrong.

    Without a master, that of spark-submit or of Spark's own settings is taken, else this machine.
    `size` is how many bytes there are to read, if that is known: a new session on this machine is
    set up for it.
    """
    require_spark()
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is not None:
        require_settings(running)
        return _the_same_master(running, master)
    archive = None
    if is_little(master, size):
        archive = Archive()
        set_up(str(master), archive.options)
    if master:
        require_answer(master)
    # Py4J logs a stack trace, by nobody's name, when Ctrl-C interrupts it, which is raised anyway.
    logging.getLogger().addFilter(lambda record: "py4j" not in record.pathname)
    builder = SparkSession.builder.appName(name)
    for setting, value in SETTINGS.items():
        builder = builder.config(setting, value)
    chosen = _choose_python(master)
    spark = _started(builder.master(master) if master else builder, master)
    require_settings(spark)
    context = spark.sparkContext
    settings = context.getConf()
    if not chosen:
        # spark-submit sees to this setting; a session that Python starts would ignore it.
        context.pythonExec = settings.get("spark.pyspark.python") or context.pythonExec
    if settings.get("spark.log.level") is None:
        context.setLogLevel("OFF")  # what fails is raised; lost executors are counted
    if archive is not None:
        archive.begin(spark)
    return spark


def require_settings(spark: SparkSession) -> None:
    """Refuse a session whose tasks would want other Arrow types than they are given."""
    if spark.conf.get(LARGE, "false") == "true":
        raise UsageError(
            f"the Spark session has {LARGE}=true, which is not supported: leave it out, or "
            f'spark.conf.set("{LARGE}", "false")'
        )


def context_of(spark: SparkSession) -> SparkContext | None:
    """The session's context; None if it is one of Spark Connect, which has none."""
    try:
        return spark.sparkContext
    except Exception:  # each kind of session has its own way to say it
        return None


def require_answer(master: str) -> None:
    """Refuse to go on if nobody listens where a standalone master or Kubernetes should be.

    Spark itself tries for minutes, with a stack trace for each time.
    """
    places = re.findall(r"([^/,:\[\]]+|\[[^\]]+\]):(\d+)(?:,|/|$)", master.partition("://")[2])
    why: OSError | None = None
    for host, port in places:
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
            return
        except OSError as error:
            why = error
    if why is not None:
        raise NeardupError(
            f"no Spark master answers at {master} ({why.strerror or why}): start it, or give the "
            "URL that its page or log shows as --master"
        )


def _the_same_master(spark: SparkSession, master: str | None) -> SparkSession:
    """A process has one Spark; a second one with another master can't be had."""
    theirs = spark.conf.get("spark.master", None)
    if master and master != theirs:
        raise UsageError(
            f"a Spark session with master {theirs} runs already, and {master} was asked for: "
            "stop it, or leave the master out"
        )
    return spark


def _choose_python(master: str | None) -> bool:
    """Let executors run this very Python where it can be expected to be there.

    Spark's own choice is the first python3 of the PATH, which seldom has the package.
    """
    if "PYSPARK_PYTHON" in os.environ:
        return True
    if master is None or master.startswith(("local", "spark://")):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return False


def _started(builder: SparkSession.Builder, master: str | None) -> SparkSession:
    # An interrupt before Java has told its port would leave it behind.
    with held(), _kept_back() as said:
        try:
            return builder.getOrCreate()
        except Exception as error:
            reason = _reason(error, list(said))
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # else spark-submit has started Java
        require_java()
    at = f" with master {master}" if master else ""
    home = os.environ.get("SPARK_HOME")
    hint = f" (SPARK_HOME is {home})" if home else ""
    raise NeardupError(f"Spark did not start{at}: {reason}{hint}")


def _reason(error: Exception, said: list[str]) -> str:
    """The one line that tells most: that of an exception in Java, or the first that was logged."""
    lines = [*str(error).splitlines(), *said]
    telling = [line for line in lines if re.search(r"\w(Exception|Error): \S", line)]
    line = telling[0] if telling else lines[0]
    return re.sub(r"^.*?\w(Exception|Error): ", "", line).strip()


@contextmanager
def _kept_back() -> Iterator[deque[str]]:
    """Keep what a process that starts here writes to standard error; pass on what comes later."""
    said: deque[str] = deque(maxlen=1_000)
    reading, writing = os.pipe()
    ours = os.dup(2)
    os.dup2(writing, 2)
    os.close(writing)
    starting = True

    def listen() -> None:
        with os.fdopen(reading, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if starting:
                    said.append(line)
                else:
                    os.write(2, line.encode())

    threading.Thread(target=listen, name="neardup-spark-log", daemon=True).start()
    try:
        yield said
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        starting = False
