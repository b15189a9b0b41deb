"""Look-ups in postings on disk: the kernels equal their slow twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from neardup import kernels
from neardup.index.segment import ROOM, pack_pages
from neardup.reference import filters as slow
from neardup.reference.filters import bloom_places

keys = st.integers(0, 9) | st.integers(0, 2**64 - 1) | st.sampled_from([2**63, 2**64 - 1])
lasts = st.lists(keys, max_size=5).map(sorted)
tables = st.lists(
    st.tuples(st.lists(keys, max_size=20), st.integers(1, 3), lasts), min_size=1, max_size=3
)


def starts(sizes: list[int]) -> np.ndarray:
    return np.cumsum([0, *sizes])


@given(tables, st.integers(1, 8), st.data())
def test_pages_equal_their_twin(tables, probes, data):
    """Of each table: the keys in its filter, the filter's blocks, the last keys of its pages."""
    bits = [
        {place for key in held for place in bloom_places(key, 0, blocks, probes)}
        for held, blocks, _ in tables
    ]
    words = []
    for held, blocks, _ in tables:
        words.append(np.zeros(blocks * 8, np.uint64))
        kernels.bloom_insert(words[-1], probes, np.array(held, np.uint64), np.uint64(0), 1000)
    near = keys | st.sampled_from([key for held, _, lasts in tables for key in held + lasts] or [0])
    row = st.tuples(*[near] * len(tables))
    asked = data.draw(st.lists(row, max_size=8))
    blocks, pages = (
        starts([of(table) for table in tables])
        for of in (lambda table: table[1], lambda table: len(table[2]))
    )
    lasts = np.array([key for _, _, lasts in tables for key in lasts], np.uint64)
    cells, found = kernels.cold_pages(
        np.concatenate(words),
        blocks,
        probes,
        lasts,
        pages,
        np.array(asked, np.uint64).reshape(-1, len(tables)),
    )
    expected = [
        (table * len(asked) + row, pages[table] + page)
        for row, wanted in enumerate(asked)
        for table, (_, blocks, lasts) in enumerate(tables)
        if (page := slow.first_page(wanted[table], bits[table], blocks, probes, lasts)) is not None
    ]
    assert list(zip(cells.tolist(), found.tolist(), strict=True)) == expected


runs = st.lists(st.tuples(keys, st.integers(0, 500), st.sampled_from([1, 2, 100, 340])), max_size=6)


@given(
    st.lists(runs, min_size=1, max_size=3),
    st.sets(st.integers(0, 600), max_size=200),
    st.integers(0, 600),
    st.data(),
)
def test_postings_of_a_page_equal_their_twin(pages, dead, known, data):
    """Runs of numbers of a key; documents beyond those that are known to be dead or not live."""
    content = [
        sorted({(key, first + i) for key, first, count in runs for i in range(count)})[:ROOM]
        for runs in pages
    ]
    content = [page or [(0, 0)] for page in content]
    marks = np.array([number in dead for number in range(known)], np.uint8)
    read = np.concatenate(
        [
            pack_pages(
                np.array([key for key, _ in page], np.uint64),
                np.array([number for _, number in page], np.uint32),
                0,
            )
            for page in content
        ]
    )
    near = keys | st.sampled_from([key for page in content for key, _ in page])
    asked = data.draw(
        st.lists(st.tuples(st.integers(0, len(pages) - 1), near, st.integers(0, 400)))
    )
    which, wanted, room = zip(*asked, strict=True) if asked else ((), (), ())
    counts, numbers, goes_on = kernels.cold_take(
        read,
        read.view(np.uint32),
        np.array(which, np.int64),
        np.array(wanted, np.uint64),
        np.array(room, np.int64),
        marks,
    )
    gone = {number for number in dead if number < known}
    expected = [slow.taken(content[page], key, most, gone) for page, key, most in asked]
    parts = np.split(numbers, np.cumsum(counts)[:-1]) if asked else []
    assert [part.tolist() for part in parts] == [found for found, _ in expected]
    assert goes_on.tolist() == [more for _, more in expected]
