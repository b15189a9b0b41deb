"""Hash texts: their shingles, their units, and their lines or paragraphs (parts).

Texts are normalised, cut into units, each unit is hashed once, and runs of unit hashes are combined
to shingles.

A line ends at U+000A, with a U+000D before it if there is one; nothing else ends a line. Blank
lines, which have no visible character, separate paragraphs and are never parts themselves. A part
is removed with the line break that ends it, so that the rest is still cut in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.keys import Key, make_hasher
from neardup.spec import UNIFYING, Spec
from neardup.text.arrays import Ragged, view_integers, view_strings
from neardup.text.characters import character_table, normalise_texts
from neardup.text.segments import segment_units, segment_words
from neardup.text.stems import WordTexts, stem_units

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class ShingledDocuments:
    """A batch of documents as shingle hashes, unsorted and with repeats.

    A document without any shingle is empty: it has no visible character.

    Attributes:
        shingles: The shingle hashes, a row a document.
        content: The 128-bit hash of each document's content, as two words.
        apart: A hash of each document's group, None without groups.
        distinct: The part of `apart` that distinguishes documents, None if nothing does.
        vetoing: A hash of each document's vector, if that is part of its content.
    """

    shingles: Ragged
    content: Hashes
    apart: Hashes | None = None
    distinct: Hashes | None = None
    vetoing: Hashes | None = None


def shingle_documents(documents: pa.Array, spec: Spec, key: Key | None = None) -> ShingledDocuments:
    """Return the shingles and the 128-bit content hash of each document."""
    units = hash_units(documents, spec, key)
    return ShingledDocuments(
        Ragged(*kernels.shingle(units.data, units.offsets, spec.size)),
        hash_unit_sequences(units),
    )


def hash_units(documents: pa.Array, spec: Spec, key: Key | None = None) -> Ragged:
    """Return the hashes of each document's words, characters, lines or tokens, in order."""
    hasher = make_hasher(spec, key)
    if spec.unit == "token":
        tokens = view_integers(documents)
        ends = np.arange(len(tokens.data) + 1, dtype=np.int64) * 8
        hashes = kernels.element_hashes(tokens.data.view(np.uint8), ends, hasher)
        return Ragged(hashes, tokens.offsets)
    texts = normalise_texts(view_strings(documents), spec.profile)
    table = character_table(spec.profile)
    fold_case, fold_digits = spec.profile != "conservative", spec.profile in UNIFYING
    if spec.unit == "word":
        units = Ragged(
            *kernels.word_units(
                texts.data,
                texts.offsets,
                table.stage1,
                table.stage2,
                fold_case,
                fold_digits,
                hasher,
            )
        )
        if spec.segment:
            words = segment_words(texts, spec.profile)
            units = segment_units(words, units, hasher)
        elif spec.stem:
            words = WordTexts.of(texts, spec.profile)
        return stem_units(units, words, spec.stem, hasher) if spec.stem else units
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
            hasher,
        )
    )


@dataclass(frozen=True)
class Parts:
    """The lines or paragraphs of a batch of texts that are long enough, text by text.

    Attributes:
        texts: The texts.
        begins, ends: Where each part begins and ends in the texts' bytes.
        nexts: Where the line break after each part ends.
        firsts: The number of each text's first part, and the number of all parts.
        counts: The number of parts of each text, short ones included.
    """

    texts: Ragged
    begins: Integers
    ends: Integers
    nexts: Integers
    firsts: Integers
    counts: Integers

    def __len__(self) -> int:
        return len(self.begins)


def find_parts(texts: pa.Array, unit: str, least: int) -> Parts:
    """Find the lines or paragraphs with at least `least` visible characters.

    Args:
        texts: A large_string column.
        unit: "line" or "paragraph".
        least: The number of characters, other than white space, that a part must have.
    """
    rows, table = view_strings(texts), character_table("standard")
    arrays = kernels.parts(
        rows.data, rows.offsets, table.stage1, table.stage2, unit == "paragraph", least
    )
    return Parts(rows, *arrays)


def hash_texts(texts: pa.Array) -> Hashes:
    """Return a 128-bit hash of each text's bytes."""
    rows = view_strings(texts)
    return _hash_spans(rows.data, rows.offsets[:-1], rows.offsets[1:])


def hash_parts(parts: Parts, spec: Spec | None) -> Hashes:
    """Return a 128-bit hash of each part: of its bytes, or of its units if there is a `spec`."""
    if spec is None:
        return _hash_spans(parts.texts.data, parts.begins, parts.ends)
    if not len(parts):
        return np.empty((0, 2), np.uint64)
    # Parts and the gaps between them alternate: a column of texts that needs no copy of the bytes.
    edges = np.stack([parts.begins, parts.ends], axis=1).reshape(-1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(parts.texts.data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers)
    return hash_unit_sequences(hash_units(texts, spec))[::2]


def hash_unit_sequences(units: Ragged) -> Hashes:
    """Return a 128-bit hash of each row of unit hashes."""
    hashes: Hashes = kernels.content_hashes(units.data.view(np.uint8), units.offsets)
    return hashes


def remove_parts(parts: Parts, removed: NDArray[np.uint8]) -> pa.Array:
    """Return the texts without the parts where `removed` is not 0."""
    data, offsets = kernels.without_parts(
        parts.texts.data, parts.texts.offsets, parts.begins, parts.nexts, parts.firsts, removed
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def _hash_spans(data: NDArray[np.uint8], begins: Integers, ends: Integers) -> Hashes:
    hashes: Hashes = kernels.span_hashes(data, begins, ends)
    return hashes
