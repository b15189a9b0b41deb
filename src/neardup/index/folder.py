"""The folder of an index: its files, and the lock of the process that writes.

index.json    which generation is the current one, and which was before
lock          held by the process that writes
api-keys.json the keys of the service, if there is one
additions.json which documents are in no output yet (`additions.py`)
g1/           a generation: index.sqlite is the store, snapshot and cold-* are derived from it

While it is rebuilt (`rebuild.py`) there are also
making        held by the process that makes a generation, or switches to it
next.json     a generation that is complete up to a change of the current one
g2/           that generation
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, IndexLocked, OutputError, UsageError
from neardup.formats.blocks import sync_path
from neardup.formats.tables import write_error
from neardup.index.store import Store
from neardup.pipeline.output import RUN_FILE

LISTED: Final = "index.json"
FIRST: Final = "g1"
LOCK: Final = "lock"
API_KEYS: Final = "api-keys.json"
"""Keys of the service; the file may exist before the index does."""
ADDITIONS: Final = "additions.json"
MAKING: Final = "making"
NEXT: Final = "next.json"
STORE: Final = "index.sqlite"
SNAPSHOT: Final = "snapshot"
BUILD: Final = "neardup index build"
VERSION: Final = 1


@dataclass(frozen=True)
class Generations:
    """The name of the generation that answers, and of the one before."""

    current: str
    previous: str | None = None


def read_generations(folder: Path) -> Generations | None:
    """Read index.json; None if the folder is missing, empty or an index that was not finished."""
    path = folder / LISTED
    try:
        if not folder.exists() or set(os.listdir(folder)) <= {LOCK, API_KEYS}:
            return None
        if not path.exists() and _is_unfinished(folder):
            return None
        if not path.exists():
            raise UsageError(_describe_other(folder))
        listed = json.loads(path.read_text("utf-8"))
        if listed["version"] != VERSION:
            raise FormatError(
                f"{path}: format version {listed['version']!r}, this neardup reads version "
                f"{VERSION}: use the neardup that wrote it, or build the index again"
            )
        return Generations(_name(listed["current"]), _name(listed.get("previous")) or None)
    except NotADirectoryError:
        raise UsageError(f"{folder} is a file: give the folder of an index") from None
    except OSError as error:
        raise OutputError(
            f"{folder} can't be read ({error.strerror}): give the folder of an index"
        ) from None
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{path} is damaged: restore a copy of the folder") from None


def is_index(folder: Path) -> bool:
    """Return whether a folder holds an index, by its files: also one that is damaged."""
    return (folder / LISTED).is_file() and any(
        (path / STORE).is_file() for path in folder.iterdir() if path.is_dir()
    )


def require_index(folder: Path) -> Generations:
    """Read index.json; raise UsageError if there is no index."""
    listed = read_generations(folder)
    if listed is None:
        why = "" if folder.exists() else " (there is no such folder)"
        raise UsageError(
            f"{folder} holds no index{why}: give the folder of an index, or make one with {BUILD}"
        )
    return listed


def _describe_other(folder: Path) -> str:
    """Return the message for a folder with files that are not those of an index."""
    if (folder / RUN_FILE).exists():
        return (
            f"{folder} holds a run, not an index: give the folder of an index, or make one with "
            f"{BUILD} (--from {folder}, if the run has saved its sketches)"
        )
    return (
        f"{folder} is not an index, and not empty: give the folder of an index, or an empty one "
        "for a new index"
    )


def _is_unfinished(folder: Path) -> bool:
    """Return whether a process was killed while it made an index, before any document."""
    if not set(os.listdir(folder)) <= {LOCK, API_KEYS, FIRST, f".{LISTED}.tmp"}:
        return False
    path = folder / FIRST / STORE
    if not path.exists():
        return True
    store = Store(path, read_only=True)
    try:
        return store.last_number() == 0
    finally:
        store.close()


def delete_empty_index(folder: Path) -> None:
    """Delete an index without documents; API keys stay."""
    for name in (LISTED, LOCK, ADDITIONS):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / FIRST, ignore_errors=True)
    with suppress(OSError):  # something else is in it
        folder.rmdir()


def write_generations(folder: Path, listed: Generations) -> None:
    """Write index.json atomically."""
    content = {"version": VERSION, "current": listed.current, "previous": listed.previous}
    write_durably(folder / LISTED, content)


def write_durably(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file atomically and durably."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_path(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise write_error(path, error) from None


def file_identity(path: Path) -> tuple[int, int]:
    """Return inode and time of a file: they change when another file takes its name."""
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_ino, status.st_mtime_ns


@dataclass(frozen=True)
class Offer:
    """A generation that is offered to the process that writes, to switch to."""

    generation: str
    sequence: int
    """The change of the current generation up to which it is complete."""
    drop_missing: bool = False
    """Whether documents without a text may be left out."""
    problem: str = ""
    """Why the process that writes could not switch to it."""


def write_offer(folder: Path, offer: Offer) -> None:
    """Offer a new generation to the process that writes, in next.json."""
    write_durably(folder / NEXT, asdict(offer))


def read_offer(folder: Path) -> Offer | None:
    """Read next.json; None if no generation is offered."""
    try:
        offer = Offer(**json.loads((folder / NEXT).read_text("utf-8")))
        _name(offer.generation)
        return offer
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise FormatError(f"{folder / NEXT} is damaged: delete it, and reindex again") from None


def withdraw_offer(folder: Path) -> None:
    """Delete next.json, if it exists."""
    (folder / NEXT).unlink(missing_ok=True)


def unused_name(folder: Path) -> str:
    """Return a name for a new generation."""
    taken = [int(path.name[1:]) for path in _folders(folder)]
    return f"g{max(taken, default=0) + 1}"


def remove_unlisted(folder: Path) -> None:
    """Delete generations of interrupted work: all but the current and the previous one."""
    listed = read_generations(folder)
    for path in _folders(folder):
        if listed is not None and path.name not in (listed.current, listed.previous):
            shutil.rmtree(path, ignore_errors=True)


def _folders(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if re.fullmatch("g[1-9][0-9]{0,8}", path.name)]


def _name(name: Any) -> str:
    """Check the name of a generation, so that it can't be a path elsewhere; "" of None."""
    if name is None:
        return ""
    if not isinstance(name, str) or not re.fullmatch("g[1-9][0-9]{0,8}", name):
        raise ValueError("not a generation")
    return name


