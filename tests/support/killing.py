"""Runs of the engine in processes that are killed; started by tests in a process of its own.

It forks for every attempt, which takes no time: the kernels are loaded. An attempt is killed after
some time, or before it touches the disk for the n-th time. What happened is printed as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from neardup import kernels
from neardup.pipeline.run import run_job
from support import batch_engine

Seen = dict[str, list[int]]

CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")


def load_kernels() -> None:
    """Load all kernels and libraries, so that children that are forked have them."""
    pa.array([0])  # imports pandas
    for names in kernels.KERNELS.values():
        for name in names:
            getattr(kernels, name)


def sketches(work: Path) -> Seen:
    """The sketch files that are complete: name to inode and time."""
    files = [path for path in work.glob("shards/*") if not path.name.startswith(".")]
    return {path.name: [path.stat().st_ino, path.stat().st_mtime_ns] for path in files}


def attempt(
    inputs: list[Path],
    out: Path,
    asked: dict[str, Any],
    before: Callable[[], object],
    limit: float | None = None,
) -> int:
    """Run in a child; its exit code, or minus the signal that ended it.

    Sketches that were complete must be the same files at the end.
    """
    complete = sketches(batch_engine.unfinished(out))

    def finish(work: Path) -> None:
        now = sketches(work)
        again = [name for name, file in complete.items() if now.get(name) != file]
        assert not again, f"sketched again: {again}"

    child = os.fork()
    if child == 0:
        try:
            before()
            others = {"finish": finish, "force": asked.get("force", False)}
            options = {name: value for name, value in asked.items() if name != "force"}
            run_job(batch_engine.job(inputs, out, others=others, **options), batch_engine.Silent())
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if limit is not None:
        time.sleep(limit)
        os.kill(child, signal.SIGKILL)  # a zombie, if it has ended: no harm
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def die_before(step: int) -> None:
    """Kill this process when it is about to change the disk for the n-th time."""
    left = step

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        wrote = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if wrote or event in CHANGES:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def until_done(
    inputs: list[Path],
    out: Path,
    asked: dict[str, Any],
    before: Callable[[], object],
    limit: Callable[[], float | None] = lambda: None,
) -> int:
    """Attempts until the run is complete, of which the first does `before`; how many were killed.

    One that was killed when OUT was complete, while it cleaned up, is the last one.
    """
    killed = 0
    while attempt(inputs, out, asked, before, limit()) == -signal.SIGKILL:
        killed += 1
        before = do_nothing
        if (out / "run.json").exists() and "force" not in asked:
            break
    return killed


def do_nothing() -> None:
    pass


def at_random_times(inputs: list[Path], folder: Path, seed: int, wanted: int) -> list[int]:
    """Kills of each run, until there are so many of them together."""
    chance = random.Random(seed)
    asked = {"workers": 2, "shard": 1_000, "limit": 2}
    begun = time.perf_counter()
    until_done(inputs, folder / "plain", asked, do_nothing)
    whole = time.perf_counter() - begun
    kills: list[int] = []
    while sum(kills) < wanted:
        shorter = [chance.uniform(0.02, 0.6) * whole for _ in range(30)]
        # After so many it is left alone: progress is certain only where a shard gets done.
        limits = iter([*shorter, None])
        out = folder / str(len(kills))
        kills.append(until_done(inputs, out, asked, do_nothing, limits.__next__))
    return kills


def at_steps(
    inputs: list[Path], folder: Path, first: int, every: int, asked: dict[str, Any]
) -> list[int]:
    """Kills of each run, the n-th at step `first` + n * `every`, until one has no such step."""
    kills: list[int] = []
    while not kills or kills[-1]:
        out = folder / str(len(kills))
        if asked.get("force"):
            attempt(inputs, out, {}, do_nothing)
        step = first + every * len(kills)
        kills.append(until_done(inputs, out, asked, partial(die_before, step)))
    return kills


if __name__ == "__main__":
    load_kernels()
    what, given = sys.argv[1], json.loads(sys.argv[2])
    paths = [Path(path) for path in given.pop("inputs")]
    do = {"at_random_times": at_random_times, "at_steps": at_steps}[what]
    print(json.dumps(do(paths, Path(given.pop("folder")), **given)))
