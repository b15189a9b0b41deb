"""Who says which documents are duplicates? An operating point, or a finished run.

Documents are golden ids by their number. Whoever can say that about pairs can be evaluated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from neardup.batch.candidates import as_bags, as_sets
from neardup.batch.output import RUN, is_run
from neardup.corpus import columnar
from neardup.corpus.inputs import find_inputs
from neardup.corpus.source import reading
from neardup.corpus.tables import as_strings
from neardup.dedup import Corpus, Sketch, Sketcher
from neardup.errors import FormatError, UsageError
from neardup.evaluate.lookup import Found
from neardup.lsh.layout import written
from neardup.options import Options
from neardup.result import method_line
from neardup.sketch import bulk
from neardup.spec import WEIGHTED
from neardup.text.arrays import Ragged
from neardup.text.frequencies import Frequencies
from neardup.threads import in_order
from neardup.verify import Exact, Weighed

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]

PARAMETERS: Final = (
    "threshold", "tables", "hamming", "blocks", "verify", "measure", "strip", "weights",
)  # fmt: skip
"""What of the options matters besides the specification."""
AT_ONCE: Final = 1 << 16
BATCH: Final = 1 << 20


def exact_judge(sketch: Sketch, options: Options, frequencies: Frequencies) -> Exact | Weighed:
    """By the sets or bags of shingles of sketched documents, which stay as they are."""
    cut = Ragged(sketch.shingles.data.copy(), sketch.shingles.offsets.copy())
    sets = as_bags(cut) if options.spec.of_bags else as_sets(cut)
    return options.exact(sets.data, sets.offsets, frequencies.weights)


class Judge(Protocol):
    """Says of golden documents which are duplicates, and which belong together."""

    @property
    def described(self) -> str:
        """What is judged by, in words."""

    @property
    def stated(self) -> dict[str, Any]:
        """The operating point, as evaluation.json has it: spec, fingerprint, parameters."""

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        """Of each pair: is it one?"""

    def clusters(self) -> Integers:
        """Of each golden document: a number that documents of one cluster share."""


@dataclass(frozen=True)
class OperatingPoint:
    """Golden documents' texts, sketched and compared as options say. Judges pair by pair.

    A document's row is its place among the texts; -1 has none, and is never asked about.
    """

    options: Options
    found: Found
    sketch: Sketch
    judge: Exact | Weighed
    frequencies: Frequencies
    workers: int

    @classmethod
    def of(cls, options: Options, found: Found, sketcher: Sketcher, workers: int) -> OperatingPoint:
        sketch = sketcher(found.documents)
        judge = exact_judge(sketch, options, sketcher.frequencies)
        return cls(options, found, sketch, judge, sketcher.frequencies, workers)

    @property
    def described(self) -> str:
        return method_line(self.options, self.options.meeting.probability(self.options.threshold))

    @property
    def stated(self) -> dict[str, Any]:
        spec = self.options.spec
        parameters = {name: getattr(self.options, name) for name in PARAMETERS} | {
            "tables": None if self.options.by_bits else written(self.options.curve),
            "strip": str(self.options.strip),
            "weights": self.options.weights if spec.sketch in WEIGHTED else None,
        }
        return {"spec": spec.stated, "fingerprint": spec.fingerprint, "parameters": parameters}

    @property
    def empty(self) -> Integers:
        """The golden documents that are there, but have nothing to compare."""
        blank = np.append(self.sketch.shingles.sizes == 0, False)
        return np.flatnonzero(blank[self.found.row])

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self.sketch.keys(self.options.tables)

    def similarity(self, a: Integers, b: Integers) -> Reals:
        """Exact, whatever the options verify by."""
        return self._each(a, b, np.float64, lambda x, y: self.judge.pairs(x, y, least=0.0))

    def met(self, a: Integers, b: Integers) -> Flags:
        """Which pairs share a bucket, or are identical."""
        content, keys = self.sketch.content, self._keys

        def some(x: Integers, y: Integers) -> Flags:
            same: Flags = (content[x] == content[y]).all(axis=1)
            shared: Flags = (keys[x] == keys[y]).any(axis=1)
            return same | shared

        return self._each(a, b, np.bool_, some)

    def verified(self, a: Integers, b: Integers) -> Flags:
        """Which pairs are similar enough by what the options verify by, whether they met or not."""
        if self.options.verify == "exact":
            return self._each(a, b, np.bool_, lambda x, y: self.judge.pairs(x, y) >= 0.0)
        rows = bulk.compared(self.sketch.signatures, self.options.spec)
        judge = self.options.estimated(rows)
        return self._each(a, b, np.bool_, lambda x, y: judge.pairs(x, y) >= 0.0)

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        return self.met(a, b) & self.verified(a, b)

    def clusters(self) -> Integers:
        """The keep list of the golden documents by themselves."""
        corpus = Corpus(self.options, frequencies=self.frequencies)
        corpus.add(self.found.documents, self.sketch)
        witness = corpus.decide().witness
        star = np.where(witness >= 0, witness, np.arange(len(witness)))
        alone = len(star) + np.arange(len(self.found.row))
        return np.where(self.found.row >= 0, np.append(star, -1)[self.found.row], alone)

    def _each(self, a: Integers, b: Integers, kind: Any, judge: Any) -> NDArray[Any]:
        """Judge pairs, some at a time, in the order in which the corpus has their documents."""
        x, y = self.found.row[a], self.found.row[b]
        first, second = np.minimum(x, y), np.maximum(x, y)
        result = np.empty(len(a), kind)

        def some(start: int) -> None:
            here = slice(start, start + AT_ONCE)
            result[here] = judge(first[here], second[here])

        for _ in in_order(range(0, len(a), AT_ONCE), some, self.workers):
            pass
        return result


@dataclass(frozen=True)
class Run:
    """A finished run: documents of one cluster are duplicates, and those in pairs.parquet.

    cluster  of each golden id, or -1 if no table names it: kept alone, or unknown
    pairs    codes a * ids + b of the golden pairs in pairs.parquet, ascending
    """

    record: dict[str, Any]
    cluster: Integers
    pairs: Integers

    @classmethod
    def of(cls, run: Path, ids: Sequence[str]) -> Run:
        if not is_run(run):
            raise UsageError(
                f"{run} holds no finished run: give the folder that neardup dedup -o wrote"
            )
        record = json.loads((run / RUN).read_bytes())
        number = {id: place for place, id in enumerate(ids)}
        cluster = np.full(len(ids), -1, np.int64)
        for name in ("removed", "clusters"):
            for id, its in _rows(run / f"{name}.parquet", ("id", "cluster")):
                if its is not None and id in number:
                    cluster[number[id]] = int(its)
        codes = []
        if (run / "pairs.parquet").exists():
            for x, y in _rows(run / "pairs.parquet", ("a", "b")):
                if x in number and y in number:
                    low, high = sorted((number[x], number[y]))
                    codes.append(low * len(ids) + high)
        return cls(record, cluster, np.unique(np.array(codes, np.int64)))

    @property
    def described(self) -> str:
        return "a finished run: documents of one cluster, or in pairs.parquet, are duplicates"

    @property
    def stated(self) -> dict[str, Any]:
        parameters = self.record.get("parameters", {})
        return {
            "spec": self.record["spec"], "fingerprint": self.record["fingerprint"],
            "parameters": {name: parameters.get(name) for name in PARAMETERS},
        }  # fmt: skip

    @property
    def operating_point(self) -> dict[str, Any]:
        """As parameters of `neardup.dedup`; none of a run that only looked for exact copies.

        A keyed hash is not among them: similarities don't depend on it.
        """
        spec, parameters = self.record["spec"], self.record.get("parameters", {})
        if "by" in spec:
            return {}
        if not {"unit", "size", "profile", "sketch"} <= set(spec):
            raise FormatError(f"{RUN} names no specification: run neardup dedup again")
        named = {name: spec.get(name) for name in ("sketch", "family", "slots", "bits", "seed")}
        named |= {name: parameters.get(name) for name in ("tables", "measure", "hamming", "blocks")}
        named |= {"shingle": f"{spec['unit']}:{spec['size']}", "text_profile": spec["profile"],
                  "verify": parameters.get("verify"), "strip": parameters.get("strip") or None,
                  "weights": parameters.get("weights")}  # fmt: skip
        if spec["sketch"] != "simhash":
            named["threshold"] = parameters.get("threshold")
        return {name: value for name, value in named.items() if value is not None}

    @property
    def unnamed(self) -> Integers:
        return np.flatnonzero(self.cluster < 0)

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        together: Flags = (self.cluster[a] == self.cluster[b]) & (self.cluster[a] >= 0)
        code = np.minimum(a, b) * len(self.cluster) + np.maximum(a, b)
        return together | np.isin(code, self.pairs)

    def clusters(self) -> Integers:
        alone = self.cluster.max(initial=0) + 1 + np.arange(len(self.cluster))
        return np.where(self.cluster >= 0, self.cluster, alone)


def _rows(path: Path, columns: tuple[str, str]) -> Iterator[tuple[str | None, str | None]]:
    """Two columns of a table of a run, as strings."""
    if not path.exists():
        raise FormatError(f"{path} is missing: run neardup dedup again")
    (file,) = find_inputs([path])
    with reading(file):
        for batch in columnar.batches(file, BATCH, lambda _: list(columns)):
            left, right = (as_strings(batch.column(name)).to_pylist() for name in columns)
            yield from zip(left, right, strict=True)
