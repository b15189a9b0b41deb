"""Compare documents of a finished run again, sketched as the run has sketched them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.documents import Documents, concat_keep
from neardup.explanation import PairFacts, has_direction
from neardup.in_memory import order_by_policy
from neardup.keys import Key
from neardup.options import Options, parse_distinguish, parse_strip
from neardup.pipeline.saved import read_centre_file, read_frequencies, read_ignored
from neardup.pipeline.set_files import sort_bags, sort_sets
from neardup.sketch.bulk import pack_signatures
from neardup.sketcher import (
    SketchedDocuments,
    Sketcher,
    append_vectors,
    pack_vectors,
    raw_lengths,
)
from neardup.spec import VECTOR, Spec
from neardup.text.arrays import Ragged
from neardup.vector_signal import VectorSignal
from neardup.verify import Comparison, count_common

PARAMETERS: Final = (
    *("threshold", "recall", "verify", "measure", "keep", "cluster", "limit"),
    *("tables", "hamming", "blocks", "weights"),
)
"""The parameters of run.json that are options as they are."""

Shingles = tuple[int, int, int]
"""The number of shingles of two documents, and of those that both have."""


def options_of_run(record: dict[str, Any]) -> Options | None:
    """Return the options of a run by its run.json; None for a run of neardup exact."""
    if "by" in record["spec"]:
        return None
    parameters = record["parameters"]
    given = {name: parameters[name] for name in PARAMETERS if parameters.get(name) is not None}
    if not {"tables", "hamming"} & given.keys() and record["spec"]["unit"] != VECTOR:
        given |= {name: parameters[name] for name in ("bands", "rows")}
    return Options(
        spec=Spec.from_json(json.dumps(record["spec"])),
        strip=parse_strip(parameters.get("strip") or None),
        distinguish=parse_distinguish(parameters.get("distinguish") or None),
        vectors=VectorSignal.of_stated(parameters, record.get("vector_curve", ())),
        **given,
    )


@dataclass(frozen=True)
class RunComparison:
    """Compares documents of a run.

    Args:
        options: The options of the run.
        sketcher: Sketches documents as the run did.
        within: The column of --within, if any.
    """

    options: Options
    sketcher: Sketcher
    within: str | None = None

    @classmethod
    def of(cls, run: Path, options: Options, key: Key | None, within: str | None) -> RunComparison:
        """Return the comparison of a run's documents, with what the run has counted."""
        sketcher = Sketcher(
            options.spec,
            read_ignored(run),
            key,
            read_frequencies(run),
            numbers=options.distinguish.numbers,
            centre=read_centre_file(run),
            vetoes=options.vetoes_by_vectors,
        )
        return cls(options, sketcher, within)

    def compare(self, sooner: Documents, later: Documents) -> tuple[PairFacts, Shingles]:
        """Return how two documents compare, each of which is alone in a batch.

        Args:
            sooner: The document of better rank.
            later: The other one.
        """
        sketches = [self.sketcher(sooner), self.sketcher(later)]
        keys = [self.options.hash_tables.keys(sketch.signatures)[0] for sketch in sketches]
        content = [
            sketch.content[0] ^ (np.uint64(0) if sketch.apart is None else sketch.apart[0])
            for sketch in sketches
        ]
        comparison = self.comparison(sketches)
        part = 1 if has_direction(self.options) else None
        pair = np.zeros(1, np.int64), np.ones(1, np.int64)
        similar, cosine = max(float(comparison.pairs(*pair, least=0.0)[0]), 0.0), None
        apart = list(self._apart(sooner, later))
        signal = self.options.vectors
        if signal is not None and self.options.has_two_signals:
            ((similar, cosine),) = comparison.numbers(*pair).tolist()
            if not signal.finds and cosine < signal.threshold:
                apart.append(self.options.veto)
        facts = PairFacts(
            int(np.count_nonzero(keys[0] == keys[1])),
            len(keys[0]),
            similar,
            comparison.exact,
            bool((content[0] == content[1]).all()),
            tuple(apart),
            part,
            cosine,
        )
        one, other = (self._shingles(sketch).data for sketch in sketches)
        return facts, (len(one), len(other), count_common(one, other))

    def compare_in_order(
        self, one: Documents, other: Documents, one_is_later: bool
    ) -> tuple[PairFacts, Shingles]:
        """Return how two documents compare, whichever of them is of better rank.

        Args:
            one: A document, alone in a batch.
            other: Another one.
            one_is_later: Whether the first is of worse rank.
        """
        if not one_is_later:
            return self.compare(one, other)
        facts, (sooner, later, both) = self.compare(other, one)
        return replace(facts, part=None if facts.part is None else 0), (later, sooner, both)

    def _apart(self, one: Documents, other: Documents) -> Iterator[str]:
        """Yield what keeps two documents apart, as options of the command line."""
        if one.within is not None and other.within is not None and one.within != other.within:
            yield f"--within {self.within}"
        columns = self.options.distinguish.columns
        for name, mine, its in zip(columns, one.distinct, other.distinct, strict=True):
            if mine != its:
                yield f"--distinguish {name}"
        if self.options.distinguish.numbers:
            hashes = [self.sketcher.cut(replace(d, distinct=())).distinct for d in (one, other)]
            if hashes[0] != hashes[1]:
                yield "--distinguish numbers"

    def comparison(self, sketches: Sequence[SketchedDocuments]) -> Comparison:
        """Return the comparison of documents, those of the first sketches first."""
        if self.options.verify == "exact":
            rows = [self._compared(sketch) for sketch in sketches]
            sizes = np.concatenate([one.sizes for one in rows])
            offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
            data = np.concatenate([one.data for one in rows])
            return self.options.comparison(data, offsets, self.sketcher.frequencies.weights)
        packed = [pack_signatures(sketch.signatures, self.options.spec) for sketch in sketches]
        return self.options.estimated(np.concatenate(packed))

    def _compared(self, sketch: SketchedDocuments) -> Ragged:
        """Return what is compared of documents: their sorted shingles, and with them vectors."""
        rows = self._shingles(sketch)
        if sketch.vectors is None or self.options.spec.of_vectors:
            return rows
        return append_vectors(rows, pack_vectors(sketch.vectors))

    def _shingles(self, sketch: SketchedDocuments) -> Ragged:
        """Return the sorted shingles of documents, with repeats where they count."""
        rows = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets)
        if self.options.spec.of_vectors:
            return rows
        return sort_bags(rows) if self.options.spec.of_bags else sort_sets(rows)


