"""The figures of the batch engine: what is measured, on which data, against which target."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import contenders
import grown
import numpy as np
import planted
import synthetic
from contenders import PEERS, US, Result, dedup, module, our_run, race
from corpora import count_of, describe, plain
from judge import load_truth
from races import WITH_KEPT, fastest_peers, judged_race, ratio_reached, run_row, whole_runs
from table import Figure, Row, Value

MB = 1e6
TWEETS = 5_000_000
STEPS = (300_000, 1_000_000, 2_500_000, TWEETS)
FEW = 100
LARGE_BYTES = 3_100_000_000
SIGNATURES = 20_000_000
SKETCH_FILES, IN_ALL = "sketch files", "in all"
DECISIONS = "neardup, decisions alone"
BLOCKS_KB = (256, 1024, 4096)
TWEET_PEERS = ("rensa", "daft", "datasketch")
"""gaoya needs more than 11 GB for a million tweets; the others take most of an hour."""


@dataclass(frozen=True)
class Bench(contenders.Bench):
    """`data` has the corpora, `scale` is the part of every size, `peers` who is measured."""

    data: Path
    scale: float
    peers: tuple[str, ...] = PEERS

    @property
    def is_full(self) -> bool:
        return self.scale == 1

    def scaled(self, size: int) -> int:
        return round(size * self.scale)

    def tweets(self) -> Path:
        """A million tweets."""
        source = self.data / "tweets_1m.jsonl.zst"
        if self.is_full:
            return plain(source, self.work / "tweets_1m.jsonl")
        count = self.scaled(1_000_000)
        return plain(source, self.work / f"tweets_{count}.jsonl", count)

    def grown_tweets(self, count: int) -> Path:
        """So many of the five million tweets that are made of the one million."""
        most, count = self.scaled(TWEETS), self.scaled(count)
        whole = grown.tweets(self.tweets(), self.work / f"tweets_grown_{most}.jsonl", most)
        if count == most:
            return whole
        return plain(whole, self.work / f"tweets_grown_{most}_{count}.jsonl", count)

    def documents(self) -> tuple[Path, Path]:
        """110,000 documents of 3 KB and their exact pairs; 11,000 for less than half the scale."""
        name, pairs = ("rfc_10k", "tsv") if self.scale < 0.5 else ("rfc_100k", "tsv.zst")
        corpus = plain(self.data / f"{name}.jsonl.zst", self.work / f"{name}.jsonl")
        return corpus, self.data / f"{name}.exact.{pairs}"

    def large(self) -> Path:
        """More than 3 GB of documents of 3 KB."""
        size = self.scaled(LARGE_BYTES)
        return grown.ciphered(self.documents()[0], self.work / f"rfc_grown_{size}.jsonl", size)

    def signatures(self) -> tuple[Path, int]:
        """Sketch files of random signatures, and how many are in them."""
        count = self.scaled(SIGNATURES)
        made = self.work / f"signatures_{count}"
        if not made.exists():
            synthetic.main("make", made, count)
        return made, count

    def prepare(self) -> None:
        """Make everything that the figures need."""
        for count in STEPS:
            self.grown_tweets(count)
        self.large()
        self.signatures()


def large(bench: Bench) -> Figure:
    corpus = warm(bench.grown_tweets(TWEETS))
    options = ("--threshold", "0.9", "--memory", "2GB")
    cores = len(bench.cores)
    entrants = {
        DECISIONS: partial(dedup, bench, corpus, cores, "--no-kept", *options),
        WITH_KEPT: partial(dedup, bench, corpus, cores, *options),
    }
    results = race(bench, entrants)
    quality = planted.judge(corpus, contenders.output(bench) / "removed.parquet")
    kinds = json.loads(grown.kinds_of(corpus).read_text())
    whole = results[WITH_KEPT]
    judged = {
        "planted pairs >= 0.9": quality.pairs,
        "recall": quality.recall,
        "removals checked": quality.sampled,
        "witnessed": quality.witnessed,
    }
    return Figure(
        "5 million tweets, threshold 0.9, in 2 GB",
        f"{describe(corpus)}, of these {', '.join(f'{kinds[kind]:,} {kind}' for kind in kinds)}; "
        f"{cores} cores, exact verification",
        [_stage_row(DECISIONS, results[DECISIONS]), {**_stage_row(WITH_KEPT, whole), **judged}],
        {
            "60 s or less": _only(bench.is_full and whole.works, whole.seconds <= 60),
            "at most 2 GB": _only(whole.works, _peak(results) <= 2000),
            "recall >= 0.99 of the planted pairs": quality.recall >= 0.99,
            "every removal of the sample witnessed at 0.9": quality.witnessed == 1.0,
        },
    )


def tweets(bench: Bench) -> Figure:
    corpus = warm(bench.tweets())
    memory = ("--memory", "1GB")
    peers = [name for name in TWEET_PEERS if name in bench.peers]
    entrants = whole_runs(bench, corpus, peers, memory)
    entrants[WITH_KEPT] = partial(our_run, bench, WITH_KEPT, corpus, *memory)
    results = race(bench, entrants)
    removed = {
        name: count_of(contenders.decisions(bench, name)) if results[name].works else None
        for name in results
    }
    return Figure(
        "1 million tweets, one core",
        f"{describe(corpus)}, threshold 0.8, neardup with --memory 1GB",
        [{**run_row(name, results, {}), "removed": removed[name]} for name in results],
        _peer_targets(bench, results, 1000),
    )


def documents(bench: Bench) -> Figure:
    corpus, pairs = bench.documents()
    entrants = whole_runs(bench, warm(corpus), bench.peers)
    entrants[WITH_KEPT] = partial(our_run, bench, WITH_KEPT, corpus)
    results, qualities = judged_race(bench, load_truth(corpus, pairs), entrants)
    return Figure(
        "110,000 documents of 3 KB, one core",
        f"{describe(corpus)}, threshold 0.8",
        [run_row(name, results, qualities) for name in results],
        _peer_targets(bench, results, 250),
    )


def limit(bench: Bench) -> Figure:
    corpus = warm(bench.large())
    cores = len(bench.cores)
    reading = {
        f"PyArrow {mode}, blocks of {block} KB": partial(
            module, bench, sys.executable, "reading", mode, str(block), corpus, cores=cores
        )
        for mode in ("open_json", "read_json")
        for block in BLOCKS_KB
    }
    runs = {
        DECISIONS: partial(dedup, bench, corpus, cores, "--no-kept"),
        WITH_KEPT: partial(dedup, bench, corpus, cores),
    }
    results = race(bench, {**reading, **runs})
    least = min(
        (results[name].seconds for name in reading if results[name].works), default=math.nan
    )
    rows = [
        {
            **(_stage_row(name, result) if name in runs else _row(name, result)),
            "x only reading": result.seconds / least if result.works else None,
        }
        for name, result in results.items()
    ]
    return Figure(
        "Against the limit: only reading the same file",
        f"{describe(corpus)}, the documents of 3 KB again and again in other letters"
        f"{_duplicates(results[WITH_KEPT])}; {cores} cores, in the page cache",
        rows,
        {
            f"{name}: at most 3.5 x only reading": _only(
                bench.is_full and results[name].works, results[name].seconds <= 3.5 * least
            )
            for name in runs
        },
    )


def growth(bench: Bench) -> Figure:
    few = plain(bench.grown_tweets(TWEETS), bench.work / "tweets_few.jsonl", FEW)
    corpora = {bench.scaled(count): warm(bench.grown_tweets(count)) for count in STEPS}
    options = ("--no-kept", "--threshold", "0.9", "--memory", "2GB")
    entrants = {
        f"{US}, {count:,}": partial(dedup, bench, path, len(bench.cores), *options)
        for count, path in {FEW: few, **corpora}.items()
    }
    results = race(bench, entrants)
    start, *sized = results.values()
    works = all(result.works for result in results.values())
    counts, seconds = list(corpora), [result.seconds for result in sized]
    exponent = _exponent(counts, seconds) if works else None
    net = _exponent(counts, [each - start.seconds for each in seconds]) if works else None
    rows: list[Row] = [_stage_row(name, result) for name, result in results.items()]
    summary = {"tool": "exponent", "with start-up": exponent, "start-up taken off": net}
    return Figure(
        "Growth from 0.3 to 5 million documents",
        f"the first documents of {corpora[counts[-1]].name}, each with the same mix of copies; "
        f"decisions alone, threshold 0.9, --memory 2GB, {len(bench.cores)} cores",
        [*rows, summary],
        {
            "time grows with an exponent of at most 1.05, start-up taken off": _only(
                bench.is_full and net is not None, (net or 0) <= 1.05
            ),
            "memory within 2 GB at every size": _only(works, _peak(results) <= 2000),
        },
    )


def cores(bench: Bench) -> Figure:
    corpus = warm(bench.large())
    many = len(bench.cores)
    results = race(
        bench,
        {
            f"{US}, {amount} core{'s' * (amount > 1)}": partial(dedup, bench, corpus, amount)
            for amount in (1, many)
        },
    )
    one, both = results.values()
    times = one.seconds / both.seconds if one.works and both.works else None
    rows = [_stage_row(name, result) for name, result in results.items()]
    return Figure(
        "Both cores against one",
        f"{describe(corpus)}, kept files written",
        [*rows, {"tool": "one / both", "seconds": times}],
        {"at least 1.75 x": _only(bench.is_full and times is not None, (times or 0) >= 1.75)},
    )


def signatures(bench: Bench) -> Figure:
    made, count = bench.signatures()
    run = partial(
        module,
        bench,
        sys.executable,
        "synthetic",
        "run",
        made,
        str(count),
        "4GB",
        str(len(bench.cores)),
        cores=len(bench.cores),
        shown=True,
    )
    result = contenders.attempt(US, run)
    report = result.report or {"stages": [], "disk": {}}
    disk = report["disk"]
    rows: list[Row] = [
        {
            "stage": stage["name"],
            "seconds": stage["seconds"],
            "peak MB so far": stage["peak_memory_bytes"] / MB,
            "MB on disk": disk[stage["name"]] / MB,
            "bytes a document": disk[stage["name"]] / count,
        }
        for stage in report["stages"]
    ]
    total = {
        "stage": IN_ALL,
        "documents": count,
        "cores": len(bench.cores),
        "seconds": result.seconds or None,
        "peak MB so far": result.peak_mb or None,
        "notes": result.error or None,
        **{name: report.get(name) for name in ("removed", "comparisons", "rounds", "wrong")},
    }
    sketches = disk.get("sketch", 0)
    made_row = {
        "stage": SKETCH_FILES,
        "MB on disk": sketches / MB,
        "bytes a document": sketches / count,
    }
    return Figure(
        "20 million synthetic signatures through band, match and decide",
        f"{synthetic.SLOTS} random slots each; each tenth is a copy of an earlier one with "
        f"{', '.join(map(str, synthetic.REPLACED))} slots replaced, by turns; threshold 0.8, "
        "verified by estimate, --memory 4GB; on disk after each stage, beside the sketches",
        [made_row, *rows, total],
        {
            "within 4 GB": _only(result.works, result.peak_mb <= 4000),
            "every planted document is decided rightly": _only(
                result.works, report.get("wrong") == 0
            ),
        },
    )


FIGURES: Mapping[str, Callable[[Bench], Figure]] = {
    function.__name__: function
    for function in (large, tweets, documents, limit, growth, cores, signatures)
}


def warm(corpus: Path) -> Path:
    """Have the file in the page cache."""
    with corpus.open("rb", buffering=0) as file:
        while file.read(1 << 24):
            pass
    return corpus


def _row(name: str, result: Result) -> dict[str, Value]:
    return {
        "tool": name,
        "seconds": result.seconds or None,
        "peak MB": result.peak_mb or None,
        "notes": result.error or None,
    }


def _stage_row(name: str, result: Result) -> dict[str, Value]:
    """What a run of ours took, in all and by stage."""
    if result.report is None:
        return _row(name, result)
    stages = {stage["name"]: stage["seconds"] for stage in result.report["stages"]}
    counts = {name: result.report["counts"][name] for name in ("documents", "removed")}
    size = sum(file["size"] for file in result.report["inputs"]) / MB
    return {**_row(name, result), **counts, "MB read": size, **stages}


def _peer_targets(
    bench: Bench, results: Mapping[str, Result], most_mb: float
) -> dict[str, bool | None]:
    fastest = fastest_peers(results)[:1]
    name = f"at least 4 x the fastest peer ({', '.join(fastest) or 'none works'})"
    reached = ratio_reached(results, fastest[0], 4) if fastest else None
    lean = _only(results[US].works, results[US].peak_mb < most_mb)
    return {name: _only(bench.is_full, reached), f"under {most_mb:,.0f} MB": lean}


def _duplicates(result: Result) -> str:
    if result.report is None:
        return ""
    counts = result.report["counts"]
    return f" ({counts['removed'] / counts['documents']:.1%} are duplicates)"


def _exponent(counts: list[int], seconds: list[float]) -> float | None:
    """The slope of the time over the size, both as logarithms, by least squares."""
    if min(seconds) <= 0:
        return None
    return float(np.polyfit(np.log(counts), np.log(seconds), 1)[0])


def _peak(results: Mapping[str, Result]) -> float:
    return max(result.peak_mb for result in results.values())


def _only(applies: bool, reached: bool | None) -> bool | None:
    """A verdict, where there is something to judge."""
    return reached if applies else None
