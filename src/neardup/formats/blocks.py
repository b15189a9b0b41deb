"""Read and write files of blocks of columns, which one stage of a run writes for the next.

    at the front   magic, length and text of a JSON header, XXH3-64 of all that
    then           the blocks' columns, one after the other, little-endian
    at the end     a JSON index of the blocks, its length, its XXH3-64, magic

Each column has an XXH3-64, a two-dimensional one an XXH3-64 for each of its rows, so that every
part is checked when it is read. A file gets its name when it is complete. Only its owner can read
it, because signatures reveal something about texts.
"""

from __future__ import annotations

import json
import os
import re
from math import prod
from pathlib import Path
from secrets import token_hex
from struct import Struct
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError
from neardup.formats.tables import write_error
from neardup.framing import CHECKSUM, checksum, seal

FRONT, END = b"ndblock1", b"1kcolbdn"
HEAD, TAIL = Struct("<8sI"), Struct("<QQ8s")
MAX_HEADER = 1 << 26
MADE_ANEW = "run again, it will be made anew"
"""What helps if a file of a work folder is damaged."""
ABANDONED = re.compile(r"\.[0-9a-f]{8}\.tmp$")
"""How the temporary names end that attempts have for themselves."""
DTYPES = ("|u1", "<u4", "<u8", "<i8", "<f8")

Array = NDArray[Any]


