"""Where are the golden documents in a corpus? One pass; only their texts stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.columns import as_strings
from neardup.corpus.documents import Columns, Documents, render, strings
from neardup.corpus.frames import from_data
from neardup.corpus.inputs import InputFile, find_inputs
from neardup.corpus.read import Chunk, chunks_of, parse
from neardup.evaluation.golden import LISTED, Flaw
from neardup.runtime import Progress, map_in_order

Integers = NDArray[np.int64]
Batch = tuple[Documents, list[str]]
"""Some documents, and what each is called."""
Read = Callable[[], Iterator[Batch]]


class Finder:
    """Takes the golden documents out of batches that pass by. The first of a name counts."""

    def __init__(self, ids: Sequence[str]) -> None:
        self._number = {id: number for number, id in enumerate(ids)}
        self._ids = ids
        self._row = np.full(len(ids), -1, np.int64)
        self._texts: list[pa.Array] = []
        self._found = 0
        self._repeated: dict[str, None] = {}
        self._names: list[str] = []

    def watch(self, batches: Iterable[Batch]) -> Iterator[Documents]:
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

    def result(self) -> Found:
        return Found(
            pa.concat_arrays([strings([]), *self._texts]),
            self._row,
            Flaw.of([[name] for name in self._repeated]),
            self._names,
        )


@dataclass(frozen=True)
class Found:
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
        return Documents(self.texts, pa.nulls(len(self.texts), pa.large_string()), None, None, {})


def reader(corpus: Any, columns: Columns, format: str, workers: int, progress: Progress) -> Read:
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
) -> Iterator[Batch]:
    progress.stage("reading", sum(file.path.stat().st_size for file in files), "bytes")

    def read(chunk: Chunk) -> Documents:
        return parse(chunk, columns)

    file, row = None, 0
    for chunk, documents in map_in_order(chunks_of(files, columns), read, workers):
        if chunk.files[0] != file:
            file, row = chunk.files[0], 0
        ids = as_strings(documents.ids).to_pylist()
        yield documents, [id or f"{file.name}:{row + n}" for n, id in enumerate(ids)]
        row += len(documents)
        progress.advance(chunk.stored)


def _of_data(data: Any, columns: Columns) -> Iterator[Batch]:
    row = 0
    for documents in from_data(data, columns):
        ids = documents.ids
        own = map(render, ids) if isinstance(ids, list) else as_strings(ids).to_pylist()
        yield documents, [str(row + n) if id is None else id for n, id in enumerate(own)]
        row += len(documents)
