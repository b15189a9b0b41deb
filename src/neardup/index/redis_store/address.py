"""The address of an index on Redis: its servers, its name, and how to log in.

    redis://HOST[:PORT][,HOST[:PORT]...][/DB][?name=NAME]
    rediss://...                                            the same by TLS
    redis://HOST[:PORT],HOST[:PORT]...[/DB]?ring[&name=NAME]
                                                            spread over servers that are no cluster

User and password come from the address, where they end at its last @; or (so that no list of
processes shows them) from NEARDUP_REDIS_USER and NEARDUP_REDIS_PASSWORD, or from the file that
NEARDUP_REDIS_PASSWORD_FILE names. They are never shown: an address is shown without them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from neardup.errors import MissingInput, ParameterError, UsageError

SCHEMES: Final = ("redis", "rediss")
PORT: Final = 6379
MOST_REPLICAS: Final = 100
"""The most replicas of a server that can be waited for."""
DEFAULT_NAME: Final = "neardup"
NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
USER, PASSWORD, PASSWORD_FILE = (
    "NEARDUP_REDIS_USER",
    "NEARDUP_REDIS_PASSWORD",
    "NEARDUP_REDIS_PASSWORD_FILE",
)
CA_FILE: Final = "NEARDUP_REDIS_CA_FILE"
FORM: Final = "redis://HOST:PORT, or redis://HOST:PORT,HOST:PORT?name=NAME"
URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""The begin of a URL, also of one that went through `Path`, which makes one slash of two."""

NOT_ON_REDIS: Final = {
    "a snapshot": "there is nothing to write, its servers store it",
    "compaction": "there is nothing to do, its servers free the memory of what is removed",
    "another operating point": "make another index (?name=NAME) with it, and add the files again",
    "another specification": "make another index (?name=NAME) with it, and add the files again",
    "an increment (-o)": "run neardup dedup --against the index, then add what was kept",
}
"""What an index on Redis can't do, and the cure; docs/cluster.md lists it."""


def is_redis(path: object) -> bool:
    """Whether the address of an index is one of Redis servers."""
    return isinstance(path, str) and path.startswith(tuple(f"{each}://" for each in SCHEMES))


def refuse_url(path: str | Path) -> None:
    """Refuse a URL that is no address of Redis servers, where the folder of an index is expected.

    It would be the name of a folder, with a password in it. It is not shown: it may have one.

    Args:
        path: The folder.
    """
    if (found := URL.match(str(path))) is not None:
        raise ParameterError(
            f"{found[1]}:// is no address of an index: give a folder, or (as a string, in lower "
            f"case) {FORM}"
        )


def hide_password(address: str) -> str:
    """Return an address as messages and records show it."""
    return str(RedisAddress.parse(address))


def require_folder(path: str | Path, wanted: str) -> Path:
    """Return the folder of an index; raise UsageError if the index is on Redis.

    Args:
        path: The folder or the address of the index.
        wanted: What is done with it, of `NOT_ON_REDIS`.
    """
    if is_redis(path):
        raise not_on_redis(RedisAddress.parse(str(path)), wanted)
    return Path(path)


def not_on_redis(address: object, wanted: str) -> UsageError:
    """Return the error for something that an index on Redis can't do."""
    cure = NOT_ON_REDIS[wanted]
    return UsageError(f"{address}: {wanted} is not supported for an index on Redis: {cure}")


@dataclass(frozen=True)
class RedisAddress:
    """Where an index is, and how to log in there; `str()` shows no password."""

    servers: tuple[tuple[str, int], ...]
    name: str = DEFAULT_NAME
    database: int = 0
    tls: bool = False
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    ring: bool = False
    """Whether the servers are no cluster, and partitions are placed on them by a ring."""

    @classmethod
    def parse(cls, text: str, environment: Mapping[str, str] | None = None) -> RedisAddress:
        """Read an address.

        Args:
            text: The address.
            environment: Variables with the user and the password; by default those of the process.
        """
        environment = os.environ if environment is None else environment
        scheme, _, rest = text.partition("://")
        if scheme not in SCHEMES:
            raise ParameterError(f"this is no address of an index on Redis: give {FORM}")
        # The last @: a password that is not quoted must not be taken for something that is shown.
        login, at, rest = rest.rpartition("@")
        hosts = rest.partition("/")[0].partition("?")[0]
        split = urlsplit(f"{scheme}://host{rest[len(hosts) :]}")
        options = dict(parse_qsl(split.query, keep_blank_values=True))
        if unknown := sorted(set(options) - {"name", "ring"}):
            raise ParameterError(
                f"the address of an index has no option {unknown[0]!r}: give {FORM}"
            )
        if options.get("ring"):
            raise ParameterError(f"ring has no value, not {options['ring']!r}: write ?ring")
        user, _, password = login.partition(":") if at else ("", "", "")
        servers = parse_servers(hosts)
        return cls(
            _check_different(servers) if "ring" in options else servers,
            _check_name(options.get("name", DEFAULT_NAME)),
            _parse_database(split.path),
            scheme == "rediss",
            unquote(user) or environment.get(USER) or None,
            unquote(password) or _read_password(environment),
            environment.get(CA_FILE) or None,
            "ring" in options,
        )

    def __str__(self) -> str:
        servers = ",".join(map(format_server, self.servers))
        database = f"/{self.database}" if self.database else ""
        named = [] if self.name == DEFAULT_NAME else [f"name={self.name}"]
        query = "&".join(["ring"] * self.ring + named)
        return f"redis{'s' * self.tls}://{servers}{database}{'?' * bool(query)}{query}"

    def with_servers(self, servers: Sequence[tuple[str, int]]) -> RedisAddress:
        """Return the same index on other servers."""
        return replace(self, servers=tuple(servers))


def format_server(server: tuple[str, int]) -> str:
    """Return a server as addresses write it.

    >>> format_server(("::1", 6379)), format_server(("redis-1", 6380))
    ('[::1]:6379', 'redis-1:6380')
    """
    host, port = server
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_servers(text: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of servers that are divided by commas."""
    return tuple(parse_server(server) for server in text.split(","))


def parse_server(text: str) -> tuple[str, int]:
    """Return the host and the port of a server.

    >>> parse_server("redis-1")
    ('redis-1', 6379)
    """
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?", text)
    if match is None:
        raise ParameterError(f"{text!r} is no server: give {FORM}")
    port = int(match[2] or PORT)
    if not 1 <= port <= 65_535:
        raise ParameterError(f"the port of {match[1]} must be from 1 to 65535, not {port}")
    return match[1].strip("[]"), port


def _check_different(servers: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    if len(set(servers)) < len(servers):
        raise ParameterError("a server of the ring is named twice: name each once")
    return servers


def _parse_database(path: str) -> int:
    name = path.strip("/")
    if not re.fullmatch(r"\d{0,5}", name):
        raise ParameterError(f"{name!r} is no number of a database: give {FORM}")
    return int(name or 0)


def _check_name(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise ParameterError(
            f"the name of an index on Redis has up to 64 letters, digits and -_., not {name!r}"
        )
    return name


def _read_password(environment: Mapping[str, str]) -> str | None:
    if file := environment.get(PASSWORD_FILE):
        try:
            return Path(file).read_text("utf-8").strip()
        except (OSError, ValueError) as error:
            raise MissingInput(f"{file} ({PASSWORD_FILE}) can't be read: {error}") from None
    return environment.get(PASSWORD) or None
