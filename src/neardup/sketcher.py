"""`Sketcher`: a batch of documents to its shingles, content hashes and signatures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

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
from neardup.text.numbers import find_numbers
from neardup.text.shingle import ShingledDocuments, shingle_documents

Integers = NDArray[np.int64]
WITHIN_SEED, NUMBERS_SEED = np.uint64(0), np.uint64(1)
"""Seeds of the hashes that keep documents apart; distinguishing columns have those that follow."""


@dataclass(frozen=True)
class SketchedDocuments:
    """The sketches of a batch of documents; row i belongs to document i.

    Attributes:
        content: The 128-bit content hash of each document, as two columns.
        signatures: The signature of each document.
        shingles: The shingles of each document, with repeats, in the order of the text.
        apart: A hash of each document's group, None without groups. Documents of different groups
            never meet, neither as copies nor in a bucket.
        lengths: The length of each document, in bytes or tokens.
        empty_slots: The slots of all documents that were empty before they were filled.
        distinct: The part of `apart` that distinguishes documents, None if nothing does; without
            it, by exclusive or, documents meet as they would if nothing distinguished them.
    """

    content: NDArray[np.uint64]
    signatures: bulk.Signatures
    shingles: Ragged
    apart: NDArray[np.uint64] | None
    lengths: Integers
    empty_slots: int = 0
    distinct: NDArray[np.uint64] | None = None

    @property
    def empty(self) -> Integers:
        """The documents without any shingle."""
        return np.flatnonzero(self.shingles.sizes == 0)

    def keys(self, tables: Tables) -> NDArray[np.uint64]:
        """Return the key of each document in each hash table."""
        keys = tables.keys(self.signatures)
        return keys if self.apart is None else keys ^ self.apart[:, None]


@dataclass(frozen=True)
class Sketcher:
    """Makes the sketches of documents by a specification. Cheap to make.

    Args:
        spec: The specification.
        ignored: The lines that are not compared; those that the specification names.
        key: The secret key; the one that the specification names.
        frequencies: The document frequencies; those that the specification names.
        open: Whether empty slots stay empty, because signatures will be merged.
        numbers: Whether documents whose texts have different numbers are kept apart.
    """

    spec: Spec
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    key: Key | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)
    open: bool = False
    numbers: bool = False

    def __post_init__(self) -> None:
        require_ignored_lines(self.spec, self.ignored)
        require_key(self.spec, self.key)
        require_frequencies(self.spec, self.frequencies)

    def __call__(self, documents: Documents) -> SketchedDocuments:
        return self.sketched(documents, self.cut(documents))

    def sketched(self, documents: Documents, cut: ShingledDocuments) -> SketchedDocuments:
        """Return the sketches of documents from their shingles."""
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
            apart=cut.apart,
            lengths=raw_lengths(documents.texts),
            empty_slots=empty_slots,
            distinct=cut.distinct,
        )

    def cut(self, documents: Documents) -> ShingledDocuments:
        """Return the shingles and content hashes of documents, without signatures."""
        texts = strip_texts(documents.texts, self.spec, self.ignored, self.key)
        shingled = shingle_documents(texts, self.spec, self.key)
        apart, distinct = apart_hashes(documents), self._distinct_hashes(documents, texts)
        if distinct is not None:
            apart = distinct if apart is None else apart ^ distinct
        if apart is None:
            return shingled
        np.bitwise_xor(shingled.content, apart[:, None], out=shingled.content)
        return replace(shingled, apart=apart, distinct=distinct)

    def _distinct_hashes(self, documents: Documents, texts: pa.Array) -> NDArray[np.uint64] | None:
        """Return a hash of what distinguishes each document; None if nothing does.

        Args:
            documents: The documents, with the columns that distinguish them.
            texts: Their texts as they are compared, in which numbers are found.
        """
        if not self.numbers and not documents.distinct:
            return None
        hashes = np.zeros(len(documents), np.uint64)
        if self.numbers:
            found = find_numbers(texts, self.spec.profile)
            hashes ^= kernels.hash_rows(found.data, found.offsets, NUMBERS_SEED)
        for place, values in enumerate(documents.distinct, 1):
            hashes ^= _group_hashes(values, NUMBERS_SEED + np.uint64(place))
        return hashes


def keep_apart(sketch: SketchedDocuments, apart: NDArray[np.uint64]) -> SketchedDocuments:
    """Return sketches of documents without groups as those of documents with them.

    Numbers go on keeping documents apart, too.

    Args:
        sketch: The sketches.
        apart: The hash of each document's group, by `hash_groups`.
    """
    both = apart if sketch.apart is None else apart ^ sketch.apart
    return replace(sketch, content=sketch.content ^ apart[:, None], apart=both)


def hash_groups(values: pa.Array) -> NDArray[np.uint64]:
    """Return a hash of each document's group, 0 for null."""
    return _group_hashes(values, WITHIN_SEED)


def apart_hashes(documents: Documents) -> NDArray[np.uint64] | None:
    """Return a hash of each document's group; None if documents have no groups."""
    return None if documents.within is None else hash_groups(documents.within)


def _group_hashes(values: pa.Array, seed: np.uint64) -> NDArray[np.uint64]:
    column = view_strings(values)
    hashes = kernels.hash_rows(column.data, column.offsets, seed)
    hashes[values.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes  # type: ignore[no-any-return]


def raw_lengths(texts: pa.Array) -> Integers:
    """Return the length of each text, in UTF-8 bytes or tokens, before it is normalised."""
    rows = view_strings(texts) if pa.types.is_large_string(texts.type) else view_integers(texts)
    return rows.sizes
