"""The hash functions for words, by their published specifications; and what a key changes.

All arithmetic is on unsigned 64-bit integers: `& MASK` drops the bits above.
"""

from __future__ import annotations

from hashlib import blake2b
from struct import iter_unpack

from neardup.spec import Spec

MASK = 2**64 - 1

# The five primes of xxHash64.
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def rotl(x: int, r: int) -> int:
    """Rotate the 64 bits of `x` left by `r` places."""
    return (x << r | x >> (64 - r)) & MASK


def xxh64(data: bytes, seed: int = 0) -> int:
    """Return the xxHash64 of `data`."""

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
    """Return `h` with its bits mixed by the 64-bit finaliser of MurmurHash3, a bijection."""
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & MASK
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & MASK
    return h ^ h >> 33


def murmur3(data: bytes, seed: int = 0) -> tuple[int, int]:
    """Return both halves of the 128-bit MurmurHash3 for x64; the seed may have 64 bits."""
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F

    def scramble1(k: int) -> int:
        return rotl(k * c1 & MASK, 31) * c2 & MASK

    def scramble2(k: int) -> int:
        return rotl(k * c2 & MASK, 33) * c1 & MASK

    h1 = h2 = seed
    whole = len(data) // 16 * 16
    for k1, k2 in iter_unpack("<QQ", data[:whole]):
        h1 = ((rotl(h1 ^ scramble1(k1), 27) + h2) * 5 + 0x52DCE729) & MASK
        h2 = ((rotl(h2 ^ scramble2(k2), 31) + h1) * 5 + 0x38495AB5) & MASK
    h1 ^= scramble1(int.from_bytes(data[whole : whole + 8], "little"))
    h2 ^= scramble2(int.from_bytes(data[whole + 8 :], "little"))
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & MASK
    h2 = (h2 + h1) & MASK
    h1, h2 = mix(h1), mix(h2)
    h1 = (h1 + h2) & MASK
    return h1, (h2 + h1) & MASK


FNV_BASIS = 14695981039346656037


def fnv1a(data: bytes, seed: int = 0) -> int:
    """Return the 64-bit FNV-1a of `data`; the seed is XORed with the offset basis."""
    h = FNV_BASIS ^ seed
    for byte in data:
        h = (h ^ byte) * 0x100000001B3 & MASK
    return h


def siphash(data: bytes, key: bytes) -> int:
    """Return the 64-bit SipHash-2-4 of `data` under a key of 16 bytes."""
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rounds(number: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(number):
            v0, v2 = (v0 + v1) & MASK, (v2 + v3) & MASK
            v1, v3 = rotl(v1, 13) ^ v0, rotl(v3, 16) ^ v2
            v0 = rotl(v0, 32)
            v2, v0 = (v2 + v1) & MASK, (v0 + v3) & MASK
            v1, v3 = rotl(v1, 17) ^ v2, rotl(v3, 21) ^ v0
            v2 = rotl(v2, 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for (m,) in iter_unpack("<Q", padded):
        v3 ^= m
        rounds(2)
        v0 ^= m
    v2 ^= 0xFF
    rounds(4)
    return v0 ^ v1 ^ v2 ^ v3


def element_hash(data: bytes, spec: Spec, key: bytes = b"") -> int:
    """Return the 64-bit hash of an element by the hash function of the specification."""
    match spec.hash:
        case "murmur3":
            return murmur3(data, spec.seed)[0]
        case "fnv1a":
            return fnv1a(data, spec.seed)
        case "siphash":
            return siphash(data, key)
    return xxh64(data, spec.seed)


def key_id(key: bytes) -> str:
    """Return the id by which a specification names a key, from which the key can't be derived."""
    return blake2b(key=key, digest_size=8, person=b"neardup key id").hexdigest()


def constants_seed(spec: Spec, key: bytes = b"") -> int:
    """Return the seed of a sketch's constants.

    It is the seed of the specification; with a keyed hash, a hash of that seed under the key, so
    that the constants are secret too.
    """
    if spec.hash != "siphash":
        return spec.seed
    seed = spec.seed.to_bytes(8, "little")
    return int.from_bytes(
        blake2b(seed, key=key, digest_size=8, person=b"neardup seed").digest(), "little"
    )
