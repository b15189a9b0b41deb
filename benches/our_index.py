"""The timed tasks of our index, each in a process of its own; prints one JSON object.

    python -m our_index build FOLDER DOCUMENTS      # all cores
    python -m our_index stream FOLDER FIRST COUNT   # check_and_add, durable, 256 at a time
    python -m our_index queries FOLDER FIRST COUNT  # one by one
    python -m our_index opened FOLDER               # until the first answer; memory
    python -m our_index equal CORPUS.jsonl COUNT    # beside neardup.dedup

FIRST is the number of the first document of `arrivals`; texts are made before the clock starts.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import arrivals
from harness import THRESHOLD, documents

import neardup

BATCH = 256
LARGE_BATCH = 2048

Report = dict[str, Any]
Verdict = tuple[str | None, float | None]


def open_index(folder: Path, **given: Any) -> neardup.Index:
    return neardup.Index.open(folder, threshold=THRESHOLD, **given)


def build(folder: str, count: str) -> Report:
    """An index of so many documents, whole or not there."""
    target, part = Path(folder), Path(f"{folder}.part")
    start = time.perf_counter()
    with open_index(part) as index, ThreadPoolExecutor(1) as adding:
        waiting = deque[Future[Any]]()
        for batch in arrivals.batches(len(index), int(count) - len(index), LARGE_BATCH):
            waiting.append(adding.submit(index.add_batch, *batch))
            if len(waiting) > 2:
                waiting.popleft().result()
        for last in waiting:
            last.result()
        index.snapshot()
        report = {"documents": len(index)}
    part.rename(target)
    return report | {"seconds": time.perf_counter() - start}


def stream(folder: str, first: str, count: str) -> Report:
    """Documents that arrive, and how many of them are copies."""
    arriving = list(arrivals.batches(int(first), int(count), BATCH))
    warm, *timed = arriving
    before = used(Path(folder))
    with open_index(Path(folder)) as index:
        index.add_batch(*warm)
        start, work = time.perf_counter(), time.process_time()
        answers = [answer for batch in timed for answer in index.add_batch(*batch)]
        seconds, work = time.perf_counter() - start, time.process_time() - work
        stats = index.stats().as_dict
    return {
        "seconds": seconds,
        "work": work,
        "documents": len(answers),
        "stats": stats,
        "copies": sum(answer.status == "duplicate" for answer in answers),
        "wrong": sum(map(wrong, answers)),
        "disk": used(Path(folder)) - before,
    }


def wrong(answer: Any) -> bool:
    """Whether an answer is not what was planted."""
    number = int(answer.id.removeprefix("doc-"))
    return answer.duplicate_of != arrivals.expected(number)


def queries(folder: str, first: str, count: str) -> Report:
    """Each second one is of an earlier document's text, the others have never been seen."""
    new = arrivals.texts(int(first), int(count) // 2)
    step = int(first) // len(new)
    old = [arrivals.texts(at * step, 1)[0] for at in range(len(new))]
    texts = [text for pair in zip(new, old) for text in pair]
    with open_index(Path(folder)) as index:
        for text in texts[:100]:
            index.query(text)
        taken = [timed_query(index, text) for text in texts]
    return {"seconds": sum(taken), "documents": len(texts), "queries": taken}


def timed_query(index: neardup.Index, text: str) -> float:
    start = time.perf_counter()
    index.query(text)
    return time.perf_counter() - start


def opened(folder: str) -> Report:
    """Until the first answer, and what is in memory then; a new index has nothing to answer."""
    text = arrivals.texts(0, 1)[0]
    start = time.perf_counter()
    with open_index(Path(folder)) as index:
        answer = index.query(text)
        seconds = time.perf_counter() - start
        assert answer.status == ("duplicate" if len(index) else "new"), answer
        stats, resident = index.stats().as_dict, rss()
    return {"seconds": seconds, "stats": stats, "rss": resident, "disk": used(Path(folder))}


def equal(corpus: str, count: str) -> Report:
    """In how many documents the index in order of arrival differs from the batch engine."""
    texts = [text for _, text in islice(documents(Path(corpus)), int(count))]
    start = time.perf_counter()
    expected = batch(texts)
    middle = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, open_index(Path(folder) / "index") as index:
        found = online(index, texts)
        stats = index.stats().as_dict
    return {
        "seconds": time.perf_counter() - middle,
        "batch": middle - start,
        "documents": len(texts),
        "kept": sum(one == (None, None) for one in expected),
        "stats": stats,
        "differ": sum(a != b for a, b in zip(expected, found, strict=True)),
    }


def batch(texts: list[str]) -> list[Verdict]:
    """Each document's witness and similarity, by the batch engine."""
    result = neardup.dedup(texts, threshold=THRESHOLD)
    found: list[Verdict] = [(None, None)] * len(texts)
    for gone in result.removed:
        found[gone.id] = str(gone.witness), gone.similarity
    for one in result.rejected:
        found[one.id] = "rejected", None
    return found


def online(index: neardup.Index, texts: list[str]) -> list[Verdict]:
    found: list[Verdict] = []
    for start in range(0, len(texts), BATCH):
        some = texts[start : start + BATCH]
        ids = [str(number) for number in range(start, start + len(some))]
        found += [
            ("rejected", None) if one.status == "rejected" else (one.duplicate_of, one.similarity)
            for one in index.add_batch(ids, some)
        ]
    return found


def used(folder: Path) -> int:
    """Bytes of an index on disk."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def rss() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


TASKS = {"build": build, "stream": stream, "queries": queries, "opened": opened, "equal": equal}

if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](*sys.argv[2:])))
