"""The public face of an index: ids, replacing, removing, clusters, reopening."""

from __future__ import annotations

import random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.posts import spam_posts
from support.strategies import examples

import neardup
from neardup.errors import (
    Conflict,
    FormatError,
    IndexLocked,
    ParameterError,
    SpecMismatch,
    UsageError,
)
from neardup.index.store import Store
from neardup.index.view import View

TEXT = "the quick brown fox jumps over the lazy dog and runs away into the dark wood"
NEAR = TEXT + " tonight"
OTHER = "something else entirely that has no words in common with that other one here"
SMALL = {"threshold": 0.5, "shingle": "word:2", "bands": 32, "rows": 4}


@pytest.fixture
def index(tmp_path):
    with neardup.Index.open(tmp_path / "index", threshold=0.8) as index:
        yield index


def test_new_duplicate_and_rejected(index):
    assert index.add("a", TEXT).status == "new"
    answer = index.add("b", NEAR)
    assert (answer.status, answer.duplicate_of, answer.exact) == ("duplicate", "a", True)
    assert answer.similarity == neardup.similarity(TEXT, NEAR)
    assert answer.cluster == index.get("a").number
    empty = index.add("c", " \n")
    assert (empty.status, empty.reason) == ("rejected", "empty")
    assert index.get("c") is None
    assert len(index) == 2


def test_queries_store_nothing(index):
    index.add("a", TEXT)
    before = index.sequence
    assert index.query(NEAR).duplicate_of == "a"
    assert index.query(OTHER).status == "new"
    assert index.query("").status == "rejected"
    assert [match.id for match in index.similar(NEAR)] == ["a"]
    assert (len(index), index.sequence) == (1, before)


def test_repeated_document_is_answered_and_not_added(index):
    first = index.add("a", TEXT)
    again = index.add("a", TEXT.upper())
    assert (again.status, again.again, again.cluster) == ("new", True, first.cluster)
    assert not first.again
    assert len(index) == 1


def test_of_many_copies_only_the_first_is_read(index, monkeypatch):
    index.add_batch([f"copy {n}" for n in range(300)], [TEXT] * 300)
    read: list[int] = []
    rows = Store.rows
    monkeypatch.setattr(Store, "rows", lambda store, n: read.extend(n) or rows(store, n))
    assert index.query(TEXT).duplicate_of == "copy 0"
    answers = index.add_batch(["more", "and more"], [TEXT, TEXT.upper()])
    assert [answer.duplicate_of for answer in answers] == ["copy 0", "copy 0"]
    assert len(read) < 20


def test_contents_that_share_their_first_half():
    contents = np.array([[7, 1], [7, 2], [7, 3], [7, 2]], np.uint64)
    stored = {4: 2, 5: 1, 6: 1, 8: 2}  # number of a document -> second half of its content
    rows = {
        number: SimpleNamespace(number=number, content=np.array([7, half], np.uint64).tobytes())
        for number, half in stored.items()
    }
    view = SimpleNamespace(
        tables=SimpleNamespace(with_contents=lambda words: [[4, 5, 6, 7, 8]] * len(words)),
        store=SimpleNamespace(rows=lambda numbers: {n: rows[n] for n in numbers if n in rows}),
    )
    for excluded, first in ((set(), {0: 5, 1: 4, 3: 4}), ({4, 5}, {0: 6, 1: 8, 3: 8})):
        found = View.rows_by_content(view, contents, excluded)
        assert {at: row.number for at, row in found.items()} == first


def test_an_id_with_another_content(index):
    index.add("a", TEXT)
    with pytest.raises(Conflict, match="'a'"):
        index.add("a", OTHER)
    refused = index.add_batch(["a", "b"], [OTHER, OTHER])
    assert [answer.status for answer in refused] == ["rejected", "new"]
    replaced = index.add("a", OTHER, replace=True)
    assert (replaced.status, replaced.duplicate_of) == ("duplicate", "b")
    assert index.query(TEXT).status == "new"
    assert index.verify() == []


def test_an_id_twice_in_one_batch(index):
    said = index.add_batch(["a", "a", "a"], [TEXT, TEXT, OTHER])
    assert [(answer.status, answer.again) for answer in said] == [
        ("new", False),
        ("new", True),
        ("rejected", False),
    ]
    assert len(index) == 1


def test_the_last_of_a_batch_replaces_the_others(index):
    index.add("a", OTHER)
    said = index.add_batch(["a", "a", "b", "a"], [TEXT, TEXT, TEXT, NEAR + " again"], replace=True)
    assert [answer.status for answer in said] == ["rejected", "rejected", "new", "duplicate"]
    assert "replaces" in said[0].reason
    assert index.get("a").duplicate_of == "b"
    assert index.query(OTHER).status == "new"
    assert index.verify() == []


