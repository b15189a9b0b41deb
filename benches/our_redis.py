"""The timed tasks of our index on Redis, each in a process of its own; prints one JSON object.

    python -m our_redis add URL CORPUS FIRST COUNT BATCH REPLICAS   # check_and_add
    python -m our_redis single FOLDER|URL CORPUS FIRST COUNT        # one by one, durable
    python -m our_redis check URL CORPUS COUNT                      # queries, one by one
    python -m our_redis compare URL CORPUS COUNT                    # with neardup.dedup
    python -m our_redis cost URL COUNT SHINGLES BANDS ROWS          # processor time of a document

FIRST and COUNT are lines of the corpus; texts are read before the clock starts.
"""

from __future__ import annotations

import json
import random
import sys
import time
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from harness import THRESHOLD, documents

import neardup

Report = dict[str, Any]
BATCH = 256


def lines(corpus: str, first: str | int, count: str | int) -> list[tuple[str, str]]:
    """Documents of a corpus: id, text."""
    begin = int(first)
    found = islice(documents(Path(corpus)), begin, begin + int(count))
    return [(str(begin + at), text) for at, (_, text) in enumerate(found)]


def open_index(place: str, replicas: int = 0) -> neardup.Index:
    return neardup.Index.open(place, threshold=THRESHOLD, replicas=replicas)


def add(url: str, corpus: str, first: str, count: str, batch: str, replicas: str) -> Report:
    """Documents that arrive in batches."""
    arriving, size = lines(corpus, first, count), int(batch)
    with open_index(url, int(replicas)) as index:
        index.query("one of many texts, so that all kernels are loaded")
        start, work = time.perf_counter(), time.process_time()
        copies = 0
        for begin in range(0, len(arriving), size):
            ids, texts = zip(*arriving[begin : begin + size])
            copies += sum(each.is_copy for each in index.add_batch(ids, texts))
        seconds, work = time.perf_counter() - start, time.process_time() - work
        stats = index.stats()
    return {
        "seconds": seconds,
        "work": work,
        "documents": len(arriving),
        "copies": copies,
        "stored": stats.documents,
        "memory": stats.memory_bytes,
    }


def single(place: str, corpus: str, first: str, count: str) -> Report:
    """Documents that arrive one by one, by one thread."""
    arriving = lines(corpus, first, count)
    with open_index(place) as index:
        index.query("one of many texts, so that all kernels are loaded")
        start = time.perf_counter()
        for id, text in arriving:
            index.add(id, text)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "documents": len(arriving)}


def check(url: str, corpus: str, count: str) -> Report:
    """Texts that are asked about one by one."""
    asked = lines(corpus, 0, count)
    times = []
    with open_index(url) as index:
        for _, text in asked[:20]:
            index.query(text)
        for _, text in asked:
            start = time.perf_counter()
            index.query(text)
            times.append(time.perf_counter() - start)
    p50, p99 = np.quantile(times, [0.5, 0.99]).tolist()
    return {"seconds": sum(times), "documents": len(asked), "p50": p50, "p99": p99}


def compare(url: str, corpus: str, count: str) -> Report:
    """How many decisions differ from those of a batch run in the order of the numbers."""
    added = dict(lines(corpus, 0, count))
    with open_index(url) as index, index._opened.while_open() as generation:
        listed = generation.list_documents()
        rows, last = [], 0
        while part := listed.rows_after(last, 4096):
            rows += part
            last = part[-1].number
    names = {row.number: row.id for row in rows}
    stored = {
        row.id: (names[row.witness], row.similarity) for row in rows if row.witness is not None
    }
    ids = [row.id for row in rows]
    start = time.perf_counter()
    result = neardup.dedup([added[id] for id in ids], threshold=THRESHOLD)
    wanted = {ids[one.id]: (ids[one.witness], one.similarity) for one in result.removed}
    rejected = {ids[one.id] for one in result.rejected}
    wrong = sum(stored.get(id) != wanted.get(id) for id in ids if id not in rejected)
    return {"seconds": time.perf_counter() - start, "documents": len(ids), "wrong": wrong}


def cost(url: str, count: str, shingles: str, bands: str, rows: str) -> Report:
    """Random texts that have nothing in common, in batches: the time of this process."""
    chance = random.Random(1)
    width = int(shingles) + 2
    texts = [
        " ".join(f"{chance.getrandbits(30):x}" for _ in range(width)) for _ in range(int(count))
    ]
    layout = {"bands": int(bands), "rows": int(rows), "shingle": "word:3"}
    with neardup.Index.open(url, threshold=THRESHOLD, **layout) as index:
        index.query(texts[0])
        start, work = time.perf_counter(), time.process_time()
        for begin in range(0, len(texts), BATCH):
            some = texts[begin : begin + BATCH]
            index.add_batch([str(begin + at) for at in range(len(some))], some)
        seconds, work = time.perf_counter() - start, time.process_time() - work
        buckets = index.options.hash_tables.count + 2
    return {"seconds": seconds, "work": work, "documents": len(texts), "buckets": buckets}


TASKS = {task.__name__: task for task in (add, single, check, compare, cost)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
