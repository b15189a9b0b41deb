"""Shared by the scripts of all contenders: read a corpus, time one task, print one JSON object.

A contender (neardup or a peer) is a `Contender` value whose tasks are plain functions. Peak
memory is measured from outside, by `measure.py`.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import orjson

SLOTS = 128
THRESHOLD = 0.8
WORD = re.compile(r"\w+")

Decisions = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Contender:
    """A distribution's name and the tasks it can do.

    `signatures` and `fingerprints` (SimHash) take the texts (or what `prepare` made of them,
    untimed), `kernel` hashed shingles and row offsets, `run` the path of a JSONL file; `run`
    returns (removed id, witness id or "").
    """

    package: str
    notes: str
    signatures: Callable[[Any], object] | None = None
    kernel: Callable[[np.ndarray, np.ndarray], object] | None = None
    run: Callable[[Path], Decisions] | None = None
    prepare: Callable[[list[str]], object] = list
    fingerprints: Callable[[Any], object] | None = None


def shingles(text: str) -> list[str]:
    """Word 5-grams of a text, for peers that leave tokenising to the caller."""
    words = WORD.findall(text.lower())
    if len(words) < 5:
        return [" ".join(words)]
    return list(map(" ".join, zip(words, words[1:], words[2:], words[3:], words[4:])))


def documents(path: Path) -> Iterator[tuple[str, str]]:
    with path.open("rb") as lines:
        for line in lines:
            row = orjson.loads(line)
            yield str(row["id"]), row["text"]


def batches(path: Path, size: int = 1000) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    for document in documents(path):
        batch.append(document)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def main(contender: Contender) -> None:
    parser = argparse.ArgumentParser(description=f"Time {contender.package}.")
    parser.add_argument("task", choices=("signatures", "fingerprints", "kernel", "run"))
    parser.add_argument("paths", nargs="+", type=Path)
    args = parser.parse_args()
    if getattr(contender, args.task) is None:
        sys.exit(f"{contender.package} has no {args.task}")
    tasks = {
        "signatures": partial(_sketches, contender.signatures),
        "fingerprints": partial(_sketches, contender.fingerprints),
        "kernel": _kernel,
        "run": _run,
    }
    result = tasks[args.task](contender, *args.paths)
    head = {"peer": contender.package, "version": version(contender.package), "task": args.task}
    print(json.dumps(head | result | {"notes": contender.notes}))


def _sketches(make: Callable[[Any], object], contender: Contender, path: Path) -> dict[str, float]:
    texts = [text for _, text in documents(path)]
    size = sum(len(text.encode()) for text in texts)
    seconds = _timed(make, contender.prepare(texts))
    return {"seconds": seconds, "documents": len(texts), "bytes": size}


def _kernel(contender: Contender, hashed: Path, offsets: Path) -> dict[str, float]:
    values, rows = np.load(hashed), np.load(offsets)
    # The first call may build tables: what is compared is the kernel's own rate.
    seconds = min(_timed(contender.kernel, values, rows) for _ in range(3))
    return {"seconds": seconds, "documents": len(rows) - 1, "bytes": values.nbytes}


def _run(contender: Contender, path: Path, out: Path) -> dict[str, float]:
    seconds = _timed(_decide, contender, path, out)
    with path.open("rb") as lines:
        count = sum(1 for _ in lines)
    return {"seconds": seconds, "documents": count, "bytes": path.stat().st_size}


def _decide(contender: Contender, path: Path, out: Path) -> None:
    with out.open("w") as lines:
        lines.writelines(f"{removed}\t{witness}\n" for removed, witness in contender.run(path))


def _timed(function: Callable[..., object], *args: object) -> float:
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start
