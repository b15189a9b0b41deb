"""The results of examples, by the slow reference alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import blake2b
from struct import pack
from typing import Final

from neardup import reference
from neardup.protocol import strips_by_reference, structures_by_reference
from neardup.protocol.examples import (
    Compute,
    Expected,
    Given,
    is_valid,
    numbers_of,
    signed,
    slots_in_hex,
    spec_of,
    word16,
    words16,
)
from neardup.reference import hashes, sketches, weighted
from neardup.reference.serialised import hyperloglog_bytes, read_slots, sketch_bytes, xxh3_64
from neardup.spec import UNICODE, VERSION, Spec


def version(_given: Given) -> Expected:
    return {"version": VERSION, "unicode": UNICODE}


def hash_bytes(given: Given) -> Expected:
    data, seed = bytes.fromhex(given["data"]), int(given.get("seed", "0"), 16)
    match given["function"]:
        case "xxh64":
            return {"hash": word16(hashes.xxh64(data, seed))}
        case "murmur3":
            return {"hash": word16(hashes.murmur3(data, seed)[0])}
        case "fnv1a":
            return {"hash": word16(hashes.fnv1a(data, seed))}
        case "siphash":
            return {"hash": word16(hashes.siphash(data, bytes.fromhex(given["key"])))}
    return {"hash": word16(xxh3_64(data))}


def mix(given: Given) -> Expected:
    return {"hash": word16(hashes.mix(int(given["value"], 16)))}


def blake2b_digest(given: Given) -> Expected:
    data = bytes.fromhex(given["data"])
    return {"digest": blake2b(data, digest_size=given["size"]).hexdigest()}


def normalise(given: Given) -> Expected:
    if not is_valid(given["text"]):
        return {"refused": "surrogate"}
    return {"codes": reference.normalise(given["text"], given["profile"])}


def units(given: Given) -> Expected:
    spec = Spec(profile=given["profile"], unit=given["unit"])
    return {"units": [unit.hex() for unit in reference.units(given["text"], spec)]}


def unit_hashes(given: Given, spec: Spec, key: bytes) -> list[int]:
    """Return the hashes of the units of the text, or of the tokens, that are given."""
    if "tokens" in given:
        found = reference.token_units([signed(token) for token in given["tokens"]])
    else:
        found = reference.units(given["text"], spec)
    return reference.unit_hashes(found, spec, key)


def key_of(given: Given) -> bytes:
    return bytes.fromhex(given.get("key", ""))


def shingles(given: Given) -> Expected:
    spec = spec_of(given)
    hashed = unit_hashes(given, spec, key_of(given))
    return {
        "unit_hashes": words16(hashed),
        "shingles": words16(sorted(reference.shingles(hashed, spec.size))),
        "content": words16(reference.content_hash(hashed)),
    }


def minhash(bag: Sequence[int], spec: Spec, key: bytes, given: Given) -> Expected:
    if spec.sketch == "oneperm":
        slots = sketches.bins(set(bag), spec.slots, hashes.constants_seed(spec, key))
    else:
        slots = reference.signature(set(bag), spec, key)
    return of_slots(slots, spec, given)


def of_slots(slots: Sequence[int], spec: Spec, given: Given) -> Expected:
    """Return slots, what they are when they are filled and cut, band keys and bytes."""
    compared = sketches.fill_slots(list(slots)) if spec.sketch == "oneperm" else slots
    payload = pack(f"<{len(slots)}{'I' if spec.width == 32 else 'Q'}", *slots)
    made: Expected = {"slots": slots_in_hex(slots, spec.width)}
    if spec.sketch == "oneperm":
        made["filled"] = slots_in_hex(compared, spec.width)
    if spec.narrow:
        payload = sketches.b_bits(compared, spec)
        made["packed"] = payload.hex()
    keys = reference.table_keys(compared, given["tables"], spec.width)
    return made | {"keys": words16(keys), "bytes": sketch_bytes(spec, payload).hex()}


def weight_of(shingle: int, given: Given) -> int:
    """Return what an occurrence of a shingle weighs: by document frequencies, if they are given."""
    if "cells" not in given:
        return weighted.ONE
    count = given["cells"].get(str(shingle >> 42), 0)
    return weighted.inverse_frequency(given["documents"], count)


def weighted_minhash(bag: Sequence[int], spec: Spec, key: bytes, given: Given) -> Expected:
    weights = {x: count * weight_of(x, given) for x, count in Counter(bag).items()}
    seed = hashes.constants_seed(spec, key)
    return of_slots(weighted.weighted_signature(weights, spec.slots, seed), spec, given)


def simhash(bag: Sequence[int], spec: Spec, _key: bytes, given: Given) -> Expected:
    bits = spec.slots
    weights = [weight_of(x, given) for x in bag]
    terms = [weighted.words(x, bits) for x in bag]
    sums = weighted.sums(zip(terms, weights, strict=True), bits)
    fingerprint = weighted.sign(sums)
    keys = weighted.block_keys(fingerprint, bits, given["distance"], given["blocks"])
    payload = pack(f"<{1 + bits}q", sum(weights), *sums)
    return {
        "words": words16(fingerprint >> at & hashes.MASK for at in range(0, bits, 64)),
        "keys": words16(keys),
        "bytes": sketch_bytes(spec, payload).hex(),
    }


def bottomk(bag: Sequence[int], spec: Spec, key: bytes, given: Given) -> Expected:
    of_seed = reference.xxh64(b"bottom-k", hashes.constants_seed(spec, key))
    values = sorted({hashes.mix(x ^ of_seed) for x in bag})
    room = spec.slots + given["spare"]
    limit = values[room] if len(values) > room else 2**64
    kept = values[:room]
    payload = pack(f"<IQ{len(kept)}Q", given["spare"], limit - 1, *kept)
    return {"values": words16(kept), "bytes": sketch_bytes(spec, payload).hex()}


def hyperloglog(bag: Sequence[int], spec: Spec, _key: bytes, _given: Given) -> Expected:
    registers = sketches.registers(set(bag), spec.slots)
    payload = hyperloglog_bytes(registers) if bag else b""
    return {"bytes": sketch_bytes(spec, payload).hex()}


SKETCHES: Final[dict[str, Callable[[Sequence[int], Spec, bytes, Given], Expected]]] = {
    "minhash": minhash,
    "oneperm": minhash,
    "weighted": weighted_minhash,
    "simhash": simhash,
    "bottomk": bottomk,
    "hyperloglog": hyperloglog,
}
"""Sketch -> what is computed of the shingles of a document, with repeats."""


def document(given: Given) -> Expected:
    spec, key = spec_of(given), key_of(given)
    if not is_valid(given.get("text", "")):
        return {"refused": "surrogate"}
    hashed = unit_hashes(given, spec, key)
    if not hashed:
        return {"refused": "empty"}
    made = {
        "fingerprint": spec.fingerprint,
        "content": words16(reference.content_hash(hashed)),
    }
    return made | SKETCHES[spec.sketch](weighted.bag(hashed, spec.size), spec, key, given)


def sketch(given: Given) -> Expected:
    spec = spec_of(given)
    return SKETCHES[spec.sketch](numbers_of(given["elements"]), spec, key_of(given), given)


def similarity(given: Given) -> Expected:
    spec = spec_of(given)
    sets = [
        reference.shingles(unit_hashes({"text": given[side]}, spec, b""), spec.size)
        for side in ("a", "b")
    ]
    slots = [reference.signature(each, spec) for each in sets]
    estimate = reference.estimate(*slots)
    if spec.narrow:
        a, b = (cut_slots(each, spec) for each in slots)
        estimate = sketches.b_bit_estimate(a, b, spec.bits)
    return {"estimate": estimate, "jaccard": reference.jaccard(*sets)}


def cut_slots(slots: list[int], spec: Spec) -> list[int]:
    """Return the bits of each slot that are stored, as a number."""
    packed = int.from_bytes(sketches.b_bits(slots, spec), "little")
    return [packed >> place * spec.bits & 2**spec.bits - 1 for place in range(spec.slots)]


def bands(given: Given) -> Expected:
    slots = numbers_of(given["slots"])
    return {"keys": words16(reference.table_keys(slots, given["tables"], given["width"]))}


def read(given: Given) -> Expected:
    try:
        text, slots = read_slots(bytes.fromhex(given["bytes"]))
    except ValueError:
        return {"refused": True}
    return {"spec": text, "slots": slots_in_hex(slots, Spec.from_json(text).width)}


COMPUTE: Final[dict[str, Compute]] = {
    "version": version,
    "hash": hash_bytes,
    "mix": mix,
    "blake2b": blake2b_digest,
    "normalise": normalise,
    "units": units,
    "shingles": shingles,
    "document": document,
    "sketch": sketch,
    "similarity": similarity,
    "bands": bands,
    "read": read,
    **structures_by_reference.COMPUTE,
    **strips_by_reference.COMPUTE,
}
"""Kind of example -> its computation."""
