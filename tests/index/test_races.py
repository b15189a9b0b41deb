"""Many threads and processes at one index: the answers are those of one order of requests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.sizes import full
from support.strategies import corpora, examples

import neardup
from neardup import Index, reference
from neardup.errors import Conflict, IndexLocked, UsageError

TEXT = "a text that everybody has at the same time"
THREADS = 8


@pytest.fixture(autouse=True)
def quick_turns() -> Iterator[None]:
    """Threads take turns often, so that more can happen in between."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(usual)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with Index.open(tmp_path / "index", **batch_engine.SMALL) as opened:
        yield opened


def at_once(do: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """What each of some threads gets, which all begin at the same moment."""
    start = threading.Barrier(count)

    def wait_and_do(number: int) -> Any:
        start.wait()
        return do(number)

    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(wait_and_do, range(count)))


def test_the_same_text_is_new_once(index: Index) -> None:
    for turn in range(20):
        text = " ".join(f"word{turn}of{at}" for at in range(9))
        answers = at_once(lambda n, text=text: index.add(f"{text[:9]}-{n}", text))
        (new,) = [answer for answer in answers if answer.status == "new"]
        others = [answer for answer in answers if answer is not new]
        assert {(one.duplicate_of, one.similarity, one.exact) for one in others} == {
            (new.id, 1.0, True)
        }
        assert {answer.cluster for answer in answers} == {new.cluster}
    assert index.verify() == []


@pytest.mark.parametrize("count", [100, full(400)])
def test_similar_texts_are_new_once(index: Index, count: int) -> None:
    """No two kept documents that share a bucket are similar, however they come."""
    texts = batch_engine.texts(5, count)
    at_once(lambda n: [index.add(f"{n}-{at}", text) for at, text in enumerate(texts)], 4)
    in_order = {
        f"{n}-{at}": text for n in range(4) for at, text in enumerate(texts) if text.strip()
    }
    order = sorted(in_order, key=lambda name: index.get(name).number)
    assert verdicts(index, order) == expected([in_order[id] for id in order], order)
    assert index.verify() == []


def test_the_same_document_is_added_once(index: Index) -> None:
    answers = at_once(lambda n: index.add("one", TEXT))
    assert sorted(answer.again for answer in answers) == [False] + [True] * (THREADS - 1)
    assert {(answer.status, answer.duplicate_of) for answer in answers} == {("new", None)}
    assert len(index) == 1


def test_an_id_has_one_text(index: Index) -> None:
    def add(number: int) -> str:
        try:
            return index.add("one", f"{TEXT} {number}").status
        except Conflict:
            return "conflict"

    assert sorted(at_once(add)) == ["conflict"] * (THREADS - 1) + ["new"]
    assert len(index) == 1


def test_a_document_is_removed_once(index: Index) -> None:
    index.add("one", TEXT)
    assert sorted(at_once(lambda n: index.remove("one"))) == [False] * (THREADS - 1) + [True]
    assert len(index) == 0 and index.query(TEXT).status == "new"


@pytest.mark.parametrize("count", [200, full(800)])
def test_readers_see_what_is_committed(index: Index, count: int) -> None:
    """Never an error, a document that was removed, or one that nobody has acknowledged or begun."""
    texts = [text for text in batch_engine.texts(7, count, words=40) if text.strip()]
    world = World(index, texts)
    with ThreadPoolExecutor(4) as threads:
        readers = [threads.submit(world.read, seed) for seed in range(3)]
        threads.submit(world.write).result()
        world.done.set()
        assert min(reader.result() for reader in readers) > 0
    assert index.verify() == []


class World:
    """A writer, readers, and what each may see."""

    def __init__(self, index: Index, texts: list[str]) -> None:
        self.index, self.texts = index, texts
        self.begun: set[str] = set()
        self.there: set[str] = set()
        self.leaving: set[str] = set()
        self.gone: set[str] = set()
        self.done = threading.Event()

    def write(self) -> None:
        for start in range(0, len(self.texts), 5):
            ids = [str(number) for number in range(start, min(start + 5, len(self.texts)))]
            self.begun.update(ids)
            self.index.add_batch(ids, self.texts[start : start + 5])
            self.there.update(ids)
            if start % 20 == 0:
                self.leaving.add(ids[0])
                assert self.index.remove(ids[0])
                self.gone.add(ids[0])

    def read(self, seed: int) -> int:
        """How many copies were found."""
        found = 0
        while not self.done.is_set():
            for number in range(seed, len(self.texts), 7):
                found += self.ask(number)
        return found

    def ask(self, number: int) -> bool:
        there, gone = str(number) in self.there, set(self.gone)
        answer = self.index.query(self.texts[number])
        document = self.index.get(str(number))
        if there and str(number) not in self.leaving:
            assert answer.status == "duplicate"
            assert document is not None and document.duplicate_of not in gone
        if answer.duplicate_of is None:
            return False
        assert answer.duplicate_of in self.begun
        assert answer.duplicate_of not in gone
        return True


# -- processes ----------------------------------------------------------------------------------

