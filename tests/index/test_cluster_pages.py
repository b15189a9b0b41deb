"""The clusters of an index, largest first: all of them, once, whatever happens meanwhile."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import examples

import neardup
from neardup.index.cluster_pages import PageMark, _whole_clusters, list_clusters

SMALL = {"shingle": "word:1", "threshold": 0.9, "slots": 16, "bands": 4, "rows": 4}
WORDS = [f"w{n}" for n in range(400)]


def text(topic: int) -> str:
    return " ".join(random.Random(topic).sample(WORDS, 12))


def add_topics(index: neardup.Index, topics: list[int], start: int = 0) -> None:
    ids = [f"{place}-{topic}" for place, topic in enumerate(topics, start)]
    index.add_batch(ids, [text(topic) for topic in topics])


def read_all(index: neardup.Index, limit: int) -> list[tuple[int, int, str]]:
    found, after = [], None
    while True:
        page = index.clusters(limit, after=after)
        assert len(page.clusters) <= limit
        found += [(each.number, each.size, each.id) for each in page.clusters]
        after = page.next
        if after is None:
            return found
        assert len(page.clusters) == limit


def by_definition(index: neardup.Index) -> list[tuple[int, int, str]]:
    """The same from the rows of the store."""
    rows = index._opened.generation.store.rows_after(0, 10**6)
    sizes = Counter(row.witness for row in rows if row.witness is not None)
    kept = {row.number: row.id for row in rows if row.witness is None}
    return sorted(
        [(number, 1 + size, kept[number]) for number, size in sizes.items()],
        key=lambda each: (-each[1], each[0]),
    )


@pytest.mark.parametrize("memory", [None, 20_000])
@settings(max_examples=examples(4), deadline=None)
@given(
    topics=st.lists(st.integers(0, 8), min_size=1, max_size=40),
    removed=st.lists(st.integers(0, 39), max_size=12),
    compacted=st.booleans(),
    more=st.lists(st.integers(0, 10), max_size=10),
    limit=st.integers(1, 5),
)
def test_pages_hold_every_cluster_once_largest_first(
    tmp_path_factory, memory, topics, removed, compacted, more, limit
):
    folder = tmp_path_factory.mktemp("index")
    with neardup.Index.open(folder, memory=memory, **SMALL) as index:
        add_topics(index, topics)
        for place in removed:
            index.remove(f"{place}-{topics[place]}" if place < len(topics) else "none")
        if compacted:
            index.compact()
        add_topics(index, more, start=100)
        assert read_all(index, limit) == by_definition(index)
    with neardup.Index.open(folder, read_only=True) as reader:
        assert read_all(reader, limit) == by_definition(reader)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.sets(st.tuples(st.integers(1, 5), st.integers(6, 30)), max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.integers(0, 31),
)
def test_a_cluster_that_is_cut_into_pieces_is_counted_as_a_whole(pairs, cuts, until):
    ordered = np.array(sorted(pairs), np.uint64).reshape(-1, 2)
    pieces = np.split(ordered, sorted(cuts))
    found = list(_whole_clusters(((p[:, 0], p[:, 1].astype(np.uint32)) for p in pieces), until))
    sizes = [(n, s) for each in found for n, s in zip(each.numbers, each.sizes, strict=True)]
    counts = Counter(witness for witness, member in pairs if member <= until)
    assert sizes == [(witness, 1 + count) for witness, count in sorted(counts.items())]


def test_additions_between_pages_change_nothing_in_the_pages_that_follow(tmp_path):
    with neardup.Index.open(tmp_path, **SMALL) as index:
        add_topics(index, [1] * 4 + [2] * 3 + [3] * 3 + [4] * 2 + [5])
        expected = by_definition(index)
        first = index.clusters(2)
        add_topics(index, [4] * 9 + [5] * 9 + [6] * 9, start=50)  # they would be the largest
        second = index.clusters(2, after=first.next)
        listed = [(each.number, each.size, each.id) for each in first.clusters + second.clusters]
        assert listed == expected and second.next is None
        assert [each.size for each in index.clusters().clusters] == [11, 10, 9, 4, 3, 3]


def test_a_cluster_that_shrinks_between_pages_is_listed_with_its_new_size(tmp_path):
    with neardup.Index.open(tmp_path, **SMALL) as index:
        add_topics(index, [1] * 4 + [2] * 3)
        first = index.clusters(1)
        assert [each.size for each in first.clusters] == [4]
        index.remove("2-1")
        index.remove("3-1")
        second = index.clusters(5, after=first.next)
        assert [(each.id, each.size) for each in second.clusters] == [("4-2", 3), ("0-1", 2)]


def test_copies_of_a_removed_document_are_not_its_cluster(tmp_path):
    with neardup.Index.open(tmp_path, **SMALL) as index:
        add_topics(index, [1] * 5)
        index.remove("0-1")
        index.compact()  # forgets that the number was removed, not what was entered under it
        assert [(each.id, each.size) for each in index.clusters().clusters] == [("1-1", 4)]
        with neardup.Index.open(tmp_path / "empty", **SMALL) as empty:
            assert empty.clusters() == neardup.index.answer.ClusterPage((), None)


def test_the_first_copies_of_a_large_cluster_are_read_and_all_are_counted(tmp_path):
    with neardup.Index.open(tmp_path, **SMALL) as index:
        add_topics(index, [1] * 30)
        some = index.cluster(1, most=3)
        assert [member.id for member in some.members] == ["1-1", "2-1", "3-1"]
        assert some.size == index.cluster(1).size == 30
        assert len(index.cluster(1).members) == 29


@pytest.mark.parametrize("after", ["", "1-2", "1-2-3-4", "a-b-c", "1-2-3\n", "١-٢-٣", "-1-2-3"])
def test_a_mark_that_no_page_has_given_is_refused(tmp_path, after):
    with pytest.raises(neardup.NeardupError, match="the page before"):
        PageMark.parse(after)


def test_the_size_of_a_page_is_bounded(tmp_path):
    with neardup.Index.open(tmp_path, **SMALL) as index:
        for limit in (0, -1, 10_001, True, 1.5):
            with pytest.raises(neardup.NeardupError, match="most"):
                index.clusters(limit)
        view = index._opened.generation.view
        assert list_clusters(view, 1, "9999999999-9999999999-9999999999").clusters == ()


def test_a_cluster_without_copies_asked_for_has_none(tmp_path):
    text = "the cat sat on the mat all day long and looked at the birds"
    with neardup.Index.open(tmp_path / "ix") as index:
        index.add("1", text)
        index.add("2", text)
        found = index.cluster(1, most=0)
    assert found is not None and found.size == 2
