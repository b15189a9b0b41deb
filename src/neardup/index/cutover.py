"""Bring another generation of an index in step with the current one, then switch to it.

A `Follower` copies documents from the store of one generation to another, under the same numbers.
First it adds and removes all documents that differ. After that it follows the list of changes of
the source; if that list was cut short meanwhile, it compares all documents again. Writers go on.

The cutover follows the last changes and writes index.json, between two commits. In the same process
the writer thread does it. A process that writes elsewhere finds the generation in next.json, where
it is offered, and calls `Index.take_over`; the process that made the generation waits for that, or
switches itself once no process writes any more. The process that holds the lock `making` decides
about an offer.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import numpy as np

from neardup.errors import Busy, IndexLocked, NeardupError, OutputError, ParameterError, UsageError
from neardup.index import folder
from neardup.index.answer import REJECTED, Answer
from neardup.index.generation import Generation
from neardup.index.open_index import OpenIndex
from neardup.index.settings import IndexSettings
from neardup.index.store import ADDED, REMOVED, Row, Store, StoreChange
from neardup.index.validation import decode_text
from neardup.keys import Key, to_key
from neardup.runtime import SILENT, Progress

CORPUS_FILE: Final = "corpus.tmp"
IDS_AT_ONCE: Final = 500


class CorpusTexts:
    """Texts that can be asked for in any order. Of several with the same id the first counts."""

    def __init__(self, folder: Path, texts: Iterable[tuple[str, str]]) -> None:
        self._path = folder / CORPUS_FILE
        with self._translated():
            self._file = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            for setting in ("journal_mode=OFF", "synchronous=OFF", "page_size=32768"):
                self._file.execute(f"PRAGMA {setting}")
            self._file.execute("CREATE TABLE texts(number INTEGER PRIMARY KEY, id TEXT, text TEXT)")
            self._file.execute("BEGIN")
            self._file.executemany("INSERT INTO texts(id, text) VALUES(?, ?)", texts)
            self._file.execute("COMMIT")
            self._file.execute("CREATE INDEX ids ON texts(id)")

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """Those that the corpus has."""
        found: dict[str, str] = {}
        with self._translated():
            for start in range(0, len(ids), IDS_AT_ONCE):
                some = ids[start : start + IDS_AT_ONCE]
                places = ",".join("?" * len(some))
                asked = f"SELECT id, text FROM texts WHERE id IN ({places}) ORDER BY number DESC"  # noqa: S608
                found.update(self._file.execute(asked, some).fetchall())
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._path.unlink(missing_ok=True)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except UnicodeEncodeError:
            raise ParameterError(
                "a text or an id of the corpus is not valid Unicode: it has a lone surrogate"
            ) from None
        except sqlite3.Error as error:
            raise OutputError(
                f"{self._path} can't be written ({error}): free some space, then try again"
            ) from None


AT_ONCE: Final = 512
UNDER_WAY: Final = 2
"""Commits that may wait while the next documents are sketched."""
CHANGES_AT_ONCE: Final = 4_096
LEFT_OUT: Final = "left_out"
NO_TEXT: Final = "no text"
NAMED: Final = 5
"""So many documents are named in an error."""


class MissingTexts(UsageError):  # noqa: N818  # reads as what happened
    """Documents that can't be carried over; `documents` has the id and the reason of each."""

    def __init__(self, documents: dict[str, str]) -> None:
        self.documents = documents
        some = ", ".join(repr(id) for id in list(documents)[:NAMED])
        more = f" and {len(documents) - NAMED:,} more" if len(documents) > NAMED else ""
        why = ", ".join(sorted(set(documents.values())))
        super().__init__(
            f"{len(documents):,} documents can't be carried over ({why}): {some}{more}. Give a "
            "corpus that has them (--corpus), or leave them out (--drop-missing)"
        )


class DocumentTexts:
    """The texts of documents: of a corpus, or else as they are stored."""

    def __init__(self, store: Store, corpus: CorpusTexts | None = None) -> None:
        self._store, self._corpus = store, corpus
        settings = IndexSettings.of_stored(store.meta(), str(store.path))
        self._tokens = settings.options.spec.unit == "token"

    def of(self, rows: Sequence[Row]) -> dict[int, str]:
        """By number, of those that have one."""
        given = {} if self._corpus is None else self._corpus.texts([row.id for row in rows])
        found = {row.number: given[row.id] for row in rows if row.id in given}
        rest = [row.number for row in rows if row.number not in found]
        stored = self._store.blobs("texts", rest) if rest else {}
        return found | {
            number: decode_text(text, tokens=self._tokens) for number, text in stored.items()
        }