SECOND_WRITER = """
import sys
from neardup import Index
from neardup.errors import IndexLocked
try:
    Index.open(sys.argv[1])
except IndexLocked as error:
    print(error)
"""

FOLLOWER = """
import sys
from neardup import Index
with Index.open(sys.argv[1], read_only=True) as index:
    print("ready", flush=True)
    for line in sys.stdin:
        answer = index.query(line.strip())
        print(answer.status, answer.duplicate_of, index.sequence, len(index), flush=True)
"""


def test_a_second_writer_is_refused(index: Index) -> None:
    ran = batch_engine.process(SECOND_WRITER, index.path)
    assert str(index.path) in ran.stdout and f"process {os.getpid()}" in ran.stdout, ran
    with pytest.raises(IndexLocked, match=str(os.getpid())):
        Index.open(index.path)
    index.add("still", TEXT)
    assert index.query(TEXT).status == "duplicate"


@contextmanager
def follower(index: Index) -> Iterator[Callable[[str], list[str]]]:
    """Ask a process that only reads."""
    with subprocess.Popen(
        batch_engine.command(FOLLOWER, index.path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=batch_engine.environment(),
    ) as process:

        def ask(text: str) -> list[str]:
            print(text, file=process.stdin, flush=True)
            return process.stdout.readline().split()

        assert process.stdout.readline() == "ready\n"
        yield ask


def test_reading_processes_follow(index: Index) -> None:
    index.add("one", TEXT)
    with follower(index) as ask, follower(index) as other:
        for turn in range(3):
            for each in (ask, other):
                assert each(TEXT) == ["duplicate", "one", str(index.sequence), str(len(index))]
                assert each(f"nothing of it is there {turn}")[0] == "new"
            index.add(f"late-{turn}", f"something else that comes {turn} later {turn * 3}")
            assert ask(f"something else that comes {turn} later {turn * 3}")[1] == f"late-{turn}"
        index.snapshot()
        index.compact()
        index.remove("one")
        for each in (ask, other):
            assert each(TEXT) == ["new", "None", str(index.sequence), str(len(index))]


def test_readers_in_the_same_process(index: Index) -> None:
    with Index.open(index.path, read_only=True) as reader:
        for number, text in enumerate(batch_engine.texts(9, 100)):
            before = reader.query(text)
            answer = index.add(str(number), text)
            assert (before.status, before.duplicate_of) == (answer.status, answer.duplicate_of)
        with pytest.raises(UsageError):
            reader.add("two", TEXT)


# -- the same answer as the batch engine ----------------------------------------------------------


def expected(texts: list[str], ids: list[str]) -> list[tuple[str, float] | None]:
    """The keep list by its definition, with ids for witnesses."""
    spec = neardup.Spec.of(shingle=batch_engine.SMALL["shingle"], slots=batch_engine.SLOTS)
    found = reference.dedup(
        texts, spec, batch_engine.BANDS, batch_engine.ROWS, batch_engine.SMALL["threshold"]
    )
    return [None if one is None else (ids[one[0]], one[1]) for one in found]


def verdicts(index: Index, ids: list[str]) -> list[tuple[str, float] | None]:
    """Each document's witness and similarity, as stored."""
    documents = [index.get(id) for id in ids]
    return [
        None if one.status == "new" else (one.duplicate_of, one.similarity) for one in documents
    ]


@st.composite
def cut_corpora(draw: st.DrawFn) -> list[list[str]]:
    """A corpus in batches, cut anywhere."""
    texts = draw(corpora(40))
    cuts = sorted(draw(st.sets(st.integers(1, max(1, len(texts) - 1)), max_size=6)))
    ends = [*cuts, len(texts)]
    return [texts[begin:end] for begin, end in zip([0, *cuts], ends, strict=True)]


@settings(max_examples=examples(20))
@given(cut_corpora(), st.integers(1, 4), st.booleans(), st.sampled_from([None, 1]))
def test_the_answer_of_the_batch_engine(
    batches: list[list[str]], limit: int, reopened: bool, memory: int | None
) -> None:
    """In the order in which documents come, cut into batches anywhere, from memory or disk."""
    texts = [text for batch in batches for text in batch]
    with tempfile.TemporaryDirectory() as folder:
        index = Index.open(Path(folder) / "index", **batch_engine.SMALL, limit=limit, memory=memory)
        answers, at = [], 0
        for batch in batches:
            answers += index.add_batch([str(at + n) for n in range(len(batch))], batch)
            at += len(batch)
            if reopened:
                index.close()
                index = Index.open(Path(folder) / "index", memory=memory)
        assert index.verify() == []
        index.close()
    result = neardup.dedup(texts, **batch_engine.SMALL, limit=limit)
    removed = {gone.id: (str(gone.witness), gone.similarity) for gone in result.removed}
    rejected = {one.id for one in result.rejected}
    for row, answer in enumerate(answers):
        status = "rejected" if row in rejected else "duplicate" if row in removed else "new"
        assert answer.status == status
        assert (answer.duplicate_of, answer.similarity) == removed.get(row, (None, None))
