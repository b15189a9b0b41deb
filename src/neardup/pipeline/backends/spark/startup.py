"""Start Spark faster for small local inputs, where starting takes most of the run.

Settings in PYSPARK_SUBMIT_ARGS override all of these. Java's classes, loaded and verified once, are
stored as an archive in the user's cache: the first such run makes it when Java ends, and later runs
start some seconds sooner. Java checks the archive itself, and ignores one that does not fit.

Spark also starts this module as its daemon, the process whose forks are its Python workers: it
imports once what every worker needs. Without it workers behave the same, and start more slowly.
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
"""Inputs of at most this many bytes are small."""
FAST_SETTINGS: Final = {"spark.ui.enabled": "false", "spark.sql.adaptive.enabled": "false"}
DAEMON_SETTINGS: Final = {"spark.python.daemon.module": "neardup.pipeline.backends.spark.startup"}
JAVA_OPTIONS: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""A run of half a minute ends before Java's optimising compiler pays."""


def is_small_local_input(master: str | None, size: int | None) -> bool:
    """Return whether inputs of `size` bytes (None: unknown) are small and the master is local."""
    return (
        size is not None and size <= SMALL_INPUT_BYTES and bool(re.match(r"local\b", master or ""))
    )


def configure_fast_start(master: str, java_options: str) -> None:
    """Set PYSPARK_SUBMIT_ARGS so that the next session of this process has the fast settings."""
    cores = re.match(r"local\[(\d+|\*)", master)
    stated = cores[1] if cores else "1"
    settings = FAST_SETTINGS | {
        "spark.sql.shuffle.partitions": str(os.cpu_count()) if stated == "*" else stated,
        # The user's extraJavaOptions come after these defaults.
        "spark.driver.defaultJavaOptions": f"{JAVA_OPTIONS} {java_options}",
    }
    theirs = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    own = is_this_python(os.environ.get("PYSPARK_PYTHON", sys.executable))
    if own and "spark.pyspark.python" not in theirs:
        settings |= DAEMON_SETTINGS
    ours = [f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*ours, theirs])


def is_this_python(command: str) -> bool:
    """Return whether a command is this process's Python, with the same packages.

    Another name of it in the same folder counts; a virtual environment has packages of its own.
    """
    here, there = Path(sys.executable), Path(command)
    return here.parent == there.parent and here.resolve() == there.resolve()


NEEDED_BYTES: Final = 2 * 10**9
"""No archive is made with fewer free bytes on disk; an archive takes a tenth of that."""
SAVE_SECONDS: Final = 60
SILENT: Final = "-Xlog:disable"
"""Otherwise Java reports an archive that does not fit on standard output."""


class ClassArchive:
    """The archive of Java's classes for the current Java and Spark; `path` is None without one."""

    def __init__(self) -> None:
        self.path: Path | None = None
        with suppress(OSError, RuntimeError):  # not readable, no home
            self.path = _find_archive()
        self._made = self.path and self.path.with_suffix(f".{os.getpid()}")
        self._java: Any = None

    @property
    def options(self) -> str:
        """The options that make Java read the archive, or write it when it ends."""
        if self.path is None or self._made is None:
            return SILENT
        if self.path.exists():
            return f"{SILENT} -XX:SharedArchiveFile={self.path}"
        return f"{SILENT} -XX:ArchiveClassesAtExit={self._made}"

    def begin(self, spark: SparkSession) -> None:
        """Remember Java's process if it writes the archive, and kill it when this process ends.

        `wait` lets Java end by itself before that.
        """
        global _pending
        if self.path is not None and not self.path.exists():
            _pending = self
            gateway: Any = spark.sparkContext._gateway
            self._java = gateway.proc
            atexit.register(self._java.kill)

    def wait(self) -> None:
        """Wait until Java ends, which writes the archive, and give the archive its name."""
        if self.path is None or self._made is None or self._java is None:
            return
        # A full disk, or a slow machine: the next run tries again.
        with suppress(OSError, subprocess.TimeoutExpired):
            self._java.stdin.close()
            self._java.wait(SAVE_SECONDS)
            if not self._made.exists():
                self._made.touch()  # this Java can't write one: an empty file stops further tries
            os.replace(self._made, self.path)
        self._made.unlink(missing_ok=True)


_pending: ClassArchive | None = None


def save_archive(quiet: bool) -> None:
    """Stop Spark and wait for the archive, if one is being made. For the end of a run."""
    if _pending is not None:
        from pyspark.sql import SparkSession

        if not quiet:
            runtime.say("saving Java's classes for later runs, up to half a minute, once")
        if spark := SparkSession.getActiveSession():
            spark.stop()
        _pending.wait()


def find_java() -> str | None:
    """Return the path of the Java that Spark starts, None if there is none."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(f"{home}/bin/java" if home else "java")


def _find_archive() -> Path | None:
    """Return the archive's path, which names the Java and the Spark; None if it can't be used."""
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


DAEMON_KERNELS: Final = (
    "band_keys",
    "content_hashes",
    "minhash_m32",
    "read_records",
    "shingle",
    "word_units",
)
"""Kernels of a run over JSON lines with the default options."""


def load_modules() -> None:
    """Import in Spark's daemon what every Python worker, a fork of it, would import by itself."""
    # Installed packages have compiled bytecode; those in Spark's archives would be compiled again.
    sys.path.sort(key=lambda entry: entry.endswith(".zip"))
    import pyspark.worker  # noqa: F401

    import neardup.pipeline.backends.spark.run  # noqa: F401
    from neardup import kernels

    for name in DAEMON_KERNELS:
        getattr(kernels, name)


if __name__ == "__main__":  # started by Spark, see DAEMON_SETTINGS
    load_modules()
    from pyspark.daemon import manager

    manager()
