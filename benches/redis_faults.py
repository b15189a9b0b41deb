"""Measure what faults of its servers do to an index on Redis, and write the table.

    python benches/redis_faults.py --data DIR --work DIR
    python benches/redis_faults.py --data DIR --rounds 1 --only killed   # a quick look

Three masters and three replicas are started on 127.0.0.1, with append-only files; processes add to
one index on them while masters are killed, slots are moved, or replicas halt. They send again what
was refused. Afterwards `repair` has run, as docs/cluster.md asks for after a failover. Counted are
the acknowledged documents that are not stored, and the stored decisions that differ from those of a
batch run. Results go to `benches/results/redis_faults.json` and `redis_faults.md`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contenders import HERE
from redis_index import Bench as RedisBench
from redis_index import cluster, ours
from suite import Suite, work_folder
from table import Figure, Row

sys.path.insert(0, str(HERE.parent / "tests"))
from support.redis_servers import RedisCluster, wait_until

BATCH, WORKERS = 64, 2
SHARE = 200_000
"""Lines of the corpus from one process to the next."""
SLOTS = 500
"""Slots that are moved at a time."""
CALM = 2.0
"""Seconds before, between and after faults."""
LAG, LONG_LAG = 1.0, 8.0
"""Seconds for which a replica is cut off before its master is killed, and until WAIT has ended."""
Fault = Callable[[RedisCluster, int], None]


@dataclass(frozen=True)
class Bench(RedisBench):
    rounds: int


def killed(bench: Bench) -> Figure:
    """Masters are killed one after the other, also while their replica lags."""
    rows = [
        measure(bench, name, fault, replicas)
        for replicas in (1, 0)
        for name, fault in (
            ("a master is killed", kill),
            (f"its replica is cut off {LAG:g} s before", kill_beside_cut_off_replica),
        )
    ]
    return _figure("A master is killed under load", bench, rows)


def moved(bench: Bench) -> Figure:
    """Slots move from one master to the next."""
    rows = [measure(bench, f"{SLOTS} slots move", move, replicas) for replicas in (1, 0)]
    return _figure("Slots move between masters under load", bench, rows)


def lagging(bench: Bench) -> Figure:
    """A replica halts for so long that WAIT is not answered."""
    figure = _figure(
        "A replica lags under load",
        bench,
        [measure(bench, f"a replica halts for {LONG_LAG:g} s", halt, 1)],
    )
    said = all(row["batches refused"] for row in figure.rows)
    return Figure(figure.title, figure.data, figure.rows, figure.targets | {"it is said": said})


def _figure(title: str, bench: Bench, rows: list[Row]) -> Figure:
    safe = [row for row in rows if row["WAIT"]]
    return Figure(
        title,
        f"tweets, {WORKERS} processes, batches of {BATCH}, {bench.rounds} faults; three masters "
        "and three replicas",
        rows,
        {
            "with WAIT 1 no acknowledged document is lost": not any(row["lost"] for row in safe),
            "with WAIT 1 no decision is wrong": not any(row["wrong"] for row in safe),
        },
    )


# Faults


def kill(cluster: RedisCluster, at: int) -> None:
    master = cluster.masters()[at % 3]
    cluster.kill_master(master)
    time.sleep(CALM)
    cluster.restart(master)


def kill_beside_cut_off_replica(cluster: RedisCluster, at: int) -> None:
    master = cluster.masters()[at % 3]
    (replica,) = cluster.replicas(master)
    with halted(replica):
        # Or what is on its way would still arrive.
        master.command("CLIENT", "KILL", "TYPE", "replica")
        time.sleep(LAG)
        master.kill()
    cluster.wait_until_agreed()
    time.sleep(CALM)
    cluster.restart(master)


def move(cluster: RedisCluster, at: int) -> None:
    masters = cluster.masters()
    cluster.reshard(masters[at % 3], masters[(at + 1) % 3], SLOTS)


def halt(cluster: RedisCluster, at: int) -> None:
    with halted(cluster.replicas()[at % 3]):
        time.sleep(LONG_LAG)


@contextmanager
def halted(server: Any) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.resume()


# Load


def measure(bench: Bench, name: str, fault: Fault, replicas: int) -> Row:
    """Let faults happen while processes add; count what is lost and what is wrong."""
    with cluster() as six, tempfile.TemporaryDirectory() as folder:
        stop = Path(folder) / "stop"
        answers = [Path(folder) / f"{at}.jsonl" for at in range(WORKERS)]
        ours(bench, "single", six.url, bench.tweets, 0, 1)  # makes the index
        running = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "our_redis", "feed", six.url, str(bench.tweets)),
                    *(str(at * SHARE), str(BATCH), str(replicas), str(stop), str(path)),
                ],
                cwd=HERE,
                stdout=subprocess.PIPE,
            )
            for at, path in enumerate(answers)
        ]
        try:
            wait_until(lambda: all(map(_has_answers, answers)), "all processes add")
            _happen(fault, six, bench.rounds)
        finally:
            stop.touch()
            six.heal()
            outputs = [each.communicate()[0] for each in running]
        if any(each.returncode for each in running):
            raise RuntimeError(f"a process that adds has failed while {name}")
        reports = [json.loads(output.splitlines()[-1]) for output in outputs]
        found = ours(bench, "judge", six.url, bench.tweets, *answers).report or {}
    if found["problems"]:
        raise RuntimeError(f"{found['problems']} problems are left after {name}")
    documents = sum(report["documents"] for report in reports)
    return {
        "fault": name,
        "WAIT": replicas,
        "documents acknowledged": documents,
        "a second": documents / max(report["seconds"] for report in reports),
        "longest batch s": max(report["longest"] for report in reports),
        "batches refused": sum(report["refused"] for report in reports),
        "lost": found["lost"],
        "wrong": found["wrong"],
        "answers that changed": found["other"],
        "repaired": found["repaired"],
    }


def _has_answers(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _happen(fault: Fault, six: RedisCluster, rounds: int) -> None:
    time.sleep(CALM)
    for at in range(rounds):
        fault(six, at)
        time.sleep(CALM)


SUITE = Suite(
    "redis_faults",
    "Faults of the servers of an index on Redis",
    {"killed": killed, "moved": moved, "lagging": lagging},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--rounds", type=int, default=3, help="faults of a kind, one after another")
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        cores = tuple(range(len(os.sched_getaffinity(0))))
        bench = Bench(args.peers_python, cores, 1, work, Path(args.data), SHARE, args.rounds)
        print(SUITE.measure(args, bench, {"faults of a kind": args.rounds}))


if __name__ == "__main__":
    main()
