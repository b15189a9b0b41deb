"""How is Spark set up where starting it would be most of a run? Little data, on this machine.

All of these settings give way to those of PYSPARK_SUBMIT_ARGS.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import Final

LITTLE: Final = 10**9
"""Bytes of inputs."""
BRIEF: Final = {"spark.ui.enabled": "false", "spark.sql.adaptive.enabled": "false"}
DAEMON: Final = {"spark.python.daemon.module": "neardup.pipeline.backends.spark.daemon"}
JAVA: Final = "-XX:+IgnoreUnrecognizedVMOptions -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""What a run of half a minute has to do is done before Java's better compiler pays."""


def is_little(master: str | None, size: int | None) -> bool:
    """Whether so many bytes, if that is known, are little data on this machine."""
    return size is not None and size <= LITTLE and bool(re.match(r"local\b", master or ""))


def set_up(master: str, java_options: str) -> None:
    """Let the next session that is started here have these settings."""
    cores = re.match(r"local\[(\d+|\*)", master)
    given = cores[1] if cores else "1"
    settings = BRIEF | {
        "spark.sql.shuffle.partitions": str(os.cpu_count()) if given == "*" else given,
        # Those of the user come after them.
        "spark.driver.defaultJavaOptions": f"{JAVA} {java_options}",
    }
    theirs = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    own = is_this_python(os.environ.get("PYSPARK_PYTHON", sys.executable))
    if own and "spark.pyspark.python" not in theirs:
        settings |= DAEMON
    ours = [f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*ours, theirs])


def is_this_python(command: str) -> bool:
    """Whether it is the Python of this process, perhaps by another name, with all its packages."""
    here, there = Path(sys.executable), Path(command)
    return here.parent == there.parent and here.resolve() == there.resolve()
