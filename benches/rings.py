"""Measure how even hash rings are, what moves, and how long it takes: tables in Markdown.

    python benches/rings.py

How far the largest deviation of a node's share from the fair share is, over many rings of other
names, by virtual nodes, beside a ring with a single point for each virtual node; the share that
moves when a node joins; and times beside uhashring, in processor time. See
docs/decisions/042-hash-ring.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import uhashring
from table import grid

from neardup import HashRing
from neardup.hash_ring import POINTS, WHOLE, Positions, measure_arcs, points_of, sum_arcs

VNODES = (1, 10, 20, 50, 64, 100, 128, 150, 160, 200, 256, 500)
CLOSE = 0.1


def widest(points: list[Positions], count: int) -> float:
    """Return the largest relative deviation from the fair share, of the first points of nodes."""
    positions = np.concatenate([found[:count] for found in points])
    owners = np.repeat(np.arange(len(points), dtype=np.int32), count)
    order = np.argsort(positions, kind="stable")
    arcs = sum_arcs(measure_arcs(positions[order]), owners[order], len(points))
    return max(abs(arc * len(points) / WHOLE - 1) for arc in arcs)


def evenness(nodes: int, rings: int) -> list[dict[str, int | float | str]]:
    ours: dict[int, list[float]] = {vnodes: [] for vnodes in VNODES}
    single: dict[int, list[float]] = {vnodes: [] for vnodes in VNODES}
    for ring in range(rings):
        points = [points_of(f"ring {ring} node {n}", POINTS * VNODES[-1]) for n in range(nodes)]
        for vnodes in VNODES:
            ours[vnodes].append(widest(points, POINTS * vnodes))
            single[vnodes].append(widest(points, vnodes))
    return [
        {
            "nodes": nodes,
            "vnodes": vnodes,
            "mean": percent(np.mean(ours[vnodes])),
            "99th percentile": percent(np.quantile(ours[vnodes], 0.99)),
            "rings within 10 %": percent(np.mean(np.array(ours[vnodes]) <= CLOSE)),
            "one point: mean": percent(np.mean(single[vnodes])),
            "one point: within 10 %": percent(np.mean(np.array(single[vnodes]) <= CLOSE)),
        }
        for vnodes in VNODES
    ]


def joining(nodes: int, rings: int) -> dict[str, int | str]:
    moved = []
    for ring in range(rings):
        before = HashRing(f"ring {ring} node {n}" for n in range(nodes))
        after = before.copy()
        after.add(f"ring {ring} new")
        moved.append(HashRing.moved(before, after))
    return {
        "nodes before": nodes,
        "fair": percent(1 / (nodes + 1), 2),
        "moved, mean": percent(np.mean(moved), 2),
        "least": percent(min(moved), 2),
        "most": percent(max(moved), 2),
    }


def timing(nodes: int, keys: int) -> dict[str, int | float]:
    names = [f"10.0.0.{n}:6379" for n in range(nodes)]
    asked = [f"key {n}" for n in range(keys)]
    ring, made = timed(lambda: HashRing(names))
    _, added = timed(lambda: ring.add("new"))
    ring.remove("new")
    _, found = timed(lambda: [ring.node(key) for key in asked])
    _, replicas = timed(lambda: [ring.nodes(key, min(3, nodes)) for key in asked])
    peer, peer_made = timed(lambda: uhashring.HashRing(names))
    _, peer_found = timed(lambda: [peer.get_node(key) for key in asked])
    return {
        "nodes": nodes,
        "made, ms": made * 1e3,
        "added, ms": added * 1e3,
        "node(key), us": found / keys * 1e6,
        "nodes(key, 3), us": replicas / keys * 1e6,
        "uhashring made, ms": peer_made * 1e3,
        "uhashring get_node, us": peer_found / keys * 1e6,
    }


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = call()
    return result, time.process_time() - start


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rings", type=int, default=1000, help="of other names")
    parser.add_argument("--keys", type=int, default=100_000, help="that are looked up")
    args = parser.parse_args()
    for nodes in (3, 10, 30, 100):
        rows = evenness(nodes, max(1, args.rings if nodes < 100 else args.rings // 10))
        print("\n".join(grid(rows)), "\n", flush=True)
    few = max(1, args.rings // 10)
    print("\n".join(grid([joining(nodes, few) for nodes in (1, 3, 9, 29, 99)])), "\n", flush=True)
    print("\n".join(grid([timing(nodes, args.keys) for nodes in (3, 10, 100, 1000)])))


if __name__ == "__main__":
    main()
