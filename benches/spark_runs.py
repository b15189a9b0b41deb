"""Run our command on Spark, read its status, and compare the results of two runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq
import startup
from contenders import HERE, Bench, Result, start
from standalone import loopback

from neardup.pipeline.output import WORK_FOLDER
from neardup.pipeline.run_progress import STATUS_FILE

TABLES = ("removed.parquet", "clusters.parquet", "rejected.parquet")
POLL_SECONDS = 0.02
MOST_SECONDS = 1800.0
"""A run that takes longer hangs."""


def spark_command(corpus: Path, out: Path, master: str, *options: str) -> list[str]:
    """Our command line; what was in OUT is gone."""
    shutil.rmtree(out, ignore_errors=True)
    engine = ["--engine", "spark", "--master", master]
    return [startup.command(), "dedup", str(corpus), "-o", str(out), *engine, *options]


def spark_run(
    bench: Bench, corpus: Path, out: Path, master: str, settings: Mapping[str, object] | None = None
) -> Result:
    """A whole run on all cores, by the clock on the wall; its record is the report."""
    variables = with_python(sys.executable, loopback(bench.work / "spark-local", settings))
    command = [*variables, *spark_command(corpus, out, master, "--quiet")]
    done = start(bench, command, len(bench.cores))
    return Result(done.seconds, done.peak_mb, record(out))


def with_python(python: str, variables: Mapping[str, str]) -> list[str]:
    """The beginning of a command that has these variables, and this Python on executors."""
    settings = {"PYSPARK_PYTHON": python, **variables}
    return ["env", *(f"{name}={value}" for name, value in settings.items())]


def record(out: Path) -> dict[str, object]:
    return json.loads((out / "run.json").read_text())


@dataclass
class Watched:
    """A run in the background, and what it has written about how far it is."""

    process: subprocess.Popen[bytes]
    out: Path

    def stages(self) -> Iterator[tuple[str, float]]:
        """Each new stage with the clock's time, until the run ends."""
        last, end = "", time.monotonic() + MOST_SECONDS
        while self.process.poll() is None:
            if time.monotonic() > end:
                raise RuntimeError(f"the run did not end in {MOST_SECONDS / 60:.0f} minutes")
            name = self.stage()
            if name and name != last:
                last = name
                yield name, time.monotonic()
            time.sleep(POLL_SECONDS)

    def stage(self) -> str:
        try:
            return str(json.loads((self.out / WORK_FOLDER / STATUS_FILE).read_bytes())["stage"])
        except (OSError, ValueError):
            return ""  # not begun, or ended


@contextmanager
def watched(
    bench: Bench,
    corpus: Path,
    out: Path,
    master: str,
    settings: Mapping[str, object],
    *options: str,
) -> Iterator[Watched]:
    """Start our command beside this process; it is ended if it still runs in the end."""
    paths = filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
    variables = {
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        **loopback(bench.work / "spark-local", settings),
    }
    with (bench.work / "spark-driver.log").open("wb") as log:
        process = subprocess.Popen(
            spark_command(corpus, out, master, *options),
            env=os.environ | variables,
            stderr=log,
            stdout=log,
        )
    try:
        yield Watched(process, out)
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def differences(one: Path, other: Path) -> list[str]:
    """Names of the results in which two runs differ."""
    tables = [name for name in TABLES if not _equal_tables(one / name, other / name)]
    return tables + _differing_files(one / "kept", other / "kept")


def _equal_tables(one: Path, other: Path) -> bool:
    return pq.read_table(one).equals(pq.read_table(other))


def _differing_files(one: Path, other: Path) -> list[str]:
    names = {path.relative_to(root) for root in (one, other) for path in root.rglob("*.*")}
    return [f"kept/{name}" for name in sorted(names) if not _same(one / name, other / name)]


def _same(one: Path, other: Path) -> bool:
    return one.exists() and other.exists() and one.read_bytes() == other.read_bytes()
