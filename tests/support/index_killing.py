"""An index whose process is killed while it works; started by tests in a process of its own.

It forks for every attempt, which takes no time: the kernels are loaded. An attempt opens the index,
checks everything that the log of the earlier ones says, and lets several threads work until it is
killed. What it is about to do and what was acknowledged is in the log, one JSON line each, written
before and after. At the end, the attempts that were killed during each kind of work are printed.
"""

from __future__ import annotations

import functools
import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neardup import Index, kernels
from neardup.errors import Conflict
from neardup.index import removal, writer
from neardup.index.store import Store
from support import batch_engine

THREADS = 3
CHORES: dict[str, Callable[[Index], object]] = {
    "snapshot": lambda index: index.snapshot(),
    "compact": lambda index: index.compact(),
    "nothing": lambda index: time.sleep(0.01),
}
"""What a thread does all the time beside those that write."""


@functools.cache
def pool() -> list[str]:
    """The texts that are added, by number."""
    return [text for text in batch_engine.texts(3, 3_000, words=40) if text.strip()]


Said = dict[str, Any]


@dataclass
class History:
    """What the log says that the index must hold."""

    may_be: dict[str, list[int | None]] = field(default_factory=dict)
    """For each id, the texts that it may have, by their numbers; None: not there."""
    acknowledged: dict[str, list[Any]] = field(default_factory=dict)
    """The answer that was given to each document."""
    changed: set[str] = field(default_factory=set)
    """Those that somebody began to remove or to replace."""
    batches: dict[str, list[str]] = field(default_factory=dict)

    def read(self, lines: Iterator[str]) -> History:
        for line in lines:
            said = json.loads(line)
            if "id" in said:
                (self._began if said["begun"] else self._ended)(said)
        return self

    def _began(self, said: Said) -> None:
        id = said["id"]
        if id in self.may_be:
            self.changed.add(id)
        self.may_be.setdefault(id, [None]).append(said["text"])
        if said["batch"]:
            self.batches.setdefault(said["batch"], []).append(id)

    def _ended(self, said: Said) -> None:
        self.may_be[said["id"]] = [said["text"]]
        self.acknowledged[said["id"]] = said["answer"]


