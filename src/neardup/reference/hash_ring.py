"""The slow hash ring: a sorted list of all points, searched from its beginning; exact shares."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from hashlib import blake2b
from math import floor
from struct import unpack

POINTS = 8
WHOLE = 2**64

Point = tuple[int, bytes]
"""A position, and the node that it belongs to: points are in the order of these pairs."""


def words_of(data: bytes) -> tuple[int, ...]:
    """Return the eight 64-bit words of the BLAKE2b of some bytes."""
    return unpack("<8Q", blake2b(data).digest())


def count_points(vnodes: int, weight: float) -> int:
    return max(1, floor(POINTS * vnodes * weight + 0.5))


def points_of(node: str, count: int) -> list[Point]:
    name = node.encode("utf-8", "surrogatepass")
    return [
        (words_of(b"v:%d:%b" % (number // POINTS, name))[number % POINTS], name)
        for number in range(count)
    ]


def ring_of(weights: Mapping[str, float], vnodes: int) -> list[Point]:
    """Return all points of nodes and their weights, in the order of the ring."""
    return sorted(
        point
        for node, weight in weights.items()
        for point in points_of(node, count_points(vnodes, weight))
    )


def position_of(key: str | bytes) -> int:
    data = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key
    return words_of(b"k:" + data)[0]


def follow(ring: list[Point], position: int) -> list[str]:
    """Return all nodes in the order in which they follow a position of the ring."""
    behind = [name for at, name in ring if at >= position]
    before = [name for at, name in ring if at < position]
    return [name.decode("utf-8", "surrogatepass") for name in dict.fromkeys(behind + before)]


def nodes_of(ring: list[Point], key: str | bytes, n: int) -> list[str]:
    return follow(ring, position_of(key))[:n]


def arcs_of(ends: list[int]) -> dict[int, int]:
    """Return how many positions belong to each of some ascending positions: itself, and those
    between the previous one and it."""
    return {
        end: end - (ends[place - 1] if place else ends[-1] - WHOLE)
        for place, end in enumerate(ends)
    }


def shares(ring: list[Point]) -> dict[str, Fraction]:
    """Return the share of the ring that each node has."""
    owners = dict(reversed(ring))  # of equal positions the first point counts
    found = {name: 0 for _, name in ring}
    for end, arc in arcs_of(sorted(owners)).items():
        found[owners[end]] += arc
    return {
        name.decode("utf-8", "surrogatepass"): Fraction(found[name], WHOLE)
        for name in sorted(found)
    }


def moved(before: list[Point], after: list[Point]) -> Fraction:
    """Return the share of the ring that belongs to another node in the second of two rings."""
    ends = sorted({at for at, _ in before + after})
    changed = (
        arc for end, arc in arcs_of(ends).items() if follow(before, end)[0] != follow(after, end)[0]
    )
    return Fraction(sum(changed), WHOLE)
