"""Rebuild an index by another specification in a new generation, while the current one goes on.

The new generation is made in the folder and kept in step with the current one (`follower.py`).
Then the writer does the last few changes between two commits, and index.json names the new one
(`cutover.py`). If another process writes, the generation is offered to it in next.json, and it
calls `Index.take_over`; if none writes, it is done here. To undo it, the previous generation is
brought in step and switched to in the same way. Wherever this is killed, index.json names a
generation that is whole.
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
from neardup.index.generation import Generation
from neardup.index.open_index import OpenIndex
from neardup.index.settings import IndexSettings, respecify_settings
from neardup.index.store import Store
from neardup.keys import Key, require_key, to_key
from neardup.options import Options
from neardup.runtime import SILENT, Progress
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
