"""Documents to shingles: normalise, cut into units, hash each byte once, combine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.keys import Key, make_hasher
from neardup.spec import Spec
from neardup.text.arrays import Ragged, view_integers, view_strings
from neardup.text.characters import character_table, normalise_texts


@dataclass(frozen=True)
class ShingledDocuments:
    """A batch of documents as shingle hashes, unsorted and with repeats.

    A document without any shingle has nothing visible in it: it is empty.
    """

    shingles: Ragged
    content: NDArray[np.uint64]


def shingle_documents(documents: pa.Array, spec: Spec, key: Key | None = None) -> ShingledDocuments:
    """The shingles and the 128-bit content hash of each document."""
    units = hash_units(documents, spec, key)
    return ShingledDocuments(
        Ragged(*kernels.shingle(units.data, units.offsets, spec.size)),
        kernels.content_hashes(units.data.view(np.uint8), units.offsets),
    )


def hash_units(documents: pa.Array, spec: Spec, key: Key | None = None) -> Ragged:
    """The hashes of each document's words, characters, lines or tokens, in order."""
    hashed_with = make_hasher(spec, key)
    if spec.unit == "token":
        tokens = view_integers(documents)
        ends = np.arange(len(tokens.data) + 1, dtype=np.int64) * 8
        hashes = kernels.element_hashes(tokens.data.view(np.uint8), ends, hashed_with)
        return Ragged(hashes, tokens.offsets)
    texts = normalise_texts(view_strings(documents), spec.profile)
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
