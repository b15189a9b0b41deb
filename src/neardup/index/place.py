"""The place of an index, as users name it: a folder, or the address of Redis servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from neardup.errors import UsageError
from neardup.index import folder, load, open_index
from neardup.index.redis_store import open_servers
from neardup.index.redis_store.address import RedisAddress, is_redis, refuse_url
from neardup.index.settings import IndexSettings
from neardup.index.store import Row
from neardup.keys import Key


def is_stored(place: str | Path) -> bool:
    """Return whether there is an index in a place."""
    if is_redis(place):
        return open_servers.is_stored(RedisAddress.parse(str(place)))
    refuse_url(place)
    return folder.read_generations(Path(place)) is not None


def require_stored(place: str | Path) -> None:
    """Raise UsageError if there is no index in a place."""
    if not is_redis(place):
        refuse_url(place)
        folder.require_index(Path(place))
    elif not is_stored(place):
        raise open_servers.missing_index(RedisAddress.parse(str(place)))


def require_free(place: str | Path) -> None:
    """Refuse a place that holds an index, or anything else."""
    if not is_redis(place):
        refuse_url(place)
        load.require_free(Path(place))
    elif is_stored(place):
        raise UsageError(
            f"{RedisAddress.parse(str(place))} holds an index: add to it with neardup index add, "
            "or choose another name (?name=NAME)"
        )


class IndexLoader(Protocol):
    """Stores the rows of a new index.

    documents  how many were stored
    kept       how many of them are kept
    """

    documents: int
    kept: int

    def add(self, rows: Sequence[Row], blobs: Mapping[str, Sequence[tuple[int, Any]]]) -> None:
        """Store decided documents with their blobs: table -> (number, bytes)."""

    def reach(self, number: int) -> None:
        """Reserve all numbers up to this one, also those of documents that were removed."""


def new_index(place: str | Path, settings: IndexSettings) -> AbstractContextManager[IndexLoader]:
    """Make an index in a place that has none, of what the block loads."""
    if is_redis(place):
        return open_servers.new_index(RedisAddress.parse(str(place)), settings)
    refuse_url(place)
    return load.new_index(Path(place), settings)


def check_settings(
    place: str | Path,
    key: Key | None,
    options: dict[str, Any],
    keep_texts: bool | None,
    within: str | None,
    dimension: int | None = None,
) -> None:
    """Raise the errors of `Index.open` that need no documents, in a moment; write nothing."""
    if is_redis(place):
        address = RedisAddress.parse(str(place))
        open_servers.check_settings(address, key, options, keep_texts, within, dimension)
    else:
        refuse_url(place)
        open_index.check_settings(Path(place), key, options, keep_texts, within, dimension)
