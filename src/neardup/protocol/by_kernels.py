"""The results of examples as the library computes them, by its kernels and classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels, reference
from neardup.corpus.documents import TOKENS, make_strings
from neardup.errors import FormatError
from neardup.framing import checksum
from neardup.keys import Key, make_hasher, require_key, seeded
from neardup.lsh.bands import Bands
from neardup.lsh.blocks import Blocks
from neardup.lsh.curve import Curve
from neardup.protocol import strips_by_kernels, structures_by_kernels
from neardup.protocol.examples import (
    Compute,
    Expected,
    Given,
    numbers_of,
    signed,
    slots_in_hex,
    spec_of,
    word16,
    words16,
)
from neardup.sketch.base import mix_hashes, pack_sketch
from neardup.sketch.bottomk import BottomK
from neardup.sketch.hyperloglog import HyperLogLog
from neardup.sketch.minhash import MinHash, fill_slots, mergeable
from neardup.sketch.simhash import SimHash
from neardup.sketch.weighted import WeightedMinHash, weighted_signatures
from neardup.spec import UNICODE, VERSION, Spec
from neardup.text.arrays import view_strings
from neardup.text.characters import CLASS, CLASSES, FOLD, character_table, normalise_texts
from neardup.text.frequencies import CELLS, Frequencies, require_frequencies
from neardup.text.shingle import hash_unit_sequences, hash_units, shingle_documents

Hashes = NDArray[np.uint64]


def version(_given: Given) -> Expected:
    return {"version": VERSION, "unicode": UNICODE}


def key_of(given: Given) -> Key | None:
    return Key(bytes.fromhex(given["key"])) if "key" in given else None


def hash_all(units: list[bytes], spec: Spec, key: Key | None) -> Hashes:
    ends = np.cumsum([0, *map(len, units)], dtype=np.int64)
    data = np.frombuffer(b"".join(units), np.uint8)
    hashes: Hashes = kernels.element_hashes(data, ends, make_hasher(spec, key))
    return hashes


def hash_bytes(given: Given) -> Expected:
    data, name = bytes.fromhex(given["data"]), given["function"]
    if name == "xxh3":
        return {"hash": word16(checksum(data))}
    key = key_of(given)
    spec = Spec(hash=name, seed=int(given.get("seed", "0"), 16), key=key.id if key else "")
    return {"hash": word16(int(hash_all([data], spec, key)[0]))}


def mix(given: Given) -> Expected:
    return {"hash": words16(mix_hashes(np.array([int(given["value"], 16)], np.uint64)).tolist())[0]}


def blake2b_digest(given: Given) -> Expected:
    data = bytes.fromhex(given["data"])
    return {"digest": blake2b(data, digest_size=given["size"]).hexdigest()}


def normalise(given: Given) -> Expected:
    """Kernels fold while they cut: here the table by which they do so is applied by itself."""
    profile = given["profile"]
    try:
        texts = view_strings(make_strings([given["text"]]))
    except UnicodeEncodeError:
        return {"refused": "surrogate"}
    normal = normalise_texts(texts, profile).data.tobytes().decode()
    codes = np.frombuffer(normal.encode("utf-32-le"), np.uint32)
    entries = entries_of(codes, profile)
    hidden = (entries & CLASSES == CLASS["D"]) & (
        entries_of(codes, "standard") & CLASSES != CLASS["D"]
    )
    return {"codes": ((codes + (entries >> 10)) % FOLD)[~hidden].tolist()}


def entries_of(codes: NDArray[np.uint32], profile: str) -> NDArray[np.uint32]:
    table = character_table(profile)
    entries: NDArray[np.uint32] = table.stage2[
        table.stage1[codes >> 7].astype(np.uint32) << 7 | codes & 127
    ]
    return entries


def units(given: Given) -> Expected:
    """Kernels hash units and don't write them: those of the reference, where the hash is theirs."""
    spec = Spec(profile=given["profile"], unit=given["unit"])
    hashes = hash_units(make_strings([given["text"]]), spec).data.tolist()
    cut = reference.units(given["text"], spec)
    theirs = [*hash_all(cut, spec, None).tolist(), *[None] * len(hashes)]
    found = [*cut, *[b""] * len(hashes)]
    pairs = zip(hashes, theirs, found, strict=False)
    return {"units": [unit.hex() if mine == other else "" for mine, other, unit in pairs]}


def documents(given: Given) -> pa.Array:
    """Return the text, or the tokens, as the column of one document."""
    if "tokens" in given:
        return pa.array([[signed(token) for token in given["tokens"]]], TOKENS)
    return make_strings([given["text"]])


def shingles(given: Given) -> Expected:
    spec, key = spec_of(given), key_of(given)
    hashed = hash_units(documents(given), spec, key)
    cut = shingle_documents(documents(given), spec, key)
    return {
        "unit_hashes": words16(hashed.data.tolist()),
        "shingles": words16(np.unique(cut.shingles.data).tolist()),
        "content": words16(hash_unit_sequences(hashed)[0].tolist()),
    }


