"""Start Spark faster for small inputs on this machine, where its start is most of the run.

All of these settings give way to those of PYSPARK_SUBMIT_ARGS. Java's classes, loaded and verified
once, are kept as an archive in the user's cache: the first such run makes it when Java ends, and
later ones start some seconds sooner. Java checks the archive itself, and ignores a foreign one.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neardup import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SMALL_INPUT_BYTES: Final = 10**9
"""Bytes of inputs."""
FAST_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.sql.adaptive.enabled": "false"}
DAEMON_SETTINGS: Final = {"spark.python.daemon.module": "neardup.pipeline.backends.spark.daemon"}
JAVA_OPTIONS: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""What a run of half a minute has to do is done before Java's better compiler pays."""


def is_small_local_input(master: str | None, size: int | None) -> bool:
    """Whether so many bytes, if that is known, are little data on this machine."""
    return (
        size is not None and size <= SMALL_INPUT_BYTES and bool(re.match(r"local\b", master or ""))
    )


def configure_fast_start(master: str, java_options: str) -> None:
    """Let the next session that is started here have these settings."""
    cores = re.match(r"local\[(\d+|\*)", master)
    given = cores[1] if cores else "1"
    settings = FAST_SETTINGS | {
        "spark.sql.shuffle.partitions": str(os.cpu_count()) if given == "*" else given,
        # Those of the user come after them.
        "spark.driver.defaultJavaOptions": f"{JAVA_OPTIONS} {java_options}",
    }
    theirs = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    own = is_this_python(os.environ.get("PYSPARK_PYTHON", sys.executable))
    if own and "spark.pyspark.python" not in theirs:
        settings |= DAEMON_SETTINGS
    ours = [f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*ours, theirs])


def is_this_python(command: str) -> bool:
    """Whether it is the Python of this process, perhaps by another name, with all its packages."""
    here, there = Path(sys.executable), Path(command)
    return here.parent == there.parent and here.resolve() == there.resolve()


NEEDED_BYTES: Final = 2 * 10**9
"""Free bytes without which no archive is made: it takes a tenth of that."""
SAVE_SECONDS: Final = 60
SILENT: Final = "-Xlog:disable"
"""Java would write to standard output that an archive does not fit."""


class ClassArchive:
    """That of the Spark and the Java which would start now; `path` is None if it can't be had."""

    def __init__(self) -> None:
        self.path: Path | None = None
        with suppress(OSError, RuntimeError):  # not readable, no home
            self.path = _find_archive()
        self._made = self.path and self.path.with_suffix(f".{os.getpid()}")
        self._java: Any = None

    @property
    def options(self) -> str:
        """What Java has to be told: to read the archive, or to make it."""
        if self.path is None or self._made is None:
            return SILENT
        if self.path.exists():
            return f"{SILENT} -XX:SharedArchiveFile={self.path}"
        return f"{SILENT} -XX:ArchiveClassesAtExit={self._made}"

    def begin(self, spark: SparkSession) -> None:
        """If the archive is being made: Java ends with this process, unless it is waited for."""
        global _pending
        if self.path is not None and not self.path.exists():
            _pending = self
            gateway: Any = spark.sparkContext._gateway
            self._java = gateway.proc
            atexit.register(self._java.kill)

    def wait(self) -> None:
        """Let Java end, which makes the archive."""
        if self.path is None or self._made is None or self._java is None:
            return
        # A full disk, or a slow machine: the next run tries again.
        with suppress(OSError, subprocess.TimeoutExpired):
            self._java.stdin.close()
            self._java.wait(SAVE_SECONDS)
            if not self._made.exists():
                self._made.touch()  # Java can't: it is not asked again
            os.replace(self._made, self.path)
        self._made.unlink(missing_ok=True)


_pending: ClassArchive | None = None


def save_archive(quiet: bool) -> None:
    """At the end of a run that has all it wanted: stop Spark, and keep the archive, if one is
    being made."""
    if _pending is not None:
        from pyspark.sql import SparkSession

        if not quiet:
            runtime.say("saving Java's classes for later runs, up to half a minute, once")
        if spark := SparkSession.getActiveSession():
            spark.stop()
        _pending.wait()


def find_java() -> str | None:
    """The Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _find_archive() -> Path | None:
    """By a name that another Java, or another Spark, does not have."""
    from pyspark.find_spark_home import _find_spark_home

    java = find_java()
    if java is None:
        return None
    digest = hashlib.blake2b(digest_size=8)
    for part in (Path(java).resolve(), Path(_find_spark_home()).resolve() / "jars"):
        digest.update(f"{part} {part.stat().st_mtime_ns}".encode())
    folder = runtime.cache_home()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"java-{digest.hexdigest()}.jsa"
    usable = path.exists() or shutil.disk_usage(folder).free > NEEDED_BYTES
    return path if usable and not re.search(r"\s", str(path)) else None
