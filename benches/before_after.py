"""Compare two source trees of neardup, in turns in one run: speed, and the answer byte for byte.

    python benches/before_after.py --before OLD/src --after src --data DIR
    python benches/before_after.py --before OLD/src --after src --data DIR --rounds 5 --only batch

A refactoring must cost no speed. Each task runs in a process of its own, by turns on either tree;
the fastest of the rounds counts, as the noise of a machine only adds. Exits with 1 if a task is
more than 5 % slower, or if the files of a batch run differ.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import arrivals
import orjson
from corpora import plain
from load_client import drive

ALLOWED = 1.05
INDEXED, STREAMED, ASKED = 40_000, 40_000, 4_000
SERVED_SECONDS = 8.0
IN_MEMORY = """
import sys, time, orjson, neardup
texts = [orjson.loads(line)["text"] for line in open(sys.argv[1], "rb")]
neardup.dedup(texts[:100])
start = time.perf_counter()
neardup.dedup(texts)
print(time.perf_counter() - start)
"""


def environment(tree: Path) -> dict[str, str]:
    """Each tree with its own benches, which may import internal names."""
    return os.environ | {"PYTHONPATH": f"{tree}{os.pathsep}{tree.parent / 'benches'}"}


def run_python(tree: Path, *arguments: object) -> str:
    """Standard output of Python with this tree."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, env=environment(tree), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


def time_in_memory(tree: Path, corpus: Path) -> float:
    """Seconds of one `neardup.dedup`."""
    return float(run_python(tree, "-c", IN_MEMORY, corpus))


def time_batch(tree: Path, corpus: Path, out: Path) -> float:
    """Seconds of one `neardup dedup`, start of Python included."""
    shutil.rmtree(out, ignore_errors=True)
    start = time.perf_counter()
    run_python(tree, "-m", "neardup", "dedup", corpus, "-o", out, "--quiet")
    return time.perf_counter() - start


