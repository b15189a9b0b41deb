"""Load many documents: from files into an open index, or from rows into a new index."""

from __future__ import annotations

import shutil
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from neardup.corpus.column_check import check_columns
from neardup.corpus.columns import to_strings
from neardup.corpus.documents import Columns, Documents
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, parse_chunk
from neardup.errors import RowError, UsageError
from neardup.first_look import MOST, FirstDocuments
from neardup.formats.blocks import sync_path
from neardup.formats.tables import write_error
from neardup.index import folder, snapshot
from neardup.index.answer import DUPLICATE, NEW, Answer
from neardup.index.arrivals import SignatureCodec
from neardup.index.file_vectors import chunks_with_vectors
from neardup.index.settings import IndexSettings
from neardup.index.store import CHECKPOINT_BYTES, Row, Store
from neardup.index.validation import LONGEST_ID, is_valid_id
from neardup.runtime import Progress, map_in_order

if TYPE_CHECKING:
    from neardup.index.index import Index

TOGETHER: Final = 4_096
"""The number of documents at which a batch is complete."""
CHARACTERS: Final = 16 << 20
"""The length of its texts, or the bytes of its vectors, at which a batch is complete."""
UNDER_WAY: Final = 2
"""Commits that may be pending while the next documents are sketched."""
BAD_ID: Final = f"the id is empty, has a NUL, or has more than {LONGEST_ID:,} bytes"


@dataclass
class LoadCounts:
    """Counts of loaded documents, by answer."""

    documents: int = 0
    new: int = 0
    copies: int = 0
    again: int = 0
    """Documents that were stored before, with the same id and content."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Rejected documents, by reason."""
    not_documents: Counter[str] = field(default_factory=Counter)
    """Records and members of files that are no documents, by reason."""
    seconds: float = 0.0
    advice: list[str] = field(default_factory=list)
    """What the options of the index can't find in such documents."""

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    def count(self, answers: Iterable[Answer]) -> None:
        """Count the answers of a batch."""
        for answer in answers:
            self.documents += 1
            if answer.again:
                self.again += 1
            elif answer.status == NEW:
                self.new += 1
            elif answer.status == DUPLICATE:
                self.copies += 1
            else:
                self.reasons[answer.reason or ""] += 1


