"""The files of an unfinished run: which can be used again?

Each file of a stage has a key, a digest of everything it depends on: inputs with sizes and times,
specification, parameters. A file that is complete, undamaged and has the expected key is used
again; all others of its stage are removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

from neardup.corpus.shards import Shard
from neardup.errors import FormatError, NeardupError
from neardup.formats.blocks import BlockReader
from neardup.formats.tables import write_error, write_text
from neardup.pipeline.output import discard

KEY_FILE = "made-of"


def digest(*parts: Any) -> str:
    """A short name for what the parts say."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def shard_key(shard: Shard, fingerprint: str) -> str:
    """What a shard's sketches depend on."""
    files = [
        (os.fsencode(os.path.abspath(file.path)).hex(), file.format, file.compression, stamp)
        for file, stamp in zip(shard.files, shard.stamps, strict=True)
    ]
    how = asdict(shard.reading.columns), shard.reading.chunk
    return digest(files, shard.part, fingerprint, how)


class StageFiles:
    """The files of one stage, by name; those in `saved` are as good."""

    def __init__(self, folder: Path, kind: str, saved: Path | None = None) -> None:
        self.folder, self._kind, self._saved = folder, kind, saved
        self._old = folder.exists()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise write_error(folder, error) from None

    def path(self, name: str) -> Path:
        return self.folder / name

    def find(self, name: str, key: str) -> BlockReader | None:
        """The file of an earlier attempt, if it is what is needed now."""
        path = self.path(name)
        if self._saved is not None and not path.exists() and (self._saved / name).is_file():
            with suppress(OSError):  # no second names on this disk: then it is made again
                os.link(self._saved / name, path)
                self._old = True
        if not self._old or not path.exists():
            return None
        with suppress(FormatError):
            found = BlockReader(path, self._kind)
            if found.header.get("key") == key:
                found.verify()
                return found
        discard(path)
        return None

    def open(self, name: str) -> BlockReader:
        """A file that this run has made."""
        return BlockReader(self.path(name), self._kind)

    def only(self, names: Iterable[str]) -> None:
        """Remove all other files."""
        wanted = set(names)
        for path in self.folder.iterdir():
            if path.name not in wanted:
                discard(path)


class Serializable(Protocol):
    """What can be kept in a file."""

    def to_bytes(self) -> bytes: ...


Stored = TypeVar("Stored", bound=Serializable)


def load_or_make(
    folder: Path, name: str, key: str, read: Callable[[Path], Stored], make: Callable[[], Stored]
) -> Stored:
    """What the folder keeps for this key, or what is made now, and kept there."""
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(OSError, ValueError, NeardupError):  # not there, or damaged: made anew
        if (folder / KEY_FILE).read_text("utf-8") == key:
            return read(folder)
    made = make()
    (folder / KEY_FILE).unlink(missing_ok=True)  # what it vouches for is about to change
    try:
        (folder / name).write_bytes(made.to_bytes())
    except OSError as error:
        raise write_error(folder / name, error) from None
    write_text(folder / KEY_FILE, key)
    return made
