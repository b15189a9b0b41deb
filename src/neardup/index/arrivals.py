"""Texts, or ready-made sketches, as documents that can be judged and stored."""

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
class SketchedTexts:
    """Documents that can be judged; `places` says which of all texts each one is."""

    arrivals: Arrivals
    places: list[int]
    rejected: dict[int, str]


@dataclass(frozen=True)
class ArrivalSketcher:
    """As the specification of an index says. Any thread."""

    settings: IndexSettings
    sketcher: Sketcher
    counters: Counters

    @classmethod
    def of(cls, settings: IndexSettings, key: Key | None, counters: Counters) -> ArrivalSketcher:
        spec = settings.options.spec
        return cls(settings, Sketcher(spec, settings.ignored, key, settings.frequencies), counters)

    def texts(self, texts: Sequence[str], tables: Tables) -> SketchedTexts:
        """Sketch some texts, or lists of token ids."""
        begun = time.perf_counter()
        spec = self.settings.options.spec
        documents = self.documents(texts)
        sketch = self.sketcher(documents)
        rejected = {**dict.fromkeys(sketch.empty.tolist(), "empty"), **documents.rejected}
        found = self.sketches(sketch, tables, rejected)
        self.counters.sketched += len(texts)
        self.counters.slots += len(texts) * spec.slots
        self.counters.empty_slots += sketch.empty_slots
        each = (time.perf_counter() - begun) / max(len(texts), 1)
        self.counters.sketch_times.add(each, len(texts))
        return found

    def documents(self, texts: Sequence[str]) -> Documents:
        """As the sketcher takes them; those that can't be used are rejected."""
        tokens = self.settings.options.spec.unit == "token"
        column, rejected = text_column(list(texts), tokens)
        return Documents(column, [], None, None, rejected)

    def ready_made(self, sketch: SketchedDocuments, tables: Tables) -> SketchedTexts:
        """What somebody else has sketched, who keeps it as it is."""
        _require_fit(sketch, self.settings.options.spec)
        shingles = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets)
        empty = sketch.empty.tolist() if len(shingles.data) else []
        return self.sketches(
            replace(sketch, shingles=shingles), tables, dict.fromkeys(empty, "empty")
        )

    def sketches(
        self, sketch: SketchedDocuments, tables: Tables, rejected: dict[int, str]
    ) -> SketchedTexts:
        """Without shingles they are compared by their signatures."""
        spec = self.settings.options.spec
        compared = bulk.pack_signatures(sketch.signatures, spec)
        keys = sketch.keys(tables)
        shingles = sketch.shingles
        places = [row for row in range(len(sketch.content)) if row not in rejected]
        content = sketch.content
        if rejected:
            chosen = np.array(places, np.int64)
            content, keys, compared = content[chosen], keys[chosen], compared[chosen]
            shingles = shingles.take(chosen)
        there = shingles if len(shingles.data) else None
        order = sort_bags if spec.of_bags else sort_sets
        return SketchedTexts(Arrivals(content, keys, compared, there, order), places, rejected)


def _require_fit(sketch: SketchedDocuments, spec: Spec) -> None:
    """Slots of another shape would be stored, and could never be read."""
    expected = (len(sketch.content), bulk.column_count(spec)), np.dtype(bulk.column_type(spec))
    shingled = not len(sketch.shingles.data) or len(sketch.shingles) == len(sketch.content)
    if (sketch.signatures.shape, sketch.signatures.dtype) != expected or not shingled:
        raise SpecMismatch("sketches of another specification: make them by the index's sketcher")


@dataclass(frozen=True)
class Arrivals:
    """Documents in order. Those that came without a text have no shingles."""

    content: NDArray[np.uint64]
    keys: Keys
    compared: NDArray[Any]
    """What is compared of their signatures."""
    shingles: Ragged | None
    order: Callable[[Ragged], Ragged] | None = None
    """What sorts the shingles, if they are not sorted."""

    def __len__(self) -> int:
        return len(self.content)

    @cached_property
    def sets(self) -> Ragged | None:
        """The shingles, sorted, when somebody asks for them: most queries never meet anyone."""
        if self.shingles is None or self.order is None:
            return self.shingles
        return self.order(self.shingles)

    def with_keys(self, keys: Keys) -> Arrivals:
        """The same for other bands."""
        return Arrivals(self.content, keys, self.compared, self.sets)


@dataclass(frozen=True)
class SignatureCodec:
    """How signatures are stored: full slots; or, narrow ones, the band keys and a few bits."""

    options: Options

    @cached_property
    def tables(self) -> Tables:
        """Which documents meet."""
        return self.options.hash_tables

    @property
    def _key_bytes(self) -> int:
        return 8 * self.tables.count if self.options.spec.narrow else 0

    def packed(self, keys: Keys, compared: NDArray[Any]) -> list[Any]:
        """The blobs of some documents."""
        if not self.options.spec.narrow:
            return list(np.ascontiguousarray(compared))
        return [a.tobytes() + b.tobytes() for a, b in zip(keys, compared, strict=True)]

    def unpacked(self, blobs: Sequence[bytes]) -> tuple[Keys, NDArray[Any]]:
        """Band keys, and what is compared, of some documents."""
        _, kind = bulk.packed_shape(self.options.spec)
        rows = np.frombuffer(b"".join(blobs), np.uint8).reshape(len(blobs), -1)
        first = self._key_bytes
        compared: NDArray[Any] = np.ascontiguousarray(rows[:, first:]).view(kind)
        if first:
            return np.ascontiguousarray(rows[:, :first]).view(np.uint64), compared
        return self.tables.keys(compared), compared


def join_arrivals(parts: Sequence[Arrivals]) -> Arrivals:
    """Documents one after the other; without sets if any of them has none."""
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
    """Some of the documents."""
    if len(rows) == len(arrivals):
        return arrivals
    chosen = np.array(rows, np.int64)
    sets = None if arrivals.sets is None else arrivals.sets.take(chosen)
    return Arrivals(
        arrivals.content[chosen], arrivals.keys[chosen], arrivals.compared[chosen], sets
    )
