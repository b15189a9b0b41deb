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
from neardup.index.cutover import (
    CorpusTexts,
    Follower,
    commit_cutover,
    cut_over_in_writer,
    wait_for_cutover,
)
from neardup.index.generation import Generation
from neardup.index.open_index import OpenIndex
from neardup.index.settings import IndexSettings, options_of, respecify_settings, stated
from neardup.index.store import CHECKPOINT_BYTES, Row, Store
from neardup.keys import Key, require_key, to_key
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.sketch import bulk
from neardup.spec import Spec

CLOSE: Final = 64
"""The most changes that are left to the cutover, while writes wait."""
ROUNDS: Final = 50
WAIT: Final = 60.0
"""Seconds for another process to switch."""

Corpus = Mapping[str, str] | Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Reindexed:
    """What has become of the documents."""

    generation: str
    before: str
    """The generation that was the current one."""
    options: Options
    """The operating point that is the current one now."""
    carried: int
    """Documents that were indexed again."""
    missing: dict[str, str]
    """Those that were left out: id and reason."""

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
    """Rebuild the index in a folder, or one that is open; see `Index.reindex`.

    `key` is that of the new specification. If texts are not stored, no other process may write.
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
    """Switch back to the previous generation, with what has been added and removed since.

    `key` is the one that generation needs.
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


def forget(path: Path) -> bool:
    """Delete the previous generation, with documents that were removed since; if there is one.

    The index may be open meanwhile. Its last rebuild can't be undone any more.
    """
    folder.require_index(path)
    with folder.locked(path, folder.MAKING):
        listed = folder.require_index(path)
        folder.write_generations(path, folder.Generations(listed.current))
        _clear(path)
        return listed.previous is not None


def count_in_previous(path: Path, numbers: Sequence[int]) -> dict[str, int]:
    """How many of these documents the generation before still has, by its name; if it has any."""
    name = folder.require_index(path).previous
    if name is None:
        return {}
    store = Store(path / name / folder.STORE, read_only=True)
    try:
        held = len(store.rows(numbers))
    finally:
        store.close()
    return {name: held} if held else {}


@dataclass(frozen=True)
class _Workplace:
    """Where a generation is made, by one at a time, and from what."""

    path: Path
    live: OpenIndex | None
    """The index, if it is open in this process."""
    source: Store
    listed: folder.Generations
    alone: bool
    """Whether all others are kept from writing."""

    @property
    def settings(self) -> IndexSettings:
        return IndexSettings.of_stored(self.source.meta(), str(self.source.path))

    def open_generation(self, name: str, key: Key | None) -> Generation:
        """Open the generation that is made, to write there."""
        if self.live is not None:
            return self.live.open_generation(name, key)
        return Generation.open(self.path, name, [key])

    def switch_to_target(self, follower: Follower) -> tuple[Reindexed, bool]:
        """Get in step, and switch if it is up to this process; whether it was."""
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
def _workplace(where: OpenIndex | str | Path, texts_given: bool) -> Iterator[_Workplace]:
    live = where if isinstance(where, OpenIndex) else None
    path = where.path if isinstance(where, OpenIndex) else Path(where)
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
        if not (texts_given or place.settings.keep_texts):
            _require_no_documents(path, source)
        if live is None and not place.settings.keep_texts:
            stack.enter_context(_no_other_writer(path))
            place = replace(place, alone=True)
        yield place


def _require_no_documents(path: Path, source: Store) -> None:
    if (documents := source.counts()[0]) > 0:
        raise UsageError(
            f"{path} keeps no texts, and {documents:,} documents are to be indexed anew: give "
            "their texts (--corpus FILES), or build the index again with --keep-texts"
        )


@contextmanager
def _no_other_writer(path: Path) -> Iterator[None]:
    """Of documents that would arrive meanwhile there would be no text."""
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
    """What it brought, in bytes of the stores. What was before is still there."""

    generation: str
    fingerprint: str
    parent: str
    documents: int
    bytes_before: int
    bytes_after: int


def convert(path: str | Path, bits: int, *, progress: Progress = SILENT) -> Converted:
    """Narrow the slots of the index in a folder, which no process may have open to write."""
    path = Path(path)
    folder.require_index(path)
    with folder.locked(path), folder.locked(path, folder.MAKING):
        listed = folder.require_index(path)
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        source = Store(path / listed.current / folder.STORE)
        try:
            there = IndexSettings.of_stored(source.meta(), str(source.path))
            settings = narrow_settings(there, bits)
            progress.say(NOTICE)
            source.checkpoint("TRUNCATE")
            name = folder.unused_name(path)
            Generation.create(path / name, settings)
            documents = _copy(source, path / name / folder.STORE, there, settings, progress)
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


def narrow_settings(there: IndexSettings, bits: int) -> IndexSettings:
    """The same with so many bits a slot."""
    spec = there.options.spec
    made = replace(spec, bits=bits)
    if spec.narrow:
        raise ParameterError(
            f"the slots have {spec.bits} bits already, and can't be cut again: go back with "
            f"neardup index reindex --undo first, or reindex from the texts with --bits {bits}"
        )
    if not made.narrow:
        raise ParameterError(f"the slots have {bits} bits as they are: choose fewer")
    return replace(there, options=options_of(made, stated(there.options)), parent=spec.fingerprint)


def _copy(
    source: Store, path: Path, there: IndexSettings, settings: IndexSettings, progress: Progress
) -> int:
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
                    SignatureCodec(there.options),
                    SignatureCodec(settings.options),
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
    keys, slots = wide.unpack([blobs[number] for number in numbers])
    cut = narrow.pack(keys, bulk.pack_signatures(slots, narrow.options.spec))
    target.add_blobs("signatures", zip(numbers, cut, strict=True))


def _size(store: Path) -> int:
    """Of a generation: its documents, not the tables that are derived from them."""
    return store.stat().st_size
