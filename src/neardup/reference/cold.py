"""Look-ups in postings on disk, slowly: lists instead of pages."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from neardup.reference.filters import bloom_places

Posting = tuple[int, int]


def first_page(
    key: int, bits: Collection[int], blocks: int, probes: int, lasts: Sequence[int]
) -> int | None:
    """The first page that reaches the key, unless the filter says that it is not there."""
    if not all(place in bits for place in bloom_places(key, 0, blocks, probes)):
        return None
    return next((page for page, last in enumerate(lasts) if last >= key), None)


def taken(
    page: Sequence[Posting], key: int, room: int, dead: Collection[int]
) -> tuple[list[int], bool]:
    """The first living numbers of a key on a page, and whether the next one may have more."""
    alive = [number for held, number in page if held == key and number not in dead]
    goes_on = len(alive) < room and (not page or page[-1][0] <= key)
    return alive[:room], goes_on
