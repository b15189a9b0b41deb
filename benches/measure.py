"""Measure the time and the peak memory of a command on a number of cores.

The command is started by this file run as a small script of its own. Linux carries the peak
memory of the process that forks over to the child, so a large parent would spoil the figure.
Memory is the larger of the biggest single process (`ru_maxrss`) and, while there are several,
the sampled sum of their proportional shares: a tool may not hide memory in its children.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

POLL = 0.002
SAMPLE_EVERY = 50
ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "POLARS_MAX_THREADS",
        "RAYON_NUM_THREADS",
        "TOKIO_WORKER_THREADS",
    ),
    "1",
)
BYTECODE = {"PYTHONDONTWRITEBYTECODE": ""}
"""An installation compiles all modules; from a clone, each start would: 0.1 s and more."""
SILENT = {"DAFT_PROGRESS_BAR": "0", "DAFT_ANALYTICS_ENABLED": "0", "DO_NOT_TRACK": "1"}


@dataclass(frozen=True)
class Measured:
    stdout: str
    seconds: float
    peak_mb: float


def measured(
    command: list[str], cores: Sequence[int], env: dict[str, str], shown: bool = False
) -> Measured:
    """Run a command pinned to `cores`; an error carries the end of what it wrote to stderr.

    If that is `shown`, it goes to whoever waits instead. What others have written is on disk
    before the clock starts.
    """
    launcher = [sys.executable, "-S", "-E", __file__, ",".join(map(str, cores)), *command]
    environment = os.environ | BYTECODE | SILENT | (ONE_THREAD if len(cores) == 1 else {}) | env
    os.sync()
    done = subprocess.run(
        launcher,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        text=True,
        check=False,
    )
    *output, report = done.stdout.splitlines() or [""]
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{(done.stderr or 'failed')[-2000:]}")
    figures = json.loads(report)
    return Measured("\n".join(output), figures["seconds"], figures["peak_mb"])


def _launch(cores: set[int], command: list[str]) -> int:
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, cores)
        os.execvp(command[0], command)
    seconds, peak, status = _watch(pid, start)
    print(f"\n{json.dumps({'seconds': seconds, 'peak_mb': peak * 1024 / 1e6})}")
    return os.waitstatus_to_exitcode(status)


def _watch(pid: int, start: float) -> tuple[float, int, int]:
    """Seconds, peak KB and wait status of a child, sampling its process tree until it ends."""
    peak, polls = 0, 0
    while True:
        ended, status, usage = os.wait4(pid, os.WNOHANG)
        if ended:
            return time.perf_counter() - start, max(peak, usage.ru_maxrss), status
        polls += 1
        if polls % SAMPLE_EVERY == 0:
            family = tree(pid)
            if len(family) > 1:
                peak = max(peak, sum(map(_share, family)))
        time.sleep(POLL)


def tree(pid: int) -> list[int]:
    children: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:  # it has just ended
        threads = []
    for thread in threads:
        with suppress(OSError):
            listing = Path(f"/proc/{pid}/task/{thread}/children")
            children += map(int, listing.read_text().split())
    return [pid] + [member for child in children for member in tree(child)]


def _share(pid: int) -> int:
    """Proportional set size in KB; 0 for a process that has just ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    sys.exit(_launch(set(map(int, sys.argv[1].split(","))), sys.argv[2:]))
