"""The results of examples of filters, rings and vectors, as the library computes them."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import Documents, make_strings
from neardup.formats.filters import save_filter
from neardup.hash_ring import HashRing, count_points, points_of, position_of
from neardup.lsh.planes import Planes
from neardup.membership.bloom import BloomFilter, CountingBloomFilter
from neardup.membership.cuckoo import CuckooFilter
from neardup.membership.exact import ExactSet
from neardup.membership.filter import Filter
from neardup.protocol.examples import Compute, Expected, Given, spec_of, word16, words16
from neardup.sketch.hyperplane import digest_centre, directions, sign_words
from neardup.sketcher import Sketcher, pack_vectors
from neardup.spec import Spec
from neardup.text.numbers import find_numbers
from neardup.text.shingle import hash_unit_sequences


def empty_filter(given: Given) -> Filter:
    """Return a filter of the size that is given, without keys."""
    start = {"seed": int(given["seed"], 16), "keys": 0}
    match given["filter"]:
        case "set":
            words = given["slots"] * (given["bits"] // 64 + 1)
            return ExactSet.restore(
                start | {"bits": given["bits"]}, {"entries": np.zeros(words, np.uint64)}
            )
        case "cuckoo":
            table = np.zeros(given["buckets"] * 6 + 2, np.uint8)
            return CuckooFilter.restore(start | {"buckets": given["buckets"]}, {"table": table})
        case "counting":
            counters = {"counters": np.zeros(given["blocks"] * 256, np.uint8)}
            return CountingBloomFilter.restore(shaped(given, start), counters)
    words = given["blocks"] * 8
    return BloomFilter.restore(shaped(given, start), {"words": np.zeros(words, np.uint64)})


def shaped(given: Given, start: dict[str, int]) -> dict[str, int]:
    return start | {"blocks": given["blocks"], "probes": given["probes"]}


def of_filter(given: Given) -> Expected:
    one = empty_filter(given)
    inserted, removed, asked = (
        [bytes.fromhex(key) for key in given[name]] for name in ("insert", "remove", "ask")
    )
    present = one.insert_many(inserted).tolist()
    gone = one.remove_many(removed).tolist() if removed else []
    with TemporaryDirectory() as folder:
        save_filter(one, Path(folder) / "filter")
        data = (Path(folder) / "filter").read_bytes()
    found = one.contains_many(asked).tolist()
    return {"present": present, "removed": gone, "found": found, "file": data.hex()}


def ring(given: Given) -> Expected:
    weights = dict(given["nodes"])
    vnodes = given["vnodes"]
    made = HashRing(weights, vnodes, weights)
    points = [points_of(name, count_points(vnodes, weight)) for name, weight in weights.items()]
    positions = np.sort(np.concatenate(points))
    return {
        "points": len(positions),
        "first_points": words16(positions[:4].tolist()),
        "positions": words16(position_of(key) for key in given["keys"]),
        "nodes": [made.nodes(key, len(weights)) for key in given["keys"]],
        "shares": made.distribution(),
    }


def rows_of(vectors: list[list[float]]) -> NDArray[np.float32]:
    return np.array(vectors, np.float32)


def centre(given: Given) -> Expected:
    rows = rows_of(given["vectors"])
    sums = np.zeros(rows.shape[1], np.int64)
    count = kernels.sum_quantised(rows, sums)
    middle = ((2 * sums + count) // (2 * count)).astype(np.int16)
    return {
        "quantised": kernels.quantised(rows).tolist(),
        "centre": middle.tolist(),
        "digest": digest_centre(middle),
    }


def planes(given: Given) -> Expected:
    spec = spec_of(given)
    row = rows_of([given["vector"]])
    middle = np.array(given["centre"], np.int16)
    signs = sign_words(row, middle, spec.slots, spec.seed)
    return {
        "fingerprint": spec.fingerprint,
        "directions": directions(spec.slots, row.shape[1], spec.seed)[:2].tolist(),
        "signs": words16(signs[0].tolist()),
        "keys": words16(Planes(*given["bands"]).keys(signs)[0].tolist()),
        "content": words16(hash_unit_sequences(pack_vectors(row))[0].tolist()),
    }


def cosine(given: Given) -> Expected:
    rows = pack_vectors(rows_of([given["a"], given["b"]]))
    dimension = len(given["a"])
    rests = kernels.vector_rests(rows.data, rows.offsets, dimension)
    pair = np.array([0]), np.array([1])
    found = kernels.cosine_pairs(rows.data, rows.offsets, dimension, rests, *pair, 0.0)
    return {"similarity": float(found[0])}


def apart(given: Given) -> Expected:
    texts = make_strings([given["text"]])
    profile = given["profile"]
    columns = [make_strings([value]) for _, value in sorted(given["columns"].items())]
    documents: dict[str, Any] = {"ids": make_strings([None]), "keep": None, "rejected": {}}
    documents |= {"within": make_strings([given["within"]]), "distinct": tuple(columns)}
    cut = Sketcher(Spec(profile=profile), numbers=True).cut(Documents(texts=texts, **documents))
    found = find_numbers(texts, profile).data.tobytes().decode("ascii").split()
    return {"numbers": found, "apart": word16(0 if cut.apart is None else int(cut.apart[0]))}


COMPUTE: Final[dict[str, Compute]] = {
    "filter": of_filter,
    "ring": ring,
    "centre": centre,
    "planes": planes,
    "cosine": cosine,
    "apart": apart,
}
"""Kind of example -> its computation, as in `structures_by_reference.py`."""
