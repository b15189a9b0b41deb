"""Bring another generation of an index in step with the current one, then switch to it.

A `Follower` copies documents from the store of one generation to another, under the same numbers.
First it adds and removes all documents that differ, and compares their metadata. After that it
follows the list of changes of the source; if that list was cut short meanwhile, it compares all
documents again. Writers go on.

The cutover follows the last changes and writes index.json, between two commits. In the same process
the writer thread does it. A process that writes elsewhere finds the generation in next.json, where
it is offered, and calls `Index.take_over`; the process that made the generation waits for that, or
switches itself once no process writes any more. The process that holds the lock `making` decides
about an offer.
"""

from __future__ import annotations

import json
import time
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from neardup.errors import Busy, IndexLocked, NeardupError, OutputError, UsageError
from neardup.index import folder
from neardup.index.answer import REJECTED, Answer
from neardup.index.arrivals import SignatureCodec
from neardup.index.carried_documents import (
    CarriedDocuments,
    CorpusTexts,
    DocumentTexts,
    DocumentVectors,
)
from neardup.index.generation import Generation
from neardup.index.open_index import OpenIndex
from neardup.index.settings import IndexSettings
from neardup.index.store import ADDED, MOVED, REMOVED, Row, Store, StoreChange
from neardup.keys import Key, to_key
from neardup.runtime import SILENT, Progress

AT_ONCE: Final = 512
UNDER_WAY: Final = 2
"""Commits that may wait while the next documents are sketched."""
CHANGES_AT_ONCE: Final = 4_096
LEFT_OUT: Final = "left_out"
"""Name of the setting that lists documents a generation was made without."""
NO_TEXT: Final = "no text"
NAMED: Final = 5
"""The most documents that an error names."""


class MissingTexts(UsageError):  # noqa: N818  # names what happened
    """Documents that can't be carried over; `documents` maps their ids to reasons."""

    def __init__(self, documents: dict[str, str]) -> None:
        self.documents = documents
        named = ", ".join(repr(id) for id in list(documents)[:NAMED])
        more = f" and {len(documents) - NAMED:,} more" if len(documents) > NAMED else ""
        why = ", ".join(sorted(set(documents.values())))
        super().__init__(
            f"{len(documents):,} documents can't be carried over ({why}): {named}{more}. Give a "
            "corpus that has them (--corpus), or leave them out (--drop-missing)"
        )


