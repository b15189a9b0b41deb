"""Whole runs side by side: the contenders, their rows, and the ratio to the fastest peer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

import contenders
from contenders import PEERS, US, Bench, Result, our_run, peer_run, race
from judge import Quality, Truth, judge, read_decisions
from table import Row

WITH_KEPT = "neardup, kept files written"


def whole_runs(
    bench: Bench, corpus: Path, peers: Iterable[str] = PEERS, options: tuple[str, ...] = ()
) -> dict[str, Callable[[], Result]]:
    """Everyone on one core, decisions alone; the options are ours."""
    others = {name: partial(peer_run, bench, name, corpus) for name in peers}
    return {US: partial(our_run, bench, US, corpus, "--no-kept", *options), **others}


def judged_race(
    bench: Bench, truth: Truth, entrants: Mapping[str, Callable[[], Result]]
) -> tuple[dict[str, Result], dict[str, Quality]]:
    results = race(bench, entrants)
    qualities = {
        name: judge(truth, read_decisions(contenders.decisions(bench, name)))
        for name in entrants
        if results[name].works
    }
    return results, qualities


def run_row(name: str, results: Mapping[str, Result], qualities: Mapping[str, Quality]) -> Row:
    result, quality = results[name], qualities.get(name)
    fastest = fastest_peers(results)[:1]
    return {
        "tool": name,
        "seconds": result.seconds or None,
        "peak MB": result.peak_mb or None,
        "x fastest peer": times(results[fastest[0]], result) if fastest else None,
        "recall": quality and quality.recall,
        "precision": quality and quality.precision,
        "witnessed": quality and quality.witnessed,
        "nothing above 0.7": quality and quality.lost,
        "removed": quality and quality.removed,
        "notes": result.error,
    }


def fastest_peers(results: Mapping[str, Result]) -> list[str]:
    able = [name for name in results if name in PEERS and results[name].works]
    return sorted(able, key=lambda name: results[name].seconds)


def times(peer: Result, result: Result) -> float | None:
    return peer.seconds / result.seconds if result.works else None


def ratio_reached(results: Mapping[str, Result], peer: str, wanted: float) -> bool | None:
    if not (results[US].works and results[peer].works):
        return None
    return results[peer].seconds / results[US].seconds >= wanted
