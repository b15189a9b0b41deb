"""What is in the folder of an index, and who may write there.

index.json    which generation is the current one, and which was before
lock          held by the process that writes
api-keys.json who may use the service, if there is one
g1/           a generation: index.sqlite is the truth, snapshot and cold-* are derived from it
"""

from __future__ import annotations

import fcntl
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, IndexLocked, OutputError, UsageError
from neardup.formats.blocks import sync_folder
from neardup.formats.tables import no_room, write_json

LISTED: Final = "index.json"
LOCK: Final = "lock"
API_KEYS: Final = "api-keys.json"
"""Of the service; may be there before the index."""
STORE: Final = "index.sqlite"
SNAPSHOT: Final = "snapshot"
VERSION: Final = 1


@dataclass(frozen=True)
class Generations:
    """Which generation answers, and which one did before."""

    current: str
    previous: str | None = None


def generations(folder: Path) -> Generations | None:
    """What the folder says; None if it is empty or not there."""
    path = folder / LISTED
    try:
        if not folder.exists() or set(os.listdir(folder)) <= {LOCK, API_KEYS}:
            return None
        if not path.exists():
            raise UsageError(f"{folder} is not an index, and not empty: choose another folder")
        listed = json.loads(path.read_text("utf-8"))
        if listed["version"] != VERSION:
            raise FormatError(
                f"{path}: format version {listed['version']!r}, this neardup reads version "
                f"{VERSION}: use the neardup that wrote it, or build the index anew"
            )
        return Generations(_name(listed["current"]), _name(listed.get("previous")) or None)
    except OSError as error:
        raise OutputError(
            f"{folder} can't be read ({error.strerror}): give the folder of an index"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{path} is damaged: restore a copy of the folder") from None


def list_generations(folder: Path, listed: Generations) -> None:
    """Say which generation is the current one, at once or not at all."""
    stated = {"version": VERSION, "current": listed.current, "previous": listed.previous}
    write_json(folder / LISTED, stated)
    sync_folder(folder)


def _name(given: Any) -> str:
    """A generation is a name in the folder, and nothing else."""
    if given is None:
        return ""
    if not isinstance(given, str) or not re.fullmatch("g[1-9][0-9]{0,8}", given):
        raise ValueError("not a generation")
    return given


class Lock:
    """Held by the one process that writes; gone with it, however it ends."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise no_room(path, error) from None
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held = os.pread(self._handle, 20, 0).decode("ascii", "replace").strip()
            os.close(self._handle)
            raise IndexLocked(
                f"{folder} is written to by process {held or 'another'}: stop it first, or open "
                "the index read-only (read_only=True, as neardup query and neardup index stats do)"
            ) from None
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._handle)
