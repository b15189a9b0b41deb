"""Indexes that are indexed anew in processes that are killed; started by a test in its own process.

Each attempt is forked, adds documents in a thread, and notes each that is acknowledged. It is
killed after some time, or before it touches the disk for the n-th time. Then all that was
acknowledged must be there. What happened is printed as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path

import neardup

sys.path.insert(0, str(Path(__file__).parents[1]))
from neardup.index.rebuild import convert
from support.killing import die_before, do_nothing, load_kernels

WORDS = [f"word{number}" for number in range(80)]
FIRST = 60
MOST = 30
"""Documents that an attempt adds."""


def text(chance: random.Random) -> str:
    return " ".join(chance.choices(WORDS[:20], k=5) + chance.choices(WORDS, k=10))


def prepare(path: Path) -> None:
    chance = random.Random(1)
    with neardup.Index.open(path, threshold=0.4, shingle="word:1", keep_texts=True) as index:
        index.add_batch(
            [f"first-{at}" for at in range(FIRST)], [text(chance) for _ in range(FIRST)]
        )


def work(path: Path, name: str) -> None:
    """Index anew, undo that, and index anew again, while documents are added."""
    noted = os.open(path.with_suffix(".noted"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    stop = threading.Event()

    def add() -> None:
        chance = random.Random(name)
        for at in range(MOST):
            if stop.is_set():
                return
            index.add(f"{name}-{at}", text(chance))
            os.write(noted, f"{name}-{at}\n".encode())

    with neardup.Index.open(path) as index:
        adding = threading.Thread(target=add)
        adding.start()
        index.reindex(shingle="word:1" if index.spec.size == 2 else "word:2")
        index.undo_reindex()
        index.reindex(slots=64 if index.spec.slots == 128 else 128)
        stop.set()
        adding.join()


def narrow(path: Path, name: str) -> None:
    convert(path, 8)


def attempt(
    path: Path, do: Callable[[], None], before: Callable[[], object], limit: float | None = None
) -> int:
    """Do it in a child; its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            before()
            do()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    if limit is not None:
        time.sleep(limit)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(path: Path, begun: int) -> None:
    """All that was acknowledged is there, and at most one more document of each attempt."""
    file = path.with_suffix(".noted")
    noted = file.read_text().split() if file.exists() else []
    with neardup.Index.open(path) as index:
        lost = [id for id in noted if index.get(id) is None]
        assert not lost, f"lost: {lost[:5]}"
        more = len(index) - FIRST - len(noted)
        assert 0 <= more <= begun, f"{more} documents that nobody knows of"
        assert index.verify() == []


def at_random_times(path: Path, seed: int, wanted: int) -> int:
    """How many of so many attempts were killed."""
    prepare(path)
    chance = random.Random(seed)
    begun = time.perf_counter()
    assert attempt(path, partial(work, path, "whole"), do_nothing) == 0
    whole = time.perf_counter() - begun
    killed = 0
    for at in range(wanted):
        limit = chance.uniform(0.05, 1.0) * whole
        killed += attempt(path, partial(work, path, str(at)), do_nothing, limit) < 0
        check(path, at + 2)
    return killed


def at_steps(path: Path, first: int, every: int, what: str) -> int:
    """How many attempts were killed, the n-th at step `first` + n * `every`, until one was not."""
    do = {"work": work, "narrow": narrow}[what]
    prepare(path)
    for at in count():
        step = partial(die_before, first + every * at)
        ended = attempt(path, partial(do, path, str(at)), step)
        check(path, at + 1)
        if ended != -signal.SIGKILL:
            assert ended == 0
            return at
    raise AssertionError


if __name__ == "__main__":
    load_kernels()
    given = json.loads(sys.argv[2])
    do = {"at_random_times": at_random_times, "at_steps": at_steps}[sys.argv[1]]
    print(json.dumps(do(Path(given.pop("path")), **given)))
