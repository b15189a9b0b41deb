"""Measure the index on Redis beside datasketch's on the same server, and write the table.

    python benches/redis_index.py --data DIR --work DIR --peers-python .venv-bench/bin/python
    python benches/redis_index.py --data DIR ... --documents 20000 --only adding,check

Clients and servers share all cores. Servers are started on 127.0.0.1, with an append-only file that
is synced each second, and ended. Results go to `benches/results/redis.json` and `redis.md`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import contenders
from contenders import HERE, Result, module
from corpora import plain
from harness import THRESHOLD
from suite import Suite, work_folder
from table import Figure, Row

from neardup import plan
from neardup.options import Options

sys.path.insert(0, str(HERE.parent / "tests"))
from support.redis_servers import RedisCluster, RedisServer, redis_cluster, redis_server

BATCH = 256
SINGLE = 2_000
ASKED = 2_000
PEER = {"plain": 2_000, "session": 5_000}
"""How datasketch is used: documents that are added."""
FULL = 1_000_000
AHEAD = 4
"""Batches that a process has submitted before the first of them is answered."""
WRITERS = (1, 2, 4)
COST_DOCUMENTS = 20_000
COST_SHAPES = [(20, 21, 6), (20, 10, 12), (300, 21, 6), (300, 14, 9)]
"""Shingles, bands and rows."""
CPU = ("used_cpu_sys", "used_cpu_user")


@dataclass(frozen=True)
class Bench(contenders.Bench):
    data: Path
    documents: int

    @property
    def tweets(self) -> Path:
        return plain(self.data / "tweets_1m.jsonl.zst", self.work / "tweets_1m.jsonl")


def ours(bench: Bench, *arguments: object) -> Result:
    cores = len(bench.cores)
    return module(bench, sys.executable, "our_redis", *map(str, arguments), cores=cores)


def added(
    bench: Bench, url: str, first: int, count: int, replicas: int = 0, ahead: int = 0
) -> dict[str, Any]:
    report = ours(bench, "add", url, bench.tweets, first, count, BATCH, replicas, ahead).report
    return dict(report or {})


@contextmanager
def server() -> Iterator[RedisServer]:
    """A server of its own, with an append-only file that is synced each second."""
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server(Path(folder), appendonly=True, appendfsync="everysec") as started,
    ):
        yield started


@contextmanager
def cluster() -> Iterator[RedisCluster]:
    """Three masters and three replicas."""
    with tempfile.TemporaryDirectory() as folder, redis_cluster(Path(folder)) as started:
        yield started


def adding(bench: Bench) -> Figure:
    """check_and_add in batches, on one server and on a cluster, beside datasketch."""
    count, small = bench.documents, min(bench.documents, 100_000)
    rows: list[Row] = []
    with server() as started:
        empty = int(started.info("memory")["used_memory"])
        rest = count - SINGLE
        whole = added(bench, started.url, 0, rest)
        single = ours(bench, "single", started.url, bench.tweets, rest, SINGLE).report or {}
        asked = ours(bench, "check", started.url, bench.tweets, ASKED).report or {}
    used = sum(whole["memory"].values()) - empty
    with server() as started:
        ahead = added(bench, started.url, 0, small, ahead=AHEAD)
    with tempfile.TemporaryDirectory(dir=bench.work) as folder:
        embedded = ours(bench, "single", Path(folder) / "index", bench.tweets, 0, SINGLE).report
    with cluster() as six:
        replicated = added(bench, six.url, 0, small, 1)
    peers = {how: peer(bench, how, number) for how, number in PEER.items()}
    rate = whole["documents"] / whole["seconds"]
    best = max(rate, ahead["documents"] / ahead["seconds"])
    rows += [
        _row("neardup, batches of 256, one server", whole, bytes=used / whole["documents"]),
        _row(f"neardup, batches of 256, {AHEAD} under way, one server", ahead),
        _row("neardup, batches of 256, 3 masters and 3 replicas, WAIT 1", replicated),
        _row("neardup, one by one", single),
        _row("neardup, one by one, an index in a folder", embedded or {}),
        {
            **_row("neardup, check", asked),
            "p50 ms": 1e3 * asked["p50"],
            "p99 ms": 1e3 * asked["p99"],
        },
    ]
    for how, report in peers.items():
        rows.append(_row(f"datasketch, {how}", report))
        asking = {"documents": report["asked"], "seconds": report["queries"]}
        rows.append(_row(f"datasketch, {how}, query", asking))
    peer_rate = {how: each["documents"] / each["seconds"] for how, each in peers.items()}
    replicated_rate = replicated["documents"] / replicated["seconds"]
    single_rates = [each["documents"] / each["seconds"] for each in (single, embedded or {})]
    return Figure(
        "Tweets into an index on Redis",
        f"{count:,} tweets, {small:,} into the cluster; datasketch has "
        f"{', '.join(f'{number:,} ({how})' for how, number in PEER.items())}, does not verify, and "
        "its session does not check either",
        rows,
        {
            "at least 20 x datasketch's session": best >= 20 * peer_rate["session"],
            "at least 100 x datasketch's insert after a query": best >= 100 * peer_rate["plain"],
            "with WAIT 1 at least half of it": replicated_rate >= 0.5 * rate,
            "one by one at least 1.5 x datasketch": single_rates[0] >= 1.5 * peer_rate["plain"],
            "the same in a folder": single_rates[1] >= 1.5 * peer_rate["plain"],
            "check: p50 at most 3 ms": asked["p50"] <= 0.003,
            "check: p99 at most 15 ms": asked["p99"] <= 0.015,
        },
    )


def peer(bench: Bench, how: str, count: int) -> dict[str, Any]:
    with server() as started:
        result = module(
            bench,
            bench.peers_python,
            "peers.datasketch_redis",
            how,
            str(started.port),
            str(bench.tweets),
            str(count),
            "500",
            cores=len(bench.cores),
        )
    return dict(result.report or {})


def writers(bench: Bench) -> Figure:
    """Several processes that add to one index, and whether the answer is that of a batch run."""
    count = min(bench.documents, 100_000)
    rows: list[Row] = []
    rates: dict[int, float] = {}
    wrong = 0
    for amount in WRITERS:
        with server() as started:
            url, share = started.url, count // amount
            fixed = [sys.executable, "-m", "our_redis", "add", url, str(bench.tweets)]
            commands = [
                [*fixed, str(at * share), str(share), str(BATCH), "0"] for at in range(amount)
            ]
            ours(bench, "single", url, bench.tweets, 0, 1)  # makes the index
            running = [
                subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE) for command in commands
            ]
            outputs = [each.communicate()[0] for each in running]
            reports = [json.loads(output.splitlines()[-1]) for output in outputs]
            compared = ours(bench, "compare", url, bench.tweets, count).report or {}
        seconds = max(report["seconds"] for report in reports)
        rates[amount] = share * amount / seconds
        wrong += compared["wrong"]
        rows.append(
            {
                "processes": amount,
                "documents": share * amount,
                "seconds": seconds,
                "documents a second": rates[amount],
                "differ from the batch run": compared["wrong"],
            }
        )
    return Figure(
        "Several processes that add to one index",
        f"{count:,} tweets, batches of {BATCH}, shared out in equal parts",
        rows,
        {
            "2 and 4 processes add no less than 1": min(rates[2], rates[4]) >= rates[1],
            "no answer differs": wrong == 0,
        },
    )


def costs(bench: Bench) -> Figure:
    """What the planner's figures (`RedisCosts`) are made of: bytes and processor time."""
    rows: list[Row] = []
    for shingles, bands, layout_rows in COST_SHAPES:
        with server() as started:
            before = started.info("cpu")
            asked = (COST_DOCUMENTS, shingles, bands, layout_rows)
            report = ours(bench, "cost", started.url, *asked).report or {}
            after, used = started.info("cpu"), int(started.info("memory")["used_memory"])
        spent = sum(float(after[name]) - float(before[name]) for name in CPU)
        planned = plan(
            COST_DOCUMENTS,
            engine="redis",
            shingles=shingles,
            threshold=THRESHOLD,
            recall=0.5,
            slots=Options().spec.slots,
            bands=bands,
            rows=layout_rows,
            calibrate=False,
        ).redis
        assert planned is not None
        rows.append(
            {
                "shingles": shingles,
                "buckets": report["buckets"],
                "bytes": used / COST_DOCUMENTS,
                "planned bytes": planned.data / COST_DOCUMENTS,
                "server us": 1e6 * spent / COST_DOCUMENTS,
                "planned server us": 1e6 * planned.server_seconds,
                "client us": 1e6 * report["work"] / COST_DOCUMENTS,
                "planned client us": 1e6 * planned.process_seconds,
            }
        )
    return Figure(
        "What a document costs on Redis",
        f"{COST_DOCUMENTS:,} random texts, none a copy, batches of {BATCH}; microseconds of the "
        "processor, bytes of all that the server uses; planned by neardup plan",
        rows,
        {
            "the plan's memory is right within 10 %": all(
                abs(row["planned bytes"] / row["bytes"] - 1) <= 0.1 for row in rows
            )
        },
    )


def _row(name: str, report: dict[str, Any], **more: float) -> Row:
    return {
        "tool": name,
        "documents": report["documents"],
        "seconds": report["seconds"],
        "documents a second": report["documents"] / report["seconds"],
        "bytes a document": more.get("bytes"),
        "p50 ms": None,
        "p99 ms": None,
    }


SUITE = Suite(
    "redis", "The index on Redis, measured", {"adding": adding, "writers": writers, "costs": costs}
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=1)
    parser.add_argument("--documents", type=int, default=FULL, help="tweets that are added")
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        cores = tuple(range(len(os.sched_getaffinity(0))))
        bench = Bench(args.peers_python, cores, args.repeat, work, Path(args.data), args.documents)
        print(SUITE.measure(args, bench, {"documents": args.documents}))


if __name__ == "__main__":
    main()
