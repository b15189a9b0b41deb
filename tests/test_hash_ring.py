"""HashRing: equal to its slow twin, even as promised, and only the keys of a change move."""

from __future__ import annotations

import hashlib
import math
import pickle
import struct
import threading
from fractions import Fraction

import pytest
import uhashring
from hypothesis import given
from hypothesis import strategies as st

from neardup import HashRing, hash_ring
from neardup.errors import ParameterError
from neardup.reference import hash_ring as twin

names = st.text(max_size=5)
weighted = st.dictionaries(names, st.floats(0.05, 2), min_size=1, max_size=4)
keys = st.one_of(st.text(max_size=8), st.binary(max_size=8))
few = st.integers(1, 3)
KEYS = [f"key {number}" for number in range(10_000)]


def ring_of(weights: dict[str, float], vnodes: int = 160) -> HashRing:
    return HashRing(weights, vnodes, weights)


def nodes(count: int, prefix: str = "node") -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def widest(shares: dict[str, float]) -> float:
    """The greatest deviation from the fair share, relative to it."""
    return max(abs(share * len(shares) - 1) for share in shares.values())


@pytest.fixture(params=["spread", "tied"])
def hashing(request, monkeypatch):
    """The ring's hash; and one by which many positions are equal, so that names decide."""
    if request.param == "spread":
        return

    def digest(data: bytes) -> bytes:
        return struct.pack("<8Q", *(byte % 11 for byte in hashlib.blake2b(data).digest()[:8]))

    monkeypatch.setattr(hash_ring, "digest", digest)
    monkeypatch.setattr(twin, "words_of", lambda data: struct.unpack("<8Q", digest(data)))


# -- the slow twin ------------------------------------------------------------------------------


def test_ring_equals_its_twin(hashing):
    @given(weighted, few, st.lists(keys, max_size=5), st.data())
    def equal(weights, vnodes, asked, data):
        ring, slow = ring_of(weights, vnodes), twin.ring_of(weights, vnodes)
        for key in asked:
            n = data.draw(st.integers(1, len(weights)))
            assert ring.nodes(key, n) == twin.nodes_of(slow, key, n)
            assert ring.node(key) == ring.nodes(key, 1)[0]
        want = {node: float(share) for node, share in twin.shares(slow).items()}
        assert ring.distribution() == want

    equal()


def test_moved_equals_its_twin(hashing):
    @given(weighted, weighted, few, few)
    def equal(before, after, vnodes, others):
        rings = ring_of(before, vnodes), ring_of(after, others)
        want = twin.moved(twin.ring_of(before, vnodes), twin.ring_of(after, others))
        assert HashRing.moved(*rings) == float(want)

    equal()


def test_shares_are_exact_and_add_up(hashing):
    @given(weighted, few)
    def whole(weights, vnodes):
        assert sum(twin.shares(twin.ring_of(weights, vnodes)).values()) == Fraction(1)
        shares = ring_of(weights, vnodes).distribution()
        assert math.fsum(shares.values()) == pytest.approx(1, abs=1e-15)

    whole()


def test_one_point_has_the_whole_ring():
    ring = HashRing(["a"], 1, {"a": 0.01})
    assert ring.distribution() == {"a": 1.0}
    assert HashRing.moved(ring, ring.copy()) == 0
    assert HashRing.moved(ring, HashRing(["b"], 1, {"b": 0.01})) == 1


@given(weighted, few, st.randoms(use_true_random=False), st.lists(keys, min_size=1, max_size=5))
def test_order_and_history_of_nodes_do_not_matter(weights, vnodes, chance, asked):
    order = list(weights)
    chance.shuffle(order)
    ring = HashRing(["somebody"], vnodes)
    for node in order:
        if node != "somebody":
            ring.add(node, weights[node])
    ring.remove("somebody")
    want = ring_of({node: weight for node, weight in weights.items() if node != "somebody"}, vnodes)
    assert ring == want
    if len(want):
        assert [ring.node(key) for key in asked] == [want.node(key) for key in asked]
        assert ring.distribution() == want.distribution()


def test_a_string_is_its_utf8():
    ring = HashRing(nodes(7))
    assert all(ring.node(key) == ring.node(key.encode()) for key in ("straße", "東京", ""))
    assert ring.node("\ud800") == ring.node("\ud800".encode("utf-8", "surrogatepass"))


# -- what moves ---------------------------------------------------------------------------------


@given(weighted, names, st.floats(0.05, 4), few, st.lists(keys, max_size=20))
def test_only_keys_that_the_new_node_takes_move(weights, added, weight, vnodes, asked):
    weights.pop(added, None)
    if not weights:
        return
    before = ring_of(weights, vnodes)
    after = before.copy()
    after.add(added, weight)
    for key in asked:
        assert after.node(key) in (before.node(key), added)
        remaining = [node for node in after.nodes(key, len(after)) if node != added]
        assert remaining == before.nodes(key, len(before))
    assert HashRing.moved(before, after) == after.distribution()[added]
    assert HashRing.moved(after, before) == after.distribution()[added]


