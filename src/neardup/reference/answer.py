"""The keep list by its definition, repeated parts, and all similar pairs by brute force."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

from neardup.reference.sketches import (
    band_keys,
    content_hash,
    jaccard,
    shingles,
    signature,
    unit_hashes,
)
from neardup.reference.text import kind, units
from neardup.spec import Spec


def keep_list(
    buckets: Sequence[Collection[int]],
    similarity: dict[tuple[int, int], float],
    threshold: float,
    limit: int,
) -> list[tuple[int, float] | None]:
    """Return the keep list by its definition. Documents are 0, 1, 2, ... in rank order.

    In rank order a document is removed if and only if it is similar to one of the first
    `limit` kept documents of one of its buckets; its witness is the best-ranked of them.
    Documents that options keep apart (`within`, `distinguish`) have no bucket in common.

    Args:
        buckets: The buckets of each document.
        similarity: The similarity of documents u < v by (u, v); 0 if it is missing.
        threshold: The similarity from which on two documents are similar.
        limit: The number of kept documents of a bucket that count.

    Returns:
        None for a kept document, (witness, similarity) for a removed one.
    """
    answer: list[tuple[int, float] | None] = []
    for v, own_buckets in enumerate(buckets):
        leaders: set[int] = set()
        for bucket in own_buckets:
            kept = [u for u in range(v) if answer[u] is None and bucket in buckets[u]]
            leaders.update(kept[:limit])
        compared = [(u, similarity.get((u, v), 0.0)) for u in sorted(leaders)]
        answer.append(next((pair for pair in compared if pair[1] >= threshold), None))
    return answer


def keep_none(
    answer: Sequence[tuple[int, float] | None],
) -> list[tuple[int, float] | None]:
    """Return a keep list, as of `keep_list`, in which nothing of a cluster stays.

    A kept document that is a witness is removed, too: its witness is the first of its copies.
    """
    first: dict[int, tuple[int, float]] = {}
    for v, verdict in enumerate(answer):
        if verdict is not None and verdict[0] != v:
            first.setdefault(verdict[0], (v, verdict[1]))
    return [first.get(v) if verdict is None else verdict for v, verdict in enumerate(answer)]


def dedup(
    texts: Sequence[str],
    spec: Spec,
    bands: int,
    rows: int,
    threshold: float,
    limit: int = 256,
    key: bytes = b"",
    measure: Callable[[set[int], set[int]], float] = jaccard,
) -> list[tuple[int, float] | None]:
    """Return the keep list of texts in rank order: None is kept, else (witness, similarity).

    `measure` is `jaccard`, or `containment`: of the later document in the earlier one. A text
    without visible characters is rejected: it is its own witness, with similarity 0.
    """
    hashes = [unit_hashes(units(text, spec), spec, key) for text in texts]
    first: dict[tuple[int, int], int] = {}
    for v, units_of_v in enumerate(hashes):
        if units_of_v:
            first.setdefault(content_hash(units_of_v), v)
    unique = sorted(first.values())
    sets = {v: shingles(hashes[v], spec.size) for v in unique}
    keys = [list(enumerate(band_keys(signature(sets[v], spec, key), bands, rows))) for v in unique]
    numbers = {key: n for n, key in enumerate(sorted({key for row in keys for key in row}))}
    similar = {
        (i, j): measure(sets[v], sets[u])
        for j, v in enumerate(unique)
        for i, u in enumerate(unique[:j])
    }
    decided = keep_list([[numbers[key] for key in row] for row in keys], similar, threshold, limit)
    verdicts = dict(zip(unique, decided, strict=True))
    answer: list[tuple[int, float] | None] = []
    for v, units_of_v in enumerate(hashes):
        if not units_of_v:
            answer.append((v, 0.0))
            continue
        best = first[content_hash(units_of_v)]
        verdict = verdicts[best]
        if verdict is not None:
            answer.append((unique[verdict[0]], verdict[1]))
        else:
            answer.append(None if v == best else (best, 1.0))
    return answer


def visible(text: str) -> int:
    """Return the number of characters that are neither white space nor dropped."""
    return sum(kind(ord(c)) not in "_D" for c in text)


def parts(text: str, unit: str) -> list[tuple[str, str | None]]:
    """Return the parts of a text: each with its line breaks, and without the last line break.

    A part is a line, or with `unit="paragraph"` a run of lines that are not blank. For a blank line
    the second is None.
    """
    pieces: list[tuple[str, str | None]] = []
    for line in re.findall("[^\n]*\n|[^\n]+", text):
        content = re.sub("\r?\n\\Z", "", line) if visible(line) else None
        if unit == "paragraph" and content is not None and pieces and pieces[-1][1] is not None:
            before, _ = pieces.pop()
            pieces.append((before + line, before + content))
        else:
            pieces.append((line, content))
    return pieces


def cut_repeats(
    texts: Sequence[str], unit: str, min_length: int, spec: Spec | None
) -> list[tuple[str, int, int | None]]:
    """Remove the parts that an earlier text has, by bytes or, with a specification, by units.

    Texts are in rank order. Returns for each text what remains of it, how many parts it lost and,
    if nothing visible remains, the number of the text that keeps its first part.
    """
    seen: dict[object, int] = {}
    answer: list[tuple[str, int, int | None]] = []
    for number, text in enumerate(texts):
        rest, repeats = "", []
        for piece, content in parts(text, unit):
            if content is None or visible(content) < min_length:
                rest += piece
                continue
            same = content if spec is None else tuple(units(content, spec))
            if same in seen:
                repeats.append(seen[same])
            else:
                seen[same] = number
                rest += piece
        removed = repeats and not visible(rest)
        answer.append((rest, len(repeats), repeats[0] if removed else None))
    return answer


def similar_pairs(sets: Sequence[set[int]], floor: float) -> list[tuple[int, int, float]]:
    """Return all pairs a < b of similarity `floor` or more, in order; none with an empty set."""
    return [
        (a, b, jaccard(sets[a], sets[b]))
        for a in range(len(sets))
        for b in range(a + 1, len(sets))
        if sets[a] and sets[b] and jaccard(sets[a], sets[b]) >= floor
    ]