@pytest.mark.parametrize(
    "options",
    [
        {"strip": "lines:1%"},
        {"sketch": "weighted", "weights": "tf-idf"},
        {"keep": "longest"},
        {"cluster": "components"},
    ],
)
def test_options_that_need_a_whole_corpus_are_refused(tmp_path, options):
    with pytest.raises(ParameterError):
        neardup.Index.open(tmp_path / "index", **options)
    assert not (tmp_path / "index").exists()


def test_replacing_a_representative_moves_its_copies_in_one_step(index):
    index.add_batch(["a", "b", "c"], [TEXT, NEAR, NEAR + " again"])
    said = index.add("a", OTHER, replace=True)
    assert said.status == "new"
    assert index.get("b").status == "new"
    assert index.get("c").duplicate_of == "b"
    assert index.verify() == []


def test_copies_of_a_removed_representative_are_judged_again(index):
    index.add_batch(["a", "b", "c", "x"], [TEXT, NEAR, TEXT, OTHER])
    assert index.remove("a") is True
    assert index.remove("a") is False
    assert index.get("a") is None
    assert index.get("b").status == "new"
    assert index.get("c").duplicate_of == "b"
    assert index.query(TEXT).duplicate_of == "b"
    assert index.cluster(1) is None
    cluster = index.cluster(index.get("b").number)
    assert [member.id for member in cluster.members] == ["c"]
    assert index.verify() == []


def test_metadata_and_time(tmp_path):
    with neardup.Index.open(tmp_path / "i", clock=lambda: 12.5) as index:
        index.add("a", TEXT, metadata={"url": "http://é", "n": [1, 2.5]})
        found = index.get("a")
    assert (found.added, found.metadata) == (12.5, {"url": "http://é", "n": [1, 2.5]})


@pytest.mark.parametrize("id", ["", "x" * 1025, "a\0b", "\ud800", 7])
def test_ids_that_are_refused(index, id):
    with pytest.raises(ParameterError):
        index.add(id, TEXT)
    assert len(index) == 0


@pytest.mark.parametrize("id", ["a/b/../c", "ключ", "x" * 1024, "a b\n", "'; DROP TABLE meta"])
def test_ids_that_are_fine(index, id):
    index.add(id, TEXT)
    assert index.get(id).id == id


def test_an_index_keeps_what_it_was_made_for(tmp_path):
    with neardup.Index.open(tmp_path, threshold=0.7, slots=64, shingle="word:3") as index:
        point = index.options
        index.add("a", TEXT)
    with neardup.Index.open(tmp_path) as again:
        assert again.options == point
        assert again.query(TEXT).duplicate_of == "a"
    with neardup.Index.open(tmp_path, threshold=0.7, slots=64, shingle="word:3"):
        pass
    with pytest.raises(ParameterError, match=r"threshold.*retune"):
        neardup.Index.open(tmp_path, threshold=0.9)
    with pytest.raises(neardup.SpecMismatch, match="size"):
        neardup.Index.open(tmp_path, neardup.Spec.of(shingle="word:5", slots=64))
    with pytest.raises(TypeError, match="nonsense"):
        neardup.Index.open(tmp_path, nonsense=1)