@pytest.mark.parametrize("count", [1, 3, 9, 29])
def test_a_new_node_moves_its_share(count):
    before = HashRing(nodes(count))
    after = before.copy()
    after.add("new")
    fair = 1 / (count + 1)
    assert HashRing.moved(before, after) == pytest.approx(fair, rel=0.1)
    assert HashRing.moved(before, after, KEYS) == pytest.approx(fair, rel=0.15)
    assert HashRing.moved(before, after, KEYS) == after.distribution(KEYS)["new"]
    taken = {
        node: 1 - after.distribution()[node] / share
        for node, share in before.distribution().items()
    }
    # Each gives about 1,280 / count of its points' arcs: 15 % more or less with 29 nodes.
    assert all(part == pytest.approx(fair, rel=0.7) for part in taken.values())


def test_equal_rings_move_nothing():
    ring = HashRing(nodes(5))
    assert HashRing.moved(ring, ring.copy()) == HashRing.moved(ring, ring, KEYS[:100]) == 0


# -- even shares ----------------------------------------------------------------------------------


@pytest.mark.parametrize("vnodes", [150, 160, 200])
def test_shares_are_within_ten_percent(vnodes):
    """Of 40 rings of ten nodes: with a deviation of 1 / sqrt(8 * 150), 99 of 100 rings are."""
    rings = [HashRing(nodes(10, f"cluster {ring}"), vnodes) for ring in range(40)]
    widths = [widest(ring.distribution()) for ring in rings]
    assert sum(width <= 0.1 for width in widths) >= 38
    assert sum(widths) / len(widths) < 0.06


def test_shares_of_keys_are_within_ten_percent():
    ring = HashRing(nodes(10))
    assert widest(ring.distribution()) <= 0.1
    assert widest(ring.distribution(f"key {number}" for number in range(100_000))) <= 0.1


def test_below_a_hundred_virtual_nodes_they_are_not():
    widths = {
        vnodes: [
            widest(HashRing(nodes(10, f"cluster {ring}"), vnodes).distribution())
            for ring in range(40)
        ]
        for vnodes in (10, 50, 160)
    }
    means = [sum(found) / len(found) for found in widths.values()]
    assert means[0] > 0.13 and means[1] > 0.06 and means[0] > means[1] > means[2]
    assert sum(width <= 0.1 for width in widths[10]) <= 10
    assert sum(width <= 0.1 for width in widths[50]) <= 36


def test_deviation_is_that_of_random_points():
    """The variance of a share of n nodes with m points each: (n - 1) / (n m + 1), relative."""
    shares = [
        share * 10 - 1
        for ring in range(100)
        for share in HashRing(nodes(10, f"ring {ring}"), 40).distribution().values()
    ]
    variance = sum(share**2 for share in shares) / len(shares)
    assert variance == pytest.approx(9 / (10 * 320 + 1), rel=0.15)  # 3 deviations of 1,000 shares


@pytest.mark.parametrize("weight", [0.25, 0.5, 2, 4.5])
def test_weights_are_shares(weight):
    ring = HashRing(nodes(5), weights={"node-0": weight})
    shares = ring.distribution()
    assert shares["node-0"] == pytest.approx(weight / (4 + weight), rel=0.1)
    assert shares["node-1"] == pytest.approx(1 / (4 + weight), rel=0.1)


def test_another_weight_moves_only_its_keys():
    light, heavy = HashRing(nodes(5)), HashRing(nodes(5), weights={"node-0": 1.5})
    for key in KEYS[:2000]:
        assert heavy.node(key) in (light.node(key), "node-0")
    assert HashRing.moved(light, heavy) == pytest.approx(1.5 / 5.5 - 0.2, rel=0.2)


def test_beside_uhashring():
    """The peer has a point for each virtual node: the same method, and shares less even."""
    ours = HashRing(nodes(10))
    peer = uhashring.HashRing(nodes(10))
    theirs = dict.fromkeys(nodes(10), 0)
    for key in KEYS:
        theirs[peer.get_node(key)] += 1
    counted = {node: count / len(KEYS) for node, count in theirs.items()}
    assert widest(counted) < 0.35
    assert widest(ours.distribution(KEYS)) < widest(counted)
    before = [peer.get_node(key) for key in KEYS]
    peer.add_node("new")
    moved = sum(old != peer.get_node(key) for old, key in zip(before, KEYS, strict=True))
    after = ours.copy()
    after.add("new")
    assert HashRing.moved(ours, after, KEYS) == pytest.approx(moved / len(KEYS), rel=0.5)


# -- as a value -----------------------------------------------------------------------------------


