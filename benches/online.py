"""Measure the online index beside datasketch's in memory, and write the table.

    python benches/online.py --data DIR --work DIR --peers-python .venv-bench/bin/python
    python benches/online.py --data DIR --work DIR --peers-python ... --documents 20000

Everyone runs on one core. The index is made once, with all cores, and stays in the work folder: 4
GB for a million documents of 2 KB. Results go to `benches/results/online.json` and `online.md`.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import arrivals
import contenders
import numpy as np
from contenders import US, Result, attempt, module
from corpora import plain
from suite import Suite, work_folder
from table import Figure, Row

PEER = "datasketch"
STREAM, PEER_STREAM = 50_000, 5_000
"""Documents that arrive, here and there."""
PEER_BASE = 50_000
"""Documents in datasketch's index: a million would take 20 minutes to add, and more a document."""
CORPORA = {
    "tweets": ("tweets_1m.jsonl.zst", 100_000),
    "rfc": ("rfc_10k.jsonl.zst", 11_000),
    "licences": ("scancode_license_texts.documents.jsonl.zst", 100_000),
}


@dataclass(frozen=True)
class Bench(contenders.Bench):
    documents: int
    data: Path

    @property
    def full(self) -> bool:
        """Whether targets are judged."""
        return self.documents >= 1_000_000

    @property
    def index(self) -> Path:
        return self.work / f"index-{self.documents}"


def ours(bench: Bench, *arguments: object, cores: int = 1) -> Result:
    words = map(str, arguments)
    return attempt(US, lambda: module(bench, sys.executable, "our_index", *words, cores=cores))


def built(bench: Bench) -> None:
    """Make the index, if it is not there."""
    if not bench.index.exists():
        ours(bench, "build", bench.index, bench.documents, cores=len(bench.cores))


def datasketch(bench: Bench) -> Result:
    """Asking and adding, then asking: one run gives both figures."""
    base = arrivals.write(bench.work / "base.jsonl", 0, PEER_BASE)
    stream = arrivals.write(bench.work / "stream.jsonl", PEER_BASE, PEER_STREAM)
    words = (str(base), str(stream))
    return attempt(
        PEER, lambda: module(bench, bench.peers_python, "peers.datasketch_index", *words)
    )


def copied(bench: Bench) -> Path:
    """A copy of the index, to write to."""
    folder = bench.work / "index-written"
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(bench.index, folder))


def stream(bench: Bench) -> Figure:
    mine = [ours(bench, "stream", copied(bench), bench.documents, STREAM)
            for _ in range(bench.repeat)]  # fmt: skip
    best = min(mine, key=lambda one: one.seconds)
    peer = min((datasketch(bench) for _ in range(bench.repeat)), key=lambda one: one.seconds)
    rates = [_rate(one) for one in (best, peer)]
    rows = [
        {"tool": US, "documents a second": rates[0], "µs a document": 1e6 / rates[0],
         "index": bench.documents, "durable": "yes", "copies found": best.report["copies"],
         "wrong": best.report["wrong"], "disk bytes a document": best.report["disk"]
         / best.report["documents"], "peak MB": best.peak_mb},
        {"tool": f"{PEER} in memory", "documents a second": rates[1],
         "µs a document": 1e6 / rates[1], "index": peer.report["base"], "durable": "no",
         "copies found": peer.report["found"], "peak MB": peer.peak_mb},
    ]  # fmt: skip
    return Figure(
        "check_and_add of documents of 2 KB, 256 at a time, one core",
        f"{STREAM:,} documents arrive, each tenth is a copy; for {PEER} {PEER_STREAM:,}, at an "
        f"index of {PEER_BASE:,}, not verified",
        rows,
        {
            "at least 8,000 documents a second": rates[0] >= 8_000 if bench.full else None,
            f"at least 10 x {PEER} in memory": rates[0] >= 10 * rates[1] if bench.full else None,
            "every answer as planted": best.report["wrong"] == 0,
        },
    )


def _rate(result: Result) -> float:
    return result.report["documents"] / result.seconds


def queries(bench: Bench) -> Figure:
    mine = ours(bench, "queries", bench.index, bench.documents, STREAM // 5)
    peer = datasketch(bench)
    rows = [
        {"tool": US, "index": bench.documents} | latency(mine.report["queries"]),
        {"tool": f"{PEER} in memory", "index": peer.report["base"]}
        | latency(peer.report["queries"]),
    ]
    half, most = (np.percentile(mine.report["queries"], at) for at in (50, 99))
    return Figure(
        "A single query from text, one core",
        f"{STREAM // 5:,} documents of 2 KB, half of them in the index; for {PEER} {PEER_STREAM:,}",
        rows,
        {
            "p50 below 150 µs": bool(half < 150e-6) if bench.full else None,
            "p99 below 1 ms": bool(most < 1e-3) if bench.full else None,
        },
    )


def latency(seconds: Sequence[float]) -> Row:
    """Percentiles in microseconds."""
    points = {"p50 µs": 50, "p99 µs": 99, "p99.9 µs": 99.9, "largest µs": 100}
    return {name: float(np.percentile(seconds, at)) * 1e6 for name, at in points.items()}


def restart(bench: Bench) -> Figure:
    rows, seconds = [], {}
    for name in ("from a snapshot", "without one"):
        folder = bench.index
        if name == "without one":
            folder = copied(bench)
            for file in folder.glob("g*/snapshot"):
                file.unlink()
        result = ours(bench, "opened", folder)
        seconds[name] = result.seconds
        rows.append({
            "": name, "seconds to the first answer": result.seconds,
            "index on disk MB": result.report["disk"] / 1e6, "peak MB": result.peak_mb,
        })  # fmt: skip
    return Figure(
        f"Restart with {bench.documents:,} documents, one core",
        "a fresh process; the clock runs from open to the first answer",
        rows,
        {
            "under 5 s from a snapshot": seconds["from a snapshot"] < 5 if bench.full else None,
            "under 60 s without": seconds["without one"] < 60 if bench.full else None,
        },
    )


def equality(bench: Bench) -> Figure:
    rows = []
    for name, (file, count) in CORPORA.items():
        corpus = plain(bench.data / file, bench.work / f"{name}.jsonl", count)
        result = ours(bench, "equal", corpus, count)
        rows.append({
            "corpus": name, "documents": result.report["documents"], "kept": result.report["kept"],
            "differ": result.report["differ"],
            "documents a second": _rate(result),
            "batch engine": result.report["documents"] / result.report["batch"],
        })  # fmt: skip
    return Figure(
        "The same answer as the batch engine",
        "the corpora in order through neardup.dedup and through an index, 256 at a time: status, "
        "witness and similarity of every document",
        rows,
        {"no document differs": all(row["differ"] == 0 for row in rows)},
    )


SUITE = Suite(
    "online",
    "The online index, measured",
    {"stream": stream, "queries": queries, "restart": restart, "equality": equality},
)


def main() -> None:
    parser = SUITE.parser(__doc__.splitlines()[0], repeat=2)
    parser.add_argument("--documents", type=int, default=1_000_000, help="in the index")
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    args = SUITE.parse(parser)
    cores = (*(os.sched_getaffinity(0) - {args.core}), args.core)
    with work_folder(args.work) as work:
        bench = Bench(args.peers_python, cores, args.repeat, work, args.documents, Path(args.data))
        built(bench)
        print(SUITE.measure(args, bench, {"pinned to core": args.core}))


if __name__ == "__main__":
    main()
