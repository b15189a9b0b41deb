"""What the files of filters, rings, vectors and groups contain: what is given, without results."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from struct import pack, unpack
from typing import Any

from neardup.protocol.examples import FormatExample, word16
from neardup.protocol.hostile_texts import HOSTILE
from neardup.reference import vectors
from neardup.reference.hashes import mix
from neardup.reference.serialised import xxh3_64
from neardup.spec import Spec

Vector = list[float]


def filter_cases() -> Iterator[FormatExample]:
    """Filters of all kinds, from nothing to full, with keys that come twice and are removed."""
    sizes: list[dict[str, Any]] = [
        {"filter": "bloom", "blocks": 1, "probes": 1},
        {"filter": "bloom", "blocks": 3, "probes": 7},
        {"filter": "bloom", "blocks": 2, "probes": 16},
        {"filter": "counting", "blocks": 2, "probes": 8},
        {"filter": "cuckoo", "buckets": 1},
        {"filter": "cuckoo", "buckets": 11},
        {"filter": "set", "bits": 64, "slots": 61},
        {"filter": "set", "bits": 128, "slots": 61},
    ]
    for size, seed in product(sizes, (0, 2**64 - 1)):
        room = 4 * size.get("buckets", 10)
        for count in (0, min(room, 40)):
            keys = [f"key {number}".encode().hex() for number in range(count)]
            removes = size["filter"] in ("counting", "cuckoo")
            given = size | {
                "seed": word16(seed),
                "insert": [*keys, *keys[:2]] if size["filter"] != "cuckoo" else keys,
                "remove": [*keys[:3], b"none".hex()] if removes else [],
                "ask": [*keys[:4], b"".hex(), "ö".encode().hex(), b"no".hex()],
            }
            named = " ".join(f"{name} {value}" for name, value in size.items())
            yield FormatExample("filter", f"{named}, seed {seed:x}, {count} keys", given)
    many = [b"again".hex()] * 17
    given = {"filter": "counting", "blocks": 1, "probes": 4, "seed": word16(0), "insert": many}
    given |= {"remove": many[:2], "ask": many[:1]}
    yield FormatExample("filter", "a counter that is full", given)


def ring_cases() -> Iterator[FormatExample]:
    """Rings of one node to many, with weights, and names that sort by bytes."""
    keys = ["", "page 1", "ключ", "鍵", "👍", "a\0b", *(f"key {n}" for n in range(6))]
    rings: dict[str, tuple[list[tuple[str, float]], int]] = {
        "three nodes": ([("redis-1", 1.0), ("redis-2", 1.0), ("redis-3", 1.0)], 160),
        "one node": ([("a", 1.0)], 1),
        "weights": ([("a", 0.001), ("b", 2.5), ("c", 0.3125), ("d", 1.0)], 3),
        "names by bytes": ([("\U0001f600", 1.0), ("\uffff", 1.0), ("é", 1.0), ("e", 1.0)], 2),
    }
    for name, (nodes, vnodes) in rings.items():
        given = {"nodes": nodes, "vnodes": vnodes, "keys": keys}
        yield FormatExample("ring", name, given)


def some_vectors(count: int, dimension: int) -> list[Vector]:
    """Return vectors of float32 numbers, always the same."""
    made = []
    for row in range(count):
        numbers = [mix(row * dimension + place + 1) / 2**64 - 0.25 for place in range(dimension)]
        made.append(list(unpack(f"<{dimension}f", pack(f"<{dimension}f", *numbers))))
    return made


def vector_cases() -> Iterator[FormatExample]:
    """Vectors to centres, signs, keys and cosines."""
    small: list[Vector] = [[3.0, 4.0, 0.0], [1.0, 1.0, 1.0], [-1.0, 2.0, -2.0]]
    for name, rows in (
        ("three of three", small),
        ("halves", [[1.0, -1.0], [1.0, 1.0]]),
        ("with zeros", [[0.0] * 3, *small]),
        ("sixteen of nine", some_vectors(16, 9)),
    ):
        yield FormatExample("centre", name, {"vectors": rows})
        yield from plane_cases(name, rows)
    pairs: tuple[tuple[str, Vector, Vector], ...] = (
        ("small", small[0], small[1]),
        ("opposite", small[0], [-x for x in small[0]]),
        ("equal", some_vectors(1, 33)[0], some_vectors(1, 33)[0]),
        ("seventeen", some_vectors(1, 17)[0], some_vectors(2, 17)[1]),
        ("many", some_vectors(1, 384)[0], some_vectors(2, 384)[1]),
        ("tiny", [1e-20, 2.0**-149, 0.0], [2.0**-126, 1.0, 0.0]),
    )
    for name, a, b in pairs:
        in_float32 = (list(unpack(f"<{len(x)}f", pack(f"<{len(x)}f", *x))) for x in (a, b))
        yield FormatExample("cosine", name, dict(zip("ab", in_float32, strict=True)))


def plane_cases(name: str, rows: list[Vector]) -> Iterator[FormatExample]:
    middle = vectors.centre(rows)
    digest = f"{xxh3_64(pack(f'<{len(middle)}h', *middle)):016x}" if any(middle) else "none"
    for number, seed, count, bands in ((-1, 0, 128, [10, 12]), (-2, 5, 70, [1, 63])):
        spec = Spec.of(
            "vector:1",
            sketch="hyperplane",
            slots=count,
            seed=seed,
            vectors=f"{len(middle)}x{count}:{digest}",
        )
        given = {"spec": spec.canonical, "seed": word16(seed), "centre": middle}
        given |= {"vector": rows[number], "bands": bands}
        yield FormatExample("planes", f"{name}, {count} planes", given)


def group_cases() -> Iterator[FormatExample]:
    """What keeps documents apart: groups, the numbers of texts, and columns."""
    for name in ("nothing", "fox", "digits", "full width", "astral letters", "emoji"):
        for profile in ("standard", "look-alikes"):
            given: dict[str, Any] = {"text": HOSTILE[name], "profile": profile}
            given |= {"within": "shop 1", "columns": {}}
            yield FormatExample("apart", f"{name}, {profile}", given)
    grouped: tuple[tuple[str | None, dict[str, str | None]], ...] = (
        (None, {}),
        ("", {}),
        ("é", {"colour": "red", "Size": "10", "none": None}),
    )
    numbers = {"text": "from 10 to 0012, ٣٤ 5\u200d6", "profile": "standard"}
    for within, columns in grouped:
        name = f"within {within}, {len(columns)} columns"
        yield FormatExample("apart", name, numbers | {"within": within, "columns": columns})