def test_a_ring_is_a_collection_of_nodes():
    ring = HashRing(["b", "a"], weights={"b": 2})
    assert (list(ring), len(ring), "a" in ring, "c" in ring) == (["a", "b"], 2, True, False)
    assert ring.weights == {"a": 1.0, "b": 2.0}
    assert ring.vnodes == 160
    assert repr(ring) == "HashRing(2 nodes, vnodes=160)"
    assert ring != HashRing(["a", "b"]) and ring != "a"
    assert HashRing(["a"], 10) != HashRing(["a"], 11)


def test_pickle_and_copy():
    ring = HashRing(nodes(4), 20, {"node-2": 3})
    again = pickle.loads(pickle.dumps(ring))
    assert again == ring == ring.copy()
    assert [again.node(key) for key in KEYS[:100]] == [ring.node(key) for key in KEYS[:100]]
    again.remove("node-2")
    assert "node-2" in ring


def test_readers_see_whole_rings_while_nodes_come_and_go():
    ring = HashRing(nodes(8))
    wholes = [ring.copy(), ring.copy()]
    wholes[1].add("guest")
    answers = {key: {whole.node(key) for whole in wholes} for key in KEYS[:50]}
    stop, wrong = threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            wrong.extend(key for key, allowed in answers.items() if ring.node(key) not in allowed)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        ring.add("guest")
        ring.remove("guest")
    stop.set()
    for reader in readers:
        reader.join()
    assert not wrong and len(ring) == 8


def test_writers_do_not_lose_one_another():
    ring = HashRing(vnodes=2)
    writers = [
        threading.Thread(target=lambda mine=mine: [ring.add(node) for node in mine])
        for mine in (nodes(40, "one"), nodes(40, "two"))
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert ring == HashRing(nodes(40, "one") + nodes(40, "two"), 2)


# -- errors ---------------------------------------------------------------------------------------


def two() -> HashRing:
    return HashRing(["a", "b"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: HashRing("ab"), r"nodes must be a list of names, not 'ab': write \['ab'\]"),
        (lambda: HashRing([1]), "the name of a node must be a string, not 1: use the name"),
        (lambda: HashRing(["a", "a"]), "the node 'a' is in the list twice: name it once"),
        (lambda: HashRing(["a"], 0), "vnodes must be a whole number from 1 to 1048576, not 0"),
        (lambda: HashRing(["a"], 1.5), "vnodes must be a whole number from 1 to 1048576, not 1.5"),
        (
            lambda: HashRing(["a", "b"], weights={"c": 2}),
            "weights name 'c', the nodes are 'a', 'b': weigh only nodes of the ring",
        ),
        (lambda: HashRing(["a"], weights=[1]), r"weights must be a dict .*, not \[1\]"),
        (
            lambda: HashRing(["a"], weights={"a": 0}),
            "the weight of the node 'a' must be above 0, not 0: remove a node that should have no",
        ),
        (lambda: two().add("c", -1), "the weight of the node 'c' must be above 0, not -1: remove"),
        (lambda: two().add("c", math.nan), "'c' must be above 0, not nan"),
        (lambda: two().add("c", math.inf), "'c' must be above 0, not inf"),
        (lambda: two().add("c", "2"), "the weight of the node 'c' must be a number, not '2'"),
        (
            lambda: two().add("c", 1e9),
            r"'c' with weight 1e\+09 of 160 virtual nodes has more than 8,388,608 points: use",
        ),
        (
            lambda: HashRing(["a"], weights={"a": 2.5}).add("a"),
            "the ring has the node 'a' already, with weight 2.5: remove it first to change its",
        ),
        (
            lambda: two().remove("c"),
            "the ring has no node 'c', its nodes are 'a', 'b': remove one of these",
        ),
        (lambda: HashRing(nodes(9)).remove("c"), "'node-4' and 4 more: remove one of these"),
        (lambda: HashRing().remove("c"), "the ring has no nodes: add one first"),
        (lambda: HashRing().node("k"), "the ring has no nodes: add one first"),
        (lambda: HashRing().nodes("k", 1), "the ring has no nodes: add one first"),
        (lambda: HashRing().distribution(), "the ring has no nodes: add one first"),
        (lambda: HashRing.moved(two(), HashRing()), "the ring has no nodes: add one first"),
        (lambda: HashRing.moved(two(), ["a"]), "before and after must be HashRings, not list"),
        (
            lambda: two().nodes("k", 3),
            "the ring has 2 nodes, but 3 different ones are asked for: add nodes, or ask for fewer",
        ),
        (lambda: two().nodes("k", 0), "n must be a whole number from 1"),
        (lambda: two().node(7), "keys are strings or bytes, not int"),
        (lambda: two().distribution([]), "there are no keys to distribute"),
        (lambda: HashRing.moved(two(), two(), []), "there are no keys to compare"),
    ],
)
def test_errors_name_both_sides_and_the_cure(call, message):
    with pytest.raises(ParameterError, match=message):
        call()


def test_a_failed_change_changes_nothing():
    ring = two()
    for change in (lambda: ring.add("a"), lambda: ring.add("c", 0), lambda: ring.remove("c")):
        with pytest.raises(ParameterError):
            change()
    assert ring == two()
