"""How similar are two texts? Exactly, with the same rules as everything else."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from neardup import kernels
from neardup.errors import ParameterError
from neardup.options import MEASURES, parse_strip
from neardup.spec import Spec, one_of
from neardup.text.html import without_markup
from neardup.text.shingle import shingled


def similarity(
    a: str,
    b: str,
    *,
    shingle: str = "word:5",
    text_profile: str = "standard",
    strip: str | None = None,
    measure: str = "jaccard",
) -> float:
    """The exact Jaccard similarity of two texts' shingles; or the share of a that is inside b.

    >>> similarity("the cat sat", "the cat lay", shingle="word:2")
    0.3333333333333333
    >>> similarity("the cat sat", "and the cat sat down", shingle="word:2", measure="containment")
    1.0
    """
    one_of("measure", measure, MEASURES)
    if not isinstance(a, str) or not isinstance(b, str):
        raise ParameterError("similarity compares two strings")
    asked = parse_strip(strip)
    spec = Spec.of(shingle, profile=text_profile, strip=asked.markup)
    if spec.unit == "token":
        raise ParameterError("similarity compares texts: choose word, char or line shingles")
    if asked.lines is not None:
        raise ParameterError("frequent lines are those of a corpus: strip html, or nothing")
    texts = without_markup(pa.array([a, b], pa.large_string()), spec)
    cut = shingled(texts, spec).shingles
    end_of_a = cut.offsets[1]
    mine, theirs = np.unique(cut.data[:end_of_a]), np.unique(cut.data[end_of_a:])
    if not (mine.size and theirs.size):
        return float(mine.size == theirs.size)
    offsets = np.array([0, mine.size, mine.size + theirs.size], np.int64)
    compare = kernels.exact_pairs if measure == "jaccard" else kernels.contained_pairs
    a_place = np.zeros(1, np.int64)
    found = compare(np.append(mine, theirs), offsets, a_place + 1, a_place, 0.0)
    return float(found[0])
