"""Reuse files of an unfinished run.

Each file of a stage has a key, a digest of everything it depends on: inputs with sizes and times,
specification, parameters. A file that is complete, undamaged and has the expected key is reused;
all others of its stage are removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol, TypeVar

from neardup.corpus.dialects import USUAL
from neardup.corpus.documents import Columns
from neardup.corpus.encodings import UTF8
from neardup.corpus.fields import MISSING, folder_value
from neardup.corpus.inputs import InputFile
from neardup.corpus.shards import Shard
from neardup.errors import FormatError, NeardupError
from neardup.formats.blocks import BlockReader
from neardup.formats.tables import write_error, write_text
from neardup.pipeline.output import discard

KEY_FILE = "made-of"


def digest(*parts: Any) -> str:
    """Return a digest of values that JSON can represent."""
    return blake2b(json.dumps(parts, sort_keys=True).encode(), digest_size=16).hexdigest()


def shard_key(shard: Shard, fingerprint: str) -> str:
    """Return a digest of everything that a shard's sketches depend on.

    `fingerprint` is that of the specification.
    """
    files = [
        (
            os.fsencode(os.path.abspath(file.path)).hex(),
            file.format,
            file.compression,
            stamp,
            *([] if file.dialect == USUAL else [asdict(file.dialect)]),
            *([] if file.encoding == UTF8 else [file.encoding]),
            *([{"records": file.records}] if file.records else []),
            *_stated_by_path(file, shard.reading.columns),
        )
        for file, stamp in zip(shard.files, shard.stamps, strict=True)
    ]
    how = shard.reading.columns.stated, shard.reading.chunk
    beside = [] if shard.beside is None else [shard.beside.stated]
    return digest(files, shard.part, fingerprint, how, *beside)


def _stated_by_path(file: InputFile, columns: Columns) -> Iterator[dict[str, str | None]]:
    """Yield what documents have of the path as the user gave it: an id, the values of folders.

    The same file has others if another folder is given.
    """
    if file.row.is_document and columns.id is None:
        yield {"kept_name": file.kept_name}
    names = {option: name for option, name in columns.asked().items() if option != "text"}
    # Without --id, a column of that name has the ids, filled with what the folders state.
    names.setdefault(columns.id_option, "id")
    stated = {option: folder_value(file, name) for option, name in names.items()}
    known = {option: value for option, value in stated.items() if value is not MISSING}
    if known:
        yield known


class StageFiles:
    """The files of one stage, by name, in a folder of their own.

    Files are also reused from the folder `saved`, where an earlier run has saved its sketches.
    """

    def __init__(self, folder: Path, kind: str, saved: Path | None = None) -> None:
        self.folder, self._kind, self._saved = folder, kind, saved
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise write_error(folder, error) from None

    def path(self, name: str) -> Path:
        return self.folder / name

    def find(self, name: str, key: str, **stated: Any) -> BlockReader | None:
        """Return the file of an earlier attempt if it is undamaged and the one that is meant.

        Args:
            name: The name of the file.
            key: A digest of what it was made of.
            **stated: Further values of its header, where files of one key differ.
        """
        path = self.path(name)
        if self._saved is not None and not path.exists() and (self._saved / name).is_file():
            with suppress(OSError):  # no hard links on this disk: the file is made again
                os.link(self._saved / name, path)
        if not path.exists():
            return None
        with suppress(FormatError):
            file = BlockReader(path, self._kind)
            if all(file.header.get(one) == value for one, value in {"key": key, **stated}.items()):
                file.verify()
                return file
        discard(path)
        return None

    def open(self, name: str) -> BlockReader:
        """Open a file that this run has written."""
        return BlockReader(self.path(name), self._kind)

    def remove_others(self, names: Iterable[str]) -> None:
        """Remove all files but these."""
        required = set(names)
        for path in self.folder.iterdir():
            if path.name not in required:
                discard(path)


class HasBytes(Protocol):
    """A value that can be stored in a file."""

    def to_bytes(self) -> bytes: ...


Stored = TypeVar("Stored", bound=HasBytes)


def load_or_make(
    folder: Path, name: str, key: str, read: Callable[[Path], Stored], make: Callable[[], Stored]
) -> Stored:
    """Return the value that the folder has for this key; or make it, and store it there.

    `read` reads the value from the folder, `make` makes it, `name` is its file.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(OSError, ValueError, NeardupError):  # missing or damaged
        # Without its file, `read` returns the value of a corpus that has none.
        if (folder / KEY_FILE).read_text("utf-8") == key and (folder / name).is_file():
            return read(folder)
    value = make()
    try:
        for path in (folder / KEY_FILE, folder / name):  # the key first: it is of the old file
            discard(path)
        (folder / name).write_bytes(value.to_bytes())
    except OSError as error:
        raise write_error(folder / name, error) from None
    write_text(folder / KEY_FILE, key)
    return value
