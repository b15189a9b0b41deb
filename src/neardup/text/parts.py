"""Which lines or paragraphs does a text have, when are two the same, how is it without some?

A line ends at U+000A, with a U+000D before it if there is one; nothing else ends a line. Blank
lines, which have nothing visible in them, separate paragraphs and are never parts themselves. A
part is taken out with the line break that ends it, so what is left is still cut in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.spec import Spec
from neardup.text.arrays import Ragged, view_strings
from neardup.text.characters import character_table
from neardup.text.shingle import hash_units

Integers = NDArray[np.int64]
Hashes = NDArray[np.uint64]


@dataclass(frozen=True)
class Parts:
    """The parts of some texts that are long enough, text by text.

    begins, ends  where each part is in the texts' bytes
    nexts         where its line break ends
    firsts        the number of each text's first part, and of all parts
    counts        how many parts a text has, the short ones too
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
    """The lines or paragraphs with at least `least` characters that are not white space."""
    rows, table = view_strings(texts), character_table("standard")
    found = kernels.parts(
        rows.data, rows.offsets, table.stage1, table.stage2, unit == "paragraph", least
    )
    return Parts(rows, *found)


def hash_texts(texts: pa.Array) -> Hashes:
    """128 bits for each text as it is."""
    rows = view_strings(texts)
    return _spans(rows.data, rows.offsets[:-1], rows.offsets[1:])


def hash_parts(parts: Parts, spec: Spec | None) -> Hashes:
    """128 bits for each part: of its bytes, or of its units as a specification has them."""
    if spec is None:
        return _spans(parts.texts.data, parts.begins, parts.ends)
    if not len(parts):
        return np.empty((0, 2), np.uint64)
    # Parts and what is between them in turn: a column of texts that needs no copy of the bytes.
    edges = np.stack([parts.begins, parts.ends], axis=1).reshape(-1)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(parts.texts.data)]
    texts = pa.Array.from_buffers(pa.large_string(), len(edges) - 1, buffers)
    return hash_unit_sequences(hash_units(texts, spec))[::2]


def hash_unit_sequences(units: Ragged) -> Hashes:
    """128 bits for each row of units, as the specification has it."""
    found: Hashes = kernels.content_hashes(units.data.view(np.uint8), units.offsets)
    return found


def remove_parts(parts: Parts, gone: NDArray[np.uint8]) -> pa.Array:
    """The texts without the parts where `gone` is not 0."""
    data, offsets = kernels.without_parts(
        parts.texts.data, parts.texts.offsets, parts.begins, parts.nexts, parts.firsts, gone
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


def _spans(data: NDArray[np.uint8], begins: Integers, ends: Integers) -> Hashes:
    found: Hashes = kernels.span_hashes(data, begins, ends)
    return found
