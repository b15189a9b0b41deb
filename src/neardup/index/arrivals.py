"""Arrivals: sketched documents, as they are judged and stored.

`ArrivalSketcher` makes them from texts or accepts sketches; `SignatureCodec` packs and unpacks
stored signatures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Documents, make_strings, text_column
from neardup.corpus.vectors import add_vectors, bare_documents
from neardup.errors import ParameterError, SpecMismatch
from neardup.index.answer import NEW, REJECTED, Answer
from neardup.index.postings import Keys
from neardup.index.settings import IndexSettings
from neardup.index.stats import Counters
from neardup.index.vector_settings import convert_vectors
from neardup.keys import Key
from neardup.lsh.bands import Tables
from neardup.options import Options
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.sketch import bulk
from neardup.sketcher import (
    SketchedDocuments,
    Sketcher,
    append_vectors,
    hash_groups,
    keep_apart,
    pack_vectors,
)
from neardup.text.arrays import Ragged

Groups = Sequence[str | None] | None
"""The group of each document, None for one without; or None if none has a group."""
Texts = Sequence[str | None] | None
"""The texts of documents, or lists of token ids; None if these are their vectors alone."""
VectorRows = Sequence[Any] | NDArray[Any] | None
"""The vector of each document: a matrix, or a list of lists or arrays; None without vectors."""


@dataclass(frozen=True)
class Arrivals:
    """Sketched documents in order of arrival, a row each."""

    content: NDArray[np.uint64]
    keys: Keys
    compared: NDArray[Any]
    """The part of their signatures that is compared."""
    shingles: Ragged | None
    """None if they came as sketches without shingles."""
    order: Callable[[Ragged], Ragged] | None = None
    """Makes of the shingles what is compared: sorts them; None if they are sorted."""
    apart: NDArray[np.uint64] | None = None
    """The hash that keeps each document apart, which is in its keys and its content, as a column;
    a second column has the part of its numbers, if groups keep it apart, too. None if the index has
    no groups and distinguishes nothing."""

    def __len__(self) -> int:
        return len(self.content)

    @cached_property
    def sets(self) -> Ragged | None:
        """The sorted shingles, and behind them the vector of each document, if it has one.

        They are sorted on first use: most queries have no candidates.
        """
        if self.shingles is None or self.order is None:
            return self.shingles
        return self.order(self.shingles)

    def with_bands(self, lsh: Tables) -> Arrivals:
        """Return the same documents with the keys of other bands."""
        keys = lsh.keys(self.compared)
        if self.apart is not None:
            keys ^= self.apart[:, :1]
        return Arrivals(self.content, keys, self.compared, self.sets, apart=self.apart)

    def together(self) -> Arrivals:
        """Return the same documents as if nothing kept them apart."""
        if self.apart is None:
            return self
        apart = self.apart[:, :1]
        return replace(self, content=self.content ^ apart, keys=self.keys ^ apart, apart=None)


def join_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    """Concatenate arrivals; the result has no shingles if any part has none."""
    if len(parts) == 1:
        return parts[0]
    sets = None
    if all(part.shingles is not None for part in parts):
        rows = [part.sets for part in parts if part.sets is not None]
        sizes = np.concatenate([row.sizes for row in rows])
        data = np.concatenate([row.data[: row.offsets[-1]] for row in rows])
        sets = Ragged(data, np.concatenate([[0], np.cumsum(sizes)]))
    return Arrivals(
        np.concatenate([part.content for part in parts]),
        np.concatenate([part.keys for part in parts]),
        np.concatenate([part.compared for part in parts]),
        sets,
        apart=_join_groups([part.apart for part in parts]),
    )


def _join_groups(parts: Sequence[NDArray[np.uint64] | None]) -> NDArray[np.uint64] | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if known else None


def select_arrivals(arrivals: Arrivals, rows: list[int]) -> Arrivals:
    """Return the arrivals of these rows."""
    if len(rows) == len(arrivals):
        return arrivals
    chosen = np.array(rows, np.int64)
    sets = None if arrivals.sets is None else arrivals.sets.take(chosen)
    return Arrivals(
        arrivals.content[chosen],
        arrivals.keys[chosen],
        arrivals.compared[chosen],
        sets,
        apart=None if arrivals.apart is None else arrivals.apart[chosen],
    )


class StoredSignatures(NamedTuple):
    """Signatures of stored documents, a row each; see `Arrivals`."""

    keys: Keys
    compared: NDArray[Any]
    apart: NDArray[np.uint64] | None


@dataclass(frozen=True)
class SignatureCodec:
    """Packs stored signatures: whole slots, or the band keys and a few bits of each slot.

    The hashes that keep documents apart follow: see `Arrivals.apart`.
    """

    options: Options
    grouped: bool = False

    @classmethod
    def of(cls, settings: IndexSettings) -> SignatureCodec:
        """Make the codec of an index."""
        return cls(settings.options, bool(settings.within))

    @cached_property
    def lsh(self) -> Tables:
        """The bands or blocks that make the keys of a document."""
        return self.options.hash_tables

    @property
    def _key_bytes(self) -> int:
        return 8 * self.lsh.count if self.options.spec.narrow else 0

    @property
    def blob_bytes(self) -> int:
        """The size of a document's blob."""
        columns, kind = bulk.packed_shape(self.options.spec)
        return self._key_bytes + columns * np.dtype(kind).itemsize + 8 * self.hashes

    @property
    def hashes(self) -> int:
        """The number of hashes that keep a document apart."""
        return self.grouped + self.options.distinguish.numbers

    def pack(
        self, keys: Keys, compared: NDArray[Any], apart: NDArray[np.uint64] | None
    ) -> list[Any]:
        """Return the blobs of documents."""
        if not self.hashes and not self.options.spec.narrow:
            return list(np.ascontiguousarray(compared))
        parts = [keys] if self.options.spec.narrow else []
        parts += [compared]
        if self.hashes:
            parts += [np.zeros((len(compared), self.hashes), np.uint64) if apart is None else apart]
        rows = [np.ascontiguousarray(part).view(np.uint8) for part in parts]
        return list(np.concatenate(rows, axis=1))

    def unpack_apart(self, blobs: Iterable[bytes]) -> NDArray[np.uint64] | None:
        """Return what keeps documents apart from their blobs; None if nothing does."""
        if not self.hashes:
            return None
        data = b"".join(blob[-8 * self.hashes :] for blob in blobs)
        return np.frombuffer(data, np.uint64).reshape(-1, self.hashes)

    def groups(self, apart: NDArray[np.uint64] | None) -> NDArray[np.uint64] | None:
        """Return the hashes of documents' groups alone; None without groups."""
        return np.bitwise_xor.reduce(apart, axis=1) if apart is not None and self.grouped else None

    def unpack(self, blobs: Sequence[bytes]) -> StoredSignatures:
        """Return the band keys and the compared part of signatures from the blobs of documents."""
        _, kind = bulk.packed_shape(self.options.spec)
        rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
        first, apart = self._key_bytes, self.unpack_apart(blobs)
        rows = rows[:, : rows.shape[1] - 8 * self.hashes]
        compared: NDArray[Any] = np.ascontiguousarray(rows[:, first:]).view(kind)
        if first:
            keys: Keys = np.ascontiguousarray(rows[:, :first]).view(np.uint64)
        else:
            keys = self.lsh.keys(compared)
            if apart is not None:
                keys ^= apart[:, :1]
        return StoredSignatures(keys, compared, apart)


