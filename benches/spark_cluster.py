"""Run the batch engine on a standalone Spark cluster on loopback, and kill a worker in each stage.

    python benches/spark_cluster.py --data DIR --work DIR
    python benches/spark_cluster.py --data DIR --work DIR --documents 11000   # small

One master and two workers of one core each, on this machine: what is measured is that a lost
machine changes nothing, and how long a run takes beside a local one; not how a cluster grows.
Results go to `benches/results/spark_cluster.json` and `spark_cluster.md`; small ones to the work
folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import startup
from batch_figures import IN_ALL, Bench, warm
from contenders import Result, dedup, output
from corpora import describe, plain
from spark_runs import differences, record, watched
from standalone import Cluster
from suite import Suite
from table import Figure, Row

WORKERS = 2
MOST_RATIO = 4
FULL = 1_000_000
SAME = "identical"
SHORTEST_SECONDS = 0.2
"""A stage that is shorter can't be hit."""
SETTINGS = {"spark.executor.memory": "2g", "spark.driver.memory": "2g"}


@dataclass(frozen=True)
class ClusterBench(Bench):
    """`most` is how many documents of a corpus are taken."""

    most: int = FULL

    def first(self, corpus: Path) -> Path:
        """The corpus, or its first documents if it has more than `most`."""
        if self.most >= FULL:
            return corpus
        return plain(corpus, self.work / f"{corpus.stem}-{self.most}.jsonl", self.most)


@dataclass(frozen=True)
class Seen:
    """A run that was watched: its seconds, its stages in order with the seconds of each."""

    seconds: float
    stages: Mapping[str, float]
    report: Mapping[str, Any]


@dataclass(frozen=True)
class Loss:
    """A worker is lost so many seconds into a stage, and may be started again at once."""

    stage: str
    after: float
    again: bool


def run_on(bench: ClusterBench, cluster: Cluster, corpus: Path, out: Path) -> Seen:
    """An undisturbed run."""
    began = time.monotonic()
    with watched(bench, corpus, out, cluster.url, SETTINGS) as run:
        marks = list(run.stages())
    ended = time.monotonic()
    _check(bench, run.process.returncode)
    lasted = {name: end - start for (name, start), (_, end) in pairwise([*marks, ("", ended)])}
    return Seen(ended - began, lasted, record(out))


def run_with_loss(
    bench: ClusterBench, cluster: Cluster, corpus: Path, out: Path, loss: Loss
) -> Row:
    """A run in which a worker is lost: when, how much of it, and how long the run took."""
    began, killed, during = time.monotonic(), [], ""
    with watched(bench, corpus, out, cluster.url, SETTINGS) as run:
        for name, _ in run.stages():
            if name == loss.stage and not killed:
                time.sleep(loss.after)
                during = run.stage()
                killed = cluster.kill(0)
                if loss.again:
                    cluster.start(0)
    ended = time.monotonic()
    cluster.start(0)
    _check(bench, run.process.returncode)
    return {
        "stage": loss.stage,
        "lost in": during,
        "processes killed": len(killed),
        "worker": "started again" if loss.again else "stays away",
        "seconds": ended - began,
    }


def _check(bench: ClusterBench, code: int) -> None:
    if code:
        log = (bench.work / "spark-driver.log").read_text(errors="replace")
        raise RuntimeError(f"the run failed with exit code {code}: {log.strip()[-2000:]}")


@cache
def locally(bench: ClusterBench, corpus: Path) -> tuple[Result, Path]:
    """The local engine's run on as many cores, and where it is."""
    result = dedup(bench, corpus, WORKERS, "--quiet")
    out = bench.work / f"out-local-{corpus.stem}"
    shutil.rmtree(out, ignore_errors=True)
    output(bench).rename(out)
    return result, out