class Follower:
    """Brings the generation `target` in step with the store `source`.

    Args:
        source: The store of the current generation.
        target: The generation that follows.
        corpus: Texts of documents, which go before stored ones.
        drop_missing: Leave out documents without a text. Otherwise they are an error.
        sequence: The change of the source up to which the target is complete, if it is known.
        progress: Receives the progress.
    """

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
        """The change of the source up to which the target is complete; None if it is not known."""
        self.carried = 0
        self._dropped = {} if sequence is None else _left_out(target.store)
        self._only_in_target = _left_out(source)
        """Documents that the source was made without, which the target may have."""
        self._texts, self._progress = DocumentTexts(source, corpus), progress
        settings = IndexSettings.of_stored(source.meta(), str(source.path))
        self._codec, self._spec = SignatureCodec.of(settings), settings.options.spec
        self._vectors = DocumentVectors(source, self._spec)

    @property
    def missing(self) -> dict[str, str]:
        """The ids of documents that could not be carried over, with reasons."""
        return dict(self._dropped.values())

    def record_left_out(self) -> None:
        """Store which documents were left out, for a later follower or an undo."""
        store, left_out = self.target.store, json.dumps(list(self._dropped.items()))

        def write() -> None:
            with store.transaction():
                store.set_meta(LEFT_OUT, left_out)

        self.target.between_commits(write)

    def catch_up(self) -> int:
        """Follow the changes of the source since the last call.

        Returns the number of changes; or of added documents, if all documents were compared.
        """
        changes = self._changes()
        done = self._follow_differences() if changes is None else self._follow(changes)
        if self._dropped and not self.drop_missing:
            raise MissingTexts(self.missing)
        return done

    def _follow_differences(self) -> int:
        """Compare the numbers of all documents; remove and add those that differ."""
        with self.source.snapshot():
            sequence, wanted = self.source.last_change(), self.source.numbers()
        existing = self.target.store.numbers()
        removed = np.setdiff1d(existing, wanted, assume_unique=True).tolist()
        self._remove([number for number in removed if number not in self._only_in_target])
        missing = np.setdiff1d(wanted, existing, assume_unique=True)
        if len(missing):
            self._progress.stage("indexing anew", len(missing), "documents")
        self._add(missing.tolist())
        if len(existing):
            self._compare_metadata()
        self.sequence = sequence
        return len(missing)

    def _compare_metadata(self) -> None:
        """Give all documents of the target the metadata that they have in the source."""
        last = self.target.store.last_number()
        for after in range(0, last, CHANGES_AT_ONCE):
            until = min(after + CHANGES_AT_ONCE, last)
            wanted = dict(self.source.metadata(after, until))
            existing = self.target.store.metadata(after, until)
            self._update_metadata([n for n, has in existing if wanted.get(n, has) != has])

    def _update_metadata(self, numbers: list[int]) -> None:
        wanted, existing = self.source.rows(numbers), self.target.store.rows(numbers)
        changed = [
            row._replace(metadata=wanted[number].metadata)
            for number, row in existing.items()
            if number in wanted and wanted[number].metadata != row.metadata
        ]
        if changed:
            self.target.update(changed)

    def _changes(self) -> list[StoreChange] | None:
        """Return the next changes; None if they have been dropped."""
        if self.sequence is None:
            return None
        with self.source.snapshot():
            if self.source.first_change() > self.sequence + 1:
                return None
            return self.source.changes(self.sequence, CHANGES_AT_ONCE)

    def _follow(self, changes: list[StoreChange]) -> int:
        if changes:
            # Removals first: the id may belong to another document since then.
            self._remove([change.number for change in changes if change.op == REMOVED])
            self._add(sorted(change.number for change in changes if change.op == ADDED))
            self._update(sorted({change.number for change in changes if change.op == MOVED}))
            self.sequence = changes[-1].seq
        return len(changes)

    def _update(self, numbers: list[int]) -> None:
        """Give documents of the target the metadata and the text that they have in the source.

        By the specification of the target, their content may be another one now.
        """
        for start in range(0, len(numbers), AT_ONCE):
            existing = self.target.store.rows(numbers[start : start + AT_ONCE])
            read = self._read(list(existing))
            if read.rows:
                self.target.carry(*read, replace=True).result()
            carried = {row.number for row in read.rows}
            self._update_metadata([number for number in existing if number not in carried])

    def _remove(self, numbers: list[int]) -> None:
        rows = self.target.store.rows(numbers)
        self.target.remove_batch([row.id for row in rows.values()])
        for number in numbers:
            self._dropped.pop(number, None)

    def _add(self, numbers: list[int]) -> None:
        waiting: deque[tuple[list[Row], Future[list[Answer]]]] = deque()
        for start in range(0, len(numbers), AT_ONCE):
            batch = numbers[start : start + AT_ONCE]
            read = self._read_missing(batch)
            if read.rows and (self.drop_missing or not self._dropped):
                self._free_ids(read.rows)
                waiting.append((read.rows, self.target.carry(*read)))
            while len(waiting) > (UNDER_WAY if start + AT_ONCE < len(numbers) else 0):
                self._count(*waiting.popleft())
            self._progress.advance(len(batch))

    def _read_missing(self, numbers: list[int]) -> CarriedDocuments:
        """Return the documents that the target lacks and that have a text, if they need one."""
        existing = self.target.store.rows(numbers)
        missing = [number for number in numbers if number not in existing]
        carried = self._read(missing)
        read = {row.number for row in carried.rows}
        left = self.source.rows([number for number in missing if number not in read])
        self._dropped |= {row.number: (row.id, NO_TEXT) for row in left.values()}
        return carried

    def _read(self, numbers: list[int]) -> CarriedDocuments:
        """Return the documents of the source that have a text, if they need one."""
        with self.source.snapshot():  # or one could be removed before its text is read
            found = self.source.rows(numbers)
            texts = self._texts.of([found[number] for number in sorted(found)])
            needed = found if self._spec.of_vectors else texts
            rows = [found[number] for number in sorted(found) if number in needed]
            listed = [row.number for row in rows]
            signatures = self.source.blobs("signatures", listed) if self._codec.hashes else {}
            vectors = self._vectors.of(listed)
        apart = self._codec.unpack_apart(signatures[row.number] for row in rows)
        groups = self._codec.groups(apart)
        return CarriedDocuments(rows, [texts.get(row.number) for row in rows], groups, vectors)

    def _free_ids(self, rows: list[Row]) -> None:
        """Remove documents of the target whose ids belong to other documents of the source."""
        if not self._only_in_target:
            return
        stored = self.target.answer(lambda view: view.rows_by_id([row.id for row in rows]))
        for row in stored.values():
            if row.number in self._only_in_target:
                self.target.remove_batch([row.id])

    def _count(self, rows: list[Row], done: Future[list[Answer]]) -> None:
        """Wait for a commit; count its documents, and record those that were rejected."""
        for row, answer in zip(rows, done.result(), strict=True):
            if answer.status == REJECTED:
                self._dropped[row.number] = (row.id, str(answer.reason))
            else:
                self.carried += 1


