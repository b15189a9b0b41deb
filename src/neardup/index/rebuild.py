"""Index all documents anew by another specification, beside the index, which goes on meanwhile.

A new generation is made in the folder and kept in step with the current one (`follower.py`). Then
whoever writes does the last few changes between two commits, and index.json names the new one. If
that is another process, the generation is offered to it in next.json, and it calls
`Index.take_over`; if nobody writes, it is done here. To undo it, the generation before is brought
in step and gone over to in the same way. Wherever this is killed, index.json names a generation
that is whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from neardup.errors import IndexLocked, UsageError
from neardup.index import folder
from neardup.index.cutover import commit_cutover, cut_over_in_writer, wait_for_cutover
from neardup.index.follower import CorpusTexts, Follower
from neardup.index.generation import create_generation
from neardup.index.index import Index
from neardup.index.settings import IndexSettings, respecify_settings
from neardup.index.store import Store
from neardup.keys import Key, require_key, to_key
from neardup.options import Options
from neardup.runtime import SILENT, Progress
from neardup.spec import Spec

CLOSE: Final = 64
"""With so few changes left, those who write may wait for them."""
ROUNDS: Final = 50
WAIT: Final = 60.0
"""Seconds for another process to go over."""

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
    """Documents that were indexed anew."""
    missing: dict[str, str]
    """Those that were left out: id and reason."""

    @property
    def spec(self) -> Spec:
        return self.options.spec


def reindex(
    where: Index | str | Path,
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
    """Index anew what is in a folder, or in an index that is open; see `Index.reindex`.

    `key` is that of the new specification. If texts are not stored, no other process may write.
    """
    secret = to_key(key)
    with _workplace(where, corpus is not None) as place:
        settings = respecify_settings(place.settings, spec, secret, keep_texts, options)
        require_key(settings.options.spec, secret)
        name = folder.unused_name(place.path)
        create_generation(place.path / name, settings)
        with ExitStack() as stack:
            target = stack.enter_context(place.opened(name, secret))
            spool = None
            if corpus is not None:
                pairs = corpus.items() if isinstance(corpus, Mapping) else corpus
                spool = stack.enter_context(CorpusTexts(place.path / name, pairs))
            follower = Follower(
                place.source, target, corpus=spool, drop_missing=drop_missing, progress=progress
            )
            result, done = place.go_over(follower)
    if not done:
        wait_for_cutover(place.path, name, secret, wait)
    return result


def undo(
    where: Index | str | Path,
    *,
    key: bytes | Key | None = None,
    drop_missing: bool = False,
    wait: float = WAIT,
    progress: Progress = SILENT,
) -> Reindexed:
    """Go back to the generation before, with what has been added and removed since.

    `key` is the one that generation needs.
    """
    secret = to_key(key)
    with _workplace(where, True) as place:
        name = place.listed.previous
        if name is None:
            raise UsageError(f"{place.path} has no generation before this: nothing can be undone")
        with place.opened(name, secret) as target:
            follower = Follower(place.source, target, drop_missing=drop_missing, progress=progress)
            result, done = place.go_over(follower)
    if not done:
        wait_for_cutover(place.path, name, secret, wait)
    return result


def forget(where: Index | str | Path) -> bool:
    """Delete the generation before, with documents that were removed since; whether there was one.

    Nobody has to stop for it. It can't be gone back to any more.
    """
    path = where.path if isinstance(where, Index) else Path(where)
    require_index(path)
    with folder.locked(path, folder.MAKING):
        listed = require_index(path)
        folder.write_generations(path, folder.Generations(listed.current))
        _clear(path)
        return listed.previous is not None


def count_in_previous(path: Path, numbers: Sequence[int]) -> dict[str, int]:
    """How many of these documents the generation before still has, by its name; if it has any."""
    name = require_index(path).previous
    if name is None:
        return {}
    store = Store(path / name / folder.STORE, read_only=True)
    try:
        held = len(store.rows(numbers))
    finally:
        store.close()
    return {name: held} if held else {}


def require_index(path: Path) -> folder.Generations:
    """The generations of an index that must be there."""
    listed = folder.read_generations(path)
    if listed is None:
        raise UsageError(f"{path} holds no index: give the folder of one")
    return listed


@dataclass(frozen=True)
class _Workplace:
    """Where a generation is made, by one at a time, and from what."""

    path: Path
    live: Index | None
    """The index, if it is open in this process."""
    source: Store
    listed: folder.Generations
    alone: bool
    """Whether all others are kept from writing."""

    @property
    def settings(self) -> IndexSettings:
        return IndexSettings.of_stored(self.source.meta(), str(self.source.path))

    def opened(self, name: str, key: Key | None) -> Index:
        """The generation that is made, to write there."""
        if self.live is not None:
            return self.live.beside(name, key)
        return Index.of_generation(self.path, name, [key])

    def go_over(self, follower: Follower) -> tuple[Reindexed, bool]:
        """Get in step, and go over if it is up to this process; whether it was."""
        for _ in range(ROUNDS):
            if follower.catch_up() <= CLOSE:
                break
        target = follower.target
        follower.settle()
        target.snapshot()
        done = self._gone_over(follower)
        result = Reindexed(
            target.generation,
            self.listed.current,
            target.options,
            follower.carried,
            follower.missing,
        )
        return result, done

    def _gone_over(self, follower: Follower) -> bool:
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
            folder.Offer(follower.target.generation, follower.sequence, follower.drop_missing),
        )
        return False


@contextmanager
def _workplace(where: Index | str | Path, texts_given: bool) -> Iterator[_Workplace]:
    live = where if isinstance(where, Index) else None
    path = where.path if isinstance(where, Index) else Path(where)
    if live is not None and live.read_only:
        raise UsageError(f"{path} was opened read-only: open it to write, or give its folder")
    require_index(path)
    with folder.locked(path, folder.MAKING), ExitStack() as stack:
        listed = require_index(path)
        folder.withdraw_offer(path)
        folder.remove_unlisted(path)
        stack.callback(_clear, path)
        if live is not None:
            source = live.store
        else:
            source = Store(path / listed.current / folder.STORE, read_only=True)
            stack.callback(source.close)
        place = _Workplace(path, live, source, listed, False)
        if not (texts_given or place.settings.keep_texts):
            _require_no_documents(path, source)
        if live is None and not place.settings.keep_texts:
            stack.enter_context(_nobody_else(path))
            place = replace(place, alone=True)
        yield place


def _require_no_documents(path: Path, source: Store) -> None:
    if (documents := source.counts()[0]) > 0:
        raise UsageError(
            f"{path} keeps no texts, and {documents:,} documents are to be indexed anew: give "
            "their texts (--corpus FILES), or build the index anew with --keep-texts"
        )


@contextmanager
def _nobody_else(path: Path) -> Iterator[None]:
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
    """What nobody can go over to any more."""
    if folder.read_offer(path) is None:
        folder.remove_unlisted(path)
