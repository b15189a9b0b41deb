"""An operating point as the system under evaluation: golden documents, sketched and compared.

One pass over the corpus finds the golden documents; only their texts stay in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.columns import to_strings
from neardup.corpus.documents import Columns, Documents, make_strings, render
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.read import Chunk, chunks_of, parse_chunk
from neardup.evaluation.golden import LISTED, Flaw
from neardup.evaluation.lab import estimate_verifier, exact_verifier, unnamed_documents
from neardup.evaluation.systems import PARAMETERS
from neardup.in_memory import Corpus
from neardup.lsh.curve import format_layout
from neardup.options import Options
from neardup.result import format_method
from neardup.runtime import Progress, map_in_order
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import WEIGHTED
from neardup.text.frequencies import Frequencies
from neardup.verify import Exact, Weighed

NamedDocuments = tuple[Documents, list[str]]
"""Some documents, and what each is called."""
ReadCorpus = Callable[[], Iterator[NamedDocuments]]


class GoldenFinder:
    """Takes the golden documents out of batches that pass by. The first of a name counts."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._number = {id: number for number, id in enumerate(ids)}
        self._ids = ids
        self._row = np.full(len(ids), -1, np.int64)
        self._texts: list[pa.Array] = []
        self._found = 0
        self._repeated: dict[str, None] = {}
        self._names: list[str] = []

    def watch(self, batches: Iterable[NamedDocuments]) -> Iterator[Documents]:
        """The documents, as they come."""
        for documents, names in batches:
            self._names += names[: LISTED - len(self._names)]
            rows = [row for row, name in enumerate(names) if self._is_new(name)]
            if rows:
                places = pa.Array.from_buffers(
                    pa.int64(), len(rows), [None, pa.py_buffer(np.array(rows, np.int64))]
                )
                self._texts.append(documents.texts.take(places))
            yield documents

    def _is_new(self, name: str) -> bool:
        number = self._number.get(name, -1)
        if number < 0:
            return False
        if self._row[number] >= 0:
            self._repeated[name] = None
            return False
        self._row[number] = self._found
        self._found += 1
        return True

    def result(self) -> GoldenDocuments:
        return GoldenDocuments(
            pa.concat_arrays([make_strings([]), *self._texts]),
            self._row,
            Flaw.of([[name] for name in self._repeated]),
            self._names,
        )


@dataclass(frozen=True)
class GoldenDocuments:
    """The golden documents of a corpus, in its order.

    row       of each golden id: its row in `texts`, or -1
    repeated  ids that several documents of the corpus have
    names     what the first documents of the corpus are called, golden or not
    """

    texts: pa.Array
    row: Integers
    repeated: Flaw
    names: list[str]

    def text(self, number: int) -> str:
        """The text of a golden document; empty if there is none."""
        row = int(self.row[number])
        return (self.texts[row].as_py() or "") if row >= 0 else ""

    @property
    def documents(self) -> Documents:
        return unnamed_documents(self.texts)


def reader(
    corpus: Any, columns: Columns, format: str, workers: int, progress: Progress
) -> ReadCorpus:
    """How the documents of a corpus are read: of files, by paths, or of a list or a table."""
    files = corpus_files(corpus, format)
    if files is None:
        return lambda: _of_data(corpus, columns)
    return lambda: _of_files(files, columns, workers, progress)


def corpus_files(corpus: Any, format: str) -> list[InputFile] | None:
    """The files of a corpus that is given by a path, or a list of them; None of a list or table."""
    if isinstance(corpus, (str, Path)):
        return find_inputs([corpus], format)
    are_paths = isinstance(corpus, (list, tuple)) and any(isinstance(one, Path) for one in corpus)
    return find_inputs(corpus, format) if are_paths else None


def _of_files(
    files: Sequence[InputFile], columns: Columns, workers: int, progress: Progress
) -> Iterator[NamedDocuments]:
    progress.stage("reading", sum(file.path.stat().st_size for file in files), "bytes")

    def read(chunk: Chunk) -> Documents:
        return parse_chunk(chunk, columns)

    file, row = None, 0
    for chunk, documents in map_in_order(chunks_of(files, columns), read, workers):
        if chunk.files[0] != file:
            file, row = chunk.files[0], 0
        ids = to_strings(documents.ids).to_pylist()
        yield documents, [id or f"{file.name}:{row + n}" for n, id in enumerate(ids)]
        row += len(documents)
        progress.advance(chunk.stored)


def _of_data(data: Any, columns: Columns) -> Iterator[NamedDocuments]:
    row = 0
    for documents in read_data(data, columns):
        ids = documents.ids
        own = map(render, ids) if isinstance(ids, list) else to_strings(ids).to_pylist()
        yield documents, [str(row + n) if id is None else id for n, id in enumerate(own)]
        row += len(documents)


Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class OperatingPoint:
    """Golden documents' texts, sketched and compared as options say. Judges pair by pair.

    A document's row is its place among the texts; -1 has none, and is never asked about.
    """

    options: Options
    found: GoldenDocuments
    sketch: SketchedDocuments
    verifier: Exact | Weighed
    frequencies: Frequencies
    workers: int

    @classmethod
    def of(
        cls, options: Options, found: GoldenDocuments, sketcher: Sketcher, workers: int
    ) -> OperatingPoint:
        sketch = sketcher(found.documents)
        verifier = exact_verifier(sketch.shingles, options, sketcher.frequencies.weights)
        return cls(options, found, sketch, verifier, sketcher.frequencies, workers)

    @property
    def described(self) -> str:
        return format_method(self.options, self.options.meeting.probability(self.options.threshold))

    @property
    def stated(self) -> dict[str, Any]:
        spec = self.options.spec
        parameters = {name: getattr(self.options, name) for name in PARAMETERS} | {
            "tables": None if self.options.by_bits else format_layout(self.options.curve),
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
        return self.sketch.keys(self.options.hash_tables)

    def similarity(self, a: Integers, b: Integers) -> Reals:
        """Exact, whatever the options verify by."""
        return self._each(a, b, np.float64, lambda x, y: self.verifier.pairs(x, y, least=0.0))

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
            return self._each(a, b, np.bool_, lambda x, y: self.verifier.pairs(x, y) >= 0.0)
        verifier = estimate_verifier(self.sketch.signatures, self.options)
        return self._each(a, b, np.bool_, lambda x, y: verifier.pairs(x, y) >= 0.0)

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

        for _ in map_in_order(range(0, len(a), AT_ONCE), some, self.workers):
            pass
        return result