def timed(bench: ClusterBench, title: str, corpus: Path) -> Figure:
    """What a run takes, by stage and by piece of work, and what the local engine takes."""
    local, expected = locally(bench, warm(corpus))
    out = bench.work / "out-spark"
    with Cluster(bench.work / "cluster", WORKERS) as cluster:
        seen = run_on(bench, cluster, corpus, out)
    differing = differences(expected, out)
    work = seen.report["spark"]["work"]
    rows: list[Row] = [
        {"what": f"stage: {name}", "seconds": seconds} for name, seconds in seen.stages.items()
    ]
    rows += [
        {"what": f"work: {one['name']}", "seconds": one["seconds"], "tasks": one["tasks"]}
        for one in work
    ]
    ratio = seen.seconds / local.seconds
    rows.append({"what": IN_ALL, "seconds": seen.seconds, "x the local engine": ratio})
    return Figure(
        title,
        f"{describe(corpus)}, {WORKERS} workers of one core on one machine; the local engine takes "
        f"{local.seconds:.1f} s on {WORKERS} cores",
        rows,
        {
            "the local engine's result": not differing,
            f"at most {MOST_RATIO} x the local engine": ratio <= MOST_RATIO,
        },
    )


def documents(bench: ClusterBench) -> Figure:
    corpus = bench.first(bench.documents()[0])
    return timed(bench, "110,000 documents of 3 KB on a cluster", corpus)


def tweets(bench: ClusterBench) -> Figure:
    corpus = bench.first(bench.tweets())
    return timed(bench, "1 million tweets on a cluster", corpus)


def losses(bench: ClusterBench) -> Figure:
    corpus = bench.first(bench.documents()[0])
    return lost(bench, "A worker lost in the middle of each stage", corpus)


def lost(bench: ClusterBench, title: str, corpus: Path) -> Figure:
    """A run for each stage; by turns the lost worker is started again at once, or stays away."""
    expected, out = locally(bench, warm(corpus))[1], bench.work / "out-spark"
    rows = []
    with Cluster(bench.work / "cluster", WORKERS) as cluster:
        run_on(bench, cluster, corpus, out)  # compiles what tasks need
        whole = run_on(bench, cluster, corpus, out)
        asked = list(whole.stages)
        for number, stage in enumerate(asked):
            lasted = whole.stages[stage]
            if lasted < SHORTEST_SECONDS:
                continue
            print(f"  {stage} ...", file=sys.stderr, flush=True)
            loss = Loss(stage, lasted / 2, again=number % 2 == 0)
            row = run_with_loss(bench, cluster, corpus, out, loss)
            result = ", ".join(differences(expected, out)) or SAME
            rows.append({**row, "undisturbed": whole.seconds, "result": result})
            print(f"  {stage}: {result}, {row['seconds']:.1f} s", file=sys.stderr, flush=True)
    hit = [row["stage"] for row in rows]
    missed = ", ".join(name for name in asked if name not in hit) or "none"
    return Figure(
        title,
        f"{describe(corpus)}; worker, executor and Python are killed with "
        "SIGKILL, their files removed, half of the stage's seconds after it began; stages under "
        f"{SHORTEST_SECONDS} s, which are not hit: {missed}",
        rows,
        {
            "every stage was hit": all(_hit(row) for row in rows),
            "every run ends, identical to the local engine's": all(
                row["result"] == SAME for row in rows
            ),
        },
    )


def _hit(row: Row) -> bool:
    return row["lost in"] == row["stage"] and row["processes killed"] > 1


SUITE = Suite(
    "spark_cluster",
    "The batch engine on a Spark cluster, measured",
    {
        "documents": documents,
        "tweets": tweets,
        "losses": losses,
    },
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--documents", type=int, default=FULL, help="of each corpus, at most")
    parser.set_defaults(work=Path(tempfile.gettempdir(), "neardup-bench"), peers_python="")
    args = SUITE.parse(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    if args.documents < FULL:
        args.results = args.work
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # the cluster ends with it
    cores = tuple(sorted(os.sched_getaffinity(0)))
    bench = ClusterBench("", cores, 1, args.work, Path(args.data), 1.0, args.documents)
    with tempfile.TemporaryDirectory() as folder:
        startup.wall([startup.command(), "demo"], cwd=folder)  # compiles the kernels
    print(SUITE.measure(args, bench, {"pyspark": version("pyspark")}))


if __name__ == "__main__":
    main()
