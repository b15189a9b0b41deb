"""Replacing a document: by one of equal content, where metadata and text change, and by another."""

from __future__ import annotations

import random
import signal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.disks import full_disk
from support.index_corpora import corpora, decided, filled, ids_of
from support.redis_index import fresh_address
from support.strategies import examples

from neardup import Index
from neardup.errors import OutputError
from neardup.index.cutover import Follower
from neardup.index.generation import Generation
from neardup.index.next_settings import respecify_settings

TEXT = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
LOUD = TEXT.upper()
NEAR = TEXT + " tonight"
OTHER = "something else entirely that has no words in common with that other one here"


@pytest.fixture
def index(tmp_path: Path) -> Index:
    opened = Index.open(tmp_path / "index", threshold=0.8, keep_texts=True)
    opened.add_batch(["a", "b"], [TEXT, NEAR], metadata=[{"n": 1}, None])
    return opened


def test_metadata_and_text_are_those_that_were_sent(index: Index) -> None:
    before = index.get("a")
    answer = index.add("a", LOUD, metadata={"n": 2}, replace=True)
    assert (answer.status, answer.again, answer.cluster) == ("new", True, before.number)
    after = index.get("a", text=True)
    assert (after.metadata, after.text) == ({"n": 2}, LOUD)
    assert (after.number, after.cluster, after.added) == (before.number, 1, before.added)
    assert index.get("b").duplicate_of == "a"
    assert index.add("a", TEXT, replace=True).again
    assert (index.get("a").metadata, index.text("a")) == (None, TEXT)
    assert index.verify() == []


def test_they_stay_without_replace_and_if_nothing_differs(index: Index) -> None:
    assert index.add("a", LOUD, metadata={"n": 2}).again
    assert (index.get("a").metadata, index.text("a")) == ({"n": 1}, TEXT)
    sequence = index.sequence
    assert index.add("a", TEXT, metadata={"n": 1}, replace=True).again
    assert index.sequence == sequence


def test_the_last_of_several_in_a_batch_counts(index: Index) -> None:
    ids, texts = ["a", "c", "a", "c"], [TEXT, OTHER, LOUD, OTHER]
    given = [{"n": number} for number in range(4)]
    answers = index.add_batch(ids, texts, metadata=given, replace=True)
    assert [one.again for one in answers] == [True, False, True, True]
    assert (index.get("a").metadata, index.text("a")) == ({"n": 2}, LOUD)
    assert index.get("c").metadata == {"n": 3}
    assert index.verify() == []


def test_a_copy_whose_witness_is_replaced_in_the_same_batch(index: Index) -> None:
    answers = index.add_batch(["a", "b"], [OTHER, NEAR], metadata=[None, {"n": 9}], replace=True)
    assert [one.status for one in answers] == ["new", "new"]
    assert index.get("b").metadata == {"n": 9}
    assert index.verify() == []


def test_a_later_document_of_the_batch_with_another_content_wins(index: Index) -> None:
    first, _ = index.add_batch(["a", "a"], [LOUD, OTHER], metadata=[{"n": 5}, None], replace=True)
    assert first.status == "rejected"
    assert (index.get("a").metadata, index.text("a")) == (None, OTHER)


def test_a_sketch_replaces_metadata_and_leaves_the_text(index: Index) -> None:
    sketch = index.sketcher(index._opened.generation.sketcher.documents([LOUD]))
    assert index.add_sketches(["a"], sketch, metadata=[{"n": 3}], replace=True)[0].again
    assert (index.get("a").metadata, index.text("a")) == ({"n": 3}, TEXT)


def test_readers_see_it_and_so_does_a_restart(index: Index) -> None:
    with Index.open(index.path, read_only=True) as reader:
        sequence = reader.stats().sequence
        index.add("a", LOUD, metadata={"n": 2}, replace=True)
        assert (reader.get("a").metadata, reader.text("a")) == ({"n": 2}, LOUD)
        assert reader.stats().sequence == sequence + 1
        assert reader.verify() == []
    index.close()
    with Index.open(index.path) as again:
        assert (again.get("a").metadata, again.text("a")) == ({"n": 2}, LOUD)
        assert again.get("b").duplicate_of == "a"
        assert again.verify() == []


