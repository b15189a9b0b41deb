"""The clusters of an index, largest first, page by page.

Copies are counted in the table of copies by their witness: if that is in memory, in an array with a
number for each document; if it is on disk too, in its order, so that memory is that of one page and
of what is in memory anyway. A page begins after a mark,

    UNTIL-SIZE-NUMBER   the largest number of a copy when the first page was made; size and number
                        of the last cluster of the page before

and copies with larger numbers than UNTIL don't count. Documents get larger numbers as they are
added, so additions between two pages change neither the order nor the sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from neardup.errors import ParameterError
from neardup.index.answer import ClusterPage, ListedCluster
from neardup.index.lookup import LookupTables
from neardup.index.postings import LAST_NUMBER, Integers
from neardup.index.segment import PostingList
from neardup.index.view import View
from neardup.spec import check_whole

MOST_LISTED: Final = 10_000
"""The most clusters of a page."""
MARK: Final = "[0-9]{1,10}-[0-9]{1,10}-[0-9]{1,10}"


class PageMark(NamedTuple):
    """The place at which a page begins."""

    until: int = LAST_NUMBER
    size: int = LAST_NUMBER + 1
    number: int = 0

    @classmethod
    def parse(cls, text: str) -> PageMark:
        """Read the `next` of a page."""
        if not re.fullmatch(MARK, text):
            raise ParameterError("after takes the mark of a next page, as the page before has it")
        return cls(*map(int, text.split("-")))

    def __str__(self) -> str:
        return "-".join(map(str, self))


class _Counted(NamedTuple):
    """Clusters by number with their sizes, and the largest number of their copies."""

    numbers: Integers
    sizes: Integers
    until: int


def list_clusters(view: View, most: int, after: str | None) -> ClusterPage:
    """Return a page of the clusters with copies, largest first, then by number.

    Args:
        view: The documents and tables to list.
        most: The most clusters of the page.
        after: The `next` of the page before; None for the first page.
    """
    check_whole("most", most, 1, MOST_LISTED)
    mark = PageMark() if after is None else PageMark.parse(after)
    listed: list[ListedCluster] = []
    counting = most + 1  # one more tells whether another page follows
    while True:
        counted = _count_largest(view, mark, counting)
        mark = mark._replace(until=min(mark.until, counted.until))
        rows = view.store.rows(counted.numbers.tolist())
        for number, size in zip(counted.numbers.tolist(), counted.sizes.tolist(), strict=True):
            row = rows.get(number)
            # Copies stay entered under a witness that was removed, until they are removed too.
            if row is not None and row.witness is None:
                listed.append(ListedCluster(number, size, row.id))
            mark = mark._replace(size=size, number=number)
        if len(listed) > most or len(counted.numbers) < counting:
            break
        counting *= 2
    if len(listed) <= most:
        return ClusterPage(tuple(listed), None)
    last = listed[most - 1]
    return ClusterPage(tuple(listed[:most]), str(mark._replace(size=last.size, number=last.number)))


def _count_largest(view: View, mark: PageMark, most: int) -> _Counted:
    """Return the largest clusters after a mark, at most `most`, in order."""
    numbers, sizes = np.empty(0, np.int64), np.empty(0, np.int64)
    until = 0
    for counted in _count_copies(view.tables, mark.until):
        until = max(until, counted.until)
        follows = (counted.sizes < mark.size) | (
            (counted.sizes == mark.size) & (counted.numbers > mark.number)
        )
        numbers = np.concatenate([numbers, counted.numbers[follows]])
        sizes = np.concatenate([sizes, counted.sizes[follows]])
        if len(sizes) > most:  # sorting all of them would take most of the time
            least = np.partition(sizes, len(sizes) - most)[len(sizes) - most]
            numbers, sizes = numbers[sizes >= least], sizes[sizes >= least]
        best = np.lexsort((numbers, -sizes))[:most]
        numbers, sizes = numbers[best], sizes[best]
    return _Counted(numbers, sizes, until)


def _count_copies(tables: LookupTables, until: int) -> Iterator[_Counted]:
    """Count the copies of each witness, up to a number: of tables in memory, all at once."""
    (witnesses, members), in_order = tables.copies()
    if in_order is not None:
        yield from _whole_clusters(in_order, until)
        return
    counted = members <= until
    counts = np.bincount(witnesses[counted].astype(np.int64))
    numbers = np.flatnonzero(counts)
    yield _Counted(numbers, counts[numbers] + 1, int(members[counted].max(initial=0)))


def _whole_clusters(pieces: Iterator[PostingList], until: int) -> Iterator[_Counted]:
    """Count the copies in sorted pieces, each of which may end inside of a cluster."""
    number = copies = largest = 0
    for keys, members in pieces:
        counted = members <= until
        witnesses, members = keys[counted].astype(np.int64), members[counted]
        if not len(witnesses):
            continue
        largest = max(largest, int(members.max()))
        starts = np.flatnonzero(np.concatenate([[True], witnesses[1:] != witnesses[:-1]]))
        numbers, counts = witnesses[starts], np.diff(starts, append=len(witnesses))
        if numbers[0] == number:
            counts[0] += copies
        elif copies:
            numbers = np.concatenate([[number], numbers])
            counts = np.concatenate([[copies], counts])
        number, copies = int(numbers[-1]), int(counts[-1])
        yield _Counted(numbers[:-1], counts[:-1] + 1, largest)
    if copies:
        yield _Counted(np.array([number]), np.array([copies + 1]), largest)
