"""datasketch's MinHashLSH in memory as an online index: ask, then add, one document at a time.

    python -m peers.datasketch_index plain|fastest BASE.jsonl STREAM.jsonl

The documents of BASE are added first, untimed. Those of STREAM are asked about and added, from
text, and then asked about one by one. Nothing is durable, and candidates are not verified.
`plain` makes signatures as datasketch's first example does, `fastest` as fast as it can.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from pathlib import Path

from datasketch import MinHash, MinHashLSH
from harness import SLOTS, THRESHOLD, documents, shingles

from peers.datasketch import sketches as fastest

Sketches = Callable[[list[str]], Iterable[MinHash]]


def plain(texts: list[str]) -> Iterator[MinHash]:
    for text in texts:
        sketch = MinHash(num_perm=SLOTS)
        for shingle in set(shingles(text)):
            sketch.update(shingle.encode("utf8"))
        yield sketch


def main(how: str, base: Path, stream: Path) -> None:
    sketches: Sketches = {"plain": plain, "fastest": fastest}[how]
    index = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    for key, text in documents(base):
        index.insert(key, *sketches([text]))
    arriving = list(documents(stream))
    start, work = time.perf_counter(), time.process_time()
    found = check_and_add(index, arriving, sketches)
    seconds, work = time.perf_counter() - start, time.process_time() - work
    report = {
        "peer": "datasketch",
        "version": version("datasketch"),
        "seconds": seconds,
        "work": work,
        "documents": len(arriving),
        "base": sum(1 for _ in documents(base)),
        "copies": found,
        "queries": [one_query(index, text, sketches) for _, text in arriving],
    }
    print(json.dumps(report))


def check_and_add(index: MinHashLSH, arriving: list[tuple[str, str]], sketches: Sketches) -> int:
    """How many were copies."""
    found = 0
    for (key, _), sketch in zip(arriving, sketches([text for _, text in arriving])):
        found += bool(index.query(sketch))
        index.insert(key, sketch)
    return found


def one_query(index: MinHashLSH, text: str, sketches: Sketches) -> float:
    start = time.perf_counter()
    index.query(*sketches([text]))
    return time.perf_counter() - start


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