KILLED = """
import os, signal, sys
from neardup import Index

index = Index.open(sys.argv[1])
index.add("a", sys.argv[2], metadata={"n": 2}, replace=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_was_acknowledged_survives_a_kill(index: Index) -> None:
    index.close()
    ran = batch_engine.process(KILLED, index.path, LOUD)
    assert ran.returncode == -signal.SIGKILL
    with Index.open(index.path) as again:
        assert (again.get("a").metadata, again.text("a")) == ({"n": 2}, LOUD)
        assert again.verify() == []


def test_it_follows_into_a_generation_that_is_made_meanwhile(index: Index) -> None:
    def corpus() -> list[tuple[str, str]]:
        index.add("a", LOUD, metadata={"n": 2}, replace=True)
        return []

    class Late:
        """Texts that are read when the new generation has been begun."""

        def __iter__(self):
            return iter(corpus())

    index.reindex(shingle="word:3", corpus=Late())
    assert (index.get("a").metadata, index.text("a")) == ({"n": 2}, LOUD)
    index.add("b", NEAR, metadata={"n": 7}, replace=True)
    index.undo_reindex()
    assert index.get("b").metadata == {"n": 7}
    assert index.verify() == []


def test_text_that_is_another_content_by_the_next_specification(tmp_path: Path) -> None:
    """Spaces between letters don't count by words, and do by characters."""
    spaced = "Fox  fox   FOX " * 20
    with Index.open(tmp_path / "index", keep_texts=True, threshold=0.8) as index:
        index.add_batch(["a", "b"], [TEXT, NEAR])
        generation = index._opened.generation
        settings = respecify_settings(index.settings, None, None, None, {"shingle": "char:9"})
        Generation.create(index.path / "g2", settings)
        with Generation.open(index.path, "g2", [None]) as target:
            follower = Follower(generation.store, target)
            follower.catch_up()
            index.add("a", f"{TEXT}!!! ???", metadata={"n": 1}, replace=True)
            index.add("b", spaced, replace=True)
            follower.catch_up()
            numbers = generation.store.numbers().tolist()
            assert target.store.numbers().tolist() == numbers
            for name in ("a", "b"):
                asked = index.text(name)
                assert target.view.text(name) == asked
                (answer,) = target.query_texts([asked])
                assert (answer.duplicate_of, answer.similarity) == (name, 1.0)
            assert target.verify() == []


def test_a_full_disk_changes_nothing(index: Index) -> None:
    log = index._opened.generation.store.path.with_name("index.sqlite-wal")
    with full_disk(log.stat().st_size), pytest.raises(OutputError):
        index.add("a", LOUD, metadata={"n": 2}, replace=True)
    assert (index.get("a").metadata, index.text("a")) == ({"n": 1}, TEXT)
    assert index.add("a", LOUD, metadata={"n": 2}, replace=True).again
    assert index.verify() == []


HALVES = {"shingle": "word:1", "threshold": 0.4, "bands": 64, "rows": 1, "slots": 64}


@pytest.mark.parametrize("on_redis", [False, True], ids=["folder", "Redis"])
def test_a_copy_that_stays_leads_before_later_documents(tmp_path: Path, *, on_redis: bool) -> None:
    first, last = (" ".join(f"{name}{at}" for at in range(10)) for name in "ab")
    with Index.open(fresh_address() if on_redis else tmp_path / "ix", **HALVES) as index:
        index.add_batch(["1", "2", "3"], [f"{first} more", first, last])
        assert [index.get(id).status for id in "123"] == ["new", "duplicate", "new"]
        answer = index.add("1", f"{first} {last}", replace=True)
        assert index.get("2").status == "new"
        assert (answer.duplicate_of, answer.similarity) == ("2", 0.5), "of 2 and 3, the first"
        assert index.verify() == []


@given(texts=corpora(12, 30), at=st.integers(0, 4), chance=st.integers(0, 2**32))
@settings(max_examples=examples(12))
def test_replacing_is_removing_and_adding(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], at: int, chance: int
) -> None:
    folder, chosen = tmp_path_factory.mktemp("replace"), random.Random(chance)
    one, other = (chosen.choice(texts).split() for _ in range(2))
    text, point = " ".join(one[:15] + other[15:]), {"shingle": "word:2", "threshold": 0.3}
    with filled(folder / "a", texts, **point) as a, filled(folder / "b", texts, **point) as b:
        a.add(str(at), text, replace=True)
        if text != texts[at]:
            b.remove(str(at))
            b.add(str(at), text)
        assert decided(a, ids_of(texts)) == decided(b, ids_of(texts))
        assert a.verify() == []