class BlockWriter:
    """Writes a file of blocks, which gets its name when it is closed.

    Args:
        path: The path of the complete file.
        kind: What the file contains; a reader requires the same kind.
        shared: Whether two machines of a cluster may write the file at once, each under a temporary
            name of its own.
        **header: Further values of the JSON header.
    """

    def __init__(self, path: Path, kind: str, *, shared: bool = False, **header: Any) -> None:
        self.path = path
        token = f".{token_hex(4)}" if shared else ""
        self._beside = path.with_name(f".{path.name}{token}.tmp")
        self._blocks: list[dict[str, Any]] = []
        text = json.dumps({"kind": kind, **header}).encode()
        front = HEAD.pack(FRONT, len(text)) + text
        self._at = 0
        try:
            handle = os.open(self._beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            self._file = os.fdopen(handle, "wb", buffering=0)
        except OSError as error:
            raise write_error(path, error) from None
        self._write(seal(front))

    def add(self, columns: dict[str, Array], **note: Any) -> None:
        """Write a block; `note` is stored with it in the index."""
        placed = {}
        for name, values in columns.items():
            values = np.ascontiguousarray(values)
            parts = values if values.ndim == 2 else values[None]
            placed[name] = {
                "type": values.dtype.str,
                "shape": values.shape,
                "at": self._at,
                "sums": [checksum(_bytes(part)) for part in parts],
            }
            self._write(_bytes(values))
        self._blocks.append({"columns": placed, "note": note})

    def close(self, *, durable: bool = False, **note: Any) -> None:
        """Complete the file and rename it to its path.

        Args:
            durable: Whether the file and its name are synced to the disk before this returns.
            **note: Values to store in the index.
        """
        index = json.dumps({"blocks": self._blocks, "note": note}).encode()
        sums = TAIL.pack(len(index), checksum(index), END)
        self._write(index + sums)
        try:
            if durable:
                os.fsync(self._file.fileno())
            self._file.close()
            self._beside.replace(self.path)
            if durable:
                sync_path(self.path.parent)
        except OSError as error:
            raise write_error(self.path, error) from None

    def _write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        self._at += len(rest)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            raise write_error(self.path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._file.closed:  # not completed: remove the temporary file
            self._file.close()
            self._beside.unlink(missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Remove the temporary files of lost attempts, which other machines have begun."""
    for path in folder.rglob(".*.tmp"):
        if ABANDONED.search(path.name):
            path.unlink(missing_ok=True)


def sync_path(path: Path) -> None:
    """Sync a file to the disk, or a folder: names that were created or removed in it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _bytes(values: Array) -> memoryview:
    return values.reshape(-1).view(np.uint8).data if values.size else memoryview(b"")


def _is_sound(column: dict[str, Any], size: int) -> bool:
    """Return whether a column is inside of its file, and of a type that `BlockWriter` writes."""
    shape, at = column["shape"], column["at"]
    if column["type"] not in DTYPES or len(shape) not in (1, 2) or min(at, *shape) < 0:
        return False
    rows = shape[0] if len(shape) == 2 else 1
    return at + np.dtype(column["type"]).itemsize * prod(shape) <= size and rows == len(
        column["sums"]
    )


class Fields(dict[str, Any]):
    """Values by name, of the description of a file; an error that names the file if one is missing.

    Checksums tell what was damaged, not what somebody made up.
    """

    def __init__(self, values: dict[str, Any], path: Path, cure: str) -> None:
        super().__init__(values)
        self._path, self._cure = path, cure

    def __missing__(self, name: str) -> Any:
        raise _damaged(self._path, f"it does not state {name}", self._cure)


def is_block_file(path: Path) -> bool:
    """Whether a file begins as files of blocks do; False if there is none."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read(len(FRONT)) == FRONT
    except OSError:
        return False


class BlockReader:
    """Reads a complete file of blocks; its index is checked when opened, columns when read.

    Raises `FormatError` if the file is damaged or of another kind.

    Args:
        path: The path of the file.
        kind: The kind that the file must have.
        cure: What helps if it is damaged.
    """

    def __init__(self, path: Path, kind: str, cure: str = MADE_ANEW) -> None:
        self.path, self._cure = path, cure
        try:
            with open(path, "rb", buffering=0) as file:
                self.header: dict[str, Any] = self._front(file.fileno())
                index = self._index(file.fileno())
                size = os.fstat(file.fileno()).st_size
            self.header = Fields(self.header, path, cure)
            self._blocks: list[dict[str, Any]] = index["blocks"]
            self.note: dict[str, Any] = Fields(index["note"], path, cure)
            sound = all(
                isinstance(block["note"], dict)
                and all(_is_sound(column, size) for column in block["columns"].values())
                for block in self._blocks
            )
        except OSError as error:
            raise self.damaged(os.strerror(error.errno or 0)) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self.damaged("its description") from None
        if self.header.get("kind") != kind or not sound:
            raise self.damaged(f"it contains {str(self.header.get('kind'))[:40]!r}, not {kind!r}")

    def __len__(self) -> int:
        return len(self._blocks)

    def note_of(self, block: int) -> dict[str, Any]:
        """Return the note that a block was written with."""
        return Fields(self._block(block)["note"], self.path, self._cure)

    def has(self, block: int, name: str) -> bool:
        """Return whether a block has this column."""
        return name in self._block(block)["columns"]

    def shape(self, block: int, name: str) -> tuple[int, ...]:
        """Return the shape of a column."""
        return tuple(self._column(block, name)["shape"])

    def place(self, block: int, name: str) -> int:
        """Return where a column begins in the file, to read parts that have their own checksums."""
        return int(self._column(block, name)["at"])

    def read(self, block: int, name: str, rows: slice | None = None) -> Array:
        """Return a column, or rows of a two-dimensional one; `FormatError` if it is damaged."""
        column = self._column(block, name)
        dtype, shape = np.dtype(column["type"]), tuple(column["shape"])
        first, last = (0, len(column["sums"])) if rows is None else (rows.start, rows.stop)
        each = dtype.itemsize * (int(np.prod(shape[1:])) if len(shape) == 2 else shape[0])
        taken = (last - first, *shape[1:]) if len(shape) == 2 else shape
        out = np.empty(taken, dtype)
        if out.size:
            self.fill(_bytes(out), column["at"] + first * each)
        for part, expected in zip(
            out if len(shape) == 2 else out[None], column["sums"][first:last], strict=True
        ):
            if checksum(_bytes(part)) != expected:
                raise self.damaged(f"checksum of {name}, block {block}")
        return out

    def _block(self, number: int) -> dict[str, Any]:
        if number >= len(self._blocks):
            raise self.damaged(f"it has no block {number}")
        return self._blocks[number]

    def _column(self, block: int, name: str) -> dict[str, Any]:
        columns = self._block(block)["columns"]
        if name not in columns:
            raise self.damaged(f"block {block} has no {name}")
        column: dict[str, Any] = columns[name]
        return column

    def fill(self, into: memoryview, at: int) -> None:
        """Fill a buffer with the bytes from position `at` on, without a check of their checksum."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                while into:
                    got = os.preadv(file.fileno(), [into], at)
                    if got == 0:
                        raise self.damaged("too short")
                    into, at = into[got:], at + got
        except OSError as error:
            raise self.damaged(os.strerror(error.errno or 0)) from None

    def verify(self) -> None:
        """Read all columns; `FormatError` if one is damaged."""
        for block, content in enumerate(self._blocks):
            for name in content["columns"]:
                self.read(block, name)

    def _front(self, handle: int) -> dict[str, Any]:
        head = os.pread(handle, HEAD.size, 0)
        name, version = head[: len(FRONT) - 1], head[len(FRONT) - 1 : len(FRONT)]
        if len(head) < HEAD.size or name != FRONT[:-1] or not version.isdigit():
            raise self.damaged("not a file of blocks")
        if version != FRONT[-1:]:
            raise FormatError(
                f"{self.path} has format version {version.decode()}, this neardup reads "
                f"version {FRONT[-1:].decode()}: use the neardup that wrote it, or make it again"
            )
        length = HEAD.unpack(head)[1]
        if length > MAX_HEADER:
            raise self.damaged("header")
        rest = os.pread(handle, length + CHECKSUM.size, HEAD.size)
        return self._json(head + rest[:length], rest[length:], HEAD.size)

    def _index(self, handle: int) -> dict[str, Any]:
        size = os.fstat(handle).st_size
        tail = os.pread(handle, TAIL.size, max(size - TAIL.size, 0))
        if len(tail) < TAIL.size or not tail.endswith(END):
            raise self.damaged("truncated")
        length, expected, _ = TAIL.unpack(tail)
        if length > size:
            raise self.damaged("index")
        index = os.pread(handle, length, size - TAIL.size - length)
        return self._json(index, CHECKSUM.pack(expected), 0)

    def _json(self, text: bytes, expected: bytes, start: int) -> dict[str, Any]:
        if CHECKSUM.pack(checksum(text)) != expected:
            raise self.damaged("checksum of its description")
        content: dict[str, Any] = json.loads(text[start:])
        return content

    def damaged(self, why: str) -> FormatError:
        """Return the error for a file that is not as it was written."""
        return _damaged(self.path, why, self._cure)


def _damaged(path: Path, why: str, cure: str) -> FormatError:
    return FormatError(f"{path} is damaged ({why}): {cure}")
