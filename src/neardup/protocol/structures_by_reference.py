"""The results of examples of filters, rings and vectors, by the slow reference alone."""

from __future__ import annotations

from fractions import Fraction
from struct import pack, unpack
from typing import Final

from neardup import reference
from neardup.protocol.examples import Compute, Expected, Given, spec_of, word16, words16
from neardup.reference import filters, hash_ring, vectors
from neardup.reference.filters import Bloom, CountingBloom, Cuckoo
from neardup.reference.hashes import siphash, xxh64
from neardup.reference.serialised import filter_file, xxh3_64


def of_filter(given: Given) -> Expected:
    """Return what a filter answers while keys are inserted and removed, and then its file."""
    seed = int(given["seed"], 16)
    if given["filter"] == "set":
        return exact_set(given, seed)
    inserted, removed, asked = (
        [xxh64(bytes.fromhex(key), seed) for key in given[name]]
        for name in ("insert", "remove", "ask")
    )
    one: Bloom | Cuckoo
    if given["filter"] == "cuckoo":
        one = Cuckoo(given["buckets"], seed)
    else:
        made = Bloom if given["filter"] == "bloom" else CountingBloom
        one = made(given["blocks"], given["probes"], seed)
    present = []
    for key in inserted:
        present.append(one.contains(key))
        one.insert(key)
    gone = [one.remove(key) for key in removed] if isinstance(one, CountingBloom | Cuckoo) else []
    keys = len(present) - (sum(present) if type(one) is Bloom else sum(gone))
    return {
        "present": present,
        "removed": gone,
        "found": [one.contains(key) for key in asked],
        "file": file_of(one, given, {"seed": seed, "keys": keys}).hex(),
    }


def file_of(one: Bloom | Cuckoo, given: Given, parameters: dict[str, int]) -> bytes:
    if isinstance(one, Cuckoo):
        table = filters.packed_buckets(one.buckets)
        return filter_file(
            "cuckoo", parameters | {"buckets": given["buckets"]}, ("table", "|u1", table)
        )
    parameters |= {"blocks": given["blocks"], "probes": given["probes"]}
    places = given["blocks"] * filters.BLOCK
    if isinstance(one, CountingBloom):
        counters = sum(count << 4 * place for place, count in one.places.items())
        data = counters.to_bytes(places // 2, "little")
        return filter_file("counting", parameters, ("counters", "|u1", data))
    bits = sum(1 << place for place, count in one.places.items() if count)
    return filter_file("bloom", parameters, ("words", "<u8", bits.to_bytes(places // 8, "little")))


def exact_set(given: Given, seed: int) -> Expected:
    def key_of(digits: str) -> tuple[int, ...]:
        data = bytes.fromhex(digits)
        second = siphash(data, seed.to_bytes(16, "little"))
        return (xxh64(data, seed), second)[: given["bits"] // 64]

    inserted = [key_of(key) for key in given["insert"]]
    kept = list(dict.fromkeys(inserted))
    entries = filters.exact_entries(kept, given["slots"], given["bits"] // 64)
    parameters = {"seed": seed, "bits": given["bits"], "keys": len(kept)}
    data = pack(f"<{len(entries)}Q", *entries)
    return {
        "present": [key in inserted[:place] for place, key in enumerate(inserted)],
        "removed": [],
        "found": [key_of(key) in kept for key in given["ask"]],
        "file": filter_file("set", parameters, ("entries", "<u8", data)).hex(),
    }


def ring(given: Given) -> Expected:
    weights = dict(given["nodes"])
    made = hash_ring.ring_of(weights, given["vnodes"])
    return {
        "points": len(made),
        "first_points": words16(position for position, _ in made[:4]),
        "positions": words16(hash_ring.position_of(key) for key in given["keys"]),
        "nodes": [hash_ring.nodes_of(made, key, len(weights)) for key in given["keys"]],
        "shares": {name: as_float(share) for name, share in hash_ring.shares(made).items()},
    }


def as_float(share: Fraction) -> float:
    return share.numerator / share.denominator


def centre(given: Given) -> Expected:
    middle = vectors.centre(given["vectors"])
    digest = f"{xxh3_64(pack(f'<{len(middle)}h', *middle)):016x}" if any(middle) else "none"
    return {
        "quantised": [vectors.quantised(vector) for vector in given["vectors"]],
        "centre": middle,
        "digest": digest,
    }


def planes(given: Given) -> Expected:
    spec = spec_of(given)
    dimension, vector = len(given["vector"]), given["vector"]
    bits = vectors.signs(vector, given["centre"], spec.slots, spec.seed)
    signs = sum(bit << place for place, bit in enumerate(bits))
    padded = pack(f"<{dimension + dimension % 2}f", *vector, *[0.0] * (dimension % 2))
    content = reference.content_hash(unpack(f"<{len(padded) // 8}Q", padded))
    return {
        "fingerprint": spec.fingerprint,
        "directions": [vectors.direction(plane, dimension, spec.seed) for plane in (0, 1)],
        "signs": words16(signs >> at & 2**64 - 1 for at in range(0, spec.slots, 64)),
        "keys": words16(vectors.plane_keys(bits, *given["bands"])),
        "content": words16(content),
    }


def cosine(given: Given) -> Expected:
    return {"similarity": vectors.cosine_similarity(given["a"], given["b"], 0.0)}


def apart(given: Given) -> Expected:
    """Return what keys and content hashes are XORed with, so that documents are kept apart."""
    numbers = reference.numbers(given["text"], given["profile"])
    value = given["within"]
    hashed = 0 if value is None else xxh64(value.encode(), 0)
    hashed ^= xxh64(" ".join(numbers).encode(), 1)
    for place, (_, column) in enumerate(sorted(given["columns"].items()), 2):
        hashed ^= 0 if column is None else xxh64(column.encode(), place)
    return {"numbers": numbers, "apart": word16(hashed)}


COMPUTE: Final[dict[str, Compute]] = {
    "filter": of_filter,
    "ring": ring,
    "centre": centre,
    "planes": planes,
    "cosine": cosine,
    "apart": apart,
}
"""Kind of example -> its computation."""