def keeps_order(options: Options, first: Documents, second: Documents) -> bool:
    """Return whether the first of two documents, in input order, is of better rank.

    Args:
        options: The options of the run.
        first: The one that comes first in the input, alone in a batch.
        second: The other one; both or neither of an earlier corpus, or of preferred inputs.
    """
    both, nothing = (first, second), pa.nulls(1)
    values = concat_keep(nothing if one.keep is None else one.keep for one in both)
    order = order_by_policy(
        options.keep_policy,
        2,
        lambda: np.concatenate([raw_lengths(one.texts) for one in both]),
        values,
    )
    return bool(order[0] == 0)


class MetDocument(NamedTuple):
    """A document that shares a bucket with the one that is asked for.

    Attributes:
        row: Its row in the batch.
        if_better: How similar they are if it is of better rank.
        if_worse: How similar they are if it is of worse rank.
        buckets: The number of shared buckets.
    """

    row: int
    if_better: float
    if_worse: float
    buckets: int


@dataclass(frozen=True)
class MeetingSearch:
    """Finds the documents of a batch that share a bucket with one document.

    Args:
        compared: Compares documents of the run.
        document: The document, alone in a batch.
    """

    compared: RunComparison
    document: Documents

    @cached_property
    def _sketch(self) -> SketchedDocuments:
        return self.compared.sketcher(self.document)

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self._sketch.keys(self.compared.options.hash_tables)

    def __call__(self, documents: Documents) -> list[MetDocument]:
        """Return the documents of the batch that share a bucket with this one."""
        sketch = self.compared.sketcher(documents)
        keys = sketch.keys(self.compared.options.hash_tables)
        shared = np.count_nonzero(keys == self._keys, axis=1)
        met = np.flatnonzero((shared > 0) & (sketch.shingles.sizes > 0))
        if not len(met):
            return []
        chosen = replace(
            sketch,
            shingles=sketch.shingles.take(met),
            signatures=sketch.signatures[met],
            vectors=None if sketch.vectors is None else sketch.vectors[met],
        )
        comparison = self.compared.comparison([self._sketch, chosen])
        left, right = np.zeros(len(met), np.int64), np.arange(1, len(met) + 1, dtype=np.int64)
        of_other = of_this = np.maximum(comparison.pairs(left, right, least=0.0), 0.0)
        if has_direction(self.compared.options):
            of_this = np.maximum(comparison.pairs(right, left, least=0.0), 0.0)
        found = zip(met.tolist(), of_this.tolist(), of_other.tolist(), shared[met], strict=True)
        return [MetDocument(row, ours, its, int(buckets)) for row, ours, its, buckets in found]
