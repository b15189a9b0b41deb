"""What the files contain of masks, ignored lines, weights and removals, without results."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from struct import pack
from typing import Final

from neardup.protocol.examples import FormatExample, word16, words16
from neardup.protocol.hostile_texts import HOSTILE
from neardup.reference.hashes import mix, xxh64
from neardup.spec import Spec

CELLS: Final = 1 << 22
EVERY = "dates,emails,numbers,urls"
MASKED = {
    "numbers": "1 12 1.5 1,000.25 -3 +4 1e5 x1 1x 0x1F ١٢ 50% $3.99 1/2 v1.2.3 1\u0301",
    "dates": "2024-01-31 31.12.2024 1/2/24 Jan 5, 2024 5 January 2024 2024年1月31日 12:30 12:30:59",
    "addresses": "a@b.co <x.y+z@sub.example.org>, not@a @b a@b http://x.y/z?q=1#f) www.a.b/c, ftp://h",
    "words between": "at2024-01-31now http://a.b漢 a@b.c\u0301 3日 https://例え.jp/道?x=é",
}
LINES = ["Menu  HOME", "menu home\r\n", "Copyright 2024", "", " \u200b"]


def strip_cases() -> Iterator[FormatExample]:
    """Texts to mask, and lines to ignore."""
    for name, text in (MASKED | {"digits": HOSTILE["digits"], "emoji": HOSTILE["emoji"]}).items():
        for mask in (EVERY, *EVERY.split(",")):
            yield FormatExample("mask", f"{name}, {mask}", {"text": text, "mask": mask})
    texts = [
        "\n".join(["Menu  HOME", "first text", "Copyright 2024"]),
        "menu home\r\nsecond text\rcopyright 2024",
        "MENU HOME\n\nthird text",
        "menu home",
        " \n ",
        "x" * 300 + "\nΟΔΥΣΣΕΥΣ",
        "X" * 300 + "\nοδυσσευσ",
    ]
    for profile, share in (("standard", (1, 10)), ("standard", (1, 2)), ("aggressive", (1, 3))):
        spec = Spec(profile=profile)
        given = {"spec": spec.canonical, "seed": word16(0), "texts": texts, "share": share}
        yield FormatExample("ignored lines", f"{profile}, above {share[0]}/{share[1]}", given)
    for documents, counts in (
        (1000, [0, 1, 2, 3, 9, 500, 999, 1000, 5000]),
        (2**32 - 1, [0, 1, 7, 2**31, 2**32 - 1]),
    ):
        weighed = {"documents": documents, "frequencies": counts}
        yield FormatExample("tf-idf", f"{documents:,} documents", weighed)


def weight_cases() -> Iterator[FormatExample]:
    """Sketches whose shingles are weighed by document frequencies, and some with removals."""
    shingles = [mix(number + 1) for number in range(5)]
    cells = {shingle >> 42: count for shingle, count in zip(shingles, (1, 2, 50, 90), strict=False)}
    table = bytearray(CELLS * 4)
    for cell, count in cells.items():
        table[4 * cell : 4 * cell + 4] = count.to_bytes(4, "little")
    digest = blake2b(pack("<Q", 90) + table, digest_size=16).hexdigest()
    for sketch, slots in (("weighted", 16), ("simhash", 64)):
        spec = Spec.of(sketch=sketch, slots=slots, weights=f"tf-idf:{digest}")
        given = {
            "spec": spec.canonical,
            "seed": word16(spec.seed),
            "elements": words16([*shingles, *shingles[:2]]),
            "documents": 90,
            "cells": {str(cell): count for cell, count in cells.items()},
            **({"tables": [[4, 2]]} if sketch == "weighted" else {"distance": 3, "blocks": 6}),
        }
        yield FormatExample("sketch", f"{sketch}, weighed by document frequencies", given)


def removal_cases() -> Iterator[FormatExample]:
    """Sketches of which elements are removed."""
    spec = Spec(slots=6)
    words = [f"word {number}".encode() for number in range(30)]
    for spare, removed in ((3, 0), (3, 2), (3, 30), (0, 1), (40, 30)):
        given = {
            "spec": spec.canonical,
            "seed": word16(spec.seed),
            "spare": spare,
            "elements": words16(xxh64(word, spec.seed) for word in words),
            "remove": [word.hex() for word in [*words[:removed], b"no word"]],
        }
        yield FormatExample("removable", f"{spare} spare values, {removed} removed", given)
