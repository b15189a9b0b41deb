"""datasketch's MinHashLSH in memory as an online index: ask, then add, one document at a time.

    python -m peers.datasketch_index BASE.jsonl STREAM.jsonl

The documents of BASE are added first, untimed. Those of STREAM are asked about and added, from
text, and then asked about one by one. Nothing is durable, and candidates are not verified.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path

from datasketch import MinHashLSH
from harness import SLOTS, THRESHOLD, documents

from peers.datasketch import sketches


def main(base: Path, stream: Path) -> None:
    index = MinHashLSH(threshold=THRESHOLD, num_perm=SLOTS)
    for key, text in documents(base):
        index.insert(key, *sketches([text]))
    arriving = list(documents(stream))
    start = time.perf_counter()
    found = check_and_add(index, arriving)
    seconds = time.perf_counter() - start
    queries = [one_query(index, text) for _, text in arriving]
    report = {
        "peer": "datasketch", "version": version("datasketch"), "seconds": seconds,
        "documents": len(arriving), "base": sum(1 for _ in documents(base)), "found": found,
        "queries": queries, "bands": index.b, "rows": index.r,
    }  # fmt: skip
    print(json.dumps(report))


def check_and_add(index: MinHashLSH, arriving: list[tuple[str, str]]) -> int:
    """How many were copies."""
    found = 0
    for (key, _), sketch in zip(arriving, sketches([text for _, text in arriving])):
        if index.query(sketch):
            found += 1
        index.insert(key, sketch)
    return found


def one_query(index: MinHashLSH, text: str) -> float:
    start = time.perf_counter()
    index.query(*sketches([text]))
    return time.perf_counter() - start


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
