"""API keys, of which only a hash is stored.

A key is 32 random bytes, so a plain SHA-256 of it can't be reversed. The file is

    {"version": 1, "keys": [{"name", "sha256", "scopes", "created", "rate", "expires"}]}

(`rate` and `expires` may be missing or null), readable by its owner alone and replaced as a whole.
A service reads it again when it has changed. If the file exists, a key is required, even if the
file holds none. With an index on Redis the keys are in a hash beside it (`shared_keys.py`).
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import re
import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from neardup.errors import FormatError, ParameterError
from neardup.formats.blocks import sync_path
from neardup.formats.tables import write_error
from neardup.formatting import format_time
from neardup.index.folder import API_KEYS
from neardup.index.redis_store.address import RedisAddress, is_redis

VERSION: Final = 1
READ, WRITE, ADMIN, TEXTS = "read", "write", "admin", "texts"
SCOPES: Final = (READ, WRITE, ADMIN, TEXTS)
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
LEAST_SUPPLIED: Final = 16
"""The fewest characters of a key that the operator supplies, by a file or a variable."""
SUPPLIED: Final = "supplied"
"""The name of that key, in the log; it is not listed, and ends with the service."""
PREFIX: Final = "neardup_"
"""Makes keys recognisable to people and to scanners for leaked secrets."""


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored."""

    name: str
    sha256: str
    scopes: tuple[str, ...]
    created: str
    rate: int | None = None
    """Documents per second; None for that of the service, 0 for no limit."""
    expires: str | None = None
    """The time from which it is refused, written as `format_time` writes it."""

    @property
    def expired(self) -> bool:
        return self.expires is not None and self.expires <= format_time(time.time())


class KeyList(ABC):
    """Where keys are stored."""

    where: str
    """The folder or the address of the index, for messages."""

    @abstractmethod
    def read(self) -> list[ApiKey] | None:
        """Return the keys in the order in which they were added; None if there were never any."""

    @abstractmethod
    def add(self, key: ApiKey) -> bool:
        """Store a key, unless there is one of this name; return whether it was stored."""

    @abstractmethod
    def remove(self, name: str) -> bool:
        """Remove a key; return whether there was one of this name."""

    @abstractmethod
    def refresh(self) -> None:
        """Read the keys again, if `read` does not do so."""

    @abstractmethod
    def close(self) -> None:
        """Close connections."""


class ApiKeys:
    """The keys of an index: in its folder, or on its servers.

    Args:
        data: the folder, or the address of the servers.
        supplied: a key with all rights that is valid besides the stored ones.
    """

    def __init__(self, data: str | Path, supplied: str | None = None) -> None:
        self._listed = _open_list(data)
        self.supply(supplied)
        self.refresh, self.close = self._listed.refresh, self._listed.close

    def supply(self, token: str | None) -> None:
        """Accept another supplied key, instead of the one before; None for none."""
        self._supplied = [] if token is None else [_supplied_key(token)]

    def all(self) -> list[ApiKey]:
        """Return the keys, in the order in which they were added."""
        return (self._listed.read() or []) + self._supplied

    @property
    def guarded(self) -> bool:
        """Whether a key is required."""
        return self._listed.read() is not None or bool(self._supplied)

    def find(self, token: str) -> ApiKey | None:
        """Return the key of a token, or None. The time does not depend on which key it is."""
        digest, matching = hash_of(token), None
        for key in self.all():
            if hmac.compare_digest(key.sha256, digest):
                matching = key
        return matching

    def add(
        self,
        name: str,
        scopes: tuple[str, ...],
        created: str,
        *,
        rate: int | None = None,
        expires: str | None = None,
    ) -> str:
        """Add a key, and return its token, which is not stored.

        Args:
            name: the name of the key, for the log and for `revoke`.
            scopes: read, write, admin, texts, or several of them.
            created: the time, as it is listed.
            rate: documents per second; None for the rate that the service gives all keys.
            expires: the time from which it is refused; None for never.
        """
        if not NAME.fullmatch(name):
            raise ParameterError(
                "a key's name has 1 to 64 letters, digits, dots, dashes and underscores, not "
                f"{name!r}"
            )
        if name == SUPPLIED:
            raise ParameterError(
                f"{SUPPLIED} is the name of the key that --api-key-file supplies: use another name"
            )
        if unknown := sorted(set(scopes) - set(SCOPES)):
            raise ParameterError(f"unknown scope {unknown[0]!r}: use {', '.join(SCOPES)}")
        token = PREFIX + secrets.token_urlsafe(32)
        ordered = tuple(scope for scope in SCOPES if scope in scopes)
        made = ApiKey(name, hash_of(token), ordered, created, rate, expires)
        if not self._listed.add(made):
            raise ParameterError(f"key {name} exists already: revoke it, or use another name")
        return token

    def revoke(self, name: str) -> None:
        """Remove a key; a running service notices at the next request, on Redis in a second."""
        if not self._listed.remove(name):
            names = ", ".join(key.name for key in self._listed.read() or [])
            raise ParameterError(
                f"{self._listed.where} has no key {name!r}"
                + (f": use one of {names}" if names else ", and no others")
            )


