"""An operating point as the system under evaluation: golden documents, sketched and compared.

The corpus is read once to find the golden documents; only their texts stay in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.columns import to_strings
from neardup.corpus.documents import Columns, Documents, make_strings, render
from neardup.corpus.embedding import embed_all
from neardup.corpus.frames import read_data
from neardup.corpus.inputs import InputFile, InputFiles, InputOptions, find_inputs, say_notes
from neardup.corpus.read import Chunk, chunks_of, parse_chunk
from neardup.corpus.vector_files import VectorFile, VectorRows, attach_all
from neardup.evaluation.golden import LISTED, SEVERAL, Flaw, LabelledPairs, no_pairs_left_error
from neardup.evaluation.lab import estimate_verifier, full_verifier, unnamed_documents
from neardup.evaluation.systems import PARAMETERS
from neardup.in_memory import Corpus
from neardup.lsh.curve import format_layout
from neardup.options import Options
from neardup.runtime import SILENT, Progress, map_in_order
from neardup.sketcher import SketchedDocuments, Sketcher
from neardup.spec import WEIGHTED
from neardup.text.frequencies import Frequencies
from neardup.verify import Comparison
from neardup.wording import format_method, format_second_signal

NamedDocuments = tuple[Documents, list[str]]
"""A batch of documents, and their names."""
ReadCorpus = Callable[[], Iterator[NamedDocuments]]


class GoldenFinder:
    """Collects the golden documents from batches; the first document of an id counts."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._number = {id: number for number, id in enumerate(ids)}
        self._ids = ids
        self._row = np.full(len(ids), -1, np.int64)
        self._texts: list[pa.Array] = []
        self._vectors: list[NDArray[np.float32]] = []
        self._count = 0
        self._repeated: dict[str, None] = {}
        self._names: list[str] = []

    def watch(self, batches: Iterable[NamedDocuments]) -> Iterator[Documents]:
        """Yield the documents of each batch, and collect the golden ones."""
        for documents, names in batches:
            self._names += names[: LISTED - len(self._names)]
            rows = [row for row, name in enumerate(names) if self._is_new(name)]
            if rows:
                places = pa.Array.from_buffers(
                    pa.int64(), len(rows), [None, pa.py_buffer(np.array(rows, np.int64))]
                )
                self._texts.append(documents.texts.take(places))
                if documents.vectors is not None:
                    self._vectors.append(documents.vectors[rows])
            yield documents

    def _is_new(self, name: str) -> bool:
        """Return whether a name is a golden id that has no document yet, and number it."""
        number = self._number.get(name, -1)
        if number < 0:
            return False
        if self._row[number] >= 0:
            self._repeated[name] = None
            return False
        self._row[number] = self._count
        self._count += 1
        return True

    def result(self) -> GoldenDocuments:
        """Return the documents that were collected."""
        return GoldenDocuments(
            pa.concat_arrays([make_strings([]), *self._texts]),
            self._row,
            Flaw.of([[name] for name in self._repeated]),
            self._names,
            np.concatenate(self._vectors) if self._vectors else None,
        )


@dataclass(frozen=True)
class GoldenDocuments:
    """The golden documents of a corpus, in its order.

    texts     their texts
    row       for each golden id its row in `texts`, or -1 if it is missing
    repeated  ids that several documents of the corpus have
    names     the names of the first documents of the corpus, golden or not
    vectors   their vectors; None if none were read
    """

    texts: pa.Array
    row: Integers
    repeated: Flaw
    names: list[str]
    vectors: NDArray[np.float32] | None = None

    def text(self, number: int) -> str:
        """Return the text of a golden document; empty if it is missing."""
        row = int(self.row[number])
        return (self.texts[row].as_py() or "") if row >= 0 else ""

    @property
    def documents(self) -> Documents:
        """The texts, and vectors if there are any, as documents without names."""
        return replace(unnamed_documents(self.texts), vectors=self.vectors)


def reader(
    corpus: Any,
    columns: Columns,
    input_options: InputOptions,
    workers: int,
    progress: Progress,
    rows: VectorRows | None = None,
) -> ReadCorpus:
    """Return a function that reads a corpus: files by paths, or a list or a table.

    Args:
        corpus: The corpus.
        columns: The columns to read.
        input_options: How files are read.
        workers: Threads.
        progress: Receives the progress.
        rows: The vectors of the documents, if they are not in a column.
    """
    files = corpus_files(corpus, input_options)
    if files is None:
        return lambda: read_named_data(corpus, columns, rows)
    say_notes(files, progress)
    if rows is None:
        return lambda: read_named(files, columns, workers, progress)
    return lambda: _attach_named(read_named(files, columns, workers, progress), rows, columns)


