"""The results of examples of masks, ignored lines, weights and removals, as the library's."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from neardup import kernels
from neardup.corpus.documents import make_strings
from neardup.protocol.examples import (
    Compute,
    Expected,
    Given,
    numbers_of,
    slots_in_hex,
    spec_of,
    words16,
)
from neardup.sketch.removable import RemovableMinHash
from neardup.text.lines import LineCounts, ignore_lines
from neardup.text.masks import mask_texts


def mask(given: Given) -> Expected:
    return {"masked": mask_texts(make_strings([given["text"]]), given["mask"])[0].as_py()}


def ignored_lines(given: Given) -> Expected:
    spec, texts = spec_of(given), make_strings(given["texts"])
    counts = LineCounts(spec)
    counts.add(texts)
    frequent = counts.above(Fraction(*given["share"]))
    frequent.add(texts)
    ignored = frequent.freeze()
    return {
        "lines": words16(ignored.hashes.tolist()),
        "counts": ignored.counts.tolist(),
        "digest": ignored.digest,
        "bytes": ignored.to_bytes().hex(),
        "texts": ignore_lines(texts, ignored.hashes, spec).to_pylist(),
    }


def tf_idf(given: Given) -> Expected:
    cells = np.array(given["frequencies"], np.uint32)
    return {"weights": kernels.cell_weights(cells, np.uint64(given["documents"])).tolist()}


def removable(given: Given) -> Expected:
    sketch = RemovableMinHash(spec=spec_of(given), spare=given["spare"])
    sketch.update_hashes(np.array(numbers_of(given["elements"]), np.uint64))
    for element in given["remove"]:
        sketch.remove(bytes.fromhex(element))
    stale = sketch.stale_slots
    values = [] if stale else sketch.slots.tolist()
    made = {"slots": slots_in_hex(values, 32), "stale": stale}
    return made | {"bytes": sketch.to_bytes().hex()}


COMPUTE: Final[dict[str, Compute]] = {
    "mask": mask,
    "ignored lines": ignored_lines,
    "tf-idf": tf_idf,
    "removable": removable,
}
"""Kind of example -> its computation, as in `strips_by_reference.py`."""
