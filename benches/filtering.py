"""Shared by the scripts of all filters: half of the texts are added, the other half looked up.

    python -m peers.rbloom tweets.jsonl

Texts are different from one another. The time of inserts and of queries, the bits a key and the
rate of false positives are printed as one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import documents

RATE = 0.01


@dataclass(frozen=True)
class Made:
    """A filter: `insert` and `ask` take many keys, `ask` says how many are there."""

    insert: Callable[[Any], object]
    ask: Callable[[Any], int]
    bits: Callable[[], int]
    remove: Callable[[Any], int] | None = None


@dataclass(frozen=True)
class FilterContender:
    """A distribution's name; how a filter for n keys is made; `prepare` is not timed."""

    package: str
    notes: str
    make: Callable[[int], Made]
    prepare: Callable[[list[str]], Any] = list


def main(contender: FilterContender) -> None:
    parser = argparse.ArgumentParser(description=f"Time a filter of {contender.package}.")
    parser.add_argument("path", type=Path)
    texts = list(dict.fromkeys(text for _, text in documents(parser.parse_args().path)))
    half = len(texts) // 2
    inside, outside = texts[:half], texts[half : 2 * half]
    print(json.dumps(measure(contender, inside, outside)))


def measure(contender: FilterContender, inside: list[str], outside: list[str]) -> dict[str, Any]:
    keys, others = contender.prepare(inside), contender.prepare(outside)
    made = contender.make(len(inside))
    insert, _ = timed(made.insert, keys)
    ask, wrong = timed(made.ask, others)
    again, right = timed(made.ask, keys)
    if right != len(inside):
        raise RuntimeError(f"{len(inside) - right} keys that were put in are not there")
    report = {
        "package": contender.package,
        "version": version(contender.package),
        "notes": contender.notes,
        "seconds": insert + ask,
        "inserts_per_s": len(inside) / insert,
        "queries_per_s": len(outside) / ask,
        "hits_per_s": len(inside) / again,
        "bits_per_key": made.bits() / len(inside),
        "rate": wrong / len(outside),
    }
    if made.remove is not None:
        seconds, removed = timed(made.remove, keys)
        report |= {"removes_per_s": len(inside) / seconds, "removed": removed == len(inside)}
    return report


def timed(function: Callable[[Any], Any], keys: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    result = function(keys)
    return time.perf_counter() - start, result
