"""Java's classes, loaded and checked once: an archive in the user's cache.

The first run for little data makes it when Java ends, and later ones start some seconds sooner.
Java itself sees whether an archive is one of its own, and does without one that is not.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from neardup import runtime

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOM: Final = 2 * 10**9
"""Free bytes without which no archive is made: it takes a tenth of that."""
LAST_SECONDS: Final = 60
SILENT: Final = "-Xlog:disable"
"""Java would write to standard output that an archive does not fit."""


class Archive:
    """That of the Spark and the Java which would start now; `path` is None if it can't be had."""

    def __init__(self) -> None:
        self.path: Path | None = None
        with suppress(OSError, RuntimeError):  # not readable, no home
            self.path = _place()
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
        global _begun
        if self.path is not None and not self.path.exists():
            _begun = self
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
            self._java.wait(LAST_SECONDS)
            if not self._made.exists():
                self._made.touch()  # Java can't: it is not asked again
            os.replace(self._made, self.path)
        self._made.unlink(missing_ok=True)


_begun: Archive | None = None


def keep(quiet: bool) -> None:
    """At the end of a run that has all it wanted: stop Spark, and keep the archive, if one is
    being made."""
    if _begun is not None:
        from pyspark.sql import SparkSession

        if not quiet:
            runtime.say("keeping Java's classes for later runs, up to half a minute, once")
        if spark := SparkSession.getActiveSession():
            spark.stop()
        _begun.wait()


def java_command() -> str | None:
    """The Java that Spark starts."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _place() -> Path | None:
    """By a name that another Java, or another Spark, does not have."""
    from pyspark.find_spark_home import _find_spark_home

    java = java_command()
    if java is None:
        return None
    digest = hashlib.blake2b(digest_size=8)
    for part in (Path(java).resolve(), Path(_find_spark_home()).resolve() / "jars"):
        digest.update(f"{part} {part.stat().st_mtime_ns}".encode())
    folder = runtime.cache_home()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / f"java-{digest.hexdigest()}.jsa"
    usable = path.exists() or shutil.disk_usage(folder).free > ROOM
    return path if usable and not re.search(r"\s", str(path)) else None
