"""What an index does, in a folder and on Redis alike: one suite for both stores."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import batch_engine
from support.index_corpora import asked, chained, decided, ids_of
from support.redis_index import fresh_address, fresh_ring
from support.sizes import full
from support.strategies import examples

import neardup
from neardup import Index
from neardup.errors import Conflict, ParameterError, SpecMismatch, UsageError
from neardup.index.redis_store import removal
from neardup.index.redis_store.buckets import Appended, SharedBuckets
from neardup.measure_table import CHOICES

Open = Callable[..., Index]
STORES = ("folder", "Redis", "ring")
TEXT = "one two three four five six seven eight"


@pytest.fixture(params=STORES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = {"Redis": fresh_address, "ring": fresh_ring}
    return made[request.param]() if request.param in made else tmp_path / "index"


@pytest.fixture
def index(address: Any) -> Iterator[Index]:
    with Index.open(address, **batch_engine.SMALL) as opened:
        yield opened


def test_a_document_and_its_copy(index: Index) -> None:
    first, second = index.add("a", TEXT), index.add("b", TEXT.upper() + "!")
    assert (first.status, first.cluster) == ("new", 1)
    assert (second.status, second.duplicate_of, second.similarity) == ("duplicate", "a", 1.0)
    assert (second.exact, second.cluster) == (True, 1)
    third = index.add("c", f"{TEXT} nine")
    assert (third.duplicate_of, third.similarity) == ("a", 7 / 8)
    assert len(index) == 3 and "c" in index and "d" not in index
    assert index.verify() == []


def test_empty_texts_are_rejected(index: Index) -> None:
    answers = index.add_batch(["a", "b", "c"], [" ", TEXT, "\n"])
    assert [answer.status for answer in answers] == ["rejected", "new", "rejected"]
    assert answers[0].reason == "empty"
    assert index.add_batch([], []) == [] and len(index) == 1


def test_the_same_document_again(index: Index) -> None:
    index.add("a", TEXT)
    index.add("b", f"{TEXT} nine")
    for id, text in (("a", TEXT), ("b", f"{TEXT} nine")):
        before = index.get(id)
        answer = index.add(id, text.upper())
        assert answer.again
        assert (answer.status, answer.duplicate_of) == (before.status, before.duplicate_of)
    answers = index.add_batch(["c", "c", "a"], ["x y z", "x y z", TEXT])
    assert [answer.again for answer in answers] == [False, True, True]
    assert len(index) == 3


def test_an_id_has_one_text(index: Index) -> None:
    index.add("a", TEXT)
    with pytest.raises(Conflict):
        index.add("a", "other words")
    answers = index.add_batch(["a", "b", "b"], ["other words", "some words", "more words"])
    assert [answer.status for answer in answers] == ["rejected", "new", "rejected"]
    assert index.query("other words").status == "new"
    assert len(index) == 2


def test_a_document_is_replaced(index: Index) -> None:
    index.add("a", TEXT)
    index.add("b", f"{TEXT} nine")
    answer = index.add("a", "other words altogether", replace=True)
    assert answer.status == "new"
    assert index.get("b").status == "new", "its witness is gone"
    assert index.query(TEXT).duplicate_of == "b"
    assert index.query("other words altogether").duplicate_of == "a"
    assert index.add("a", "other words altogether", replace=True).again
    answers = index.add_batch(["b", "b"], ["w x y z", "z y x w"], replace=True)
    assert [answer.status for answer in answers] == ["rejected", "new"]
    assert index.query("z y x w").duplicate_of == "b" and index.query(TEXT).status == "new"
    assert len(index) == 2 and index.verify() == []


def test_a_removed_document_is_gone(index: Index) -> None:
    index.add("a", TEXT)
    assert index.remove("a") and not index.remove("a") and not index.remove("b")
    assert len(index) == 0 and index.get("a") is None and index.query(TEXT).status == "new"
    assert index.add("a", TEXT).status == "new"
    assert index.verify() == []


def test_copies_of_a_removed_document_have_other_witnesses(index: Index) -> None:
    near = [f"{TEXT} {' '.join(f'x{n}' for n in range(more))}" for more in range(6)]
    ids = ids_of(near)
    index.add_batch(ids, near)
    assert {index.get(id).duplicate_of for id in ids[1:]} == {"0"}
    for gone in range(len(ids) - 1):
        assert index.remove(ids[gone])
        assert index.get(ids[gone + 1]).status == "new"
        for id in ids[gone + 2 :]:
            assert index.get(id).duplicate_of == ids[gone + 1]
        assert index.verify() == []
        # What became kept is compared with what comes later.
        assert index.query(near[gone + 1]).duplicate_of == ids[gone + 1]


def test_copies_of_a_large_cluster_are_judged_again_in_slices(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """All of them in a bucket at once would take memory by the square of their number."""
    monkeypatch.setattr(removal, "JUDGED_TOGETHER", 3)
    longest: list[int] = []
    append = SharedBuckets.append

    def appending(self: SharedBuckets, *arguments: Any, **named: Any) -> Appended:
        found = append(self, *arguments, **named)
        longest.append(max(map(len, found.members.values()), default=0))
        return found

    texts = [f"{TEXT} {' '.join(f'x{n}' for n in range(more % 6))} {more}" for more in range(20)]
    ids = ids_of(texts)
    with (
        Index.open(tmp_path / "folder", **batch_engine.SMALL) as one,
        Index.open(fresh_address(), **batch_engine.SMALL) as other,
    ):
        for index in (one, other):
            index.add_batch(ids, texts)
        for enrolment in other._opened.generation.writer._enrolments:
            enrolment.tidy()
        monkeypatch.setattr(SharedBuckets, "append", appending)
        for gone in range(4):
            assert [index.remove(ids[gone]) for index in (one, other)] == [True, True]
            assert decided(one, ids) == decided(other, ids)
        assert 1 < max(longest) < 8
        assert other.verify() == []


def test_a_copy_that_became_kept_stays_so_when_its_writer_tidies_up(address: Any) -> None:
    with Index.open(address, **batch_engine.SMALL) as index:
        index.add("a", TEXT)
        index.add("b", f"{TEXT} nine")
        index.remove("a")
    with Index.open(address) as index:
        assert index.verify() == []
        assert index.add("c", f"{TEXT} nine ten").duplicate_of == "b"


def test_a_document_has_what_was_given(address: Any) -> None:
    with Index.open(address, **batch_engine.SMALL, keep_texts=True, clock=lambda: 7.5) as index:
        index.add("ä/1", TEXT, metadata={"lang": "de", "n": [1]})
        index.add("b", TEXT)
        document = index.get("ä/1", text=True)
        assert (document.text, document.metadata, document.added) == (
            TEXT,
            {"lang": "de", "n": [1]},
            7.5,
        )
        assert index.text("b") == TEXT and index.text("c") is None
        assert index.get("b").metadata is None
    with Index.open(address, read_only=True) as index:
        assert index.get("ä/1", text=True) == document
        with pytest.raises(UsageError, match="read-only"):
            index.add("c", TEXT)


def test_clusters(address: Any) -> None:
    with Index.open(address, **batch_engine.SMALL, keep_texts=True) as index:
        near = [f"{TEXT} {' '.join(f'x{n}' for n in range(more))}" for more in range(4)]
        index.add_batch(ids_of(near), near)
        index.add_batch(["p", "q", "r"], ["a b c d e", "a b c d e", "j k l m n"])
        listed = index.clusters().clusters
        assert [(one.number, one.id, one.size) for one in listed] == [(1, "0", 4), (5, "p", 2)]
        page = index.clusters(1)
        assert [one.id for one in index.clusters(1, after=page.next).clusters] == ["p"]
        cluster = index.cluster(1)
        assert (cluster.size, cluster.representative.id) == (4, "0")
        assert [copy.id for copy in cluster.members] == ["1", "2", "3"]
        assert [copy.id for copy in index.cluster(1, most=1, after=2).members] == ["2"]
        assert index.cluster(1, most=1).size == 4
        assert index.cluster(2) is None and index.cluster(99) is None
        assert index.cluster(1, text=True).members[0].text == near[1]
        index.remove("2")
        assert [copy.id for copy in index.cluster(1).members] == ["1", "3"]


def test_similar_documents_and_explanations(index: Index) -> None:
    index.add("a", TEXT)
    index.add("b", f"{TEXT} nine")
    index.add("c", "one two three four x y z u v w")
    found = index.similar(f"{TEXT} nine")
    assert [(one.id, one.similarity) for one in found] == [("a", 7 / 8)]
    assert "a" in str(index.explain(f"{TEXT} nine ten"))
    assert index.explain_document("b").witness is not None
    assert index.explain_document("nobody") is None
    assert index.explain_pair("b", "a").verdict == "copy"
    assert index.explain_pair("a", "nobody") is None


def test_probes_look_up_more_buckets(address: Any) -> None:
    texts = batch_engine.texts(3, 80, words=6)
    with Index.open(address, **batch_engine.SMALL | {"bands": 3, "rows": 4}) as index:
        index.add_batch(ids_of(texts), texts)
        plain = [one.status for one in index.query_batch(texts[::2])]
        probed = [one.status for one in index.query_batch(texts[::2], probes=8)]
    found = [status == "duplicate" for status in plain]
    more = [status == "duplicate" for status in probed]
    assert all(b for a, b in zip(found, more, strict=True) if a)


def test_groups(address: Any) -> None:
    with Index.open(address, **batch_engine.SMALL, within="lang") as index:
        index.add("a", TEXT, within="en")
        assert index.add("b", TEXT, within="de").status == "new"
        assert index.add("c", TEXT).status == "new"
        assert index.add("d", TEXT, within="de").duplicate_of == "b"
        assert index.query(TEXT, within="en").duplicate_of == "a"
        index.remove("b")
        assert index.get("d").status == "new"
        assert index.add("e", TEXT, within="de").duplicate_of == "d"
        assert index.verify() == []


def test_numbers_keep_documents_apart(address: Any) -> None:
    with Index.open(address, **batch_engine.SMALL, distinguish="numbers") as index:
        words = "alpha beta gamma delta epsilon zeta"
        index.add("a", f"{words} 1")
        assert index.add("b", f"{words} 2").status == "new"
        assert index.add("c", f"{words} eta 2").duplicate_of == "b"
        index.remove("b")
        assert index.get("c").status == "new" and index.verify() == []


def test_sketches_are_added(index: Index) -> None:
    from neardup.corpus.documents import Documents, make_strings

    def sketch(*texts: str) -> Any:
        return index.sketcher(Documents(make_strings(list(texts)), [], None, None, {}))

    index.add_sketches(["a", "b"], sketch(TEXT, f"{TEXT} nine"))
    assert index.get("b").duplicate_of == "a"
    assert index.query_sketches(sketch(TEXT))[0].duplicate_of == "a"


def test_another_operating_point_is_refused(address: Any) -> None:
    Index.open(address, **batch_engine.SMALL).close()
    with pytest.raises(SpecMismatch):
        Index.open(address, neardup.Spec.of(shingle="word:3", slots=12))
    with pytest.raises((UsageError, SpecMismatch, ParameterError)):
        Index.open(address, threshold=0.9)
    with pytest.raises((UsageError, SpecMismatch, ParameterError)):
        Index.open(address, keep_texts=True)
    with Index.open(address, **batch_engine.SMALL) as index:
        assert index.options.threshold == 0.5


def test_a_closed_index_answers_nothing(index: Index) -> None:
    index.close()
    with pytest.raises(UsageError, match="closed"):
        index.query(TEXT)
    with pytest.raises(UsageError, match="closed"):
        index.add("a", TEXT)


def test_statistics(index: Index) -> None:
    index.add_batch(["a", "b", "c"], [TEXT, TEXT, "other words altogether"])
    index.remove("a")
    stats = index.stats()
    assert (stats.documents, stats.kept) == (2, 2)


POINTS: dict[str, dict[str, Any]] = {
    "the usual": {},
    "limit 1": {"limit": 1},
    "limit 2": {"limit": 2, "threshold": 0.3},
    "estimate": {"verify": "estimate"},
    "none": {"verify": "none", "limit": 2},
    "narrow slots": {"bits": 8},
    "two tables": {"tables": "2x3,3x2", "bands": None, "rows": None},
    "weighted": {"sketch": "weighted"},
    "simhash": {
        "sketch": "simhash",
        **dict.fromkeys(("threshold", "bands", "rows")),
        "slots": 64,
        "hamming": 6,
    },
    **{measure: {"measure": measure} for measure in CHOICES[1:]},
}


OFTEN = ("the usual", "limit 2", "narrow slots", "simhash")
"""The operating points of every run of the tests."""


@pytest.mark.sized
@pytest.mark.parametrize("name", [*OFTEN, *map(full, sorted(POINTS.keys() - {*OFTEN}))])
def test_both_stores_say_the_same(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The same documents in the same batches, then removals: the same at every step.

    After a removal, a text that is equal to a copy may get another witness than that copy: copies
    leave their buckets on Redis. So nothing is asked or added then.
    """
    point = {n: v for n, v in (batch_engine.SMALL | POINTS[name]).items() if v is not None}

    @settings(max_examples=examples(1))
    @given(st.integers(0, 2**32))
    def check(seed: int) -> None:
        chance = random.Random(seed)
        texts = chained(chance, 25) + batch_engine.texts(seed, 25, words=5)
        texts = [text for text in texts if text.strip(" !?")]
        ids = ids_of(texts)
        folder = tmp_path_factory.mktemp("both") / "index"
        with Index.open(folder, **point) as one, Index.open(fresh_address(), **point) as other:
            at = 0
            while at < len(texts):
                end = at + chance.choice([1, 3, 10])
                same = [index.add_batch(ids[at:end], texts[at:end]) for index in (one, other)]
                assert same[0] == same[1]
                at = end
            assert decided(one, ids) == decided(other, ids)
            assert asked(one, texts) == asked(other, texts)
            assert one.clusters() == other.clusters()
            for turn in range(4):
                for gone in chance.sample(ids[turn::4], 3):
                    assert one.remove(gone) and other.remove(gone)
                assert decided(one, ids) == decided(other, ids)
            assert (len(one), one.verify()) == (len(other), other.verify())
            assert one.clusters() == other.clusters()

    check()