@dataclass
class DocumentBatch:
    """A batch of documents from files. Unusable documents are in `rejected` only."""

    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    groups: list[str | None] = field(default_factory=list)
    """The group of each document; None for all if the index has no groups."""
    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    """The vector of each document; empty if the index has none."""
    generated: list[bool] = field(default_factory=list)
    """Whether each id was made of the names of files and members, or of file and row."""
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Id and reason of unusable documents."""
    stored: int = 0
    """Bytes of the files that were read for it."""
    not_documents: Counter[str] = field(default_factory=Counter)
    """Records and members of these files that are no documents, by reason."""

    @property
    def complete(self) -> bool:
        if len(self.ids) >= TOGETHER or sum(map(len, self.texts)) >= CHARACTERS:
            return True
        return sum(vector.nbytes for vector in self.vectors) >= CHARACTERS

    def append(self, file: InputFile, first_row: int, documents: Documents) -> None:
        """Append documents of a file; one without an id is called by its file and row."""
        within, own = documents.within, to_strings(documents.ids).to_pylist()
        groups = [None] * len(own) if within is None else within.to_pylist()
        each = zip(own, documents.texts.to_pylist(), groups, strict=True)
        for row, (id, text, group) in enumerate(each):
            name = f"{file.name}:{first_row + row}" if id is None else id
            reason = documents.rejected.get(row) or (None if is_valid_id(name) else BAD_ID)
            if reason is None:
                self.ids.append(name)
                self.texts.append(text)
                self.groups.append(group)
                if documents.vectors is not None:
                    self.vectors.append(documents.vectors[row])
                self.generated.append(id is None or not file.row.has_columns)
            else:
                self.rejected.append((name, reason))

    def split_at_repeated_ids(self) -> Iterator[DocumentBatch]:
        """Yield parts that have each id once, so that a document can replace an earlier one."""
        part, seen = DocumentBatch(rejected=self.rejected, stored=self.stored), set[str]()
        part.not_documents = self.not_documents
        for row, id in enumerate(self.ids):
            if id in seen:
                yield part
                part, seen = DocumentBatch(), set()
            seen.add(id)
            part.ids.append(id)
            part.texts.append(self.texts[row])
            part.groups.append(self.groups[row])
            part.vectors += self.vectors[row : row + 1]
            part.generated.append(self.generated[row])
        yield part


def fill(
    index: Index,
    files: Sequence[InputFile],
    columns: Columns,
    progress: Progress,
    *,
    workers: int = 1,
    replace: bool = False,
    strict: bool = False,
) -> LoadCounts:
    """Add all documents of files to an open index, and wait until they are stored.

    Args:
        index: The index.
        files: The files, in order.
        columns: The columns of text, id, group and vector.
        progress: Receives the progress, in bytes.
        workers: Threads that read the files.
        replace: Replace documents that have the same id.
        strict: Raise RowError at the first document that can't be used.
    """
    counts, begun = LoadCounts(), time.perf_counter()
    first = FirstDocuments(index.spec)
    waiting: deque[tuple[Future[list[Answer]], int]] = deque()

    def finish() -> None:
        future, stored = waiting.popleft()
        answers = future.result()
        counts.count(answers)
        if strict:
            refuse_rejected(
                [(str(one.id), one.reason) for one in answers if one.reason is not None]
            )
        progress.advance(stored)

    progress.stage("indexing", sum(file.path.stat().st_size for file in files), "bytes")
    loaded = batches(files, columns, workers)
    if replace:
        loaded = (part for batch in loaded for part in batch.split_at_repeated_ids())
    for batch in loaded:
        if strict:
            refuse_rejected(batch.rejected)
        counts.documents += len(batch.rejected)
        counts.reasons.update(reason for _, reason in batch.rejected)
        counts.not_documents.update(batch.not_documents)
        future = index.submit(
            batch.ids,
            None if columns.textless else batch.texts,
            vectors=None if columns.vectors is None else np.array(batch.vectors),
            replace=replace,
            within=batch.groups,
            generated=batch.generated,
        )
        if not first.complete:
            first.add(pa.array(batch.texts[:MOST], pa.large_string()))
        waiting.append((future, batch.stored))
        if len(waiting) > UNDER_WAY:
            finish()
    while waiting:
        finish()
    look = first.look()
    counts.advice = [] if look is None else look.advice(index.options)
    counts.seconds = time.perf_counter() - begun
    return counts


def batches(
    files: Sequence[InputFile], columns: Columns, workers: int = 1
) -> Iterator[DocumentBatch]:
    """Yield the documents of files; one without an id is called by its file and row."""

    def read(chunk: Chunk) -> Documents:
        return parse_chunk(chunk, columns)

    check_columns(files, columns)
    batch, file, row = DocumentBatch(), None, 0
    for chunk, documents in map_in_order(chunks_with_vectors(files, columns), read, workers):
        if chunk.files[0] != file:
            file, row = chunk.files[0], 0
        batch.append(file, row, documents)
        row += len(documents)
        batch.stored += chunk.stored
        batch.not_documents.update(chunk.unread)
        if batch.complete:
            yield batch
            batch = DocumentBatch()
    if batch.stored:
        yield batch


def refuse_rejected(rejected: Sequence[tuple[str, str | None]]) -> None:
    """Raise RowError for the first rejected document, if there is one."""
    if rejected:
        id, why = rejected[0]
        raise RowError(
            f"document {id!r} can't be used: {why}. Fix it, or drop --strict to skip such "
            "documents; documents before it are in the index"
        )


class Loader:
    """Stores the rows of a new index, one transaction a call."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.documents = self.kept = 0

    def add(self, rows: Sequence[Row], blobs: Mapping[str, Sequence[tuple[int, Any]]]) -> None:
        """Store documents with their blobs: table -> (number, bytes)."""
        with self._store.transaction():
            self._store.add(rows)
            for table, rows_of_table in blobs.items():
                self._store.add_blobs(table, rows_of_table)
        if self._store.wal_bytes > CHECKPOINT_BYTES:
            self._store.checkpoint("TRUNCATE")
        self.documents += len(rows)
        self.kept += sum(row.witness is None for row in rows)

    def reach(self, number: int) -> None:
        """Reserve all numbers up to this one, also those of documents that were removed."""
        with self._store.transaction():
            self._store.reach(number)


@contextmanager
def new_index(path: Path, settings: IndexSettings) -> Iterator[Loader]:
    """Make an index in a folder that is empty or missing, of what the block loads.

    It is made beside the folder and moved there at the end, so that a process that is killed leaves
    no half-filled index.
    """
    require_free(path)
    place = path.resolve()
    temporary = place.with_name(f".{place.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        (temporary / folder.FIRST).mkdir(mode=0o700, parents=True)
        file = temporary / folder.FIRST / folder.STORE
        Store.create(file, settings.stored, settings.version)
        store = Store(file)
        try:
            yield Loader(store)
            cold = snapshot.SpillFolders(temporary / folder.FIRST)
            tables = snapshot.build_tables(store, SignatureCodec.of(settings), cold)
            snapshot.write_snapshot(file.with_name(folder.SNAPSHOT), tables, settings.options)
            store.checkpoint("TRUNCATE")
        finally:
            store.close()
        sync_path(temporary / folder.FIRST)
        place.mkdir(parents=True, exist_ok=True)
        with folder.locked(place):
            require_free(place)
            shutil.rmtree(
                place / folder.FIRST, ignore_errors=True
            )  # of an index that was not finished
            (temporary / folder.FIRST).rename(place / folder.FIRST)
            folder.write_generations(place, folder.Generations(folder.FIRST))
        sync_path(place.parent)
    except OSError as error:
        raise write_error(path, error) from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def require_free(path: Path) -> None:
    """Refuse a folder that holds an index, or anything else."""
    if folder.read_generations(path) is not None:
        raise UsageError(
            f"{path} holds an index: add to it with neardup index add, or choose another folder"
        )
