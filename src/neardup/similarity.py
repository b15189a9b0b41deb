"""How similar are two texts? Exactly, with the same rules as everything else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from neardup import kernels
from neardup.errors import ParameterError
from neardup.spec import Spec
from neardup.text.shingle import shingled


def similarity(
    a: str, b: str, *, shingle: str = "word:5", text_profile: str = "standard"
) -> float:
    """The exact Jaccard similarity of two texts' shingles.

    >>> similarity("the cat sat", "the cat lay", shingle="word:2")
    0.3333333333333333
    """
    if not isinstance(a, str) or not isinstance(b, str):
        raise ParameterError("similarity compares two strings")
    spec = Spec.of(shingle, profile=text_profile)
    if spec.unit == "token":
        raise ParameterError("similarity compares texts: choose word, char or line shingles")
    cut = shingled(pa.array([a, b], pa.large_string()), spec).shingles
    sets = np.concatenate([np.unique(cut.data[s:e]) for s, e in zip(cut.offsets, cut.offsets[1:], strict=False)])
    sizes = [len(np.unique(cut.data[s:e])) for s, e in zip(cut.offsets, cut.offsets[1:], strict=False)]
    if not all(sizes):
        return float(sizes[0] == sizes[1])
    offsets = np.array([0, sizes[0], sum(sizes)], np.int64)
    one = np.zeros(1, np.int64)
    return float(kernels.exact_pairs(sets, offsets, one, one + 1, 0.0)[0])
