"""A filter as a file: its parameters and its arrays, mapped into memory when it is opened.

    0    8  magic "ndfilter"
    8    4  version, little-endian, 1
    12   4  length n of the header, little-endian
    16   n  the header, JSON: kind, parameters, arrays with type, size, place and XXH3-64
    16+n 8  XXH3-64 of everything before, little-endian
    ..      the arrays, little-endian, each at a multiple of 64 bytes, zeros between them

All of it is checked when it is opened. The file gets its name when it is complete, and only its
owner can read it, because a filter reveals which texts were inserted.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from tempfile import mkstemp
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from neardup.errors import FormatError, ParameterError
from neardup.formats.tables import write_error
from neardup.framing import CHECKSUM, checksum, is_sealed, seal
from neardup.membership.bloom import BloomFilter, CountingBloomFilter, ScalableBloomFilter
from neardup.membership.cuckoo import CuckooFilter
from neardup.membership.exact import ExactSet
from neardup.membership.filter import Filter

MAGIC: Final = b"ndfilter"
VERSION: Final = 1
HEAD = Struct("<8sII")
LINE: Final = 64
MOST_HEADER: Final = 1 << 20
TYPES: Final = ("<u8", "|u1")
RAW: Final = (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""Errors that a header may lead to whose checksum is right but whose content is not a filter's."""
KINDS: Final[dict[str, type[Filter]]] = {
    kind.kind: kind
    for kind in (ExactSet, BloomFilter, CountingBloomFilter, CuckooFilter, ScalableBloomFilter)
}


def save_filter(filter: Filter, path: str | os.PathLike[str]) -> None:
    """Write a filter to a file.

    The file replaces an existing one only when it is complete, and only its owner can read it.

    Args:
        filter: An `ExactSet`, `BloomFilter`, `CountingBloomFilter`, `ScalableBloomFilter` or
            `CuckooFilter`. Other threads may use it meanwhile; they wait until it is written.
        path: The name of the file, in a folder that exists.

    >>> import neardup, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     seen = neardup.BloomFilter(1000)
    ...     seen.insert("a")
    ...     neardup.save_filter(seen, f"{folder}/seen.filter")
    ...     "a" in neardup.load_filter(f"{folder}/seen.filter")
    False
    True
    """
    if not isinstance(filter, Filter):
        raise ParameterError(
            f"save_filter writes filters such as BloomFilter, not {type(filter).__name__}"
        )
    target = Path(path)
    if not target.name:
        raise ParameterError(f"a filter is saved as a file, and {str(path)!r} names none: add one")
    with filter._lock:
        parameters, arrays = filter.state()
        front, places = _front(filter.kind, parameters, arrays)
        try:
            with _renamed_when_complete(target) as file:
                file.write(front)
                for place, values in zip(places, arrays.values(), strict=True):
                    file.write(b"\0" * (place - file.tell()))
                    file.write(values.data)
        except OSError as error:
            raise write_error(target, error) from None


@contextmanager
def _renamed_when_complete(target: Path) -> Iterator[BinaryIO]:
    """Open a temporary file beside the target; rename it to the target if the block succeeds."""
    handle, name = mkstemp(".tmp", ".neardup-", target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def _front(
    kind: str, parameters: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> tuple[bytes, list[int]]:
    """Return all bytes before the arrays, and where each array begins in the file."""
    descriptions: list[dict[str, Any]] = []
    at = 0
    for name, values in arrays.items():
        descriptions.append(
            {
                "name": name,
                "type": values.dtype.str,
                "size": values.size,
                "at": at,
                "xxh3_64": checksum(values.data),
            }
        )
        at = _next_line(at + values.nbytes)
    header = {"kind": kind, "parameters": parameters, "arrays": descriptions}
    text = json.dumps(header, sort_keys=True).encode()
    front = seal(HEAD.pack(MAGIC, VERSION, len(text)) + text)
    start = _next_line(len(front))
    return front, [start + one["at"] for one in descriptions]


def _next_line(at: int) -> int:
    """Return the next multiple of 64 bytes."""
    return -(-at // LINE) * LINE


def load_filter(path: str | os.PathLike[str]) -> Filter:
    """Open the filter of a file that `save_filter` wrote.

    The file is mapped into memory. Keys that are inserted afterwards are not written to it: save
    the filter again.

    Args:
        path: The name of the file. A missing or damaged one raises `FormatError`.

    Returns:
        A filter of the class that was saved.

    >>> import neardup, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     neardup.save_filter(neardup.ExactSet(), f"{folder}/seen.filter")
    ...     type(neardup.load_filter(f"{folder}/seen.filter")).__name__
    'ExactSet'
    """
    target = Path(path)
    try:
        mapped = np.memmap(target, np.uint8, "c") if target.stat().st_size else np.empty(0, "u1")
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise FormatError(f"{target} can't be opened ({why}): check the name") from None
    try:
        header, start = _read_front(target, mapped)
        kind = KINDS[header["kind"]]
        arrays = {one["name"]: _array(target, mapped, start, one) for one in header["arrays"]}
        last = header["arrays"][-1]
        if start + last["at"] + arrays[last["name"]].nbytes != len(mapped):
            raise _damaged(target, "it has bytes after its end")
        restored = kind.restore(header["parameters"], arrays)
        if [one["name"] for one in header["arrays"]] != list(restored.state()[1]):
            raise _damaged(target, "it has other arrays than such a filter")
        return restored
    except RAW as error:
        raise _damaged(target, str(error)) from None


def _read_front(path: Path, mapped: NDArray[np.uint8]) -> tuple[dict[str, Any], int]:
    """Return the checked header, and where the arrays begin in the file."""
    head = mapped[: HEAD.size].tobytes()
    if len(head) < HEAD.size or not head.startswith(MAGIC):
        raise FormatError(f"{path} is not a filter of neardup: it begins with {head[:8]!r}")
    _, version, length = HEAD.unpack(head)
    if version != VERSION:
        raise FormatError(
            f"{path} has version {version} of the format, this neardup reads {VERSION}: use the "
            "neardup that wrote it, or make it again"
        )
    end = HEAD.size + length
    front = mapped[: end + CHECKSUM.size].tobytes()
    if length > MOST_HEADER or len(front) < end + CHECKSUM.size or not is_sealed(front):
        raise _damaged(path, "checksum of its header")
    header = json.loads(front[HEAD.size : end])
    return header, _next_line(end + CHECKSUM.size)


def _array(
    path: Path, mapped: NDArray[np.uint8], start: int, description: dict[str, Any]
) -> NDArray[Any]:
    """Return an array of the file, whose checksum is right."""
    if description["type"] not in TYPES:
        raise _damaged(path, f"an array of {description['type']}")
    begin = start + description["at"]
    end = begin + description["size"] * np.dtype(description["type"]).itemsize
    if not start <= begin <= end <= len(mapped):
        raise _damaged(path, "too short")
    if checksum(mapped[begin:end].data) != description["xxh3_64"]:
        raise _damaged(path, f"checksum of {description['name']}")
    values: NDArray[Any] = np.asarray(mapped)[begin:end].view(description["type"])
    return values


def _damaged(path: Path, why: str) -> FormatError:
    return FormatError(f"{path} is damaged ({why}): fetch it again, or make it again")
