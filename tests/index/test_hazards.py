"""A request, thread or file that fails is reported, and does not fail others."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import contextmanager

import numpy as np
import pytest
from support.sizes import full

import neardup
from neardup.errors import FormatError, OutputError, ParameterError, SpecMismatch, UsageError
from neardup.index import snapshot
from neardup.index.cold import Segments
from neardup.index.lookup import LookupTables, ReadWriteLock
from neardup.index.planner import CallRequest
from neardup.index.postings import LAST_NUMBER
from neardup.index.store import Row
from neardup.options import Options

TEXT = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
NEAR = TEXT + " tonight"
OTHER = "something else entirely that has no words in common with that other one here"
WORDS = [f"word{number}" for number in range(200)]


def distinct(count: int) -> list[str]:
    chance = np.random.default_rng(7)
    return [" ".join(chance.choice(WORDS, 30)) for _ in range(count)]


@contextmanager
def standing(index):
    """The thread that writes waits meanwhile, so that what is put there is done together."""
    begun, go_on = threading.Event(), threading.Event()

    def wait():
        begun.set()
        go_on.wait()

    index._opened.generation.writer.put(CallRequest(wait))
    begun.wait()
    try:
        yield
    finally:
        go_on.set()


@contextmanager
def altered(path):
    """The file of documents, for who tampers with it."""
    file = sqlite3.connect(path, isolation_level=None)
    yield file
    file.close()


# Requests that are committed together


def test_cancelled_request_does_not_fail_others(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        with standing(index):
            futures = [index.submit([str(at)], [text]) for at, text in enumerate(distinct(3))]
            assert futures[1].cancel()
        assert [futures[at].result(10)[0].status for at in (0, 2)] == ["new", "new"]
        assert index.get("1") is None and len(index) == 2


def test_a_request_that_fails_fails_alone(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add("a", TEXT)
        with altered(index._opened.generation.store.path) as file:
            file.execute("UPDATE shingles SET data = zeroblob(80)")
        with standing(index):
            good, bad = index.submit(["b"], [OTHER]), index.submit(["c"], [NEAR])
        assert good.result(10)[0].status == "new"
        with pytest.raises(FormatError, match="damaged"):
            bad.result(10)
        assert index.get("c") is None


def test_repeated_document_is_answered_with_its_new_witness(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add_batch(["a", "c"], [TEXT, NEAR])
        replaced, again = index.add_batch(["a", "c"], [OTHER, NEAR], replace=True)
        assert (replaced.status, again.status, again.again) == ("new", "new", True)
        assert again.cluster == index.get("c").number == index.get("c").cluster


def test_repeated_document_that_a_later_one_replaces_is_rejected(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add("a", TEXT)
        first, second = index.add_batch(["a", "a"], [TEXT, OTHER], replace=True)
        assert (first.status, first.cluster, second.status) == ("rejected", None, "new")
        assert "replaces" in first.reason


def test_calls_are_accepted_while_the_queue_of_documents_is_full(tmp_path):
    with neardup.Index.open(tmp_path, most_waiting=2) as index:
        with standing(index):
            waits = index.submit(list("abcde"), distinct(5))
            work = index._opened.generation.writer.put(CallRequest(lambda: 7))
        assert work.done.result(10) == 7
        assert len(waits.result()) == 5


def test_a_full_disk_after_the_commit(tmp_path):
    texts = distinct(400)
    with neardup.Index.open(tmp_path, memory=150_000, threshold=0.9) as index:
        (cold,) = (tmp_path / "g1").glob("cold-*")
        cold.rmdir()
        cold.write_bytes(b"")  # nothing can be written into a folder that is a file
        said = index.add_batch([str(at) for at in range(400)], texts)
        assert index.stats().index_memory_bytes > 150_000
        assert len(index) == len(said) == index.stats().documents
        assert index.query(texts[7]).duplicate_of == "7"


def test_no_more_documents_than_tables_can_hold(tmp_path):
    with neardup.Index.open(tmp_path) as index, index._opened.generation.store.transaction():
        index._opened.generation.store.reach(LAST_NUMBER - 1)
    with neardup.Index.open(tmp_path) as index:
        with pytest.raises(OutputError, match="another"):
            index.add_batch(["a", "b"], [TEXT, OTHER])
        assert index.get("a") is None and len(index) == 0


# What is given


def test_token_ids_are_kept_and_indexed_anew(tmp_path):
    tokens = [list(range(40)), [*range(1, 40), 7], list(range(100, 140))]
    with neardup.Index.open(tmp_path, shingle="token:3", threshold=0.8, keep_texts=True) as index:
        before = index.add_batch(["a", "b", "c"], tokens)
        index.reindex(shingle="token:2")
        assert index.spec.size == 2
        assert [index.get(id).status for id in "abc"] == [answer.status for answer in before]


def test_sketches_of_another_shape(tmp_path):
    with (
        neardup.Index.open(tmp_path / "a", slots=64) as index,
        neardup.Index.open(tmp_path / "b", slots=128) as other,
    ):
        sketch = other.sketcher(other._opened.generation.sketcher.documents([TEXT]))
        with pytest.raises(SpecMismatch):
            index.add_sketches(["a"], sketch)
        with pytest.raises(SpecMismatch):
            index.query_sketches(sketch)
        assert index.add("b", TEXT).status == "new"


def test_sketches_of_nothing(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        sketch = index.sketcher(index._opened.generation.sketcher.documents([TEXT, "", NEAR]))
        data = sketch.shingles.data.copy()
        said = index.add_sketches(["a", "b", "c"], sketch)
        assert [answer.status for answer in said] == ["new", "rejected", "duplicate"]
        assert [one.status for one in index.query_sketches(sketch)] == [
            "duplicate",
            "rejected",
            "duplicate",
        ]
        assert np.array_equal(sketch.shingles.data, data)


@pytest.mark.parametrize("metadata", [{"a": "x" * (1 << 20)}, {"a": {1, 2}}, {"a": float("nan")}])
def test_metadata_that_is_refused(tmp_path, metadata):
    with neardup.Index.open(tmp_path) as index, pytest.raises(ParameterError, match="metadata"):
        index.add("a", TEXT, metadata=metadata)


def test_cluster_of_an_impossible_number_is_none(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        assert [index.cluster(number) for number in (-1, 0, 2**40, 2**70)] == [None] * 4


# At the same time


@pytest.mark.parametrize("turns", [20, full(60)])
def test_queries_while_witnesses_are_removed(tmp_path, turns):
    """A document that is there all the time is always found, and so is its cluster."""
    with (
        neardup.Index.open(tmp_path, threshold=0.8) as index,
        neardup.Index.open(tmp_path, read_only=True) as reader,
    ):
        index.add_batch(["a", "b"], [TEXT, NEAR])
        stop, wrong = threading.Event(), []

        def look(asked):
            try:
                while not stop.is_set():
                    found = asked.get("b")
                    assert found.duplicate_of in (None, "a")
                    assert asked.query(NEAR).duplicate_of in ("a", "b")
                    asked.cluster(found.cluster)
            except BaseException as error:
                wrong.append(error)

        threads = [threading.Thread(target=look, args=(one,)) for one in (index, index, reader)]
        for thread in threads:
            thread.start()
        for turn in range(turns):
            index.remove("a")
            index.add("a", TEXT)
            index.add("b", NEAR + " again" * (turn % 2), replace=True)
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []


def test_connections_of_ended_threads_are_closed(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        index.add("a", TEXT)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            threads = [threading.Thread(target=index.query, args=(TEXT,)) for _ in range(5)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert len(os.listdir("/proc/self/fd")) <= before + 10


@pytest.mark.parametrize("read_only", [False, True])
def test_queries_during_close_end_with_an_error(tmp_path, read_only):
    neardup.Index.open(tmp_path).close()
    index = neardup.Index.open(tmp_path, read_only=read_only)
    answered, ended = threading.Event(), []

    def ask():
        try:
            while True:
                index.query_batch([TEXT, OTHER])
                index.get("a")
                answered.set()
        except UsageError as error:
            ended.append("closed" in str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    answered.wait()
    index.close()
    for thread in threads:
        thread.join()
    assert ended == [True] * 4
    with pytest.raises(UsageError, match="closed"):
        len(index) if read_only else index.stats()


def rows(numbers):
    return [Row(number, str(number), bytes(16), None, None, 1, 0.0, None) for number in numbers]


class Interrupting(ReadWriteLock):
    """Somebody else is faster, the second time that somebody wants to read."""

    def __init__(self, act):
        super().__init__()
        self.act, self.times = act, 0

    def reading(self):
        self.times += 1
        if self.times == 2:
            self.act()
        return super().reading()


def test_a_snapshot_is_right_when_tables_are_compacted_meanwhile(tmp_path):
    options = Options()
    tables = LookupTables(options.hash_tables.count)
    keys = np.arange(3 * options.hash_tables.count, dtype=np.uint64).reshape(3, -1)
    tables.enter(rows([1, 2, 3]), keys, 3)
    tables.mark_deleted([2], 4)
    tables.guard = Interrupting(tables.compact)
    snapshot.write_snapshot(tmp_path / "s", tables, options)
    read = snapshot.read_snapshot(tmp_path / "s", options, snapshot.SpillFolders(tmp_path))
    assert read.leaders(keys, 5)[2].tolist() == [1, 3] * options.hash_tables.count


def test_concurrent_merges_leave_out_the_dead_of_both(tmp_path):
    """What one leaves out as dead does not come back through the other."""
    segments = Segments(tmp_path)
    keys = np.arange(9_000, dtype=np.uint64)
    segments.add([(keys[200:], keys[200:].astype(np.uint32))])
    for _ in range(9):
        segments.add([(keys[:200], keys[:200].astype(np.uint32))])
    dead = np.zeros(9_000, np.uint8)
    inside, go_on = threading.Event(), threading.Event()

    class Slow(np.ndarray):
        """Of who merges first: nothing is dead yet, and it takes long."""

        def __getitem__(self, at):
            inside.set()
            go_on.wait(1)
            return super().__getitem__(at)

    first = threading.Thread(target=segments.merge, args=(dead.copy().view(Slow),))
    first.start()
    inside.wait()
    dead[:100] = 1
    second = threading.Thread(target=segments.merge, args=(dead,), kwargs={"everything": True})
    second.start()
    second.join(0.2)
    go_on.set()
    first.join()
    second.join()
    found = segments.find(keys[:, None], np.zeros(9_000, np.uint8), 9)
    assert found[2].tolist() == list(range(100, 9_000))
    assert len(list(tmp_path.glob("cold-*"))) == 1


# Files that don't belong together


def test_snapshot_newer_than_the_store_is_discarded(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        index.add("a", TEXT)
    store = tmp_path / "g1" / "index.sqlite"
    shutil.copy(store, tmp_path / "g1" / "backup")
    with neardup.Index.open(tmp_path) as index:
        index.add("b", OTHER)
        index.remove("b")
        index.snapshot()
    (tmp_path / "g1" / "backup").replace(store)
    with neardup.Index.open(tmp_path) as index:
        assert index.add("c", NEAR).duplicate_of == "a"
        assert index.get("c").duplicate_of == "a"
        assert index.verify() == []


def test_a_snapshot_of_more_documents_than_it_counts(tmp_path):
    said = []
    with neardup.Index.open(tmp_path) as index:
        index.add("a", TEXT)
        tables = index._opened.generation.view.tables
        tables.dead = tables.dead[:1].copy()
        index.snapshot()
        tables.reach(10)
    with neardup.Index.open(tmp_path, say=said.append) as index:
        assert index.query(TEXT).duplicate_of == "a"
        assert "built again" in said[0]


def test_an_index_whose_making_was_cut_off(tmp_path):
    for left in ("lock", "g1/index.sqlite"):
        neardup.Index.open(tmp_path / "i").close()
        (tmp_path / "i" / "index.json").unlink()
        if left == "lock":
            shutil.rmtree(tmp_path / "i" / "g1")
            (tmp_path / "i" / "g1").mkdir()
        with neardup.Index.open(tmp_path / "i") as index:
            index.add("a", TEXT)
        if left == "lock":
            shutil.rmtree(tmp_path / "i")
    (tmp_path / "i" / "index.json").unlink()
    with pytest.raises(UsageError, match="not empty"):
        neardup.Index.open(tmp_path / "i")


# What verify notices


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM signatures WHERE number=3", "no signature"),
        ("INSERT INTO shingles VALUES(9, x'00', 0)", "not stored"),
        ("UPDATE documents SET id='a' WHERE number=3", "only one"),
    ],
)
def test_verify_reads_the_file(tmp_path, change, said):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add_batch(["a", "b", "c"], [TEXT, NEAR, OTHER])
        assert index.verify() == []
        with altered(index._opened.generation.store.path) as file:
            file.execute(change)
        (problem, *_) = index.verify()
        assert said in problem


def test_verify_looks_into_the_table_of_copies(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add_batch(["a", "b"], [TEXT, NEAR])
        tables = index._opened.generation.view.tables
        tables.members = type(tables.members)()
        assert index.verify() == ["document 2 is missing in the table of copies"]


def test_verify_compares_with_the_witness(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.8) as index:
        index.add_batch(["a", "b"], [TEXT, NEAR])
        row = index._opened.generation.store.rows([2])[2]._replace(similarity=0.99)
        with index._opened.generation.store.transaction():
            index._opened.generation.store.move([row])
        assert "not as similar to 1" in index.verify()[0]


def test_verify_while_documents_are_removed(tmp_path):
    texts = distinct(300)
    with neardup.Index.open(tmp_path) as index:
        index.add_batch([str(at) for at in range(300)], texts)
        found = []
        thread = threading.Thread(target=lambda: [found.extend(index.verify()) for _ in range(8)])
        thread.start()
        for at in range(300):
            index.remove(str(at))
        thread.join()
        assert found == []
        assert index.verify() == []
