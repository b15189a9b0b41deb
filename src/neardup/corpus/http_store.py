"""Files of HTTP servers, read by ranges if the server knows them."""

from __future__ import annotations

import base64
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from neardup.corpus.object_store import ANSWER_SECONDS, BLOCK, StoredObject
from neardup.corpus.urls import hide_secrets
from neardup.errors import InputError


class HttpStore:
    """Files of an HTTP server, read by ranges if it knows them."""

    def find(self, path: str) -> StoredObject | None:
        # By GET, not HEAD: a signed URL is for one method.
        try:
            with _request(path, Range="bytes=0-0") as answer:
                return _described(path, answer)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # an empty file has no first byte
                return StoredObject(path, 0, error.headers.get("ETag", ""))
            if error.code in (404, 410):
                return None
            raise

    def below(self, path: str) -> list[StoredObject]:
        del path  # HTTP has no lists
        return []

    def open(self, found: StoredObject) -> Callable[[int, int], bytes]:
        if not found.ranged:
            return _InOrder(found.path)

        def read(start: int, length: int) -> bytes:
            with _request(found.path, Range=f"bytes={start}-{start + length - 1}") as answer:
                given = answer.headers.get("Content-Range", "")
                if answer.status != 206 or not given.startswith(f"bytes {start}-"):
                    # Servers may ignore a range: the bytes would be those of another place.
                    raise ConnectionError("the server sent another part")
                data: bytes = answer.read(length)
            return data

        return read

    def write(self, path: str, source: Path) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        raise NotImplementedError


class _InOrder:
    """Reads a file from its beginning, part after part; after an error, up to there again."""

    def __init__(self, url: str) -> None:
        self._url, self._at = url, 0
        self._answer: Any = None

    def __call__(self, start: int, length: int) -> bytes:
        try:
            if self._answer is None or self._at != start:
                self._answer, self._at = _request(self._url), 0
            while self._at < start:
                skipped = len(self._answer.read(min(BLOCK, start - self._at)))
                if not skipped:
                    raise ConnectionError("the file ended early")
                self._at += skipped
            data: bytes = self._answer.read(length)
        except BaseException:
            self._answer = None
            raise
        self._at += len(data)
        return data


def _request(url: str, method: str = "GET", **headers: str) -> Any:
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if at:
        url = parts._replace(netloc=host).geturl()
    asked = urllib.request.Request(url, method=method, headers=headers)  # noqa: S310  # http(s) only
    if at:
        name, _, secret = user.partition(":")
        login = base64.b64encode(f"{unquote(name)}:{unquote(secret)}".encode()).decode()
        # Not redirected: another host must not get it.
        asked.add_unredirected_header("Authorization", f"Basic {login}")
    try:
        return urllib.request.urlopen(asked, timeout=ANSWER_SECONDS)  # noqa: S310
    except UnicodeError:
        raise InputError(
            f"{hide_secrets(url)}: not a URL of ASCII characters: write others as %XX, as browsers "
            "copy them"
        ) from None


def _described(url: str, answer: Any) -> StoredObject:
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    size = whole or answer.headers.get("Content-Length")
    if size is None or not size.isdigit():
        raise InputError(
            f"{hide_secrets(url)}: the server does not tell its size: download it first"
        )
    when = answer.headers.get("Last-Modified", "")
    with suppress(ValueError):  # what is no date still changes when the file does
        when = str(parsedate_to_datetime(when).timestamp())
    stamp = f"{when} {answer.headers.get('ETag', '')}".strip()
    return StoredObject(url, int(size), stamp, ranged=answer.status == 206)
