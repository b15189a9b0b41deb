"""The figures of the core: what is measured, on which data, against which target."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import contenders
import startup
from contenders import PEERS, US, Result, attempt, our_run, race, script
from corpora import Corpora, count_of, describe, hashed_shingles, judged_tweets
from judge import Quality, load_truth
from races import (
    WITH_KEPT,
    fastest_peers,
    judged_race,
    ratio_reached,
    run_row,
    times,
    whole_runs,
)
from table import Figure, Row

SKETCHERS = tuple(name for name in PEERS if name != "text_dedup")


@dataclass(frozen=True)
class Bench(contenders.Bench):
    """`small` takes a tenth of the data."""

    small: bool
    corpora: Corpora


def signatures(bench: Bench) -> Figure:
    return _sketching(bench, "Raw text to 128-slot signatures, 3 KB documents", bench.corpora.rfc)


def guide(bench: Bench) -> Figure:
    title = "Raw text to 128-slot signatures, 20 languages"
    return _sketching(bench, title, bench.corpora.guide)


def tweets(bench: Bench) -> Figure:
    return _sketching(bench, "Raw text to 128-slot signatures, tweets", bench.corpora.tweets)


def kernel(bench: Bench) -> Figure:
    return _hashed(bench, "The MinHash kernel alone, 3 KB documents", bench.corpora.rfc)


def kernel_tweets(bench: Bench) -> Figure:
    return _hashed(bench, "The MinHash kernel alone, tweets", bench.corpora.tweets)


def run(bench: Bench) -> Figure:
    corpus = bench.corpora.rfc
    truth = load_truth(corpus, bench.corpora.rfc_pairs)
    entrants = whole_runs(bench, corpus)
    entrants[WITH_KEPT] = partial(our_run, bench, WITH_KEPT, corpus)
    results, qualities = judged_race(bench, truth, entrants)
    rows = [run_row(name, results, qualities) for name in results]
    return Figure(
        "Whole run, JSONL in, decisions out, threshold 0.8",
        describe(corpus),
        rows,
        _speed_targets(results) | _quality_targets(qualities.get(US)),
    )


def short(bench: Bench) -> Figure:
    corpus = bench.corpora.tweets_judged
    truth = load_truth(corpus, judged_tweets(bench.corpora))
    results, qualities = judged_race(bench, truth, whole_runs(bench, corpus))
    ours = qualities.get(US)
    return Figure(
        "Short texts: the whole run on tweets",
        describe(corpus),
        [run_row(name, results, qualities) for name in results],
        {"precision 1.0 on tweets": ours and ours.precision == 1.0 and ours.witnessed == 1.0},
    )


def estimator(bench: Bench) -> Figure:
    scales = {US: 0.25 if bench.small else 1.0, "rensa": 0.25, "datasketch": 0.05}
    entrants = {name: partial(_estimate, bench, name, scale) for name, scale in scales.items()}
    results = {name: attempt(name, entrant) for name, entrant in entrants.items()}
    rows = [_estimator_row(name, result) for name, result in results.items()]
    ours = results[US].report
    return Figure(
        "Estimator: bias, and variance as a multiple of J(1-J)/k",
        "random sets of 20 to 10,000 shingles, J from 0.1 to 0.95, 128 slots",
        rows,
        {
            "bias < 0.002 in every cell": ours and abs(ours["worst_bias"]) < 0.002,
            "variance at most 10 % above J(1-J)/k in every cell": ours
            and ours["worst_variance_ratio"] < 1.1,
        },
    )


def start(bench: Bench) -> Figure:
    seen = startup.measure()
    light = not seen["heavy_imports"]
    row = {"tool": US} | {
        name: " ".join(value) or "none" if isinstance(value, list) else value
        for name, value in seen.items()
    }
    return Figure(
        "Start",
        "best of 10; three demos, the first with an empty kernel cache",
        [row],
        {
            "import neardup < 0.15 s without Numba": seen["import_seconds"] < 0.15 and light,
            "neardup --help < 0.3 s": seen["help_seconds"] < 0.3,
            "the second demo as fast as the third, within 20 %": seen["second_demo_seconds"]
            <= 1.2 * seen["third_demo_seconds"],
        },
    )


def growth(bench: Bench) -> Figure:
    corpora = bench.corpora
    sizes = {"few": corpora.few, "start": corpora.rfc_start, "end": corpora.rfc}
    entrants = {
        name: partial(our_run, bench, US, path, "--no-kept") for name, path in sizes.items()
    }
    results = race(bench, entrants)
    works = all(result.works for result in results.values())
    rows = [_growth_row(sizes[name], results[name], results["few"]) for name in ("start", "end")]
    first, last = (row["µs a document, start-up taken off"] for row in rows)
    return Figure(
        "Growth: time per document",
        f"{describe(corpora.rfc_start)}; {describe(corpora.rfc)}",
        rows,
        {"grows by less than 15 %": None if bench.small or not works else last < 1.15 * first},
    )


FIGURES: Mapping[str, Callable[[Bench], Figure]] = {
    function.__name__: function
    for function in (
        signatures,
        guide,
        tweets,
        kernel,
        kernel_tweets,
        run,
        short,
        estimator,
        start,
        growth,
    )
}


def _sketching(bench: Bench, title: str, corpus: Path) -> Figure:
    names = (US, *SKETCHERS)
    results = race(
        bench, {name: partial(script, bench, name, "signatures", corpus) for name in names}
    )
    target = {"at least 4 x Daft": ratio_reached(results, "daft", 4)}
    return Figure(title, describe(corpus), rate_rows(results), target)


def _hashed(bench: Bench, title: str, corpus: Path) -> Figure:
    paths = hashed_shingles(corpus)
    entrants = {name: partial(script, bench, name, "kernel", *paths) for name in (US, "rensa")}
    results = race(bench, entrants)
    target = {"at least 0.8 x rensa": ratio_reached(results, "rensa", 0.8)}
    data = f"random 64-bit shingles, as many a document as in the first 50,000 of {corpus.name}"
    return Figure(title, data, rate_rows(results), target)


def _estimate(bench: Bench, name: str, scale: float) -> Result:
    python, sketch = (sys.executable, "ours") if name == US else (bench.peers_python, name)
    done = contenders.start(bench, [python, "-m", "estimator", sketch, "--scale", str(scale)])
    return Result(done.seconds, done.peak_mb, json.loads(done.stdout.strip().splitlines()[-1]))


def rate_rows(results: Mapping[str, Result]) -> list[Row]:
    fastest = fastest_peers(results)[:1]
    return [
        {
            "tool": name,
            "MB/s": result.report["bytes"] / result.seconds / 1e6 if result.report else None,
            "documents/s": result.report["documents"] / result.seconds if result.report else None,
            "peak MB": result.peak_mb or None,
            "x fastest peer": times(results[fastest[0]], result) if fastest else None,
            "notes": result.error or result.report["notes"],
        }
        for name, result in results.items()
    ]


def _estimator_row(name: str, result: Result) -> Row:
    report = result.report or {}
    names = {
        "mean error": "mean_error",
        "mean bias": "bias",
        "worst bias": "worst_bias",
        "± (1 s.e.)": "worst_bias_error",
        "mean variance": "variance_ratio",
        "least variance": "least_variance_ratio",
        "worst variance": "worst_variance_ratio",
        "± (1 s.e.) of it": "worst_variance_error",
    }
    figures = {title: report.get(key) for title, key in names.items()}
    return {"tool": name, **figures, "notes": result.error}


def _growth_row(corpus: Path, result: Result, few: Result) -> Row:
    count = count_of(corpus)
    micro = 1e6 / count
    return {
        "tool": US,
        "documents": count,
        "seconds": result.seconds or None,
        "peak MB": result.peak_mb or None,
        "µs a document": result.seconds * micro or None,
        "µs a document, start-up taken off": (result.seconds - few.seconds) * micro or None,
        "notes": result.error,
    }


def _speed_targets(results: Mapping[str, Result]) -> dict[str, bool | None]:
    fastest = fastest_peers(results)[:3]
    ours = results[US]
    if not ours.works or not fastest:
        return {"at least 4 x the fastest peer": None, "memory": None}
    leanest = min(results[name].peak_mb for name in fastest)
    three = ", ".join(fastest)
    return {
        f"at least 4 x the fastest peer ({fastest[0]})": ratio_reached(results, fastest[0], 4),
        f"memory no worse than the leanest of {three} ({leanest:.0f} MB)": ours.peak_mb <= leanest,
    }


def _quality_targets(ours: Quality | None) -> dict[str, bool | None]:
    return {
        "recall >= 0.99": ours and ours.recall >= 0.99,
        "precision 1.0": ours and ours.precision == 1.0,
        "no removal without a witness": ours and ours.witnessed == 1.0,
    }
