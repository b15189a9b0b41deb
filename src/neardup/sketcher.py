"""A batch of documents to its sketches: texts to shingles, shingles to signatures."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup import kernels
from neardup.corpus.documents import Documents
from neardup.keys import Key, require_key, seeded
from neardup.lsh.bands import Tables
from neardup.sketch import bulk
from neardup.spec import Spec
from neardup.text.arrays import Ragged, view_integers, view_strings
from neardup.text.frequencies import Frequencies, require_frequencies
from neardup.text.lines import IgnoredLines, require_ignored_lines, strip_texts
from neardup.text.shingle import ShingledDocuments, shingle_documents

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class SketchedDocuments:
    """What a batch of documents comes down to. Row i belongs to document i.

    Documents whose `apart` differs must never meet, neither as copies nor in a bucket.
    """

    content: NDArray[np.uint64]
    signatures: bulk.Signatures
    shingles: Ragged
    apart: NDArray[np.uint64] | None
    lengths: Integers
    empty_slots: int = 0
    """Of all documents together, before they were filled."""

    @property
    def empty(self) -> Integers:
        """The documents that have nothing visible in them."""
        return np.flatnonzero(self.shingles.sizes == 0)

    def keys(self, tables: Tables) -> NDArray[np.uint64]:
        """The documents' keys in all tables."""
        found = tables.keys(self.signatures)
        return found if self.apart is None else found ^ self.apart[:, None]


@dataclass(frozen=True)
class Sketcher:
    """Documents to sketches, as the specification says. Cheap to make."""

    spec: Spec
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    key: Key | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)
    open: bool = False
    """Whether empty slots stay empty, because signatures will be merged."""

    def __post_init__(self) -> None:
        require_ignored_lines(self.spec, self.ignored)
        require_key(self.spec, self.key)
        require_frequencies(self.spec, self.frequencies)

    def __call__(self, documents: Documents) -> SketchedDocuments:
        return self.sketched(documents, self.cut(documents))

    def sketched(self, documents: Documents, cut: ShingledDocuments) -> SketchedDocuments:
        """The sketches of documents whose shingles are there."""
        signatures, empty_slots = bulk.sketch_sets(
            cut.shingles.data,
            cut.shingles.offsets,
            seeded(self.spec, self.key),
            self.frequencies.weights,
            open=self.open,
        )
        return SketchedDocuments(
            content=cut.content,
            signatures=signatures,
            shingles=cut.shingles,
            apart=apart_hashes(documents),
            lengths=raw_lengths(documents.texts),
            empty_slots=empty_slots,
        )

    def cut(self, documents: Documents) -> ShingledDocuments:
        """The documents' shingles and content hashes, without a sketch."""
        texts = strip_texts(documents.texts, self.spec, self.ignored, self.key)
        found = shingle_documents(texts, self.spec, self.key)
        if (apart := apart_hashes(documents)) is not None:
            np.bitwise_xor(found.content, apart[:, None], out=found.content)
        return found


def apart_hashes(documents: Documents) -> NDArray[np.uint64] | None:
    """A hash for each document that tells apart those which must never meet, if there are any."""
    return None if documents.within is None else _group_hashes(documents.within)


def _group_hashes(values: pa.Array) -> NDArray[np.uint64]:
    column = view_strings(values)
    hashes = kernels.hash_rows(column.data, column.offsets, np.uint64(0))
    hashes[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes  # type: ignore[no-any-return]


def raw_lengths(texts: pa.Array) -> Integers:
    """Raw UTF-8 bytes of a text, or the number of tokens."""
    rows = view_strings(texts) if pa.types.is_large_string(texts.type) else view_integers(texts)
    return rows.sizes
