"""API keys, of which only a hash is stored.

A key is 32 random bytes, so a plain SHA-256 of it can't be reversed. The file is

    {"version": 1, "keys": [{"name", "sha256", "scopes", "created", "rate", "expires"}]}

(`rate` and `expires` may be missing or null), readable by its owner alone and replaced as a whole.
A service reads it again when it has changed. If the file exists, a key is required, even if the
file holds none.
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


class ApiKeys:
    """The keys of a data folder. The file is read again whenever it has changed.

    Args:
        data: the folder.
        supplied: a key with all rights that is valid besides those of the file.
    """

    def __init__(self, data: Path, supplied: str | None = None) -> None:
        self.path = data / API_KEYS
        self._supplied = [] if supplied is None else [_supplied_key(supplied)]
        self._stamp: tuple[int, ...] | None = None
        self._keys: list[ApiKey] = []

    def all(self) -> list[ApiKey]:
        """Return the keys, in the order in which they were added."""
        self._refresh()
        return self._keys + self._supplied

    @property
    def guarded(self) -> bool:
        """Whether a key is required."""
        self._refresh()
        return self._stamp is not None or bool(self._supplied)

    def find(self, token: str) -> ApiKey | None:
        """Return the key of a token, or None. The time does not depend on which key it is."""
        self._refresh()
        digest, matching = hash_of(token), None
        for key in self._keys + self._supplied:
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
        with self._locked():
            self._refresh()
            keys = self._keys
            if any(key.name == name for key in keys):
                raise ParameterError(f"key {name} exists already: revoke it, or use another name")
            made = ApiKey(name, hash_of(token), ordered, created, rate, expires)
            self._write([*keys, made])
        return token

    def revoke(self, name: str) -> None:
        """Remove a key; a running service notices at the next request."""
        with self._locked():
            self._refresh()
            keys = self._keys
            remaining = [key for key in keys if key.name != name]
            if len(remaining) == len(keys):
                names = ", ".join(key.name for key in keys)
                raise ParameterError(
                    f"{self.path.parent} has no key {name!r}"
                    + (f": use one of {names}" if names else ", and no others")
                )
            self._write(remaining)

    def _refresh(self) -> None:
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            # A deleted file does not open a service that required keys.
            self._keys, self._stamp = [], None if self._stamp is None else ()
            return
        except OSError as error:
            raise _unreadable(self.path, error) from None
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            self._keys = _read(self.path)
            self._stamp = stamp

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock against other processes that change the keys."""
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
        except OSError as error:
            raise write_error(self.path, error) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def _write(self, keys: list[ApiKey]) -> None:
        content = {"version": VERSION, "keys": [asdict(key) for key in keys]}
        temporary = self.path.with_name(f".{self.path.name}.tmp")
        try:
            temporary.unlink(missing_ok=True)
            with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                json.dump(content, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path)
            sync_path(self.path.parent)  # A key that was revoked does not come back.
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise write_error(self.path, error) from None


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
        return [_key(each) for each in content["keys"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> FormatError:
    return FormatError(
        f"{path} can't be read as API keys ({type(error).__name__}): remove it, add keys again"
    )


def _key(value: dict[str, Any]) -> ApiKey:
    name, sha256, created = (str(value[each]) for each in ("name", "sha256", "created"))
    if not re.fullmatch("[0-9a-f]{64}", sha256):
        raise ValueError("not a hash")
    rate, expires = value.get("rate"), value.get("expires")
    if expires is not None:
        expires = format_time(datetime.fromisoformat(expires))
    rate = None if rate is None else int(rate)
    return ApiKey(name, sha256, tuple(map(str, value["scopes"])), created, rate, expires)
