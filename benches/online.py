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
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import arrivals
import contenders
import numpy as np
from contenders import US, Result, module, race
from corpora import plain
from harness import THRESHOLD
from suite import Suite, work_folder
from table import Figure, Row

import neardup

STREAM = 50_000
"""Documents that arrive at our index."""
PEERS = {"fastest": (50_000, 5_000), "plain": (5_000, 1_000)}
"""How datasketch is used: documents in its index, and that arrive. More would only slow it down."""
FASTEST, PLAIN = (f"datasketch in memory, {how}" for how in PEERS)
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
    return module(bench, sys.executable, "our_index", *map(str, arguments), cores=cores)


def built(bench: Bench) -> None:
    """Make the index, if it is not there."""
    if not bench.index.exists():
        print("building", file=sys.stderr, flush=True)
        ours(bench, "build", bench.index, bench.documents, cores=len(bench.cores))


def datasketch(bench: Bench, how: str) -> Result:
    """Asking and adding, then asking: one run gives both figures."""
    base, arriving = PEERS[how]
    files = (
        arrivals.write(bench.work / f"base-{how}.jsonl", 0, base),
        arrivals.write(bench.work / f"stream-{how}.jsonl", base, arriving),
    )
    return module(bench, bench.peers_python, "peers.datasketch_index", how, *files)


@cache
def peers(bench: Bench) -> dict[str, Result]:
    names = zip((FASTEST, PLAIN), PEERS)
    return race(bench, {name: partial(datasketch, bench, how) for name, how in names})


def copied(bench: Bench) -> Path:
    """A copy of the index, to write to."""
    folder = bench.work / "index-written"
    shutil.rmtree(folder, ignore_errors=True)
    return Path(shutil.copytree(bench.index, folder))


def stream(bench: Bench) -> Figure:
    mine = race(bench, {US: lambda: ours(bench, "stream", copied(bench), bench.documents, STREAM)})
    results = mine | peers(bench)
    rates = {name: rate(result) for name, result in results.items()}
    report = results[US].report
    rows = [
        {
            "tool": name,
            "documents a second": rates[name],
            "µs a document": 1e6 / rates[name],
            "of the processor": 1e6 * result.report["work"] / result.report["documents"],
            "x": rates[US] / rates[name],
            "index": result.report.get("base", bench.documents),
            "durable": "yes" if name == US else "no",
            "copies found": result.report["copies"],
            "wrong": result.report.get("wrong"),
            "peak MB": result.peak_mb,
        }
        for name, result in results.items()
    ]
    return Figure(
        "check_and_add of documents of 2 KB, 256 at a time, one core",
        f"{STREAM:,} documents arrive, each tenth is a copy, and "
        f"{report['disk'] / report['documents']:,.0f} bytes a document are written; datasketch has "
        "a smaller index, does not verify, and makes signatures in its fastest way, or as its "
        "documentation begins",
        rows,
        {
            "at least 8,000 documents a second": judged(bench, rates[US] >= 8_000),
            f"at least 10 x {FASTEST}": judged(bench, rates[US] >= 10 * rates[FASTEST]),
            f"at least 10 x {PLAIN}": judged(bench, rates[US] >= 10 * rates[PLAIN]),
            "every answer as planted": report["wrong"] == 0,
        },
    )


def rate(result: Result) -> float:
    """Documents a second."""
    return result.report["documents"] / result.seconds


def judged(bench: Bench, reached: bool) -> bool | None:
    """Targets are those of the full size."""
    return bool(reached) if bench.full else None


def queries(bench: Bench) -> Figure:
    mine = ours(bench, "queries", bench.index, bench.documents, STREAM // 5)
    results = {US: mine} | peers(bench)
    rows = [
        {"tool": name, "index": result.report.get("base", bench.documents)}
        | latency(result.report["queries"])
        for name, result in results.items()
    ]
    return Figure(
        "A single query from text, one core",
        f"{STREAM // 5:,} documents of 2 KB, half of them in the index; for datasketch those "
        "that it has got just now",
        rows,
        {
            "p50 below 150 µs": judged(bench, rows[0]["p50 µs"] < 150),
            "p99 below 1 ms": judged(bench, rows[0]["p99 µs"] < 1000),
        },
    )


def latency(seconds: Sequence[float]) -> Row:
    """Percentiles in microseconds."""
    points = {"p50 µs": 50, "p99 µs": 99, "p99.9 µs": 99.9, "largest µs": 100}
    return {name: float(np.percentile(seconds, at)) * 1e6 for name, at in points.items()}


def memory(bench: Bench) -> Figure:
    """An index of nothing shows what Python, the kernels and the libraries take."""
    with tempfile.TemporaryDirectory() as folder:
        empty = ours(bench, "opened", Path(folder) / "index")
    full = ours(bench, "opened", bench.index)
    stats = full.report["stats"]
    count, tables = stats["documents"], stats["index_memory_bytes"]
    planned = neardup.plan(
        count, threshold=THRESHOLD, purpose="index", calibrate=False, shingles=368
    ).predicted
    rss, alone = full.report["rss"], empty.report["rss"]
    rows = [
        _held("its tables", tables, count, tables) | {"planned": planned.tables / count},
        _held("the process", rss, count, tables),
        _held("the process, less that of an empty index", rss - alone, count, tables),
        _held("on disk", full.report["disk"], count, None) | {"planned": planned.disk / count},
    ]
    return Figure(
        f"Memory and disk, {count:,} documents",
        f"{stats['kept']:,} are kept, {stats['bands']} bands; planned with a tenth of copies",
        rows,
        {
            "the process at most 1.3 x its tables": judged(bench, rss <= 1.3 * tables),
            "at most 1.3 x its tables besides what an empty index takes": judged(
                bench, rss - alone <= 1.3 * tables
            ),
            "bytes a document as planned, within 10 %": judged(
                bench, abs(planned.tables / tables - 1) < 0.1
            ),
        },
    )


def _held(name: str, size: float, count: int, tables: float | None) -> Row:
    times = size / tables if tables else None
    return {"": name, "MB": size / 1e6, "bytes a document": size / count, "x its tables": times}


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
        rows.append(
            {
                "": name,
                "seconds to the first answer": result.seconds,
                "index on disk MB": result.report["disk"] / 1e6,
                "peak MB": result.peak_mb,
            }
        )
    return Figure(
        f"Restart with {bench.documents:,} documents, one core",
        "a fresh process; the clock runs from open to the first answer",
        rows,
        {
            "under 5 s from a snapshot": judged(bench, seconds["from a snapshot"] < 5),
            "under 60 s without": judged(bench, seconds["without one"] < 60),
        },
    )


def equality(bench: Bench) -> Figure:
    rows = []
    for name, (file, count) in CORPORA.items():
        corpus = plain(bench.data / file, bench.work / f"{name}.jsonl", count)
        result = ours(bench, "equal", corpus, count)
        rows.append(
            {
                "corpus": name,
                "documents": result.report["documents"],
                "kept": result.report["kept"],
                "differ": result.report["differ"],
                "documents a second": rate(result),
                "batch engine": result.report["documents"] / result.report["batch"],
            }
        )
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
    {
        "stream": stream,
        "queries": queries,
        "memory": memory,
        "restart": restart,
        "equality": equality,
    },
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
