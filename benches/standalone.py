"""A standalone Spark cluster on the loopback interface: a master, and workers of one core each.

    with Cluster(folder, workers=2) as cluster:
        ...                 # a driver connects to cluster.url, with loopback() in its environment
        cluster.kill(0)     # a machine is lost: worker, executor, Python and their files
        cluster.start(0)    # and comes back, empty

Nothing listens on another address than 127.0.0.1. Processes are ended by their ids.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from measure import tree

HOST = "127.0.0.1"
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.1


def loopback(local: Path, options: Mapping[str, object] | None = None) -> dict[str, str]:
    """The environment of a process of Spark: this Python, this address, and files in `local`.

    The options are for a driver; the command line's own win over them.
    """
    fixed = {"spark.ui.enabled": "false", "spark.driver.host": HOST, **(options or {})}
    flags = [part for name, value in fixed.items() for part in ("--conf", f"{name}={value}")]
    return {
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(local),
        "PYSPARK_SUBMIT_ARGS": " ".join([*flags, "pyspark-shell"]),
    }


class Cluster:
    """A master and its workers, while the context lasts."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "3g") -> None:
        self._folder, self._memory = folder, memory
        self._port, self._page = _free_port(), _free_port()
        self._master: subprocess.Popen[bytes] | None = None
        self._workers: list[subprocess.Popen[bytes] | None] = [None] * workers

    @property
    def url(self) -> str:
        return f"spark://{HOST}:{self._port}"

    def __enter__(self) -> Cluster:
        self._folder.mkdir(parents=True, exist_ok=True)
        ports = ("--port", str(self._port), "--webui-port", str(self._page))
        self._master = self._launch("master.Master", "master", *ports)
        try:
            _wait_for(self._answers, "the master answers")
            for number in range(len(self._workers)):
                self.start(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self, number: int) -> None:
        """Start a worker, if it isn't there, and wait until the master knows it."""
        if self._workers[number] is not None:
            return
        name, wanted = f"worker{number}", self.alive() + 1
        size = ("--cores", "1", "--memory", self._memory, "--webui-port", str(_free_port()))
        work = ("--work-dir", str(self._folder / name))
        self._workers[number] = self._launch("worker.Worker", name, *size, *work, self.url)
        _wait_for(lambda: self.alive() >= wanted, f"{name} registers")

    def kill(self, number: int) -> list[int]:
        """SIGKILL a worker and all that it started, remove its files; the ids that were killed."""
        worker = self._workers[number]
        if worker is None:
            return []
        self._workers[number] = None
        killed = _kill(worker)
        shutil.rmtree(self._local(f"worker{number}"), ignore_errors=True)
        return killed

    def stop(self) -> None:
        for number in range(len(self._workers)):
            self.kill(number)
        if self._master is not None:
            _kill(self._master)
            self._master = None

    def alive(self) -> int:
        """Workers that the master counts on."""
        return int(self._state()["aliveworkers"])

    def _answers(self) -> bool:
        try:
            self._state()
        except OSError:
            return False
        return True

    def _state(self) -> dict[str, object]:
        with urllib.request.urlopen(f"http://{HOST}:{self._page}/json/", timeout=10) as answer:
            return json.load(answer)

    def _local(self, name: str) -> Path:
        return self._folder / f"{name}-local"

    def _launch(self, kind: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A daemon of Spark, in the foreground, so that its id is known; it inherits PYTHONPATH."""
        import pyspark

        home = Path(pyspark.__file__).parent
        environment = {
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
        }
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [
                    home / "bin/spark-class",
                    f"org.apache.spark.deploy.{kind}",
                    "--host",
                    HOST,
                    *arguments,
                ],
                env=os.environ | loopback(self._local(name)) | environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )


def _kill(process: subprocess.Popen[bytes]) -> list[int]:
    family = tree(process.pid)
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    return family


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _wait_for(happened: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not happened():
        if time.monotonic() > end:
            raise RuntimeError(f"waited {PATIENCE_SECONDS:.0f} s for this: {what}")
        time.sleep(POLL_SECONDS)
