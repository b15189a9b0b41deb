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
from neardup.lsh.joined import join_signatures
from neardup.sketch import bulk
from neardup.sketch.centre import VectorCentre, require_centre
from neardup.sketch.hyperplane import sign_words
from neardup.spec import Spec
from neardup.text.arrays import Ragged, view_integers, view_strings
from neardup.text.frequencies import Frequencies, require_frequencies
from neardup.text.lines import IgnoredLines, require_ignored_lines, strip_texts
from neardup.text.numbers import find_numbers
from neardup.text.segments import require_segmenter
from neardup.text.shingle import ShingledDocuments, hash_unit_sequences, shingle_documents
from neardup.text.stems import require_stemmer

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
        vetoing: The hash of each document's vector that its content is combined with by exclusive
            or, if vectors veto; else None.
        vectors: The vector of each document, None without vectors.
    """

    content: NDArray[np.uint64]
    signatures: bulk.Signatures
    shingles: Ragged
    apart: NDArray[np.uint64] | None
    lengths: Integers
    empty_slots: int = 0
    distinct: NDArray[np.uint64] | None = None
    vetoing: NDArray[np.uint64] | None = None
    vectors: NDArray[np.float32] | None = None

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
        centre: The centre of vectors; the one that the specification names.
        vetoes: Whether vectors veto, so that documents are decided without them, too.
    """

    spec: Spec
    ignored: IgnoredLines = field(default_factory=IgnoredLines)
    key: Key | None = None
    frequencies: Frequencies = field(default_factory=Frequencies)
    open: bool = False
    numbers: bool = False
    centre: VectorCentre = field(default_factory=VectorCentre)
    vetoes: bool = False

    def __post_init__(self) -> None:
        require_ignored_lines(self.spec, self.ignored)
        require_key(self.spec, self.key)
        require_stemmer(self.spec.stem)
        require_segmenter(self.spec.segment)
        require_frequencies(self.spec, self.frequencies)
        require_centre(self.spec, self.centre)

    def __call__(self, documents: Documents) -> SketchedDocuments:
        return self.sketched(documents, self.cut(documents))

    def sketched(self, documents: Documents, cut: ShingledDocuments) -> SketchedDocuments:
        """Return the sketches of documents from their shingles."""
        signatures, empty_slots = self._sign(documents, cut)
        return SketchedDocuments(
            content=cut.content,
            signatures=signatures,
            shingles=cut.shingles,
            apart=cut.apart,
            lengths=raw_lengths(documents.texts),
            empty_slots=empty_slots,
            distinct=cut.distinct,
            vetoing=cut.vetoing,
            vectors=documents.vectors,
        )

    def _sign(self, documents: Documents, cut: ShingledDocuments) -> tuple[bulk.Signatures, int]:
        """Return the signatures of documents, and how many slots were empty."""
        signs = None
        if self.spec.planes and documents.vectors is not None:
            signs = sign_words(
                documents.vectors, self.centre.numbers, self.spec.planes, self.spec.seed
            )
            if self.spec.of_vectors:
                return signs, 0
        slots, empty_slots = bulk.sketch_sets(
            cut.shingles.data,
            cut.shingles.offsets,
            seeded(self.spec, self.key),
            self.frequencies.weights,
            open=self.open,
        )
        return (slots if signs is None else join_signatures(slots, signs)), empty_slots

    def cut(self, documents: Documents) -> ShingledDocuments:
        """Return the shingles and content hashes of documents, without signatures.

        Of documents that are compared by vectors alone, the words of the vector are the shingles.
        """
        texts = documents.texts
        if self.spec.of_vectors and documents.vectors is not None:
            words = pack_vectors(documents.vectors)
            shingled = ShingledDocuments(words, hash_unit_sequences(words))
        else:
            texts = strip_texts(texts, self.spec, self.ignored, self.key)
            shingled = shingle_documents(texts, self.spec, self.key)
        if documents.vectors is not None and not self.spec.of_vectors:
            # Equal texts with other vectors may be similar to other documents.
            hashes = hash_unit_sequences(pack_vectors(documents.vectors))[:, 0]
            np.bitwise_xor(shingled.content, hashes[:, None], out=shingled.content)
            shingled = replace(shingled, vetoing=hashes if self.vetoes else None)
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


def words_of_vector(dimension: int) -> int:
    """Return how many words a vector of so many numbers has: two in each."""
    return (dimension + 1) // 2


def pack_vectors(vectors: NDArray[np.float32]) -> Ragged:
    """Return each vector as a row of 64-bit words, two numbers each, filled with zeros."""
    count, dimension = vectors.shape
    words = words_of_vector(dimension)
    packed = np.zeros((count, 2 * words), np.float32)
    packed[:, :dimension] = vectors
    return Ragged(packed.view(np.uint64).reshape(-1), np.arange(count + 1, dtype=np.int64) * words)


def append_vectors(shingles: Ragged, vectors: Ragged) -> Ragged:
    """Return rows that are compared by both signals: the shingles of each document, its vector.

    Args:
        shingles: The sorted shingles of each document.
        vectors: Their vectors, as `pack_vectors` returns them.
    """
    offsets = shingles.offsets + vectors.offsets
    joined = np.empty(offsets[-1], np.uint64)
    width = int(vectors.sizes[0]) if len(vectors) else 0
    tails = (offsets[1:, None] - width + np.arange(width)).reshape(-1)
    is_shingle = np.ones(len(joined), bool)
    is_shingle[tails] = False
    joined[tails] = vectors.data
    joined[is_shingle] = shingles.data[: shingles.offsets[-1]]
    return Ragged(joined, offsets)


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
