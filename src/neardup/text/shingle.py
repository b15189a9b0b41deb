"""Documents to shingles: normalise, cut into units, hash each byte once, combine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.keys import Key, hasher
from neardup.spec import Spec
from neardup.text.arrays import Ragged, integers, strings
from neardup.text.characters import character_table, normalised


@dataclass(frozen=True)
class Shingled:
    """A batch of documents as shingle hashes, unsorted and with repeats.

    A document without any shingle has nothing visible in it: it is empty.
    """

    shingles: Ragged
    content: NDArray[np.uint64]


def shingled(documents: pa.Array, spec: Spec, key: Key | None = None) -> Shingled:
    """The shingles and the 128-bit content hash of each document."""
    units = unit_hashes(documents, spec, key)
    return Shingled(
        Ragged(*kernels.shingle(units.data, units.offsets, spec.size)),
        kernels.content_hashes(units.data.view(np.uint8), units.offsets),
    )


def unit_hashes(documents: pa.Array, spec: Spec, key: Key | None = None) -> Ragged:
    """The hashes of each document's words, characters, lines or tokens, in order."""
    hashed_with = hasher(spec, key)
    if spec.unit == "token":
        tokens = integers(documents)
        ends = np.arange(len(tokens.data) + 1, dtype=np.int64) * 8
        hashes = kernels.element_hashes(tokens.data.view(np.uint8), ends, hashed_with)
        return Ragged(hashes, tokens.offsets)
    texts = normalised(strings(documents), spec.profile)
    table = character_table(spec.profile)
    fold_case, fold_digits = spec.profile != "conservative", spec.profile == "aggressive"
    if spec.unit == "word":
        return Ragged(
            *kernels.word_units(
                texts.data,
                texts.offsets,
                table.stage1,
                table.stage2,
                fold_case,
                fold_digits,
                hashed_with,
            )
        )
    per_char = spec.unit == "char"
    return Ragged(
        *kernels.squeezed_units(
            texts.data,
            texts.offsets,
            table.stage1,
            table.stage2,
            fold_case,
            fold_digits,
            per_char,
            hashed_with,
        )
    )
