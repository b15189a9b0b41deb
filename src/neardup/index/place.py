"""The place of an index, as users name it: a folder, or the address of Redis servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from neardup.errors import UsageError
from neardup.index import folder, load, open_index
from neardup.index.redis_store import open_servers
from neardup.index.redis_store.address import RedisAddress, is_redis
from neardup.keys import Key


def is_stored(place: str | Path) -> bool:
    """Return whether there is an index in a place."""
    if is_redis(place):
        return open_servers.is_stored(RedisAddress.parse(str(place)))
    return folder.read_generations(Path(place)) is not None


def require_stored(place: str | Path) -> None:
    """Raise UsageError if there is no index in a place."""
    if not is_redis(place):
        folder.require_index(Path(place))
    elif not is_stored(place):
        raise open_servers.missing_index(RedisAddress.parse(str(place)))


def require_free(place: str | Path) -> None:
    """Refuse a place that holds an index, or anything else."""
    if not is_redis(place):
        load.require_free(Path(place))
    elif is_stored(place):
        raise UsageError(
            f"{RedisAddress.parse(str(place))} holds an index: add to it with neardup index add, "
            "or choose another name (?name=NAME)"
        )


def check_settings(
    place: str | Path,
    key: Key | None,
    options: dict[str, Any],
    keep_texts: bool | None,
    within: str | None,
) -> None:
    """Raise the errors of `Index.open` that need no documents, in a moment; write nothing."""
    if is_redis(place):
        address = RedisAddress.parse(str(place))
        open_servers.check_settings(address, key, options, keep_texts, within)
    else:
        open_index.check_settings(Path(place), key, options, keep_texts, within)