class Log:
    """Lines that are there when a process is killed after writing them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def say(self, **said: Any) -> None:
        os.write(self._file, json.dumps(said).encode() + b"\n")

    def history(self) -> History:
        with self.path.open() as lines:
            return History().read(iter(lines))


def said_of(answer: Any) -> list[Any]:
    return [answer.status, answer.duplicate_of, answer.similarity]


def check(index: Index, log: Log, database: Path) -> None:
    """Everything that was acknowledged is there, and nothing that was never asked for."""
    history = log.history()
    assert index.verify() == []
    ids = stored_ids(database)
    there = set(ids)
    assert len(ids) == len(there) == len(index)
    assert there <= set(history.may_be), "a ghost"
    for batch in history.batches.values():
        unchanged = [id in there for id in batch if id not in history.changed]
        assert all(unchanged) or not any(unchanged), "half of a batch"
    for id, texts in history.may_be.items():
        if len(texts) > 1:
            settle(index, log, id, texts)
    sure = {id: text for id, [text, *others] in history.may_be.items() if not others}
    gone = [id for id, text in sure.items() if text is None]
    assert not there & set(gone), "removed and still there"
    check_sure(index, {id: text for id, text in sure.items() if text is not None}, history)


def stored_ids(database: Path) -> list[str]:
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return [id for (id,) in connection.execute("SELECT id FROM documents")]


def settle(index: Index, log: Log, id: str, texts: list[int | None]) -> None:
    """What was going on when the process was killed was done or not; from now on that is sure."""
    found, text = index.get(id), None
    if found is not None:
        text = next((text for text in texts if text is not None and has(index, id, text)), None)
    assert text in texts, f"{id} has a text that it never had, or is lost"
    assert (found is None) == (text is None), f"{id} has a text that it never had"
    log.say(id=id, begun=False, text=text, answer=found and said_of(found))


def has(index: Index, id: str, text: int) -> bool:
    try:
        return index.add(id, pool()[text]).again
    except Conflict:
        return False


def check_sure(index: Index, sure: dict[str, int], history: History) -> None:
    """Documents that were acknowledged are there, with their texts and their answers."""
    answers = index.add_batch(list(sure), [pool()[text] for text in sure.values()])
    for answer in answers:
        assert answer.again, f"{answer.id} is lost, or has another text"
        given = history.acknowledged[answer.id]
        if given[1] not in history.changed:
            assert said_of(answer) == given, f"{answer.id} was {given}, is {said_of(answer)}"
    named = {answer.duplicate_of for answer in answers if answer.duplicate_of is not None}
    witnesses = [index.get(id) for id in named]
    assert all(one is not None and one.status == "new" for one in witnesses)


def work(index: Index, log: Log, name: str, seed: int) -> None:
    """Add, replace and remove until the process is killed."""
    chance, mine = random.Random(seed), list[str]()
    for number in range(1 << 30):
        batch, size = f"{name}-{number}", chance.choice([1, 1, 2, 5, 9])
        ids = [f"{batch}-{at}" for at in range(size)]
        add(index, log, ids, [chance.randrange(len(pool())) for _ in ids], batch)
        mine += ids
        if chance.random() < 0.3:
            add(index, log, [chance.choice(mine)], [chance.randrange(len(pool()))], None)
        if chance.random() < 0.5:
            count = min(chance.choice([1, 1, 4]), len(mine))
            gone = [mine.pop(chance.randrange(len(mine))) for _ in range(count)]
            for id in gone:
                log.say(id=id, begun=True, text=None, batch=None)
            index.remove_batch(gone)
            for id in gone:
                log.say(id=id, begun=False, text=None, answer=None)


def add(index: Index, log: Log, ids: list[str], texts: list[int], batch: str | None) -> None:
    for id, text in zip(ids, texts, strict=True):
        log.say(id=id, begun=True, text=text, batch=batch)
    answers = index.add_batch(ids, [pool()[text] for text in texts], replace=batch is None)
    for id, text, answer in zip(ids, texts, answers, strict=True):
        log.say(id=id, begun=False, text=text, answer=said_of(answer))


def toil(index: Index, log: Log, chore: str) -> None:
    while True:
        log.say(chore=chore, begun=True)
        CHORES[chore](index)
        log.say(chore=chore, begun=False)


def say_checkpoints(log: Log) -> None:
    """They come by themselves: have them in the log too."""
    checkpoint = Store.checkpoint

    def said(store: Store, how: str = "PASSIVE") -> bool:
        log.say(chore="checkpoint", begun=True)
        done = checkpoint(store, how)
        log.say(chore="checkpoint", begun=False)
        return done

    Store.checkpoint = said


def live(folder: Path, log: Log, number: int, chore: str, memory: int | None, ready: int) -> None:
    """The life of a child: open, check, work until it is killed."""
    say_checkpoints(log)
    with Index.open(folder / "index", **batch_engine.SMALL, limit=3, memory=memory) as index:
        check(index, log, database_of(folder))
        os.write(ready, b"!")
        if chore == "check":
            return
        jobs = [(work, f"{number}-{at}", number * THREADS + at) for at in range(THREADS)]
        threads = [threading.Thread(target=do, args=(index, log, *given)) for do, *given in jobs]
        threads.append(threading.Thread(target=toil, args=(index, log, chore)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def database_of(folder: Path) -> Path:
    (found,) = (folder / "index").glob("g*/index.sqlite")
    return found


def attempt(
    folder: Path, log: Log, number: int, chore: str, memory: int | None, seconds: float
) -> int:
    """A child that is killed so many seconds after it was ready; its exit code, or the signal."""
    reading, ready = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            live(folder, log, number, chore, memory, ready)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    os.close(ready)
    os.read(reading, 1)  # nothing, if it has failed
    os.close(reading)
    if chore != "check":
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def at_random_times(
    folder: Path, seed: int, kills: int, longest: float, memory: int | None = None
) -> dict[str, int]:
    """In how many attempts each chore, each kind of write was going on at the end."""
    chance, log = random.Random(seed), Log(folder / "log")
    during: Counter[str] = Counter()
    for number in range(kills):
        chore = list(CHORES)[number % len(CHORES)]
        begin = log.path.stat().st_size
        ended = attempt(folder, log, number, chore, memory, chance.uniform(0.0, longest))
        assert ended == -signal.SIGKILL, f"attempt {number} ended with {ended}"
        during.update(interrupted(log.path.read_bytes()[begin:].splitlines()))
    assert attempt(folder, log, kills, "check", memory, 0.0) == 0
    return dict(during)


def interrupted(lines: list[bytes]) -> set[str]:
    """What had begun and did not end."""
    open_: dict[str, str] = {}
    for said in map(json.loads, lines):
        name = said.get("id") or said["chore"]
        what = said.get("chore") or ("remove" if said["text"] is None else "add")
        if said["begun"]:
            open_[name] = what
        else:
            open_.pop(name, None)
    return set(open_.values())


def prepare() -> None:
    """Load all kernels, and work in small steps: there are more moments to be killed at.

    Not at import: pytest imports this module where other tests run.
    """
    for names in kernels.KERNELS.values():
        for name in names:
            getattr(kernels, name)
    writer.CHECKPOINT_BYTES = 1 << 18
    removal.SLICE_DOCUMENTS = removal.SLICE_COPIES = 2  # several commits for a few documents


if __name__ == "__main__":
    prepare()
    given = json.loads(sys.argv[1])
    print(json.dumps(at_random_times(Path(given.pop("folder")), **given)))
