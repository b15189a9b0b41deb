"""Make the next generation of an index beside the current one: rebuild it, or narrow its slots.

`reindex` indexes all documents by another specification. The new generation is made in the folder,
brought in step with the current one and switched to (`cutover.py`), while the current one goes on.
If another process writes, the generation is offered to it in next.json, and it calls
`Index.take_over`; if none writes, it is done here. `undo` brings the previous generation in step
and switches to it in the same way. Wherever this is killed, index.json names a complete generation.

`convert` cuts the stored slots down to a few bits without the texts; no process may write
meanwhile. Decisions, shingles and texts stay. Band keys are made of whole slots, so they are stored
from then on: bands can't be changed any more, while threshold, limit and verification can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from neardup.errors import IndexLocked, ParameterError, UsageError
from neardup.index import folder
from neardup.index.arrivals import SignatureCodec
from neardup.index.carried_documents import CorpusTexts
from neardup.index.cutover import (
    Follower,
    commit_cutover,
    cut_over_in_writer,
    wait_for_cutover,
)
from neardup.index.generation import Generation
from neardup.index.next_settings import respecify_settings
from neardup.index.open_index import OpenIndex
from neardup.index.redis_store.address import require_folder
from neardup.index.settings import IndexSettings, options_of, stated
from neardup.index.store import CHECKPOINT_BYTES, Row, Store
from neardup.index.vector_settings import require_texts_alone
from neardup.keys import Key, require_key, to_key
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.sketch import bulk
from neardup.spec import Spec

CLOSE: Final = 64
"""The most changes that are followed during the cutover, while writes wait."""
ROUNDS: Final = 50
"""How often changes are followed before the cutover."""
WAIT: Final = 60.0
"""Seconds that another process has to switch."""

Corpus = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Reindexed:
    """The result of a rebuild or of its undo."""

    generation: str
    before: str
    """The generation that was current before."""
    options: Options
    """The operating point of the current generation."""
    carried: int
    """The number of documents that were indexed again."""
    missing: dict[str, str]
    """Documents that were left out: id -> reason."""

    @property
    def spec(self) -> Spec:
        return self.options.spec


def reindex(
    where: OpenIndex | str | Path,
    spec: Spec | None = None,
    *,
    key: bytes | Key | None = None,
    corpus: Corpus | None = None,
    keep_texts: bool | None = None,
    drop_missing: bool = False,
    wait: float = WAIT,
    progress: Progress = SILENT,
    **options: Any,
) -> Reindexed:
    """Rebuild the index in a folder, or an open one; see `Index.reindex` for the arguments.

    If the index stores no texts, no other process may write meanwhile. Another process that writes
    has `wait` seconds to switch.
    """
    secret = to_key(key)
    with _workplace(where, corpus is not None) as place:
        settings = respecify_settings(place.settings, spec, secret, keep_texts, options)
        require_key(settings.options.spec, secret)
        name = folder.unused_name(place.path)
        Generation.create(place.path / name, settings)
        with ExitStack() as stack:
            target = stack.enter_context(place.open_generation(name, secret))
            spool = None
            if corpus is not None:
                pairs = corpus.items() if isinstance(corpus, Mapping) else corpus
                spool = stack.enter_context(CorpusTexts(place.path / name, pairs))
            follower = Follower(
                place.source, target, corpus=spool, drop_missing=drop_missing, progress=progress
            )
            result, done = place.switch_to_target(follower)
    if not done:
        wait_for_cutover(place.path, name, secret, wait)
    return result


def undo(
    where: OpenIndex | str | Path,
    *,
    key: bytes | Key | None = None,
    drop_missing: bool = False,
    wait: float = WAIT,
    progress: Progress = SILENT,
) -> Reindexed:
    """Switch back to the previous generation, after adding and removing what changed since.

    `key` is the key of that generation; the other arguments are those of `reindex`.
    """
    secret = to_key(key)
    with _workplace(where, True) as place:
        name = place.listed.previous
        if name is None:
            raise UsageError(f"{place.path} has no generation before this: nothing can be undone")
        with place.open_generation(name, secret) as target:
            follower = Follower(place.source, target, drop_missing=drop_missing, progress=progress)
            result, done = place.switch_to_target(follower)
    if not done:
        wait_for_cutover(place.path, name, secret, wait)
    return result


def forget(path: str | Path) -> bool:
    """Delete the previous generation, with documents that were removed since.

    The index may be open meanwhile. Its last rebuild can't be undone any more. Returns whether
    there was a previous generation.
    """
    path = require_folder(path, "another specification")
    folder.require_index(path)
    with folder.locked(path, folder.MAKING):
        listed = folder.require_index(path)
        folder.write_generations(path, folder.Generations(listed.current))
        _clear(path)
        return listed.previous is not None


def count_in_previous(path: Path, numbers: Sequence[int]) -> dict[str, int]:
    """Count the documents that the previous generation still has, by its name; empty if none."""
    name = folder.require_index(path).previous
    if name is None:
        return {}
    store = Store(path / name / folder.STORE, read_only=True)
    try:
        count = len(store.rows(numbers))
    finally:
        store.close()
    return {name: count} if count else {}


@dataclass(frozen=True)
class _Workplace:
    """The folder in which one process makes a generation, and the store that it follows."""

    path: Path
    live: OpenIndex | None
    """The index, if it is open in this process."""
    source: Store
    listed: folder.Generations
    alone: bool
    """Whether no other process can write, because this one holds the lock."""

    @property
    def settings(self) -> IndexSettings:
        return IndexSettings.of_stored(self.source.meta(), str(self.source.path))

    def open_generation(self, name: str, key: Key | None) -> Generation:
        """Open the new generation, to write there."""
        if self.live is not None:
            return self.live.open_generation(name, key)
        return Generation.open(self.path, name, [key])

    def switch_to_target(self, follower: Follower) -> tuple[Reindexed, bool]:
        """Bring the target in step, then switch, or offer it to the process that writes.

        Returns the result, and whether this process has switched.
        """
        for _ in range(ROUNDS):
            if follower.catch_up() <= CLOSE:
                break
        target = follower.target
        follower.record_left_out()
        target.snapshot()
        done = self._switch(follower)
        result = Reindexed(
            target.name,
            self.listed.current,
            target.settings.options,
            follower.carried,
            follower.missing,
        )
        return result, done

    def _switch(self, follower: Follower) -> bool:
        if self.live is not None:
            cut_over_in_writer(self.live, follower)
            return True
        with suppress(IndexLocked), nullcontext() if self.alone else folder.locked(self.path):
            commit_cutover(self.path, follower)
            return True
        assert follower.sequence is not None  # noqa: S101  # it has caught up
        follower.target.close()
        folder.write_offer(
            self.path,
            folder.Offer(follower.target.name, follower.sequence, follower.drop_missing),
        )
        return False


@contextmanager
def _workplace(where: OpenIndex | str | Path, has_texts: bool) -> Iterator[_Workplace]:
    """Lock a folder to make a generation; `has_texts` if texts come from elsewhere."""
    live = where if isinstance(where, OpenIndex) else None
    path = (
        where.path
        if isinstance(where, OpenIndex)
        else require_folder(where, "another specification")
    )
    if live is not None and live.generation.writer is None:
        raise UsageError(f"{path} was opened read-only: open it to write, or give its folder")
    folder.require_index(path)
    with folder.locked(path, folder.MAKING), ExitStack() as stack:
        listed = folder.require_index(path)
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        stack.callback(_clear, path)
        if live is not None:
            source = live.generation.store
        else:
            source = Store(path / listed.current / folder.STORE, read_only=True)
            stack.callback(source.close)
        place = _Workplace(path, live, source, listed, False)
        stored = place.settings.keep_texts or place.settings.options.spec.of_vectors
        if not (has_texts or stored):
            _require_no_documents(path, source)
        if live is None and not stored:
            stack.enter_context(_no_other_writer(path))
            place = replace(place, alone=True)
        yield place


def _require_no_documents(path: Path, source: Store) -> None:
    """Refuse an index with documents whose texts are not stored."""
    if (documents := source.counts()[0]) > 0:
        raise UsageError(
            f"{path} keeps no texts, and {documents:,} documents are to be indexed anew: give "
            "their texts (--corpus FILES), or build the index again with --keep-texts"
        )


@contextmanager
def _no_other_writer(path: Path) -> Iterator[None]:
    """Keep other processes from writing: documents that they add would have no text."""
    with ExitStack() as stack:
        try:
            stack.enter_context(folder.locked(path))
        except IndexLocked as error:
            raise IndexLocked(
                f"{error}. An index that keeps no texts can't be written to while it is indexed "
                "anew by another process"
            ) from None
        yield


def _clear(path: Path) -> None:
    """Delete generations that no process can switch to any more."""
    if folder.read_offer(path) is None:
        folder.remove_unlisted(path)


AT_ONCE: Final = 2_048
NOTICE: Final = (
    "the bands of a converted index can't be changed any more; threshold, limit and verify can"
)


@dataclass(frozen=True)
class Converted:
    """The result of a conversion; bytes are those of the stores. The old generation stays."""

    generation: str
    fingerprint: str
    parent: str
    documents: int
    bytes_before: int
    bytes_after: int


def convert(path: str | Path, bits: int, *, progress: Progress = SILENT) -> Converted:
    """Narrow the stored slots of the index in a folder, which no process may have open to write.

    Args:
        path: The folder of the index.
        bits: Bits of a slot from now on.
        progress: Receives the progress.

    Returns:
        The new generation, and the bytes before and after.
    """
    path = require_folder(path, "another specification")
    folder.require_index(path)
    with folder.locked(path), folder.locked(path, folder.MAKING):
        listed = folder.require_index(path)
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        source = Store(path / listed.current / folder.STORE)
        try:
            current = IndexSettings.of_stored(source.meta(), str(source.path))
            settings = narrow_settings(current, bits)
            progress.say(NOTICE)
            source.checkpoint("TRUNCATE")
            name = folder.unused_name(path)
            Generation.create(path / name, settings)
            documents = _copy(source, path / name / folder.STORE, current, settings, progress)
        finally:
            source.close()
        folder.write_generations(path, folder.Generations(name, listed.current))
        folder.remove_unlisted(path)
    return Converted(
        name,
        settings.options.spec.fingerprint,
        settings.parent,
        documents,
        _size(source.path),
        _size(path / name / folder.STORE),
    )


def narrow_settings(current: IndexSettings, bits: int) -> IndexSettings:
    """Return the settings with slots of `bits` bits."""
    spec = current.options.spec
    require_texts_alone(current.options, "neardup index convert", "build another index")
    narrowed = replace(spec, bits=bits)
    if spec.narrow:
        raise ParameterError(
            f"the slots have {spec.bits} bits already, and can't be cut again: go back with "
            f"neardup index reindex --undo first, or reindex from the texts with --bits {bits}"
        )
    if not narrowed.narrow:
        raise ParameterError(f"the slots have {bits} bits as they are: choose fewer")
    options = options_of(narrowed, stated(current.options))
    return replace(current, options=options, parent=spec.fingerprint)


def _copy(
    source: Store, path: Path, current: IndexSettings, settings: IndexSettings, progress: Progress
) -> int:
    """Copy all documents into the store at `path`, with narrow signatures; return how many."""
    target = Store(path)
    try:
        documents, _ = source.counts()
        progress.stage("converting", documents, "documents")
        last = 0
        while rows := source.rows_after(last, AT_ONCE):
            last = rows[-1].number
            with target.transaction():
                _copy_rows(
                    source,
                    target,
                    rows,
                    SignatureCodec.of(current),
                    SignatureCodec.of(settings),
                )
            if target.wal_bytes > CHECKPOINT_BYTES:
                target.checkpoint()
            progress.advance(len(rows))
        with target.transaction():
            target.number_after(source)
        target.checkpoint("TRUNCATE")
        return documents
    finally:
        target.close()


def _copy_rows(
    source: Store, target: Store, rows: list[Row], wide: SignatureCodec, narrow: SignatureCodec
) -> None:
    numbers = [row.number for row in rows]
    target.add(rows)
    for table in ("shingles", "texts"):
        target.add_blobs(table, source.blobs(table, numbers).items())
    blobs = source.blobs("signatures", numbers)
    keys, slots, apart = wide.unpack([blobs[number] for number in numbers])
    cut = narrow.pack(keys, bulk.pack_signatures(slots, narrow.options.spec), apart)
    target.add_blobs("signatures", zip(numbers, cut, strict=True))


def _size(store: Path) -> int:
    """Return the size of a store."""
    return store.stat().st_size