def test_a_second_writer_is_refused_and_readers_are_not(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        with pytest.raises(IndexLocked, match="read_only"):
            neardup.Index.open(tmp_path)
        with neardup.Index.open(tmp_path, read_only=True) as reader:
            assert reader.query(TEXT).status == "new"
            index.add_batch(["a", "b"], [TEXT, NEAR])
            assert reader.query(TEXT).duplicate_of == "a"
            assert reader.sequence == index.sequence
            index.remove("a")
            assert reader.query(TEXT).duplicate_of == "b"
            assert reader.get("a") is None
            with pytest.raises(UsageError, match="read-only"):
                reader.add("c", TEXT)


def test_a_reader_follows_through_compaction(tmp_path):
    with neardup.Index.open(tmp_path) as index:
        index.add("a", TEXT)
        with neardup.Index.open(tmp_path, read_only=True) as reader:
            index.add("b", OTHER)
            index.remove("a")
            index.compact()
            assert index.stats().buried == 0
            assert reader.query(OTHER).duplicate_of == "b"
            assert reader.query(TEXT).status == "new"


def test_folders_that_are_no_index(tmp_path):
    with pytest.raises(UsageError, match="holds no index"):
        neardup.Index.open(tmp_path / "nowhere", read_only=True)
    (tmp_path / "letter.txt").write_text("dear all")
    with pytest.raises(UsageError, match="not empty"):
        neardup.Index.open(tmp_path)
    (tmp_path / "index.json").write_text('{"version": 1, "current": "../../etc"}')
    with pytest.raises(FormatError):
        neardup.Index.open(tmp_path)


def test_closed(index):
    index.close()
    index.close()
    with pytest.raises(UsageError, match="closed"):
        index.query(TEXT)
    with pytest.raises(UsageError, match="closed"):
        index.add("a", TEXT)


WORDS = [f"w{number}" for number in range(12)]


@given(st.randoms(use_true_random=False), st.booleans())
@settings(max_examples=examples(12))
def test_whatever_is_removed_every_copy_has_a_living_witness(tmp_path_factory, chance, reopen):
    path = tmp_path_factory.mktemp("index")
    texts: dict[str, str] = {}
    index = neardup.Index.open(path, **SMALL)
    for step in range(25):
        if texts and chance.random() < 0.3:
            gone = chance.choice(sorted(texts))
            del texts[gone]
            assert index.remove(gone)
        else:
            base = texts[chance.choice(sorted(texts))] if texts else " ".join(WORDS * 2)
            text = _changed(base, chance)
            name = str(step) if chance.random() < 0.8 or not texts else chance.choice(sorted(texts))
            index.add(name, text, replace=True)
            texts[name] = text
        if reopen and chance.random() < 0.1:
            index.close()
            index = neardup.Index.open(path)
    _check(index, texts)
    index.compact()
    _check(index, texts)
    index.close()


def _changed(text: str, chance: random.Random) -> str:
    words = text.split()
    for _ in range(chance.choice([0, 1, 2, 4, 20])):
        words[chance.randrange(len(words))] = chance.choice(WORDS)
    return " ".join(words)


def _check(index: neardup.Index, texts: dict[str, str]) -> None:
    assert index.verify() == []
    assert len(index) == len(texts) == index.stats().documents
    stored = {id: index.get(id) for id in texts}
    kept = {id for id, found in stored.items() if found.status == "new"}
    assert index.stats().kept == len(kept)
    for id, found in stored.items():
        if id not in kept:
            assert found.duplicate_of in kept
            alike = neardup.similarity(texts[id], texts[found.duplicate_of], shingle="word:2")
            assert found.similarity == alike >= 0.5
    stars = [index.cluster(stored[id].number) for id in kept]
    listed = [one.id for star in stars for one in (star.representative, *star.members)]
    assert sorted(listed) == sorted(texts)


def test_index_with_preset_short_finds_a_spam_post_with_changed_words(tmp_path):
    first, _, _, again = spam_posts(4)
    with neardup.Index.open(tmp_path / "plain") as plain:
        plain.add("first", first)
        assert plain.add("again", again).status == "new"
    with neardup.Index.open(tmp_path / "short", preset="short") as short:
        short.add("first", first)
        assert short.add("again", again).duplicate_of == "first"


def test_reopening_with_the_same_options_is_possible_and_others_are_refused_by_value(tmp_path):
    path = tmp_path / "index"
    neardup.Index.open(path, preset="short", slots=256).close()
    for same in ({}, {"preset": "short"}, {"shingle": "char:5"}, {"threshold": 0.5, "slots": 256}):
        neardup.Index.open(path, **same).close()
    for other, message in (
        ({"threshold": 0.8}, r"has threshold 0\.5, not 0\.8: leave it out"),
        ({"limit": 7}, "has limit 256, not 7"),
        ({"preset": "fineweb"}, "size 5|unit 'char' against 'word'"),
        ({"shingle": "word:5"}, "unit 'char' against 'word'"),
        ({"slots": 128}, "slots 256 against 128"),
    ):
        with pytest.raises((ParameterError, SpecMismatch), match=message):
            neardup.Index.open(path, **other)


def test_index_shows_itself_and_knows_its_ids(tmp_path):
    path = tmp_path / "index"
    with neardup.Index.open(path, **SMALL) as index:
        index.add("a", TEXT)
        index.add("b", NEAR)
        assert repr(index) == f"Index('{path}', 2 documents, threshold 0.5 of word:2 shingles)"
        assert "a" in index and "c" not in index and 1 not in index
        assert len(index) == 2
        index.remove("a")
        assert "a" not in index
        with neardup.Index.open(path, read_only=True) as reader:
            assert repr(reader).endswith("1 document, threshold 0.5 of word:2 shingles, read-only)")
    assert repr(index) == f"Index('{path}', closed)"
    with neardup.Index.open(tmp_path / "bits", sketch="simhash", hamming=5) as index:
        assert "0 documents, Hamming distance <= 5 of word:5 shingles" in repr(index)