LOCK_HELD: Final = {
    LOCK: "is written to by process {}: stop it first, or have it do this (neardup serve: over "
    "HTTP); reading needs no lock (neardup query, read_only=True)",
    MAKING: "is indexed anew by process {}: wait until that is done, or stop it",
}


class Lock:
    """The lock of the one process that writes; released when that process ends in any way."""

    def __init__(self, folder: Path, name: str = LOCK) -> None:
        self._folder, self._name = folder, name
        self._handle = self._take()

    def _take(self) -> int:
        """Lock the file, which is made if it does not exist, and return its handle."""
        path = self._folder / self._name
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise write_error(path, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another"
            os.close(handle)
            held = LOCK_HELD[self._name].format(holder)
            raise IndexLocked(f"{self._folder} {held}") from None
        with suppress(OSError):  # a full disk: messages can't name the process
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        return handle

    def require_held(self) -> None:
        """Take the lock again if its file was deleted or replaced.

        Called by one thread at a time, before a commit.

        Raises:
            IndexLocked: If another process has taken it meanwhile.
        """
        own = os.fstat(self._handle)
        with suppress(OSError):
            status = os.stat(self._folder / self._name)
            if (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino):
                return
        handle, former = self._take(), self._handle
        self._handle = handle
        os.close(former)

    def release(self) -> None:
        """Let another process hold it."""
        os.close(self._handle)


@contextmanager
def locked(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Hold a lock of the folder during the block."""
    lock = Lock(folder, name)
    try:
        yield
    finally:
        lock.release()
