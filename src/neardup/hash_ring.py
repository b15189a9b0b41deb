"""`HashRing`: which node has a key, such that a node that comes or goes moves only its share.

The rule is that of docs/format.md, and in slow form that of `reference/hash_ring.py`.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import chain
from math import floor, isfinite
from types import NoneType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.errors import ParameterError
from neardup.spec import check_number, check_whole

POINTS = 8
"""The points of a virtual node: one digest has eight words."""
MOST_POINTS = 2**23
"""The most points of a node, 64 MB."""
MOST_VNODES = MOST_POINTS // POINTS
WHOLE = 2**64
LISTED = 5
"""The most nodes that an error names."""

Positions = NDArray[np.uint64]
Key = str | bytes


class RingPoints(NamedTuple):
    """The points of a ring, ascending. A change makes new ones, so that readers need no lock."""

    weights: dict[str, float]
    names: tuple[str, ...]
    points: dict[str, Positions]
    """The positions of each node, in the order in which they are derived."""
    positions: Positions
    owners: NDArray[np.int32]
    """For each position the place of its node in `names`."""
    searched: memoryview[int]
    owned: memoryview[int]
    """Positions and owners as Python numbers, which are faster to read one by one."""

    def first(self, position: int) -> int:
        """Return the first point from a position on; after the last one comes the first."""
        place = bisect_left(self.searched, position)
        return place if place < len(self.searched) else 0

    def node(self, key: Key) -> str:
        return self.names[self.owned[self.first(position_of(key))]]

    def owners_at(self, positions: Positions) -> NDArray[np.int32]:
        """Return the places in `names` of the nodes that have some positions."""
        places = np.searchsorted(self.positions, positions)
        return self.owners[np.where(places < len(self.positions), places, 0)]


class HashRing:
    """A consistent-hash ring: each key belongs to a node, and all who ask agree on which.

    A node has many points on a ring of 2^64 positions; a key belongs to the node of the first
    point from its own position on. A node that is added takes its share of the keys from all
    others in proportion, one that is removed gives it back, and no other key moves. Each virtual
    node has eight points: with 160 of them, all shares of ten nodes are within 10 % of fair in 998
    of 1,000 rings.

    Nothing is random: nodes, their weights and `vnodes` determine the ring, in any order, in any
    process and in any language (docs/format.md). Safe for several threads: a call sees the ring
    before a change or after it.

    Args:
        nodes: The names of the nodes, such as addresses; `add` adds more.
        vnodes: The number of virtual nodes of a node with weight 1. More make the shares more
            even: their standard deviation is 1 / sqrt(8 * vnodes) of the fair share. Rings agree
            only with the same number.
        weights: The weights of nodes, 1 for those that are not in it: a node with weight 2 has
            twice the share of one with weight 1.

    >>> ring = HashRing(["a:6379", "b:6379", "c:6379"])
    >>> ring.node("page 1"), ring.nodes("page 1", 2)
    ('a:6379', ['a:6379', 'c:6379'])
    >>> before = ring.copy()
    >>> ring.add("d:6379")
    >>> round(HashRing.moved(before, ring), 2)
    0.25
    """

    def __init__(
        self,
        nodes: Iterable[str] = (),
        vnodes: int = 160,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        if isinstance(nodes, (str, bytes)):
            raise ParameterError(f"nodes must be a list of names, not {nodes!r}: write [{nodes!r}]")
        self._vnodes = check_whole("vnodes", vnodes, 1, MOST_VNODES)
        self._lock = threading.Lock()
        named = list(nodes)
        if not isinstance(weights, (Mapping, NoneType)):
            raise ParameterError(f"weights must be a dict of nodes and numbers, not {weights!r}")
        given = dict(weights or {})
        checked: dict[str, float] = {}
        for node in named:
            name = check_name(node)
            if name in checked:
                raise ParameterError(f"the node {name!r} is in the list twice: name it once")
            checked[name] = check_weight(name, given.pop(name, 1.0), self._vnodes)
        if given:
            raise ParameterError(
                f"weights name {list_names(given)}, the nodes are {list_names(checked)}: weigh "
                "only nodes of the ring"
            )
        self._points = self._make({}, checked)

    @property
    def vnodes(self) -> int:
        """The number of virtual nodes of a node with weight 1."""
        return self._vnodes

    @property
    def weights(self) -> dict[str, float]:
        """The weight of each node, in the order of their names."""
        return dict(self._points.weights)

    def node(self, key: Key) -> str:
        """Return the node that has a key.

        Args:
            key: A string, which is taken as UTF-8, or bytes.

        >>> HashRing(["a", "b", "c"]).node("page 1")
        'c'
        """
        return self._filled().node(key)

    def nodes(self, key: Key, n: int) -> list[str]:
        """Return the first nodes for a key: its own, and those for its replicas.

        If one of them is removed, the others stay in their order, and the next one follows.

        Args:
            key: A string, which is taken as UTF-8, or bytes.
            n: The number of nodes, all different.

        >>> HashRing(["a", "b", "c"]).nodes("page 1", 2)
        ['c', 'b']
        """
        points = self._filled()
        count = check_whole("n", n, 1, MOST_POINTS)
        if count > len(points.names):
            raise ParameterError(
                f"the ring has {len(points.names)} nodes, but {count} different ones are asked "
                "for: add nodes, or ask for fewer"
            )
        start = points.first(position_of(key))
        found: dict[int, None] = {}
        for owner in chain(points.owned[start:], points.owned[:start]):
            found[owner] = None
            if len(found) == count:
                break
        return [points.names[owner] for owner in found]

    def add(self, node: str, weight: float = 1.0) -> None:
        """Add a node, which takes its share of the keys from all others.

        Args:
            node: The name of the node; `ParameterError` if the ring has it already.
            weight: Its share, relative to that of a node with weight 1.

        >>> ring = HashRing(["a"])
        >>> ring.add("b", weight=3)
        >>> ring.weights
        {'a': 1.0, 'b': 3.0}
        """
        name = check_name(node)
        added = check_weight(name, weight, self._vnodes)
        with self._lock:
            points = self._points
            if name in points.weights:
                raise ParameterError(
                    f"the ring has the node {name!r} already, with weight "
                    f"{points.weights[name]:g}: remove it first to change its weight"
                )
            self._points = self._make(points.points, {**points.weights, name: added})

    def remove(self, node: str) -> None:
        """Remove a node, whose keys go to the others.

        Args:
            node: The name of the node; `ParameterError` if the ring does not have it.

        >>> ring = HashRing(["a", "b"])
        >>> ring.remove("a")
        >>> list(ring)
        ['b']
        """
        name = check_name(node)
        with self._lock:
            points = self._filled()
            if name not in points.weights:
                raise ParameterError(
                    f"the ring has no node {name!r}, its nodes are {list_names(points.names)}: "
                    "remove one of these"
                )
            remaining = {other: weight for other, weight in points.weights.items() if other != name}
            self._points = self._make(points.points, remaining)

    def copy(self) -> HashRing:
        """Return a ring that is equal, and stays as it is when this one changes.

        >>> ring = HashRing(["a"])
        >>> before = ring.copy()
        >>> ring.add("b")
        >>> len(before), len(ring)
        (1, 2)
        """
        other = HashRing(vnodes=self._vnodes)
        other._points = self._points
        return other

    def distribution(self, keys: Iterable[Key] | None = None) -> dict[str, float]:
        """Return the share of each node, in the order of their names; shares add up to 1.

        Args:
            keys: The keys to distribute; by default all positions of the ring, exactly.

        >>> {node: round(share, 1) for node, share in HashRing(["a", "b"]).distribution().items()}
        {'a': 0.5, 'b': 0.5}
        >>> HashRing(["a", "b"]).distribution(["page 1", "page 2"])
        {'a': 0.0, 'b': 1.0}
        """
        points = self._filled()
        if keys is None:
            arcs = sum_arcs(measure_arcs(points.positions), points.owners, len(points.names))
            return {name: arc / WHOLE for name, arc in zip(points.names, arcs, strict=True)}
        counts = Counter(map(points.node, keys))
        total = counts.total()
        if not total:
            raise ParameterError("there are no keys to distribute: give some, or leave keys out")
        return {name: counts[name] / total for name in points.names}

    @staticmethod
    def moved(before: HashRing, after: HashRing, keys: Iterable[Key] | None = None) -> float:
        """Return the share of the keys that belong to another node after a change.

        Args:
            before: The ring before the change.
            after: The ring after it.
            keys: The keys that count; by default all positions of the ring, exactly.

        >>> before, after = HashRing(["a", "b", "c"]), HashRing(["a", "b", "c", "d"])
        >>> HashRing.moved(before, after) == after.distribution()["d"]
        True
        >>> HashRing.moved(before, after, keys=["page 1", "page 2"])
        0.5
        """
        for ring in (before, after):
            if not isinstance(ring, HashRing):
                raise ParameterError(
                    f"before and after must be HashRings, not {type(ring).__name__}"
                )
        old, new = before._filled(), after._filled()
        if keys is not None:
            changed = Counter(old.node(key) != new.node(key) for key in keys)
            if not changed:
                raise ParameterError("there are no keys to compare: give some, or leave keys out")
            return changed[True] / changed.total()
        ends = np.union1d(old.positions, new.positions)
        places = {name: place for place, name in enumerate(new.names)}
        renamed = np.array([places.get(name, -1) for name in old.names])
        changes = (renamed[old.owners_at(ends)] != new.owners_at(ends)).astype(np.int32)
        return sum_arcs(measure_arcs(ends), changes, 2)[1] / WHOLE

    def _make(self, known: Mapping[str, Positions], weights: Mapping[str, float]) -> RingPoints:
        """Return the points of nodes; those of known nodes need not be derived again."""
        names = tuple(sorted(weights))
        points = {
            name: known[name]
            if name in known
            else points_of(name, count_points(self._vnodes, weights[name]))
            for name in names
        }
        sizes = [len(positions) for positions in points.values()]
        unsorted = np.concatenate([np.zeros(0, np.uint64), *points.values()])
        owners = np.repeat(np.arange(len(names), dtype=np.int32), sizes)
        order = np.argsort(unsorted, kind="stable")  # equal positions: the lesser name first
        positions, sorted_owners = unsorted[order], owners[order]
        return RingPoints(
            {name: weights[name] for name in names},
            names,
            points,
            positions,
            sorted_owners,
            positions.data,
            sorted_owners.data,
        )

    def _filled(self) -> RingPoints:
        points = self._points
        if not points.names:
            raise ParameterError("the ring has no nodes: add one first")
        return points

    def __len__(self) -> int:
        return len(self._points.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self._points.names)

    def __contains__(self, node: object) -> bool:
        return node in self._points.weights

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HashRing):
            return NotImplemented
        return (self._vnodes, self.weights) == (other._vnodes, other.weights)

    def __getstate__(self) -> dict[str, Any]:
        return {"vnodes": self._vnodes, "weights": self.weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["weights"], state["vnodes"], state["weights"])  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"HashRing({len(self)} nodes, vnodes={self._vnodes})"


def digest(data: bytes) -> bytes:
    """Return the BLAKE2b of some bytes, 64 bytes, as `b2sum` prints it."""
    return blake2b(data).digest()


def encode(text: str | bytes) -> bytes:
    """Return a name or a key as bytes: a string as UTF-8, lone surrogates included."""
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if isinstance(text, (bytes, bytearray, memoryview)):
        return bytes(text)
    raise ParameterError(f"keys are strings or bytes, not {type(text).__name__}")


def position_of(key: Key) -> int:
    """Return the position of a key on a ring.

    >>> position_of("page 1") == position_of(b"page 1")
    True
    """
    return int.from_bytes(digest(b"k:" + encode(key))[:8], "little")


def count_points(vnodes: int, weight: float) -> int:
    """Return the number of points of a node, at least one.

    >>> count_points(160, 1.0), count_points(160, 0.5), count_points(1, 0.01)
    (1280, 640, 1)
    """
    return max(1, floor(POINTS * vnodes * weight + 0.5))


def points_of(node: str, count: int) -> Positions:
    """Return the positions of a node's points, eight of each virtual node, in this order.

    >>> points_of("a", 10)[:8].tolist() == points_of("a", 8).tolist()
    True
    """
    name = encode(node)
    digests = b"".join(digest(b"v:%d:%b" % (number, name)) for number in range(-(-count // POINTS)))
    return np.frombuffer(digests, "<u8", count).astype(np.uint64)


def measure_arcs(ends: Positions) -> Positions:
    """Return how many positions lie before each of some ascending ends, itself included.

    They add up to 2^64; where all ends are equal the first one has all of them, which is 0 here.
    """
    return np.diff(ends, prepend=ends[-1:])


def sum_arcs(arcs: Positions, owners: NDArray[np.int32], count: int) -> list[int]:
    """Return the sum of the arcs of each owner, from 0 to `count` - 1, exactly.

    >>> sum_arcs(np.array([1, 2**64 - 3, 2], np.uint64), np.array([0, 1, 0], np.int32), 2)
    [3, 18446744073709551613]
    """
    if not arcs.any():  # one position for all points
        return [WHOLE if owner == owners[0] else 0 for owner in range(count)]
    low, high = np.zeros((2, count), np.uint64)
    np.add.at(low, owners, arcs & np.uint64(0xFFFFFFFF))
    np.add.at(high, owners, arcs >> np.uint64(32))
    return [(int(upper) << 32) + int(lower) for lower, upper in zip(low, high, strict=True)]


def check_name(node: object) -> str:
    """Return the name of a node; raise `ParameterError` unless it is a string."""
    if not isinstance(node, str):
        raise ParameterError(
            f"the name of a node must be a string, not {node!r}: use the name that others use too"
        )
    return node


def check_weight(node: str, value: object, vnodes: int) -> float:
    """Return the weight of a node; raise `ParameterError` unless a ring can have it."""
    weight = check_number(f"the weight of the node {node!r}", value)
    if not (isfinite(weight) and weight > 0):
        raise ParameterError(
            f"the weight of the node {node!r} must be above 0, not {value!r}: remove a node that "
            "should have no keys"
        )
    if POINTS * vnodes * weight > MOST_POINTS:
        raise ParameterError(
            f"the node {node!r} with weight {weight:g} of {vnodes} virtual nodes has more than "
            f"{MOST_POINTS:,} points: use smaller weights, only their ratios count"
        )
    return weight


def list_names(names: Iterable[object]) -> str:
    """Return names as an error shows them, the first few of many.

    >>> list_names("abcdefg"), list_names([])
    ("'a', 'b', 'c', 'd', 'e' and 2 more", 'none')
    """
    shown = [repr(name) for name in names]
    more = f" and {len(shown) - LISTED} more" if len(shown) > LISTED else ""
    return ", ".join(shown[:LISTED]) + more if shown else "none"