class Follower:
    """Has `target` do what happens to `source`."""

    def __init__(
        self,
        source: Store,
        target: Generation,
        *,
        corpus: CorpusTexts | None = None,
        drop_missing: bool = False,
        sequence: int | None = None,
        progress: Progress = SILENT,
    ) -> None:
        self.source, self.target, self.drop_missing = source, target, drop_missing
        self.sequence = sequence
        """The change up to which the target has everything; None if that is not known."""
        self.carried = 0
        self._lost = {} if sequence is None else _left_out(target.store)
        self._apart = _left_out(source)
        """What the target may have and the source was made without."""
        self._texts, self._progress = DocumentTexts(source, corpus), progress

    @property
    def missing(self) -> dict[str, str]:
        """Id and reason of those that could not be carried over."""
        return dict(self._lost.values())

    def record_left_out(self) -> None:
        """Write down what was left out, for who goes on from here, or goes back."""
        store, stated = self.target.store, json.dumps(list(self._lost.items()))

        def write() -> None:
            with store.transaction():
                store.set_meta(LEFT_OUT, stated)

        self.target.between_commits(write)

    def catch_up(self) -> int:
        """Do what has happened since; how many changes that were, or documents at first."""
        changes = self._changes()
        done = self._differences() if changes is None else self._follow(changes)
        if self._lost and not self.drop_missing:
            raise MissingTexts(self.missing)
        return done

    def _differences(self) -> int:
        with self.source.snapshot():
            sequence, there = self.source.last_change(), self.source.numbers()
        here = self.target.store.numbers()
        gone = np.setdiff1d(here, there, assume_unique=True).tolist()
        self._remove([number for number in gone if number not in self._apart])
        lacking = np.setdiff1d(there, here, assume_unique=True)
        if len(lacking):
            self._progress.stage("indexing anew", len(lacking), "documents")
        self._add(lacking.tolist())
        self.sequence = sequence
        return len(lacking)

    def _changes(self) -> list[StoreChange] | None:
        """The next ones; None if they are not known any more."""
        if self.sequence is None:
            return None
        with self.source.snapshot():
            if self.source.first_change() > self.sequence + 1:
                return None
            return self.source.changes(self.sequence, CHANGES_AT_ONCE)

    def _follow(self, changes: list[StoreChange]) -> int:
        if changes:
            # Removed first: an id may have been given to another document since.
            self._remove([change.number for change in changes if change.op == REMOVED])
            self._add(sorted(change.number for change in changes if change.op == ADDED))
            self.sequence = changes[-1].seq
        return len(changes)

    def _remove(self, numbers: list[int]) -> None:
        for row in self.target.store.rows(numbers).values():
            self.target.remove(row.id)
        for number in numbers:
            self._lost.pop(number, None)

    def _add(self, numbers: list[int]) -> None:
        waiting: deque[tuple[list[Row], Future[list[Answer]]]] = deque()
        for start in range(0, len(numbers), AT_ONCE):
            some = numbers[start : start + AT_ONCE]
            rows, texts = self._with_texts(some)
            if rows and (self.drop_missing or not self._lost):
                self._make_way(rows)
                waiting.append((rows, self.target.carry(rows, texts)))
            while len(waiting) > (UNDER_WAY if start + AT_ONCE < len(numbers) else 0):
                self._note(*waiting.popleft())
            self._progress.advance(len(some))

    def _with_texts(self, numbers: list[int]) -> tuple[list[Row], list[str]]:
        """Of these documents those that are still there, are lacking, and have a text."""
        here = self.target.store.rows(numbers)
        with self.source.snapshot():  # or one could be removed before its text is read
            found = self.source.rows(numbers)
            rows = [found[number] for number in sorted(found) if number not in here]
            texts = self._texts.of(rows)
        self._lost |= {row.number: (row.id, NO_TEXT) for row in rows if row.number not in texts}
        rows = [row for row in rows if row.number in texts]
        return rows, [texts[row.number] for row in rows]

    def _make_way(self, rows: list[Row]) -> None:
        """Remove the target's documents whose ids the source has given to other texts."""
        if not self._apart:
            return
        stored = self.target.answer(lambda view: view.rows_by_id([row.id for row in rows]))
        for row in stored.values():
            if row.number in self._apart:
                self.target.remove(row.id)

    def _note(self, rows: list[Row], done: Future[list[Answer]]) -> None:
        for row, answer in zip(rows, done.result(), strict=True):
            if answer.status == REJECTED:
                self._lost[row.number] = (row.id, str(answer.reason))
            else:
                self.carried += 1


