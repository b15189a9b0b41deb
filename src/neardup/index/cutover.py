"""The cutover: the writer of an index switches to another generation, between two commits.

In the same process the writer thread does it. A process that writes elsewhere finds the generation
in next.json, where it is offered, and calls `Index.take_over`; the process that made it waits for
that, or switches itself once no process writes any more. The process that holds the lock `making`
decides about an offer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from neardup.errors import Busy, IndexLocked, NeardupError, OutputError, UsageError
from neardup.index import folder
from neardup.index.follower import Follower
from neardup.index.generation import Generation
from neardup.index.open_index import OpenIndex
from neardup.index.store import Store
from neardup.keys import Key, to_key

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
