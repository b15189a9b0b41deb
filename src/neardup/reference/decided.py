"""The keep list by its definition, with what people have decided about documents and pairs.

A person's word goes before the comparison (docs/decisions/049-decisions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence

Said = tuple[str, str] | tuple[str, str, str]
"""A decision in force: ("drop", a), ("same", a, b)."""
Verdict = tuple[int, float | None] | None
"""None of a kept document; else its witness and the similarity to it; (-1, None) if dropped."""


def join_same(said: Iterable[Said]) -> dict[str, str]:
    """Return for each document that is the same as another one a name for all of them."""
    classes: list[set[str]] = []
    for action, *pair in said:
        if action == "same":
            joined = [one for one in classes if one & set(pair)]
            classes = [one for one in classes if one not in joined]
            classes.append(set(pair).union(*joined))
    return {name: min(one) for one in classes for name in one}


def keep_decided(
    names: Sequence[str],
    content: Sequence[Hashable],
    buckets: Sequence[Collection[int]],
    similarity: Callable[[int, int], float],
    threshold: float,
    limit: int,
    said: Collection[Said] = (),
    earlier: int = 0,
) -> list[Verdict]:
    """Return the keep list with decisions. Documents are 0, 1, 2, ... in rank order.

    Without decisions it is `keep_list` of the best of identical documents, whose copies share its
    fate. With them:

    - A dropped document is removed before anything is compared.
    - A preferred document ranks before all others that are not, but after an earlier corpus.
    - A document that a decision names is judged by itself, not as one of its identical copies.
    - Documents that are the same share a bucket and are similar, whatever their similarity.
    - Documents that are different, or the same as different ones, are not compared.
    - A document that is kept or preferred stays.

    Args:
        names: The name of each document.
        content: What identical documents have in common.
        buckets: The buckets of each document.
        similarity: Returns the similarity of a document and one of better rank.
        threshold: The similarity from which on two documents are similar.
        limit: The number of kept documents of a bucket that count.
        said: The decisions in force, which don't contradict one another.
        earlier: The number of documents of an earlier corpus, which come first.

    Returns:
        For each document None if it is kept, else its witness and the similarity.
    """
    same = join_same(said)

    def about(*actions: str) -> set[str]:
        return {name for action, *pair in said for name in pair if action in actions}

    named, dropped, stay = about(*(one[0] for one in said)), about("drop"), about("keep", "prefer")
    apart = {
        frozenset(same.get(name, name) for name in pair)
        for action, *pair in said
        if action == "different"
    }

    def are_apart(one: int, other: int) -> bool:
        return frozenset(same.get(names[n], names[n]) for n in (one, other)) in apart

    def are_same(one: int, other: int) -> bool:
        return names[one] in same and same[names[one]] == same.get(names[other])

    preferred = about("prefer")
    ranked = sorted(
        (v for v, name in enumerate(names) if name not in dropped),
        key=lambda v: (v >= earlier, v >= earlier and names[v] not in preferred),
    )
    best: dict[Hashable, int] = {}
    answer: list[Verdict] = [(-1, None)] * len(names)
    before: list[int] = []
    copies: list[int] = []
    for v in ranked:
        if names[v] not in named and best.setdefault(content[v], v) != v:
            copies.append(v)
            continue
        leaders = {u for u in before if answer[u] is None and are_same(u, v)}
        for bucket in buckets[v]:
            kept = [u for u in before if answer[u] is None and bucket in buckets[u]]
            leaders.update(kept[:limit])
        answer[v] = None
        before.append(v)
        if v < earlier or names[v] in stay:
            continue
        for u in sorted(leaders, key=before.index):
            if not are_apart(u, v):
                measured = similarity(v, u)
                if are_same(u, v) or measured >= threshold:
                    answer[v] = (u, measured)
                    break
    for v in copies:
        leader = best[content[v]]
        answer[v] = answer[leader] or (leader, 1.0)
    return answer