def _left_out(store: Store) -> dict[int, tuple[str, str]]:
    """Number to id and reason of the documents that a generation was made without."""
    stated = json.loads(store.meta().get(LEFT_OUT, "[]"))
    return {number: (id, why) for number, (id, why) in stated}


LOOK: Final = 0.1
"""Seconds between two looks at whether the other process has switched."""


def commit_cutover(path: Path, follower: Follower) -> None:
    """Follow the last changes, then name the new generation as current, between commits."""
    while follower.catch_up():
        pass
    follower.record_left_out()
    follower.target.number_after(follower.source)
    before = follower.source.path.parent.name
    listed = folder.Generations(follower.target.name, before)
    try:
        folder.write_generations(path, listed)
    except OutputError:
        if folder.read_generations(path) != listed:
            raise


def cut_over_in_writer(live: OpenIndex, follower: Follower) -> None:
    """Have the writer thread do the last step."""

    def last_step() -> None:
        commit_cutover(live.path, follower)
        live.switch_to(follower.target)

    live.between_commits(last_step)


def accept_offer(live: OpenIndex, key: bytes | Key | None = None) -> bool:
    """Switch to the generation that another process offers, if there is one."""
    offered = folder.read_offer(live.path)
    if offered is None or offered.problem:
        return False
    with suppress(IndexLocked), folder.locked(live.path, folder.MAKING):
        # Now it is neither withdrawn nor taken by anybody else.
        offered = folder.read_offer(live.path)
        if offered is None or offered.problem:
            return False
        try:
            if offered.generation != live.generation.name:
                with live.open_generation(offered.generation, to_key(key)) as target:
                    cut_over_in_writer(live, _follower(live.generation.store, target, offered))
        except NeardupError as error:
            folder.write_offer(live.path, replace(offered, problem=str(error)))
            raise
        folder.withdraw_offer(live.path)
        folder.remove_unlisted(live.path)
        return True
    return False


def wait_for_cutover(path: Path, name: str, key: Key | None, seconds: float) -> None:
    """Wait until the process that writes has switched; if it ends before, switch here."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        listed, offered = folder.read_generations(path), folder.read_offer(path)
        if listed is not None and listed.current == name:
            return
        if offered is not None and offered.problem:
            break
        if offered is not None and _completed(path, key):
            return
        time.sleep(LOOK)
    _withdraw(path, name, seconds)


def _completed(path: Path, key: Key | None) -> bool:
    """Switch to what is offered, unless another process writes."""
    with suppress(IndexLocked), folder.locked(path), folder.locked(path, folder.MAKING):
        listed, offered = folder.read_generations(path), folder.read_offer(path)
        if listed is None or offered is None:
            return False
        source = Store(path / listed.current / folder.STORE, read_only=True)
        try:
            with Generation.open(path, offered.generation, [key]) as target:
                commit_cutover(path, _follower(source, target, offered))
        finally:
            source.close()
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        return True
    return False


def _withdraw(path: Path, name: str, seconds: float) -> None:
    """Withdraw an offer that was not accepted, or failed; unless it was accepted just now."""
    with folder.locked(path, folder.MAKING):
        offered, listed = folder.read_offer(path), folder.read_generations(path)
        folder.withdraw_offer(path)
        if listed is not None and listed.current == name:
            return
        folder.remove_unlisted(path)
        if offered is not None and offered.problem:
            raise UsageError(f"the process that writes could not switch: {offered.problem}")
        raise Busy(
            f"the process that writes did not switch in {seconds:.0f} s: have it call "
            "Index.take_over (neardup serve does), or stop it, and run this again"
        )


def _follower(source: Store, target: Generation, offered: folder.Offer) -> Follower:
    return Follower(source, target, drop_missing=offered.drop_missing, sequence=offered.sequence)
