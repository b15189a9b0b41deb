"""Measure neardup's filters and their peers side by side, and write the table.

    python benches/filters.py --data DIR --peers-python .venv-bench/bin/python

Half a million tweets go in, half a million others are asked for; on one core, in turns, in the
same run; the best of three counts. Results go to `benches/results/filters.json` and `filters.md`.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from contenders import Bench, Result, module, race
from corpora import plain
from suite import Suite, work_folder
from table import Figure, Row

import neardup

OURS = ("bloom", "counting", "scalable", "cuckoo", "set")
PEERS = ("fastbloom", "rbloom")
CUCKOO_KEYS = (1_000_000, 10_000_000)
COLUMNS = ("inserts_per_s", "queries_per_s", "hits_per_s", "removes_per_s", "bits_per_key", "rate")


@dataclass(frozen=True)
class FilterBench(Bench):
    tweets: Path


def tweets(bench: FilterBench) -> Figure:
    entrants = {f"neardup {kind}": partial(ours, bench, kind) for kind in OURS}
    entrants |= {name: partial(peer, bench, name) for name in PEERS}
    found = race(bench, entrants)
    rows = [row(name, result) for name, result in found.items()]
    bloom, fast, rust = (found[name] for name in ("neardup bloom", "fastbloom", "rbloom"))
    return Figure(
        "Filters over tweets, 1 %",
        f"{bench.tweets.name}, as an Arrow column for neardup",
        rows,
        {
            "inserts at least 4 x fastbloom-rs": faster(bloom, fast, "inserts_per_s", 4),
            "queries at least 4 x fastbloom-rs": faster(bloom, fast, "queries_per_s", 4),
            "inserts at least 2 x rbloom": faster(bloom, rust, "inserts_per_s", 2),
            "queries at least 2 x rbloom": faster(bloom, rust, "queries_per_s", 2),
            "bits per key within 15 % of 9.6": near(bloom, "bits_per_key", 9.6, 0.15),
            "rate within 10 % of 1 %": near(bloom, "rate", 0.01, 0.1),
        },
    )


def ours(bench: FilterBench, kind: str) -> Result:
    return module(bench, sys.executable, "our_filters", bench.tweets, kind)


def peer(bench: FilterBench, name: str) -> Result:
    return module(bench, bench.peers_python, f"peers.{name}", bench.tweets)


def row(name: str, result: Result) -> Row:
    report = result.report or {}
    version = f"{report['version']}: {report['notes']}" if report else result.error
    figures = {column: report.get(column) for column in COLUMNS}
    return {"filter": name, **figures, "how": version}


def faster(one: Result, other: Result, what: str, times: float) -> bool | None:
    if not (one.report and other.report):
        return None
    return bool(one.report[what] >= times * other.report[what])


def near(one: Result, what: str, wanted: float, share: float) -> bool | None:
    return one.report and bool(abs(one.report[what] / wanted - 1) <= share)


def cuckoo(bench: FilterBench) -> Figure:
    os.sched_setaffinity(0, bench.cores[-1:])
    rows = [
        max((cuckoo_row(keys) for _ in range(bench.repeat)), key=lambda row: row["inserts_per_s"])
        for keys in CUCKOO_KEYS
    ]
    speeds = [row[f"{what}_per_s"] for row in rows for what in ("inserts", "queries", "removes")]
    return Figure(
        "Cuckoo filter",
        "random 64-bit hashes",
        rows,
        {
            "load at least 0.93": all(row["load"] >= 0.93 for row in rows),
            "at least 10 million operations a second": min(speeds) >= 10e6,
            "removals exact": all(row["removals"] == "exact" for row in rows),
        },
    )


def cuckoo_row(keys: int) -> dict[str, float | int | str]:
    chance = np.random.Generator(np.random.PCG64(keys))
    inside, outside = (chance.integers(0, 2**64, keys, np.uint64) for _ in range(2))
    seen = neardup.CuckooFilter(keys)
    insert = speed(seen.insert_many, inside)
    load, rate, found = (
        seen.load,
        float(seen.contains_many(outside).mean()),
        {
            "inserts_per_s": insert,
            "queries_per_s": speed(seen.contains_many, outside),
        },
    )
    half = keys // 2
    removes = speed(seen.remove_many, inside[:half])
    exact = seen.contains_many(inside[half:]).all() and len(seen) == keys - half
    return {
        "keys": keys,
        "load": load,
        **found,
        "removes_per_s": removes,
        "rate": rate,
        "bits_per_key": seen.nbytes * 8 / keys,
        "removals": "exact" if exact else "wrong",
    }


def speed(call: object, keys: np.ndarray) -> float:
    start = time.perf_counter()
    call(keys)
    return len(keys) / (time.perf_counter() - start)


SUITE = Suite("filters", "Filters, measured", {"tweets": tweets, "cuckoo": cuckoo})


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=3)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    with work_folder(args.work) as work:
        corpus = plain(Path(args.data) / "tweets_1m.jsonl.zst", work / "tweets_1m.jsonl")
        bench = FilterBench(args.peers_python, (args.core,), args.repeat, work, corpus)
        print(SUITE.measure(args, bench, {"pinned to core": args.core}))


if __name__ == "__main__":
    main()
