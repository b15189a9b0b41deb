"""The timed tasks of our index on Redis, each in a process of its own; prints one JSON object.

    python -m our_redis add URL CORPUS FIRST COUNT BATCH REPLICAS [AHEAD]   # check_and_add
    python -m our_redis single FOLDER|URL CORPUS FIRST COUNT        # one by one, durable
    python -m our_redis check URL CORPUS COUNT                      # queries, one by one
    python -m our_redis compare URL CORPUS COUNT                    # with neardup.dedup
    python -m our_redis feed URL CORPUS FIRST BATCH REPLICAS STOP ANSWERS   # until STOP exists
    python -m our_redis judge URL CORPUS ANSWERS...                 # what became of the answers
    python -m our_redis cost URL COUNT SHINGLES BANDS ROWS          # processor time of a document

FIRST and COUNT are lines of the corpus; texts are read before the clock starts. AHEAD batches are
submitted before the answers to the first one are there.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from harness import THRESHOLD, documents

import neardup
from neardup.errors import NeardupError
from neardup.index.store import Row

Report = dict[str, Any]
MOST_FED = 200_000
PAUSE = 0.05
BATCH = 256


def lines(corpus: str, first: str | int, count: str | int) -> list[tuple[str, str]]:
    """Documents of a corpus: id, text."""
    begin = int(first)
    found = islice(documents(Path(corpus)), begin, begin + int(count))
    return [(str(begin + at), text) for at, (_, text) in enumerate(found)]


def open_index(place: str, replicas: int = 0) -> neardup.Index:
    return neardup.Index.open(place, threshold=THRESHOLD, replicas=replicas)


def add(
    url: str, corpus: str, first: str, count: str, batch: str, replicas: str, ahead: str = "0"
) -> Report:
    """Documents that arrive in batches."""
    arriving, size = lines(corpus, first, count), int(batch)
    with open_index(url, int(replicas)) as index:
        index.query("one of many texts, so that all kernels are loaded")
        start, work = time.perf_counter(), time.process_time()
        copies = 0
        under_way: deque[Future[list[neardup.Answer]]] = deque()
        for begin in range(0, len(arriving), size):
            ids, texts = zip(*arriving[begin : begin + size])
            under_way.append(index.submit(ids, texts))
            if len(under_way) > int(ahead):
                copies += _copies(under_way.popleft())
        copies += sum(map(_copies, under_way))
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


def _copies(answers: Future[list[neardup.Answer]]) -> int:
    return sum(each.is_copy for each in answers.result())


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
    with open_index(url) as index:
        rows = stored_rows(index)
    start = time.perf_counter()
    wrong = differences(rows, added)
    return {"seconds": time.perf_counter() - start, "documents": len(rows), "wrong": wrong}


def stored_rows(index: neardup.Index) -> list[Row]:
    """All documents of an index, in the order of their numbers."""
    with index._opened.while_open() as generation:
        listed = generation.list_documents()
        rows: list[Row] = []
        while part := listed.rows_after(rows[-1].number if rows else 0, 4096):
            rows += part
    return rows


def stored_witnesses(rows: Sequence[Row]) -> dict[str, tuple[str, float]]:
    """The witness of each copy, by id, and the similarity."""
    names = {row.number: row.id for row in rows}
    return {row.id: (names[row.witness], row.similarity) for row in rows if row.witness is not None}


def differences(rows: Sequence[Row], added: Mapping[str, str]) -> int:
    """How many stored decisions differ from those of a batch run in their order."""
    stored, ids = stored_witnesses(rows), [row.id for row in rows]
    result = neardup.dedup([added[id] for id in ids], threshold=THRESHOLD)
    wanted = {ids[one.id]: (ids[one.witness], one.similarity) for one in result.removed}
    rejected = {ids[one.id] for one in result.rejected}
    return sum(stored.get(id) != wanted.get(id) for id in ids if id not in rejected)


def feed(
    url: str, corpus: str, first: str, batch: str, replicas: str, stop: str, answers: str
) -> Report:
    """Batches until the file STOP is there; one that is refused is sent again."""
    arriving, size = lines(corpus, first, MOST_FED), int(batch)
    refused, longest, acknowledged = 0, 0.0, 0
    with open_index(url, int(replicas)) as index, Path(answers).open("w") as told:
        begun = last = time.perf_counter()
        for begin in range(0, len(arriving), size):
            if Path(stop).exists():
                break
            ids, texts = zip(*arriving[begin : begin + size])
            while True:
                try:
                    found = index.add_batch(ids, texts)
                    break
                except NeardupError:
                    refused += 1
                    time.sleep(PAUSE)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
            told.writelines(json.dumps([one.id, one.duplicate_of]) + "\n" for one in found)
            acknowledged += len(found)
    seconds = last - begun
    return {"seconds": seconds, "documents": acknowledged, "refused": refused, "longest": longest}


def judge(url: str, corpus: str, *answers: str) -> Report:
    """Whether all acknowledged documents are stored after a repair, as they were answered."""
    told = dict(map(json.loads, (line for path in answers for line in _lines_of(path))))
    start = time.perf_counter()
    with open_index(url) as index:
        repaired, left = index.repair(), index.verify()
        rows = stored_rows(index)
    there, witnesses = {row.id for row in rows}, stored_witnesses(rows)
    other = sum(
        witnesses.get(id, (None,))[0] != witness for id, witness in told.items() if id in there
    )
    return {
        "lost": len(told.keys() - there),
        "other": other,
        "wrong": differences(rows, _texts(corpus, there)),
        "repaired": len(repaired),
        "problems": len(left),
        "seconds": time.perf_counter() - start,
    }


def _lines_of(path: str) -> list[str]:
    return Path(path).read_text().splitlines()


def _texts(corpus: str, ids: set[str]) -> dict[str, str]:
    return {id: text for id, text in lines(corpus, 0, 1 + max(map(int, ids))) if id in ids}


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


TASKS = {task.__name__: task for task in (add, single, check, compare, cost, feed, judge)}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