def _open_list(data: str | Path) -> KeyList:
    if is_redis(data):
        from neardup.service.shared_keys import SharedKeys

        return SharedKeys(RedisAddress.parse(str(data)))
    return KeyFile(Path(data))


class KeyFile(KeyList):
    """The keys of a data folder. The file is read again whenever it has changed.

    Args:
        data: the folder.
    """

    def __init__(self, data: Path) -> None:
        self.where, self._path = str(data), data / API_KEYS
        self._stamp: tuple[int, ...] | None = None
        self._keys: list[ApiKey] = []

    def read(self) -> list[ApiKey] | None:
        """Return the keys; None if the file has never existed."""
        try:
            status = os.stat(self._path)
        except FileNotFoundError:
            # A deleted file does not open a service that required keys.
            self._keys, self._stamp = [], None if self._stamp is None else ()
            return None if self._stamp is None else []
        except OSError as error:
            raise _unreadable(self._path, error) from None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._keys = _read(self._path)
            self._stamp = stamp
        return self._keys

    def add(self, key: ApiKey) -> bool:
        """Store a key, unless there is one of this name."""
        with self._locked():
            keys = self.read() or []
            if any(each.name == key.name for each in keys):
                return False
            self._write([*keys, key])
        return True

    def remove(self, name: str) -> bool:
        """Remove a key; return whether there was one of this name."""
        with self._locked():
            keys = self.read() or []
            remaining = [key for key in keys if key.name != name]
            if len(remaining) == len(keys):
                return False
            self._write(remaining)
        return True

    def refresh(self) -> None:
        """Do nothing: `read` looks whether the file has changed."""

    def close(self) -> None:
        """Do nothing: the file is not kept open."""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock against other processes that change the keys."""
        folder = self._path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise write_error(self._path, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, keys: list[ApiKey]) -> None:
        content = {"version": VERSION, "keys": [asdict(key) for key in keys]}
        temporary = self._path.with_name(f".{self._path.name}.tmp")
        try:
            temporary.unlink(missing_ok=True)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(content, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            sync_path(self._path.parent)  # A key that was revoked does not come back.
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise write_error(self._path, error) from None


def _supplied_key(token: str) -> ApiKey:
    return ApiKey(SUPPLIED, hash_of(token), SCOPES, "")


def hash_of(token: str) -> str:
    """Return the hash by which a token is stored."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path) -> list[ApiKey]:
    try:
        content = json.loads(path.read_bytes())
        if content["version"] != VERSION:
            raise FormatError(
                f"{path} has the unknown version {content['version']!r}: upgrade neardup"
            )
        return [read_key(each) for each in content["keys"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FormatError:
    return FormatError(
        f"{path} can't be read as API keys ({type(error).__name__}): remove it, add keys again"
    )


def read_key(value: dict[str, Any]) -> ApiKey:
    """Return a key as it is stored; raise ValueError, KeyError or TypeError if it is damaged."""
    name, sha256, created = (str(value[each]) for each in ("name", "sha256", "created"))
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError("not a hash")
    rate, expires = value.get("rate"), value.get("expires")
    if expires is not None:
        expires = format_time(datetime.fromisoformat(expires))
    rate = None if rate is None else int(rate)
    return ApiKey(name, sha256, tuple(map(str, value["scopes"])), created, rate, expires)
