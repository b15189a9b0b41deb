"""All pairs of a corpus with exact Jaccard similarity of at least a floor: the truth to judge by.

Independent of neardup: plain Python, `re` and sets. Lower case, words by `\\w+`, 5-word shingles
as a set, a text of fewer than five words is one shingle. An all-pairs join with a prefix filter:
two sets that are similar enough share one of their few rarest shingles, so only those are
indexed. Identical sets are joined once and written out as all their pairs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations, product
from pathlib import Path

from harness import documents, shingles

Pair = tuple[int, int, float]


def similar_sets(sets: list[tuple[int, ...]], floor: float) -> Iterator[Pair]:
    """Pairs of positions; each set's elements are sorted, rarest first."""
    postings: dict[int, list[int]] = defaultdict(list)
    members = [frozenset(items) for items in sets]
    for right in sorted(range(len(sets)), key=lambda position: len(sets[position])):
        size = len(sets[right])
        # The epsilon keeps a product such as 0.7 * 10 from being rounded up past its value.
        prefix = sets[right][: size - math.ceil(floor * size - 1e-9) + 1]
        for left in {found for item in prefix for found in postings[item]}:
            common = len(members[left] & members[right])
            similarity = common / (len(members[left]) + size - common)
            if similarity >= floor:
                yield left, right, similarity
        for item in prefix:
            postings[item].append(right)


def exact_pairs(texts: Iterable[str], floor: float) -> Iterator[Pair]:
    """Every pair of positions in `texts` whose similarity is at least `floor`."""
    found = [frozenset(shingles(text)) for text in texts]
    frequency = Counter(item for items in found for item in items)
    rank = {item: place for place, item in enumerate(sorted(frequency, key=frequency.__getitem__))}
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for position, items in enumerate(found):
        groups[tuple(sorted(rank[item] for item in items))].append(position)
    for same in groups.values():
        yield from ((left, right, 1.0) for left, right in combinations(same, 2))
    copies = list(groups.values())
    for a, b, similarity in similar_sets(list(groups), floor):
        yield from ((left, right, similarity) for left, right in product(copies[a], copies[b]))


def write_pairs(corpus: Path, out: Path, floor: float = 0.5) -> None:
    """Write `id_a, id_b, jaccard5w`, as in the corpora's own exact pairs."""
    rows = list(documents(corpus))
    with out.open("w") as lines:
        lines.write("id_a\tid_b\tjaccard5w\n")
        for left, right, similarity in exact_pairs((text for _, text in rows), floor):
            lines.write(f"{rows[left][0]}\t{rows[right][0]}\t{similarity:.6f}\n")