def digest_of_run(out: Path) -> dict[str, str]:
    """The digests of the tables and kept files of a run; run.json and the report tell times."""
    names = [path for path in sorted(out.rglob("*")) if path.suffix not in (".json", ".html")]
    return {
        str(path.relative_to(out)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in names
        if path.is_file()
    }


def time_stream(tree: Path, folder: Path) -> float:
    """Seconds to add documents to an index, 256 at a time, durable."""
    report = json.loads(run_python(tree, "-m", "our_index", "stream", folder, INDEXED, STREAMED))
    return float(report["seconds"])


def time_queries(tree: Path, folder: Path) -> float:
    """Seconds of single queries."""
    report = json.loads(run_python(tree, "-m", "our_index", "queries", folder, INDEXED, ASKED))
    return float(report["seconds"])


@contextmanager
def serve(tree: Path, folder: Path) -> Iterator[int]:
    """A service over an index, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    words = ["-m", "neardup", "serve", "--data", str(folder), "--port", str(port)]
    words += ["--limit", "source_rate=0"]
    with subprocess.Popen(
        [sys.executable, *words], env=environment(tree), stderr=subprocess.DEVNULL
    ) as process:
        try:
            wait_until_ready(port)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)


def wait_until_ready(port: int) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz").close()
            return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the service is not ready after a minute")


def time_checks(tree: Path, folder: Path) -> float:
    """Seconds for a thousand requests of 16 clients, of which half are known texts."""
    bodies = [orjson.dumps({"text": text}) for text in arrivals.texts(INDEXED // 2, INDEXED)[:9000]]
    with serve(tree, folder) as port:
        load = asyncio.run(drive(port, "/v1/check", cycle(bodies), 16, SERVED_SECONDS))
    return 1000 * load.seconds / load.statuses[200]


def time_additions(tree: Path, folder: Path) -> float:
    """Seconds for ten thousand documents, 100 a request, four clients."""
    pieces = arrivals.batches(INDEXED, 1 << 40, 100)
    bodies = (
        orjson.dumps({"documents": [{"id": id, "text": text} for id, text in zip(ids, texts)]})
        for ids, texts in pieces
    )
    with serve(tree, folder) as port:
        load = asyncio.run(drive(port, "/v1/documents", bodies, 4, SERVED_SECONDS))
    return 100 * load.seconds / load.statuses[200]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--before", type=Path, required=True, help="the src folder of one tree")
    parser.add_argument("--after", type=Path, required=True, help="the src folder of the other")
    parser.add_argument("--data", type=Path, required=True, help="the folder of corpora")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("core", "batch", "online", "serving"))
    args = parser.parse_args()
    trees = {"before": args.before.resolve(), "after": args.after.resolve()}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        tasks = tasks_of(args.only, args.data, work, trees["before"])
        slower = [task for task in tasks if compare(task, tasks[task], trees, args.rounds)]
        differ = compare_answers(work) if args.only in (None, "batch") else []
    for task in slower:
        print(f"slower: {task}")
    for file in differ:
        print(f"differs: {file}")
    sys.exit(1 if slower or differ else 0)


Task = Callable[[str, Path], float]
"""Seconds, by the name of the tree and its folder."""


def tasks_of(only: str | None, data: Path, work: Path, before: Path) -> dict[str, Task]:
    """The tasks of one kind, or all of them."""
    small, large, tweets = (
        plain(data / f"{name}.jsonl.zst", work / f"{name}.jsonl")
        for name in ("rfc_10k", "rfc_100k", "tweets_1m")
    )
    index = work / "index"
    if only in (None, "online", "serving"):
        run_python(before, "-m", "our_index", "build", index, INDEXED)

    def on_copy(task: Callable[[Path, Path], float]) -> Task:
        def timed(name: str, tree: Path) -> float:
            folder = work / f"index-{name}"
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(index, folder)
            return task(tree, folder)

        return timed

    kinds: dict[str, dict[str, Task]] = {
        "core": {
            "in memory, 11,000 documents": lambda _, tree: time_in_memory(tree, small),
        },
        "batch": {
            "110,000 documents": lambda name, tree: time_batch(tree, large, work / f"rfc-{name}"),
            "1 M tweets": lambda name, tree: time_batch(tree, tweets, work / f"tweets-{name}"),
        },
        "online": {
            "index, adding": on_copy(time_stream),
            "index, single queries": on_copy(time_queries),
        },
        "serving": {
            "service, checks": on_copy(time_checks),
            "service, adding": on_copy(time_additions),
        },
    }
    return {
        task: run
        for kind, tasks in kinds.items()
        if only in (None, kind)
        for task, run in tasks.items()
    }


def compare(task: str, run: Task, trees: dict[str, Path], rounds: int) -> bool:
    """Whether the second tree is slower than is allowed; prints a line."""
    seconds: dict[str, list[float]] = {name: [] for name in trees}
    for turn in range(rounds + 1):
        names = list(trees) if turn % 2 else list(trees)[::-1]
        for name in names:
            taken = run(name, trees[name])
            if turn:  # the first round fills caches
                seconds[name].append(taken)
    before, after = min(seconds["before"]), min(seconds["after"])
    print(f"{task:30} {before:8.3f} s {after:8.3f} s  {after / before:5.3f}", flush=True)
    return after > ALLOWED * before


def compare_answers(work: Path) -> list[str]:
    """The files of the batch runs that differ."""
    found = []
    for corpus in ("rfc", "tweets"):
        before, after = (digest_of_run(work / f"{corpus}-{name}") for name in ("before", "after"))
        found += [f"{corpus}/{file}" for file in before if after.get(file) != before[file]]
        found += [f"{corpus}/{file}" for file in after if file not in before]
        print(f"{corpus}: {len(before)} files compared")
    return found


if __name__ == "__main__":
    main()