@dataclass(frozen=True)
class SketchedTexts:
    """The arrivals of a batch of texts, and why the other texts were rejected."""

    arrivals: Arrivals
    places: list[int]
    """The place of each arrival's text in the batch."""
    rejected: dict[int, str]
    """Place -> reason."""

    def answers(self, copies: dict[int, Answer]) -> list[Answer]:
        """Return the answers to all texts, in order.

        `copies` has the answers to the arrivals that are copies, by row.
        """
        answers = [Answer(None, NEW)] * (len(self.places) + len(self.rejected))
        for place, reason in self.rejected.items():
            answers[place] = Answer(None, REJECTED, reason=reason)
        for row, answer in copies.items():
            answers[self.places[row]] = answer
        return answers


@dataclass(frozen=True)
class ArrivalSketcher:
    """Sketches texts by the specification of an index, and counts them. Usable in any thread."""

    settings: IndexSettings
    sketcher: Sketcher
    counters: Counters

    @classmethod
    def of(cls, settings: IndexSettings, key: Key | None, counters: Counters) -> ArrivalSketcher:
        """Make the sketcher of an index."""
        options = settings.options
        sketcher = Sketcher(
            options.spec,
            settings.ignored,
            key,
            settings.frequencies,
            numbers=options.distinguish.numbers,
            centre=settings.centre,
            vetoes=options.vetoes_by_vectors,
        )
        return cls(settings, sketcher, counters)

    def sketch_texts(
        self,
        texts: Texts,
        lsh: Tables,
        apart: NDArray[np.uint64] | None = None,
        vectors: VectorRows = None,
    ) -> SketchedTexts:
        """Sketch texts, or lists of token ids, with their vectors.

        Args:
            texts: The texts.
            lsh: Makes their keys.
            apart: The hash of each document's group, by `hash_groups`; None without groups.
            vectors: Their vectors.
        """
        begun = time.perf_counter()
        spec = self.settings.options.spec
        documents = self.documents(texts, vectors)
        sketch = self.sketcher(documents)
        if apart is not None:
            sketch = keep_apart(sketch, apart)
        rejected = {**dict.fromkeys(sketch.empty.tolist(), "empty"), **documents.rejected}
        sketched = self.arrivals(sketch, lsh, rejected)
        count = len(documents)
        self.counters.sketched += count
        self.counters.slots += count * spec.slots
        self.counters.empty_slots += sketch.empty_slots
        each = (time.perf_counter() - begun) / max(count, 1)
        self.counters.sketch_times.add(each, count)
        return sketched

    def hash_groups(self, groups: Groups, count: int) -> NDArray[np.uint64] | None:
        """Return the hash of each document's group; None if the index has no groups.

        Args:
            groups: The group of each document, None for none of its own; or None for all.
            count: The number of documents.
        """
        if groups is None and not self.settings.within:
            return None
        if groups is not None and len(groups) != count:
            raise ParameterError(f"{len(groups)} groups (within) for {count} texts: give one each")
        named = [] if groups is None else [group for group in groups if group is not None]
        if named and not self.settings.within:
            raise ParameterError(
                "this index compares all documents, and has no groups: leave out within, or make "
                "an index with within"
            )
        if not all(isinstance(group, str) for group in named):
            raise ParameterError("a group (within) is a text or None")
        if not self.settings.within:
            return None
        try:
            return hash_groups(make_strings([None] * count if groups is None else list(groups)))
        except UnicodeEncodeError:
            raise ParameterError(
                "a group (within) must be valid Unicode: it has a lone surrogate"
            ) from None

    def documents(self, texts: Texts, vectors: VectorRows = None) -> Documents:
        """Return documents as the sketcher takes them, with the unusable ones rejected.

        Args:
            texts: Their texts.
            vectors: Their vectors.
        """
        spec = self.settings.options.spec
        converted = convert_vectors(self.settings.options, texts, vectors)
        if spec.of_vectors and converted is not None:
            if not all(text is None or isinstance(text, str) for text in texts or ()):
                raise ParameterError("a text is a string, or None")
            return bare_documents(converted)
        if texts is None:
            raise ParameterError("this index compares texts: give the text of each document")
        column, rejected = text_column(list(texts), spec.unit == "token")
        documents = Documents(column, [], None, None, rejected)
        return documents if converted is None else add_vectors(documents, converted)

    def accept_sketches(
        self, sketch: SketchedDocuments, lsh: Tables, groups: Groups = None
    ) -> SketchedTexts:
        """Make arrivals of existing sketches, whose arrays are not changed.

        `groups` are those of the documents, if their sketches have none.
        """
        _require_fit(sketch, self.settings.options)
        if (sketch.distinct is not None) != self.settings.options.distinguish.numbers:
            how = "without" if sketch.distinct is None else "with"
            raise ParameterError(
                f"the sketches were made {how} what distinguishes documents, unlike this index: "
                "make them with its sketcher (Index.sketcher), or give texts"
            )
        grouped = sketch.apart is not None and (
            sketch.distinct is None or not np.array_equal(sketch.apart, sketch.distinct)
        )
        if grouped and not self.settings.within:
            raise ParameterError(
                "this index has no groups, and the sketches were made within groups: make them "
                "without, or an index with within"
            )
        apart = self.hash_groups(groups, len(sketch.content))
        if grouped and any(group is not None for group in groups or ()):
            raise ParameterError("the sketches were made within groups: leave out within")
        if not grouped and apart is not None:
            sketch = keep_apart(sketch, apart)
        shingles = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets)
        empty = sketch.empty.tolist() if len(shingles.data) else []
        rejected = dict.fromkeys(empty, "empty")
        return self.arrivals(replace(sketch, shingles=shingles), lsh, rejected)

    def arrivals(
        self, sketch: SketchedDocuments, lsh: Tables, rejected: dict[int, str]
    ) -> SketchedTexts:
        """Make arrivals of the sketched documents that are not rejected."""
        spec = self.settings.options.spec
        compared = bulk.pack_signatures(sketch.signatures, spec)
        keys = sketch.keys(lsh)
        shingles = sketch.shingles
        places = [row for row in range(len(sketch.content)) if row not in rejected]
        content, apart = sketch.content, self._hashes(sketch)
        vectors = sketch.vectors
        if rejected:
            chosen = np.array(places, np.int64)
            vectors = None if vectors is None else vectors[chosen]
            apart = None if apart is None else apart[chosen]
            content, keys, compared = content[chosen], keys[chosen], compared[chosen]
            shingles = shingles.take(chosen)
        present = shingles if len(shingles.data) else None  # None: signatures are compared
        order = self._order(vectors)
        arrivals = Arrivals(content, keys, compared, present, order, apart)
        return SketchedTexts(arrivals, places, rejected)

    def _order(self, vectors: NDArray[np.float32] | None) -> Callable[[Ragged], Ragged] | None:
        """Return what makes of the shingles of documents what is compared; None for nothing."""
        spec = self.settings.options.spec
        if spec.of_vectors:
            return None
        if vectors is not None:
            return partial(_append_to_sets, pack_vectors(vectors))
        return sort_bags if spec.of_bags else sort_sets

    def _hashes(self, sketch: SketchedDocuments) -> NDArray[np.uint64] | None:
        """Return what keeps documents apart, as `Arrivals.apart` has it."""
        if sketch.apart is None:
            return None
        if sketch.distinct is None or not self.settings.within:
            return sketch.apart[:, None]
        return np.stack([sketch.apart, sketch.distinct], axis=1)


def _append_to_sets(vectors: Ragged, shingles: Ragged) -> Ragged:
    return append_vectors(sort_sets(shingles), vectors)


def _require_fit(sketch: SketchedDocuments, options: Options) -> None:
    """Refuse sketches of another shape: they would be stored and could never be read."""
    spec = options.spec
    if options.vectors is not None and (sketch.vectors is None or not len(sketch.shingles.data)):
        raise ParameterError(
            "signatures alone are not supported for an index with vectors: send texts and vectors"
        )
    expected = (len(sketch.content), bulk.column_count(spec)), np.dtype(bulk.column_type(spec))
    shingled = not len(sketch.shingles.data) or len(sketch.shingles) == len(sketch.content)
    if (sketch.signatures.shape, sketch.signatures.dtype) != expected or not shingled:
        raise SpecMismatch("sketches of another specification: make them with the index's sketcher")