def minhash(bag: Hashes, spec: Spec, key: Key | None, given: Given) -> Expected:
    whole = MinHash(spec=replace(spec, bits=spec.width), key=key)
    whole.update_hashes(bag)
    ends = np.array([0, len(bag)], np.int64)
    opened = mergeable(bag, ends, seeded(spec, key))
    compared = fill_slots(opened) if spec.sketch == "oneperm" else opened
    made: Expected = {"slots": slots_in_hex(opened[0].tolist(), spec.width)}
    if spec.sketch == "oneperm":
        made["filled"] = slots_in_hex(compared[0].tolist(), spec.width)
    data = whole.to_bytes()
    if spec.narrow:
        cut = whole.b_bit(spec.bits)
        made["packed"], data = cut.packed.hex(), cut.to_bytes()
    return made | {"keys": keys_of(compared, given), "bytes": data.hex()}


def keys_of(rows: NDArray[Any], given: Given) -> list[str]:
    tables = Bands(tuple(Curve(bands, rows) for bands, rows in given["tables"]))
    return words16(tables.keys(rows)[0].tolist())


def frequencies(spec: Spec, given: Given) -> Frequencies:
    """Return the document frequencies that are given; none if shingles weigh the same."""
    if "cells" not in given:
        return Frequencies()
    cells = np.zeros(CELLS, np.uint32)
    for cell, count in given["cells"].items():
        cells[int(cell)] = count
    found = Frequencies(given["documents"], cells)
    require_frequencies(spec, found)
    return found


def weighted_minhash(bag: Hashes, spec: Spec, key: Key | None, given: Given) -> Expected:
    ends = np.array([0, len(bag)], np.int64)
    row = weighted_signatures(bag, ends, seeded(spec, key), frequencies(spec, given).weights)
    data = pack_sketch(spec, row[0].astype("<u4").tobytes())
    restored = WeightedMinHash.from_bytes(data, key)
    return {
        "slots": slots_in_hex(restored.slots.tolist(), spec.width),
        "keys": keys_of(row, given),
        "bytes": data.hex(),
    }


def simhash(bag: Hashes, spec: Spec, key: Key | None, given: Given) -> Expected:
    sketch = SimHash(spec=spec, key=key)
    weights = frequencies(spec, given).weights
    of_each = None if weights is None else weights[bag >> np.uint64(42)] / 2**16
    sketch.update_hashes(bag, of_each)
    tables = Blocks(spec.slots, given["distance"], given["blocks"])
    return {
        "words": words16(sketch.words.tolist()),
        "keys": words16(tables.keys(sketch.words[None])[0].tolist()),
        "bytes": sketch.to_bytes().hex(),
    }


def bottomk(bag: Hashes, spec: Spec, key: Key | None, given: Given) -> Expected:
    sketch = BottomK(spec=spec, spare=given["spare"], key=key)
    sketch.update_hashes(bag)
    return {"values": words16(sketch.values.tolist()), "bytes": sketch.to_bytes().hex()}


def hyperloglog(bag: Hashes, spec: Spec, key: Key | None, _given: Given) -> Expected:
    sketch = HyperLogLog(spec=spec, key=key)
    sketch.update_hashes(bag)
    return {"bytes": sketch.to_bytes().hex()}


SKETCHES: Final[dict[str, Callable[[Hashes, Spec, Key | None, Given], Expected]]] = {
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
    try:
        cut = shingle_documents(documents(given), spec, key)
    except UnicodeEncodeError:
        return {"refused": "surrogate"}
    if not cut.shingles.data.size:
        return {"refused": "empty"}
    made = {"fingerprint": spec.fingerprint, "content": words16(cut.content[0].tolist())}
    return made | SKETCHES[spec.sketch](cut.shingles.data, spec, key, given)


def sketch(given: Given) -> Expected:
    spec, key = spec_of(given), key_of(given)
    require_key(spec, key)
    elements = np.array(numbers_of(given["elements"]), np.uint64)
    return SKETCHES[spec.sketch](elements, spec, key, given)


def similarity(given: Given) -> Expected:
    spec = spec_of(given)
    cut = shingle_documents(make_strings([given["a"], given["b"]]), spec).shingles
    bags = [cut.data[cut.offsets[side] : cut.offsets[side + 1]] for side in (0, 1)]
    whole = replace(spec, bits=spec.width)
    a, b = MinHash(spec=whole), MinHash(spec=whole)
    a.update_hashes(bags[0])
    b.update_hashes(bags[1])
    narrow = spec.bits if spec.narrow else None
    return {
        "estimate": a.b_bit(narrow).jaccard(b.b_bit(narrow)) if narrow else a.jaccard(b),
        "jaccard": reference.jaccard(*(set(bag.tolist()) for bag in bags)),
    }


def bands(given: Given) -> Expected:
    kind = np.uint32 if given["width"] == 32 else np.uint64
    return {"keys": keys_of(np.array([numbers_of(given["slots"])], kind), given)}


def read(given: Given) -> Expected:
    try:
        sketch = MinHash.from_bytes(bytes.fromhex(given["bytes"]))
    except FormatError:
        return {"refused": True}
    return {
        "spec": sketch.spec.canonical,
        "slots": slots_in_hex(sketch.slots.tolist(), sketch.spec.width),
    }


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
    **structures_by_kernels.COMPUTE,
    **strips_by_kernels.COMPUTE,
}
"""Kind of example -> its computation, as in `by_reference.py`."""
