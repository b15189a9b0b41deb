"""What the servers are set to do when they are full, or crash: refused, or said."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from neardup.errors import OutputError, UsageError
from neardup.index.redis_store.servers import Server, Servers

Say = Callable[[str], None]
SYNC_SECONDS: Final = 2.0
"""How long a server with appendfsync everysec has something in memory only, at most."""
PAUSE: Final = 0.1
EVICTING: Final = ("allkeys-lru", "allkeys-lfu", "allkeys-random")


def check_configuration(servers: Servers, say: Say) -> None:
    """Refuse servers that delete keys when they are full; say what they may lose in a crash."""
    for (host, port), found in _configurations(servers):
        if found is None:
            say(
                f"{host}:{port} does not tell its settings (CONFIG GET), so what a crash may lose "
                "is not known"
            )
            continue
        if found.get("maxmemory-policy") in EVICTING:
            raise UsageError(
                f"{host}:{port} deletes keys when it is full (maxmemory-policy "
                f"{found['maxmemory-policy']}), and an index would lose documents: set "
                "maxmemory-policy to noeviction"
            )
        if found.get("appendonly") == "yes":
            say(f"{host}:{port} writes its log with appendfsync {found.get('appendfsync')}")
        elif found.get("save"):
            say(
                f"{host}:{port} has no append-only file: a crash loses what was added since its "
                "last snapshot; set appendonly to yes"
            )
        else:
            say(
                f"{host}:{port} stores nothing on disk: a crash loses the whole index; set "
                "appendonly to yes"
            )


def wait_until_on_disk(servers: Servers, written: Collection[Server]) -> None:
    """Wait until some servers have on disk what was written to them, if they store anything."""
    unsynced = False
    for server, found in _configurations(servers):
        if server in written:
            if found is None or found.get("appendonly") == "yes":
                unsynced |= found is None or found.get("appendfsync") != "always"
            elif found.get("save"):
                _save(servers, server)
    if unsynced:
        time.sleep(SYNC_SECONDS)


def _save(servers: Servers, server: Server) -> None:
    """Have a server write a snapshot, and wait for it."""
    for wanted in (False, True):  # one may be under way that began too early
        if wanted:
            servers.ask(server, lambda client: client.execute_command("BGSAVE"))
        while (about := servers.ask(server, lambda client: client.info("persistence")))[
            "rdb_bgsave_in_progress"
        ]:
            time.sleep(PAUSE)
    if about["rdb_last_bgsave_status"] != "ok":
        raise OutputError(
            f"{server[0]}:{server[1]} can't write a snapshot: mend its disk, and repeat this"
        )


def _configurations(
    servers: Servers,
) -> Iterator[tuple[Server, Mapping[str, str] | None]]:

    def settings(client: Any) -> Any:
        try:
            return client.execute_command(
                "CONFIG GET", "maxmemory-policy", "appendonly", "appendfsync", "save"
            )
        except servers._redis.exceptions.ResponseError:  # not allowed, as many providers have it
            return None

    for server, listed in servers.ask_all(settings, patient=True).items():
        if listed is None:
            yield server, None
            continue
        if not isinstance(listed, dict):
            listed = dict(zip(listed[::2], listed[1::2], strict=True))
        yield server, {_text(name): _text(value) for name, value in listed.items()}


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