def _left_out(store: Store) -> dict[int, tuple[str, str]]:
    """Return the documents that a generation was made without: number -> id and reason."""
    left_out = json.loads(store.meta().get(LEFT_OUT, "[]"))
    return {number: (id, why) for number, (id, why) in left_out}


POLL: Final = 0.1
"""Seconds between two reads of index.json, while another process is to switch."""


def commit_cutover(path: Path, follower: Follower) -> None:
    """Follow the last changes, then make the target the current generation in index.json.

    Nothing may be committed to the source meanwhile.
    """
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
    """Have the writer thread of an open index follow the last changes and switch."""

    def last_step() -> None:
        commit_cutover(live.path, follower)
        live.switch_to(follower.target)

    live.between_commits(last_step)


def accept_offer(live: OpenIndex, key: bytes | Key | None = None) -> bool:
    """Switch to the generation that another process offers; return whether one was offered."""
    offer = folder.read_offer(live.path)
    if offer is None or offer.problem:
        return False
    with suppress(IndexLocked), folder.locked(live.path, folder.MAKING):
        # With the lock, no other process can withdraw or accept it.
        offer = folder.read_offer(live.path)
        if offer is None or offer.problem:
            return False
        try:
            if offer.generation != live.generation.name:
                with live.open_generation(offer.generation, to_key(key)) as target:
                    cut_over_in_writer(live, _follower(live.generation.store, target, offer))
        except NeardupError as error:
            folder.write_offer(live.path, replace(offer, problem=str(error)))
            raise
        folder.withdraw_offer(live.path)
        folder.remove_unlisted(live.path)
        return True
    return False


def wait_for_cutover(path: Path, name: str, key: Key | None, seconds: float) -> None:
    """Wait until the writing process has switched to `name`; if it ends before, switch here.

    Raises:
        Busy: If it has not switched within `seconds`.
        UsageError: If it could not switch.
    """
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        listed, offer = folder.read_generations(path), folder.read_offer(path)
        if listed is not None and listed.current == name:
            return
        if offer is not None and offer.problem:
            break
        if offer is not None and _switch_without_writer(path, key):
            return
        time.sleep(POLL)
    _withdraw(path, name, seconds)


def _switch_without_writer(path: Path, key: Key | None) -> bool:
    """Switch to the offered generation, unless another process writes; return whether it did."""
    with suppress(IndexLocked), folder.locked(path), folder.locked(path, folder.MAKING):
        listed, offer = folder.read_generations(path), folder.read_offer(path)
        if listed is None or offer is None:
            return False
        source = Store(path / listed.current / folder.STORE, read_only=True)
        try:
            with Generation.open(path, offer.generation, [key]) as target:
                commit_cutover(path, _follower(source, target, offer))
        finally:
            source.close()
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        return True
    return False


def _withdraw(path: Path, name: str, seconds: float) -> None:
    """Withdraw an offer that was not accepted, or failed; unless it was accepted just now."""
    with folder.locked(path, folder.MAKING):
        offer, listed = folder.read_offer(path), folder.read_generations(path)
        folder.withdraw_offer(path)
        if listed is not None and listed.current == name:
            return
        folder.remove_unlisted(path)
        if offer is not None and offer.problem:
            raise UsageError(f"the process that writes could not switch: {offer.problem}")
        raise Busy(
            f"the process that writes did not switch in {seconds:.0f} s: have it call "
            "Index.take_over (neardup serve does), or stop it, and run this again"
        )


def _follower(source: Store, target: Generation, offer: folder.Offer) -> Follower:
    """Go on from the state in which a generation was offered."""
    return Follower(source, target, drop_missing=offer.drop_missing, sequence=offer.sequence)
