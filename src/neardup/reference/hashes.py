"""The hash functions, after their published specifications."""

from __future__ import annotations

from struct import iter_unpack

MASK = 2**64 - 1


P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotl(x: int, r: int) -> int:
    return (x << r | x >> (64 - r)) & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """xxHash64, after its published specification."""

    def round_(acc: int, lane: int) -> int:
        return rotl((acc + lane * P2) & MASK, 31) * P1 & MASK

    at = 0
    if len(data) >= 32:
        acc = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        for at in range(0, len(data) - 31, 32):
            lanes = iter_unpack("<Q", data[at : at + 32])
            acc = [round_(a, lane) for a, (lane,) in zip(acc, lanes, strict=True)]
        at += 32
        h = sum(rotl(a, r) for a, r in zip(acc, (1, 7, 12, 18), strict=True)) & MASK
        for a in acc:
            h = ((h ^ round_(0, a)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        lane = int.from_bytes(data[at : at + 8], "little")
        h = (rotl(h ^ round_(0, lane), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        h ^= int.from_bytes(data[at : at + 4], "little") * P1 & MASK
        h = (rotl(h, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotl(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def mix(h: int) -> int:
    """MurmurHash3's 64-bit finaliser."""
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33