def read_beside(
    corpus: Any, options: Options, columns: Columns, input_options: InputOptions, workers: int
) -> VectorRows | None:
    """Return the vectors of a corpus that are in an .npy file, or that a function makes.

    Args:
        corpus: The corpus.
        options: The operating point.
        columns: The columns to read.
        input_options: How files are read.
        workers: Threads.
    """
    if options.vectors is None:
        return None
    if options.vectors.embed is not None:
        read = reader(corpus, columns, input_options, workers, SILENT)
        return embed_all(options.vectors.embed, (documents for documents, _ in read()))
    beside = columns.vectors is not None and columns.vector_column is None
    return VectorFile.open(str(columns.vectors)) if beside else None


def _attach_named(
    batches: Iterator[NamedDocuments], rows: VectorRows, columns: Columns
) -> Iterator[NamedDocuments]:
    """Yield the documents with their vectors."""
    names: deque[list[str]] = deque()

    def documents() -> Iterator[Documents]:
        for batch, named in batches:
            names.append(named)
            yield batch

    for batch in attach_all(documents(), rows, columns):
        yield batch, names.popleft()


def corpus_files(corpus: Any, input_options: InputOptions) -> InputFiles | None:
    """Return the files of a corpus named by paths; None for a list or table of documents."""
    if isinstance(corpus, (str, Path)):
        return find_inputs([corpus], **input_options)
    are_paths = isinstance(corpus, (list, tuple)) and any(isinstance(one, Path) for one in corpus)
    return find_inputs(corpus, **input_options) if are_paths else None


def read_named(
    files: Sequence[InputFile], columns: Columns, workers: int, progress: Progress
) -> Iterator[NamedDocuments]:
    """Read files; documents without an id are named by file and row."""
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


def read_named_data(
    data: Any, columns: Columns, rows: VectorRows | None = None
) -> Iterator[NamedDocuments]:
    """Read a list or a table; documents without an id are named by their row."""
    row = 0
    for documents in read_data(data, columns, rows):
        ids = documents.ids
        own = map(render, ids) if isinstance(ids, list) else to_strings(ids).to_pylist()
        yield documents, [str(row + n) if id is None else id for n, id in enumerate(own)]
        row += len(documents)


Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]
Reals = NDArray[np.float64]
PAIRS_AT_ONCE: Final = 1 << 16


