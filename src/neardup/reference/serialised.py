"""Sketches and filters as bytes, with their checksum, which is the XXH3-64 of all before it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from struct import pack, unpack_from

from neardup.errors import NeardupError
from neardup.reference.hashes import MASK, P1, P2, P3, P4, P5
from neardup.spec import MINHASHES, Spec

SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
"""The constant that XXH3 mixes with its input."""
SMALL1, SMALL2, SMALL3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
STRIPE, STRIPES = 64, 16


def word(data: bytes, at: int) -> int:
    return int(unpack_from("<Q", data, at)[0])


def half(data: bytes, at: int) -> int:
    return int(unpack_from("<I", data, at)[0])


def fold(a: int, b: int) -> int:
    """Return the lower half of a product of 128 bits, XORed with the upper half."""
    product = a * b
    return product & MASK ^ product >> 64


def finish(h: int) -> int:
    h = (h ^ h >> 37) * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def finish_short(h: int) -> int:
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def mix16(data: bytes, at: int, secret: int) -> int:
    return fold(
        word(data, at) ^ word(SECRET, secret), word(data, at + 8) ^ word(SECRET, secret + 8)
    )


def xxh3_64(data: bytes) -> int:
    """Return the XXH3-64 of some bytes, without a seed."""
    if len(data) <= 16:
        return xxh3_short(data)
    if len(data) <= 240:
        return xxh3_middle(data)
    return xxh3_long(data)


def xxh3_short(data: bytes) -> int:
    size = len(data)
    if size > 8:
        low = word(data, 0) ^ word(SECRET, 24) ^ word(SECRET, 32)
        high = word(data, size - 8) ^ word(SECRET, 40) ^ word(SECRET, 48)
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return finish((size + swapped + high + fold(low, high)) & MASK)
    if size >= 4:
        h = half(data, size - 4) + (half(data, 0) << 32) ^ word(SECRET, 8) ^ word(SECRET, 16)
        h ^= (h << 49 | h >> 15) & MASK ^ (h << 24 | h >> 40) & MASK
        h = h * 0x9FB21C651E98DF25 & MASK
        h = (h ^ (h >> 35) + size) * 0x9FB21C651E98DF25 & MASK
        return h ^ h >> 28
    if size:
        h = data[0] << 16 | data[size >> 1] << 24 | data[-1] | size << 8
        return finish_short(h ^ half(SECRET, 0) ^ half(SECRET, 4))
    return finish_short(word(SECRET, 56) ^ word(SECRET, 64))


def xxh3_middle(data: bytes) -> int:
    size = len(data)
    h = size * P1
    if size <= 128:
        for place in range((size - 1) // 32 + 1):
            h += mix16(data, 16 * place, 32 * place)
            h += mix16(data, size - 16 * (place + 1), 32 * place + 16)
        return finish(h & MASK)
    h += sum(mix16(data, 16 * place, 16 * place) for place in range(8))
    h = finish(h & MASK)
    h += sum(mix16(data, 16 * place, 16 * (place - 8) + 3) for place in range(8, size // 16))
    return finish((h + mix16(data, size - 16, 119)) & MASK)


def xxh3_long(data: bytes) -> int:
    lanes = [SMALL3, P1, P2, P3, P4, SMALL2, P5, SMALL1]

    def absorb(at: int, secret: int) -> None:
        for lane in range(8):
            value = word(data, at + 8 * lane)
            keyed = value ^ word(SECRET, secret + 8 * lane)
            lanes[lane ^ 1] += value
            lanes[lane] += (keyed & 0xFFFFFFFF) * (keyed >> 32)

    for stripe in range((len(data) - 1) // STRIPE):
        absorb(stripe * STRIPE, stripe % STRIPES * 8)
        if stripe % STRIPES == STRIPES - 1:
            for lane in range(8):
                h = lanes[lane] & MASK
                lanes[lane] = (h ^ h >> 47 ^ word(SECRET, 128 + 8 * lane)) * SMALL1 & MASK
    absorb(len(data) - STRIPE, 121)
    h = len(data) * P1
    for pair in range(4):
        a, b = lanes[2 * pair] & MASK, lanes[2 * pair + 1] & MASK
        h += fold(a ^ word(SECRET, 11 + 16 * pair), b ^ word(SECRET, 19 + 16 * pair))
    return finish(h & MASK)


def sealed(content: bytes) -> bytes:
    """Return content with its checksum behind it."""
    return content + pack("<Q", xxh3_64(content))


def sketch_bytes(spec: Spec, payload: bytes) -> bytes:
    """Return a sketch as bytes: the specification in front of its content."""
    text = spec.canonical.encode("ascii")
    return sealed(b"nds1" + pack("<I", len(text)) + text + payload)


def read_slots(data: bytes) -> tuple[str, list[int]]:
    """Return the specification and the slots of a MinHash in bytes; ValueError of any others."""
    if data[:4] != b"nds1" or len(data) < 16 or data != sealed(data[:-8]):
        raise ValueError("not a sketch, or damaged")
    end = 8 + half(data, 4)
    text, payload = data[8:end].decode("ascii"), data[end:-8]
    try:
        spec = Spec.from_json(text)
    except NeardupError as error:
        raise ValueError("another version") from error
    if spec.sketch not in MINHASHES or spec.narrow or len(payload) * 8 != spec.slots * spec.width:
        raise ValueError("another sketch")
    size = spec.width // 8
    slots = [payload[at : at + size] for at in range(0, len(payload), size)]
    return text, [int.from_bytes(slot, "little") for slot in slots]


def hyperloglog_bytes(registers: Sequence[int]) -> bytes:
    """Return registers in the updatable form of Apache DataSketches, marked as out of order."""
    power = len(registers).bit_length() - 1
    front = bytes([10, 1, 7, power, 0, 0x30, 0, 10])
    low = sum(2.0**-value for value in registers if value < 32)
    high = sum(2.0**-value for value in registers if value >= 32)
    zeros = registers.count(0)
    return front + pack("<dddII", 0.0, low, high, zeros, 0) + bytes(registers)


def filter_file(kind: str, parameters: dict[str, int], array: tuple[str, str, bytes]) -> bytes:
    """Return the file of a filter with one array: its name, its type and its bytes."""
    name, form, data = array
    size = len(data) // int(form[2])
    described = {"name": name, "type": form, "size": size, "at": 0, "xxh3_64": xxh3_64(data)}
    header = {"kind": kind, "parameters": parameters, "arrays": [described]}
    text = json.dumps(header, sort_keys=True).encode("ascii")
    front = sealed(pack("<8sII", b"ndfilter", 1, len(text)) + text)
    return front + bytes(-len(front) % 64) + data
