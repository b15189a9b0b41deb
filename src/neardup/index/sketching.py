"""Texts, or ready-made sketches, as documents that can be judged and stored."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from neardup.corpus.documents import Documents
from neardup.corpus.values import text_column
from neardup.errors import SpecMismatch
from neardup.index.deciding import Arrivals
from neardup.index.settings import Settings
from neardup.index.work import Counters, Point
from neardup.keys import Key
from neardup.pipeline.candidates import as_bags, as_sets
from neardup.sketch import bulk
from neardup.sketcher import Sketch, Sketcher
from neardup.spec import Spec
from neardup.text.arrays import Ragged


@dataclass(frozen=True)
class Sketched:
    """Documents that can be judged; `places` says which of all texts each one is."""

    arrivals: Arrivals
    places: list[int]
    rejected: dict[int, str]


@dataclass(frozen=True)
class Sketching:
    """As the specification of an index says. Any thread."""

    settings: Settings
    sketcher: Sketcher
    counters: Counters

    @classmethod
    def of(cls, settings: Settings, key: Key | None, counters: Counters) -> Sketching:
        spec = settings.options.spec
        return cls(settings, Sketcher(spec, settings.ignored, key, settings.frequencies), counters)

    def texts(self, texts: Sequence[str], point: Point) -> Sketched:
        """Sketch some texts, or lists of token ids."""
        begun = time.perf_counter()
        spec = self.settings.options.spec
        documents = self.documents(texts)
        sketch = self.sketcher(documents)
        rejected = {**dict.fromkeys(sketch.empty.tolist(), "empty"), **documents.rejected}
        found = self.sketches(sketch, point, rejected)
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

    def ready_made(self, sketch: Sketch, point: Point) -> Sketched:
        """What somebody else has sketched, who keeps it as it is."""
        _require_fit(sketch, self.settings.options.spec)
        shingles = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets)
        empty = sketch.empty.tolist() if len(shingles.data) else []
        return self.sketches(
            replace(sketch, shingles=shingles), point, dict.fromkeys(empty, "empty")
        )

    def sketches(self, sketch: Sketch, point: Point, rejected: dict[int, str]) -> Sketched:
        """Without shingles they are compared by their signatures."""
        spec = self.settings.options.spec
        compared = bulk.compared(sketch.signatures, spec)
        keys = sketch.keys(point.signing.tables)
        shingles = sketch.shingles
        places = [row for row in range(len(sketch.content)) if row not in rejected]
        content = sketch.content
        if rejected:
            chosen = np.array(places, np.int64)
            content, keys, compared = content[chosen], keys[chosen], compared[chosen]
            shingles = shingles.take(chosen)
        there = shingles if len(shingles.data) else None
        order = as_bags if spec.of_bags else as_sets
        return Sketched(Arrivals(content, keys, compared, there, order), places, rejected)


def _require_fit(sketch: Sketch, spec: Spec) -> None:
    """Slots of another shape would be stored, and could never be read."""
    expected = (len(sketch.content), bulk.columns(spec)), np.dtype(bulk.column_type(spec))
    shingled = not len(sketch.shingles.data) or len(sketch.shingles) == len(sketch.content)
    if (sketch.signatures.shape, sketch.signatures.dtype) != expected or not shingled:
        raise SpecMismatch("sketches of another specification: make them by the index's sketcher")