@dataclass(frozen=True)
class OperatingPoint:
    """An operating point that judges golden documents pair by pair.

    options      the operating point
    golden       the golden documents of the corpus; callers pass pairs of existing ones only
    sketch       their sketches
    verifier     compares them exactly
    frequencies  document frequencies of the corpus
    workers      threads
    """

    options: Options
    golden: GoldenDocuments
    sketch: SketchedDocuments
    verifier: Comparison
    frequencies: Frequencies
    workers: int

    @classmethod
    def of(
        cls, options: Options, golden: GoldenDocuments, sketcher: Sketcher, workers: int
    ) -> OperatingPoint:
        """Sketch the golden documents."""
        sketch = sketcher(golden.documents)
        verifier = full_verifier(sketch, options, sketcher.frequencies.weights)
        return cls(options, golden, sketch, verifier, sketcher.frequencies, workers)

    @property
    def described(self) -> str:
        """The method in words."""
        recall = self.options.meeting.probability(self.options.threshold)
        lines = [format_method(self.options, recall), *format_second_signal(self.options)]
        return "; ".join(" ".join(line.split()) for line in lines)

    @property
    def stated(self) -> dict[str, Any]:
        """The operating point as evaluation.json has it."""
        spec = self.options.spec
        parameters = {name: getattr(self.options, name) for name in PARAMETERS} | {
            "tables": _describe_tables(self.options),
            "strip": str(self.options.strip),
            "weights": self.options.weights if spec.sketch in WEIGHTED else None,
            "distinguish": str(self.options.distinguish) or None,
            **({} if self.options.vectors is None else self.options.vectors.stated),
        }
        return {"spec": spec.stated, "fingerprint": spec.fingerprint, "parameters": parameters}

    @property
    def empty(self) -> Integers:
        """The golden documents that exist, but can't be compared: without shingles or vector."""
        missing = self.golden.texts.is_null().to_numpy(zero_copy_only=False)
        blank = np.append(missing | (self.sketch.shingles.sizes == 0), False)
        return np.flatnonzero(blank[self.golden.row])

    @cached_property
    def _keys(self) -> NDArray[np.uint64]:
        return self.sketch.keys(self.options.hash_tables)

    def similarity(self, a: Integers, b: Integers) -> Reals:
        """Return the exact similarities of pairs, however the options verify.

        That of documents which are distinguished is 0: they are never duplicates. With vectors
        alone it is their cosine, with a second signal that of the texts.
        """
        distinct = self.sketch.distinct
        least = -1.0 if self.options.spec.of_vectors else 0.0

        def judge(x: Integers, y: Integers) -> Reals:
            if self.options.has_two_signals:
                similar = self.verifier.numbers(x, y)[:, 0]
            else:
                similar = self.verifier.pairs(x, y, least=least)
            return similar if distinct is None else similar * (distinct[x] == distinct[y])

        return self._each(a, b, np.float64, judge)

    def cosines(self, a: Integers, b: Integers) -> Reals | None:
        """Return the cosine of each pair, if vectors are a second signal.

        That of documents which are distinguished is -1.
        """
        distinct = self.sketch.distinct
        if not self.options.has_two_signals:
            return None

        def judge(x: Integers, y: Integers) -> Reals:
            cosine = self.verifier.numbers(x, y)[:, 1]
            return cosine if distinct is None else np.where(distinct[x] == distinct[y], cosine, -1)

        return self._each(a, b, np.float64, judge)

    def decisive(self, similarity: Reals, cosine: Reals | None) -> Reals:
        """Return the figure of each pair that the threshold is compared with.

        It is the similarity; but 1 where vectors are enough, and 0 where they keep a pair apart.

        Args:
            similarity: What `similarity` returns.
            cosine: What `cosines` returns.
        """
        signal = self.options.vectors
        if cosine is None or signal is None:
            return similarity
        enough = cosine >= signal.threshold
        return np.where(enough, 1.0, similarity) if signal.finds else similarity * enough

    def met(self, a: Integers, b: Integers) -> Flags:
        """Return which pairs share a bucket or are identical."""
        content, keys = self.sketch.content, self._keys

        def judge(x: Integers, y: Integers) -> Flags:
            same: Flags = (content[x] == content[y]).all(axis=1)
            shared: Flags = (keys[x] == keys[y]).any(axis=1)
            return same | shared

        return self._each(a, b, np.bool_, judge)

    def verified(self, a: Integers, b: Integers) -> Flags:
        """Return which pairs pass the verification, whether they share a bucket or not."""
        if self.options.verify == "exact":
            return self._each(a, b, np.bool_, lambda x, y: self.verifier.pairs(x, y) >= 0.0)
        verifier = estimate_verifier(self.sketch.signatures, self.options)
        return self._each(a, b, np.bool_, lambda x, y: verifier.pairs(x, y) >= 0.0)

    def duplicates(self, a: Integers, b: Integers) -> Flags:
        """Return which pairs share a bucket and pass the verification."""
        return self.met(a, b) & self.verified(a, b)

    def clusters(self) -> Integers:
        """Return the cluster of each golden document, by a run over the golden documents alone."""
        corpus = Corpus(self.options, frequencies=self.frequencies)
        corpus.add(self.golden.documents, self.sketch)
        witness = corpus.decide().witness
        star = np.where(witness >= 0, witness, np.arange(len(witness)))
        alone = len(star) + np.arange(len(self.golden.row))
        return np.where(self.golden.row >= 0, np.append(star, -1)[self.golden.row], alone)

    def _each(self, a: Integers, b: Integers, kind: Any, judge: Any) -> NDArray[Any]:
        """Judge pairs in batches, each pair in the order of the corpus."""
        x, y = self.golden.row[a], self.golden.row[b]
        first, second = np.minimum(x, y), np.maximum(x, y)
        result = np.empty(len(a), kind)

        def judge_batch(start: int) -> None:
            batch = slice(start, start + PAIRS_AT_ONCE)
            result[batch] = judge(first[batch], second[batch])

        for _ in map_in_order(range(0, len(a), PAIRS_AT_ONCE), judge_batch, self.workers):
            pass
        return result


def _describe_tables(options: Options) -> str | None:
    """Return the bands over the slots of texts; None if there are none."""
    if options.by_bits or options.spec.of_vectors:
        return None
    return format_layout(options.curve)


def usable_pairs(labelled: LabelledPairs, point: OperatingPoint) -> LabelledPairs:
    """Return the labelled pairs without documents that are missing or empty, which are counted."""
    used = labelled.without("unknown ids", np.flatnonzero(point.golden.row < 0))
    used = used.without("empty documents", point.empty)
    if not len(used):
        raise no_pairs_left_error(used, point.golden.names)
    return replace(used, flaws=used.flaws | {SEVERAL: point.golden.repeated})
