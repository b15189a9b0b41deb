"""The documents of files into an index, in order, some thousand a commit."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final

from neardup.corpus.documents import Columns, Documents
from neardup.corpus.inputs import InputFile
from neardup.corpus.read import Chunk, chunks_of, parse
from neardup.corpus.tables import as_strings
from neardup.errors import RowError
from neardup.index.answer import DUPLICATE, NEW, Answer
from neardup.index.given import LONGEST_ID, usable
from neardup.index.index import Index
from neardup.progress import Progress
from neardup.threads import in_order

TOGETHER: Final = 4_096
"""Documents of a commit, about."""
CHARACTERS: Final = 16 << 20
"""Of the texts of a commit, about."""
UNDER_WAY: Final = 2
"""Commits that may wait while the next documents are sketched."""
BAD_ID: Final = f"the id is empty, has a NUL, or has more than {LONGEST_ID:,} bytes"


@dataclass
class Filled:
    """What became of the documents."""

    documents: int = 0
    new: int = 0
    copies: int = 0
    again: int = 0
    """Those that were there already, with the same id and content."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why others were rejected."""
    seconds: float = 0.0

    @property
    def rejected(self) -> int:
        return self.reasons.total()

    def count(self, answers: Iterable[Answer]) -> None:
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
class Batch:
    """Some documents, and what each is called; those that can't be used are only counted."""

    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    """Id and reason."""
    stored: int = 0
    """Bytes of the files."""

    @property
    def complete(self) -> bool:
        return len(self.ids) >= TOGETHER or sum(map(len, self.texts)) >= CHARACTERS

    def take(self, names: Sequence[str], documents: Documents) -> None:
        for row, (name, text) in enumerate(zip(names, documents.texts.to_pylist(), strict=True)):
            why = documents.rejected.get(row) or (None if usable(name) else BAD_ID)
            if why is None:
                self.ids.append(name)
                self.texts.append(text)
            else:
                self.rejected.append((name, why))

    def apart(self) -> Iterator[Batch]:
        """The same in parts that have each id once: a later document can replace an earlier one."""
        part, seen = Batch(rejected=self.rejected, stored=self.stored), set[str]()
        for id, text in zip(self.ids, self.texts, strict=True):
            if id in seen:
                yield part
                part, seen = Batch(), set()
            seen.add(id)
            part.ids.append(id)
            part.texts.append(text)
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
) -> Filled:
    """Add all documents of some files; with `strict` the first that can't be used is an error."""
    filled, begun = Filled(), time.perf_counter()
    waiting: deque[tuple[Future[list[Answer]], int]] = deque()

    def finish() -> None:
        future, stored = waiting.popleft()
        answers = future.result()
        filled.count(answers)
        if strict:
            _refuse([(str(one.id), one.reason) for one in answers if one.reason is not None])
        progress.advance(stored)

    progress.stage("indexing", sum(file.path.stat().st_size for file in files), "bytes")
    found = batches(files, columns, workers)
    if replace:
        found = (part for batch in found for part in batch.apart())
    for batch in found:
        if strict:
            _refuse(batch.rejected)
        filled.documents += len(batch.rejected)
        filled.reasons.update(why for _, why in batch.rejected)
        future = index.submit(batch.ids, batch.texts, replace=replace)
        waiting.append((future, batch.stored))
        if len(waiting) > UNDER_WAY:
            finish()
    while waiting:
        finish()
    filled.seconds = time.perf_counter() - begun
    return filled


def batches(files: Sequence[InputFile], columns: Columns, workers: int = 1) -> Iterator[Batch]:
    """The documents of files, each called by its id, or else by its file and row."""

    def read(chunk: Chunk) -> Documents:
        return parse(chunk, columns)

    batch, file, row = Batch(), None, 0
    for chunk, documents in in_order(chunks_of(files, columns), read, workers):
        if chunk.files[0] != file:
            file, row = chunk.files[0], 0
        ids = as_strings(documents.ids).to_pylist()
        names = [f"{file.name}:{row + at}" if id is None else id for at, id in enumerate(ids)]
        row += len(documents)
        batch.take(names, documents)
        batch.stored += chunk.stored
        if batch.complete:
            yield batch
            batch = Batch()
    if batch.stored:
        yield batch


def _refuse(rejected: Sequence[tuple[str, str | None]]) -> None:
    if rejected:
        id, why = rejected[0]
        raise RowError(
            f"document {id!r} can't be used: {why}. Mend it, or leave out --strict to go on "
            "without such documents; what came before it is in the index"
        )
