"""The texts of documents of a run, read again from its inputs when a page shows them.

A text of a file of lines is read by the block that it is in (`row_spans.py`); other files are read
from their beginning. Files that are gone or have changed since the run are not read: the page says
so, and shows the texts that the run has stored of its largest clusters.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from neardup.corpus.documents import Documents
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import parse_chunk
from neardup.errors import FormatError, NeardupError
from neardup.formats import tables
from neardup.formatting import format_bytes
from neardup.pipeline.run_inputs import RunInputs
from neardup.report.run_documents import Place, RunDocuments
from neardup.report.run_folder import RunTable
from neardup.review.row_spans import FileSpans, block_of, has_spans, read_stamp
from neardup.review.run_index import ReviewIndex
from neardup.runtime import SILENT

CACHED: Final = 32 << 20
"""Characters of texts that stay in memory."""


class RunTexts:
    """Reads texts. Used by several threads.

    Args:
        run: The folder of the run.
        record: The content of its run.json.
    """

    def __init__(self, run: Path, record: dict[str, Any]) -> None:
        self._run = run
        self._documents: RunDocuments | None = None
        self.problem = ""
        """Why texts could not be read the last time."""
        try:
            self._documents = RunDocuments(run, record, 1, SILENT)
        except (KeyError, TypeError, ValueError):
            self.problem = "another version of neardup made the run: its inputs can't be read again"
        self.index: ReviewIndex | None = None
        self._cache: OrderedDict[Place, str] = OrderedDict()
        self._held = 0
        self._lock = threading.Lock()

    @property
    def spans(self) -> FileSpans | None:
        """Finds the blocks of the inputs; None if they can't be read."""
        return FileSpans(self.corpora) if self.corpora else None

    @property
    def cost(self) -> str:
        """What it costs to explain a document, in a sentence."""
        size = format_bytes(sum(inputs.stored for inputs in self.corpora))
        return f"This reads the inputs again: {size} for a kept document."

    @property
    def corpora(self) -> list[RunInputs]:
        """The inputs, and the files of the earlier corpus; none if they can't be read."""
        return [] if self._documents is None else self._documents.corpora

    def read(self, places: Sequence[Place], cluster: int | None = None) -> dict[Place, str]:
        """Return the texts at these places, as far as they are known; `problem` says why not.

        Args:
            places: Files by their names, and rows.
            cluster: The cluster that the documents are of, of which the run may store texts.
        """
        with self._lock:
            found = {place: self._cache[place] for place in places if place in self._cache}
            self.problem = self.problem if self._documents is None else ""
            for place in dict.fromkeys(places):
                if place not in found and (text := self._read_row(place)) is not None:
                    found[place] = text
            missing = [place for place in places if place not in found]
            if missing and self._documents is not None:
                for one in self._documents.read(missing):
                    found[one.file, one.row] = one.text
            for place, text in found.items():
                self._remember(place, text)
            if cluster is not None and any(place not in found for place in places):
                found = self._stored(cluster) | found
            if self._documents is not None and any(place not in found for place in places):
                self.problem = self._documents.problem
        return found

    def of_ids(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the texts of documents by their ids, as far as their files can be read.

        Args:
            ids: Their ids, or file:row.
        """
        if self._documents is None:
            return {}
        with self._lock:
            found = zip(ids, self._documents.find(ids), strict=True)
            texts = {id: read.text for id, (_, read) in found if read is not None}
            self.problem = "" if len(texts) == len(set(ids)) else self._documents.problem
        return texts

    def containing(self, words: str) -> Iterator[Place | None]:
        """Yield where the documents of the inputs are whose text contains some words."""
        pattern = re.escape(words)

        def matching(documents: Documents) -> list[int]:
            texts = documents.texts
            if not pa.types.is_large_string(texts.type) and not pa.types.is_string(texts.type):
                return []
            found = pc.match_substring_regex(texts, pattern, ignore_case=True)
            rows: list[int] = pc.indices_nonzero(found.fill_null(False)).to_pylist()
            return rows

        for inputs in self.corpora:
            for file in inputs.files:
                try:
                    inputs.check([file])
                    for batch, rows in inputs.read([file], matching, 1, SILENT):
                        yield None
                        yield from map(batch.place, rows)
                except (NeardupError, OSError):
                    continue

    def _read_row(self, place: Place) -> str | None:
        """Return a text by the block that it is in; None if that is not known."""
        name, row = place
        index = self.index
        if index is None or not index.is_ready:
            return None
        for inputs in self.corpora:
            for file in filter(has_spans, inputs.named({name})):
                return self._read_from(inputs, file, row, index)
        return None

    @staticmethod
    def _read_from(inputs: RunInputs, file: InputFile, row: int, index: ReviewIndex) -> str | None:
        try:
            span = index.span_of(file.name, row, read_stamp(file))
            if span is None:
                return None
            documents = parse_chunk(block_of(file, span), inputs.reading.columns)
            value = documents.texts[row - span[0]].as_py()
        except (NeardupError, OSError, IndexError):
            return None
        return value if isinstance(value, str) else " ".join(map(str, value or []))

    def _stored(self, cluster: int) -> dict[Place, str]:
        """Return the texts of a cluster that the run has stored."""
        path = self._run / "samples.parquet"
        if not path.exists():
            return {}
        try:
            rows = RunTable(path, tables.SAMPLES).each()
            return {
                (row["file"], row["row"]): row["text"]
                for row in rows
                if row["cluster"] == cluster and row["text"] is not None
            }
        except FormatError:
            return {}

    def _remember(self, place: Place, text: str) -> None:
        if place not in self._cache:
            self._held += len(text)
        self._cache[place] = text
        self._cache.move_to_end(place)
        while self._held > CACHED and len(self._cache) > 1:
            self._held -= len(self._cache.popitem(last=False)[1])
