"""The results of examples of masks, ignored lines, weights and removals, by the reference alone."""

from __future__ import annotations

import re
from fractions import Fraction
from hashlib import blake2b
from struct import pack
from typing import Final

from neardup import reference
from neardup.protocol.examples import (
    Compute,
    Expected,
    Given,
    numbers_of,
    slots_in_hex,
    spec_of,
    words16,
)
from neardup.reference import sketches, weighted
from neardup.reference.hashes import xxh64
from neardup.reference.serialised import sealed, sketch_bytes
from neardup.reference.text import whole
from neardup.spec import Spec

SAMPLE: Final = 200
"""The most characters of a line that the bytes of a list have."""


def mask(given: Given) -> Expected:
    return {"masked": reference.mask(given["text"], given["mask"].split(","))}


def ignored_lines(given: Given) -> Expected:
    spec, texts = spec_of(given), given["texts"]
    found = reference.frequent_lines(texts, Fraction(*given["share"]), spec)
    lines = sorted(found)
    digest = blake2b(pack(f"<{len(lines)}Q", *lines), digest_size=16).hexdigest()
    return {
        "lines": words16(lines),
        "counts": [found[line] for line in lines],
        "digest": digest if lines else "",
        "bytes": lines_bytes(found, texts, spec).hex(),
        "texts": [reference.ignore_lines(text, found, spec) for text in texts],
    }


def lines_bytes(found: dict[int, int], texts: list[str], spec: Spec) -> bytes:
    """Return the list of ignored lines as bytes."""
    pieces = [whole(reference.normalise(line, spec.profile)) for line in all_lines(texts)]
    compared = {xxh64(piece.encode(), spec.seed): piece[:SAMPLE] for piece in pieces}
    lines = sorted(found)
    documents = sum(any(reference.line_hash(one, spec) for one in all_lines([t])) for t in texts)
    head = b"ndl1" + pack("<IQ", len(lines), documents)
    numbers = pack(f"<{2 * len(lines)}Q", *lines, *(found[line] for line in lines))
    return sealed(head + numbers + "\n".join(compared[line] for line in lines).encode())


def all_lines(texts: list[str]) -> list[str]:
    return [line for text in texts for line in re.split("[\r\n]", text)]


def tf_idf(given: Given) -> Expected:
    counts = given["frequencies"]
    return {"weights": [weighted.inverse_frequency(given["documents"], one) for one in counts]}


def removable(given: Given) -> Expected:
    spec = spec_of(given)
    slots = [
        sketches.Slot(*reference.permutation(slot, spec.seed), given["spare"] + 1)
        for slot in range(spec.slots)
    ]
    for slot in slots:
        for x in numbers_of(given["elements"]):
            slot.add(slot.key(x))
        for element in given["remove"]:
            slot.remove(slot.key(xxh64(bytes.fromhex(element), spec.seed)))
    missing = [2**64 - 1] * (given["spare"] + 1)
    rows = [[*sorted(slot.keys), *missing][: len(missing)] for slot in slots]
    payload = pack("<I", given["spare"]) + pack(f"<{len(slots)}Q", *(s.limit for s in slots))
    payload += b"".join(pack(f"<{len(row)}Q", *row) for row in rows)
    stale = sum(slot.value is None for slot in slots)
    values = [] if stale else [slot.value or 0 for slot in slots]
    made = {"slots": slots_in_hex(values, 32), "stale": stale}
    return made | {"bytes": sketch_bytes(spec, payload).hex()}


COMPUTE: Final[dict[str, Compute]] = {
    "mask": mask,
    "ignored lines": ignored_lines,
    "tf-idf": tf_idf,
    "removable": removable,
}
"""Kind of example -> its computation."""
