"""Arrivals: sketched documents, as they are judged and stored.

`ArrivalSketcher` makes them from texts or accepts sketches; `SignatureCodec` packs and unpacks
stored signatures.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neardup.corpus.documents import Documents, text_column
from neardup.errors import SpecMismatch
from neardup.index.answer import NEW, REJECTED, Answer
from neardup.index.postings import Keys
from neardup.index.settings import IndexSettings
from neardup.index.stats import Counters
from neardup.keys import Key
from neardup.lsh.bands import Tables
from neardup.options import Options
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.sketch import bulk
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged


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
    """Sorts the shingles; None if they are sorted."""

    def __len__(self) -> int:
        return len(self.content)

    @cached_property
    def sets(self) -> Ragged | None:
        """The sorted shingles. They are sorted on first use: most queries have no candidates."""
        if self.shingles is None or self.order is None:
            return self.shingles
        return self.order(self.shingles)

    def with_keys(self, keys: Keys) -> Arrivals:
        """Return the same documents with the keys of other bands."""
        return Arrivals(self.content, keys, self.compared, self.sets)


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
    )


def select_arrivals(arrivals: Arrivals, rows: list[int]) -> Arrivals:
    """Return the arrivals of these rows."""
    if len(rows) == len(arrivals):
        return arrivals
    chosen = np.array(rows, np.int64)
    sets = None if arrivals.sets is None else arrivals.sets.take(chosen)
    return Arrivals(
        arrivals.content[chosen], arrivals.keys[chosen], arrivals.compared[chosen], sets
    )


@dataclass(frozen=True)
class SignatureCodec:
    """Packs stored signatures: whole slots, or the band keys and a few bits of each slot."""

    options: Options

    @cached_property
    def lsh(self) -> Tables:
        """The bands or blocks that make the keys of a document."""
        return self.options.hash_tables

    @property
    def _key_bytes(self) -> int:
        return 8 * self.lsh.count if self.options.spec.narrow else 0

    def pack(self, keys: Keys, compared: NDArray[Any]) -> list[Any]:
        """Return the blobs of documents."""
        if not self.options.spec.narrow:
            return list(np.ascontiguousarray(compared))
        return [a.tobytes() + b.tobytes() for a, b in zip(keys, compared, strict=True)]

    def unpack(self, blobs: Sequence[bytes]) -> tuple[Keys, NDArray[Any]]:
        """Return the band keys and the compared part of signatures from the blobs of documents."""
        _, kind = bulk.packed_shape(self.options.spec)
        rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
        first = self._key_bytes
        compared: NDArray[Any] = np.ascontiguousarray(rows[:, first:]).view(kind)
        if first:
            return np.ascontiguousarray(rows[:, :first]).view(np.uint64), compared
        return self.lsh.keys(compared), compared


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
        spec = settings.options.spec
        return cls(settings, Sketcher(spec, settings.ignored, key, settings.frequencies), counters)

    def sketch_texts(self, texts: Sequence[str], lsh: Tables) -> SketchedTexts:
        """Sketch texts, or lists of token ids; `lsh` makes their keys."""
        begun = time.perf_counter()
        spec = self.settings.options.spec
        documents = self.documents(texts)
        sketch = self.sketcher(documents)
        rejected = {**dict.fromkeys(sketch.empty.tolist(), "empty"), **documents.rejected}
        sketched = self.arrivals(sketch, lsh, rejected)
        self.counters.sketched += len(texts)
        self.counters.slots += len(texts) * spec.slots
        self.counters.empty_slots += sketch.empty_slots
        each = (time.perf_counter() - begun) / max(len(texts), 1)
        self.counters.sketch_times.add(each, len(texts))
        return sketched

    def documents(self, texts: Sequence[str]) -> Documents:
        """Return texts as the sketcher takes them, with the unusable ones rejected."""
        tokens = self.settings.options.spec.unit == "token"
        column, rejected = text_column(list(texts), tokens)
        return Documents(column, [], None, None, rejected)

    def accept_sketches(self, sketch: SketchedDocuments, lsh: Tables) -> SketchedTexts:
        """Make arrivals of existing sketches, whose arrays are not changed."""
        _require_fit(sketch, self.settings.options.spec)
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
        content = sketch.content
        if rejected:
            chosen = np.array(places, np.int64)
            content, keys, compared = content[chosen], keys[chosen], compared[chosen]
            shingles = shingles.take(chosen)
        present = shingles if len(shingles.data) else None  # None: signatures are compared
        order = sort_bags if spec.of_bags else sort_sets
        return SketchedTexts(Arrivals(content, keys, compared, present, order), places, rejected)


def _require_fit(sketch: SketchedDocuments, spec: Spec) -> None:
    """Refuse sketches of another shape: they would be stored and could never be read."""
    expected = (len(sketch.content), bulk.column_count(spec)), np.dtype(bulk.column_type(spec))
    shingled = not len(sketch.shingles.data) or len(sketch.shingles) == len(sketch.content)
    if (sketch.signatures.shape, sketch.signatures.dtype) != expected or not shingled:
        raise SpecMismatch("sketches of another specification: make them with the index's sketcher")
