"""Everything that the files contain, by file: what is given, without results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import product
from typing import Any, Final

from neardup.protocol.examples import FormatExample, is_valid, word16, words16
from neardup.protocol.hostile_texts import HOSTILE, pseudo_text
from neardup.protocol.strip_cases import removal_cases, strip_cases, weight_cases
from neardup.protocol.structure_cases import (
    filter_cases,
    group_cases,
    ring_cases,
    vector_cases,
)
from neardup.reference.hashes import key_id, mix
from neardup.reference.serialised import sealed, sketch_bytes
from neardup.spec import B_BITS, PROFILES, Spec

KEY: Final = bytes(range(16))
SEEDS: Final = (0, 1, 0x9E3779B97F4A7C15, 2**64 - 1)
FUNCTIONS: Final = ("xxh64", "murmur3", "fnv1a", "siphash", "xxh3")
SIZES: Final = (*range(34), 63, 64, 65, 95, 96, 128, 129, 240, 241, 256, 1023, 1024, 1025, 1100)
CHOSEN: Final = ("fox", "final sigma", "emoji", "right to left", "NUL", "unassigned", "nothing")
SMALL: Final = ((4, 2),)
"""Bands and rows of a signature with few slots."""


def spoken(**fields: Any) -> dict[str, Any]:
    """Return how a specification is given: its canonical JSON, its seed, and the key if any."""
    spec = Spec.of(**fields)
    given = {"spec": spec.canonical, "seed": word16(spec.seed)}
    return given | ({"key": KEY.hex()} if spec.key else {})


def keyed(hash: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"hash": hash}
    return fields | ({"key": key_id(KEY)} if hash == "siphash" else {})


def hash_cases() -> Iterator[FormatExample]:
    """Hashes of all sizes at which a function takes another path, and the mixing."""
    stream = b"".join(blake2b(bytes([n])).digest() for n in range(20))
    for function, size in product(FUNCTIONS, SIZES):
        given = {"function": function, "data": stream[-size:].hex() if size else ""}
        if function == "siphash":
            given["key"] = KEY.hex()
        elif function != "xxh3":
            given["seed"] = word16(SEEDS[size % len(SEEDS)])
        yield FormatExample("hash", f"{function} of {size} bytes", given)
    for number in (0, 1, 2**32, 2**63, 2**64 - 1, SEEDS[2]):
        yield FormatExample("mix", f"mix of {number:x}", {"value": word16(number)})
    for size in (0, 3, 127, 128, 129, 300):
        for digest in (8, 16, 64):
            name = f"BLAKE2b of {size} bytes in {digest}"
            yield FormatExample("blake2b", name, {"data": stream[:size].hex(), "size": digest})


def text_cases() -> Iterator[FormatExample]:
    """All hostile texts in all profiles, and cut into all units."""
    for (name, text), profile in product(HOSTILE.items(), PROFILES):
        yield FormatExample("normalise", f"{name}, {profile}", {"text": text, "profile": profile})
    for (name, text), profile, unit in product(HOSTILE.items(), PROFILES, ("word", "char", "line")):
        if is_valid(text) and (profile in ("standard", "aggressive") or unit == "word"):
            given = {"text": text, "profile": profile, "unit": unit}
            yield FormatExample("units", f"{name}, {profile}, {unit}", given)


def shingle_cases() -> Iterator[FormatExample]:
    """Unit hashes, shingles and content hashes of all functions, units, sizes and profiles."""
    for (name, text), shingle in product(HOSTILE.items(), ("word:2", "char:3")):
        if is_valid(text):
            given = spoken(shingle=shingle) | {"text": text}
            yield FormatExample("shingles", f"{name}, {shingle}", given)
    chosen = ("fox", "line ends", "final sigma", "emoji", "Hangul", "no spaces")
    shingles = ("word:1", "word:5", "char:1", "char:5", "line:1", "line:2")
    for shingle, hash in product(shingles, ("xxh64", "murmur3", "fnv1a", "siphash")):
        for name in chosen[:: 1 if hash == "xxh64" else 3]:
            seed = SEEDS[(len(name) + len(shingle)) % len(SEEDS)]
            given = spoken(shingle=shingle, seed=seed, **keyed(hash)) | {"text": HOSTILE[name]}
            yield FormatExample("shingles", f"{name}, {shingle}, {hash}", given)
    for profile in PROFILES:
        given = spoken(shingle="word:2", profile=profile) | {"text": HOSTILE["look-alikes"]}
        yield FormatExample("shingles", f"look-alikes, {profile}", given)
    for name, tokens in (
        ("tokens", [0, 1, -1, 2**63 - 1, -(2**63), 50_257]),
        ("one token", [7]),
        ("no tokens", []),
    ):
        given = spoken(shingle="token:5") | {"tokens": words16(token % 2**64 for token in tokens)}
        yield FormatExample("shingles", name, given)


def document_cases() -> Iterator[FormatExample]:
    """Texts to signatures, keys and bytes: MinHash, by default and with other shingles."""
    default = spoken() | {"tables": [[21, 6]]}
    for name, text in HOSTILE.items():
        yield FormatExample("document", f"{name}, default", default | {"text": text})
    for words in (4, 5, 6, 64, 500, 3000):
        given = default | {"text": pseudo_text(words, words)}
        yield FormatExample("document", f"{words} words, default", given)
    for shingle, slots, tables in (
        ("char:24", 260, [[20, 13]]),
        ("char:5", 128, [[25, 5]]),
        ("word:5", 112, [[14, 8]]),
        ("word:1", 64, [[10, 4], [3, 8]]),
    ):
        given = spoken(shingle=shingle, slots=slots) | {"tables": tables}
        for name in CHOSEN:
            yield FormatExample("document", f"{name}, {shingle}", given | {"text": HOSTILE[name]})
        for words in (3, 300):
            given = given | {"text": pseudo_text(words, 7)}
            yield FormatExample("document", f"{words} words, {shingle}", given)
    for seed in SEEDS[1:]:
        given = spoken(slots=16, seed=seed) | {"tables": SMALL, "text": HOSTILE["fox"]}
        yield FormatExample("document", f"seed {seed:x}", given)
    yield from similarity_cases()


def similarity_cases() -> Iterator[FormatExample]:
    """Pairs of texts from equal to different."""
    words = pseudo_text(60, 1).split()
    for shingle, changed in product(("word:5", "char:5"), (0, 1, 3, 10, 60)):
        other = ["x" if place < changed else word for place, word in enumerate(words)]
        given = spoken(shingle=shingle) | {"a": " ".join(words), "b": " ".join(other)}
        yield FormatExample("similarity", f"{changed} of 60 words changed, {shingle}", given)
    for bits in B_BITS:
        other = ["x" if place < 3 else word for place, word in enumerate(words)]
        given = spoken(bits=bits) | {"a": " ".join(words), "b": " ".join(other)}
        yield FormatExample("similarity", f"3 of 60 words changed, {bits} bits", given)
        given = given | {"b": pseudo_text(60, 2)}
        yield FormatExample("similarity", f"different words, {bits} bits", given)
    given = spoken() | {"a": "Straße, café!", "b": "STRASSE CAFE\u0301"}
    yield FormatExample("similarity", "sharp s and accents", given)


def sketch_cases() -> Iterator[FormatExample]:
    """All other sketches, families, hash functions and bits, of texts and of elements."""
    text = pseudo_text(40, 3)
    tables = {"tables": SMALL}
    blocks = {"distance": 3, "blocks": 6}
    fields: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"slots": 16, "family": "affine-m61"}, tables),
        ({"slots": 16, "sketch": "oneperm"}, tables),
        ({"slots": 96, "sketch": "oneperm"}, tables),
        ({"slots": 1, "sketch": "minhash"}, {"tables": [[1, 1]]}),
        ({"slots": 16, "sketch": "weighted"}, tables),
        ({"slots": 64, "sketch": "simhash"}, blocks),
        ({"slots": 128, "sketch": "simhash"}, {"distance": 2, "blocks": 5}),
        ({"slots": 8, "sketch": "bottomk"}, {"spare": 3}),
        ({"slots": 64, "sketch": "bottomk"}, {"spare": 0}),
        ({"slots": 128, "sketch": "hyperloglog"}, {}),
    ]
    fields += [({"slots": 13, "bits": bits}, tables) for bits in (1, 2, 4, 8, 16)]
    fields += [({"slots": 13, "bits": 2, "family": "affine-m61"}, tables)]
    fields += [({"slots": 13, "bits": 4, "sketch": "oneperm"}, tables)]
    fields += [({"slots": 8, **keyed(hash)}, tables) for hash in ("murmur3", "fnv1a", "siphash")]
    for sketch in ("oneperm", "weighted"):
        fields += [({"slots": 8, "sketch": sketch, "seed": 9, **keyed("siphash")}, tables)]
    fields += [({"slots": 8, "sketch": "bottomk", "seed": 9}, {"spare": 1})]
    for one, others in fields:
        name = " ".join(f"{field} {value}" for field, value in one.items() if field != "key")
        given = spoken(shingle="word:2", **one) | others
        yield FormatExample("document", f"{name}, 40 words", given | {"text": text})
        yield FormatExample("document", f"{name}, repeats", given | {"text": "a b a b a b a"})
        yield FormatExample("document", f"{name}, nothing", given | {"text": " "})
        for count in (0, 1, 3):
            elements = {"elements": words16(mix(n + 1) for n in range(count))}
            yield FormatExample("sketch", f"{name}, {count} elements", given | elements)
    given = spoken(sketch="oneperm", slots=700) | tables | {"elements": words16([mix(1)])}
    yield FormatExample("sketch", "more empty slots than shifts fill at once", given)
    for profile in PROFILES:
        given = spoken(profile=profile, slots=8) | tables | {"text": HOSTILE["look-alikes"]}
        yield FormatExample("document", f"look-alikes, {profile}", given)
    given = spoken(slots=8, seed=SEEDS[2], **keyed("siphash")) | tables | {"text": text}
    yield FormatExample("document", "a key and a seed", given)
    yield from weight_cases()
    yield from removal_cases()
    given = spoken(shingle="token:2", slots=8) | tables | {"tokens": words16([5, 2**64 - 1, 9])}
    yield FormatExample("document", "tokens", given)


def band_cases() -> Iterator[FormatExample]:
    """Keys of bands of several sizes, and serialised sketches to read, damaged ones among them."""
    for width, tables in product((32, 64), ([[1, 1]], [[5, 3]], [[2, 5], [3, 2]], [[1, 16]])):
        slots = [mix(n + 1) >> (64 - width) for n in range(16)]
        slots[3] = 2**width - 1
        digits = [f"{slot:0{width // 4}x}" for slot in slots]
        given = {"width": width, "slots": digits, "tables": tables}
        yield FormatExample("bands", f"{tables} of {width} bits", given)
    spec = Spec(slots=4)
    good = sketch_bytes(spec, bytes(range(16)))
    front, text = len(good) - 24, spec.canonical.encode()
    for name, data in (
        ("whole", good),
        ("nothing", b""),
        ("magic alone", good[:4]),
        ("cut", good[:-1]),
        ("another magic", b"nds2" + good[4:]),
        ("a changed slot", good[:front] + b"\x01" + good[front + 1 :]),
        ("a checksum in the other byte order", good[:-8] + good[:-9:-1]),
        ("a length in the other byte order", sealed(good[:4] + good[7:3:-1] + good[8:-8])),
        ("a slot too few", sketch_bytes(spec, bytes(12))),
        ("a byte too many", sealed(good[:-8] + b"\0")),
        ("another version", sealed(good[:-8].replace(b'"version":1', b'"version":2'))),
        ("no specification", sealed(good[:8] + b"[" * len(text) + bytes(16))),
    ):
        yield FormatExample("read", name, {"bytes": data.hex()})


FILES: Final[dict[str, Callable[[], Iterator[FormatExample]]]] = {
    "hashes": hash_cases,
    "texts": text_cases,
    "shingles": shingle_cases,
    "documents": document_cases,
    "sketches": sketch_cases,
    "bands": band_cases,
    "filters": filter_cases,
    "rings": ring_cases,
    "planes": vector_cases,
    "groups": group_cases,
    "strips": strip_cases,
}
"""File -> its examples, in their order."""
