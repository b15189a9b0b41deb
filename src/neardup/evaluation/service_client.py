"""Asks a running service which cluster each golden document is in. Nothing is added to it.

One connection stays open; a request that is answered 429 or 503 is sent again later.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

from neardup.errors import Busy, FormatError, InputError, UsageError
from neardup.evaluation.systems import PARAMETERS, IndexedDocuments
from neardup.runtime import SILENT, Progress

TIMEOUT: Final = 30.0
LARGEST: Final = 1 << 20
OK, NOT_FOUND, LATER, NOT_ALLOWED = 200, 404, (429, 503), (401, 403)
POINT: Final = (("spec", dict), ("fingerprint", str), ("parameters", dict))
TRIES: Final = 20
LONGEST_WAIT: Final = 30.0


class ServiceClient:
    """A service at an address, for one thread. An API key needs the scope `read`."""

    def __init__(
        self, url: str, api_key: str | None = None, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._url, self._wait = url, wait
        self._connection, self._base = _connection(url)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def held(self, ids: Sequence[str], progress: Progress = SILENT) -> IndexedDocuments:
        """What it says of the documents with these ids, and by which operating point."""
        stats = self._asked("/v1/stats")
        if stats is None or not all(isinstance(stats.get(name), kind) for name, kind in POINT):
            raise self._foreign("says nothing of its operating point")
        progress.stage("asking", len(ids), "documents")
        clusters = []
        for id in ids:
            clusters.append(self._cluster(id))
            progress.advance(1)
        self._connection.close()
        stated = {
            "spec": stats["spec"],
            "fingerprint": stats["fingerprint"],
            "parameters": {name: stats["parameters"].get(name) for name in PARAMETERS},
        }
        return IndexedDocuments.of("a running service", stated, clusters)

    def _cluster(self, id: str) -> int | None:
        found = self._asked(f"/v1/documents/{quote(id, safe='')}")
        if found is None:
            return None
        if not isinstance(found.get("cluster"), int):
            raise self._foreign("names no cluster of a document")
        return int(found["cluster"])

    def _asked(self, path: str) -> dict[str, Any] | None:
        """The object at a path; None if there is none."""
        for _ in range(TRIES):
            status, later, body = self._got(self._base + path)
            if status not in LATER:
                break
            self._wait(min(later, LONGEST_WAIT))
        if status == NOT_FOUND:
            return None
        if status in LATER:
            raise Busy(f"{self._url} has had no room {TRIES} times: try again later")
        if status in NOT_ALLOWED:
            raise UsageError(
                f"{self._url} asks for an API key: give one that may read with --api-key-file"
            )
        if status != OK:
            raise self._foreign(f"answers {status}")
        return self._parsed(body)

    def _got(self, path: str) -> tuple[int, float, bytes]:
        """The status, how long to wait, and the body. A connection that was closed is reopened."""
        try:
            try:
                answer = self._sent(path)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                self._connection.close()
                answer = self._sent(path)
            body = answer.read(LARGEST + 1)
            return answer.status, _seconds(answer.headers.get("Retry-After")), body
        except (OSError, UnicodeError, http.client.HTTPException) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise InputError(
                f"{self._url} can't be reached ({why}): is neardup serve running there?"
            ) from None

    def _sent(self, path: str) -> http.client.HTTPResponse:
        self._connection.request("GET", path, headers=self._headers)
        return self._connection.getresponse()

    def _parsed(self, body: bytes) -> dict[str, Any]:
        try:
            found = json.loads(body) if len(body) <= LARGEST else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise self._foreign("answers something else than an object")
        return found

    def _foreign(self, what: str) -> FormatError:
        return FormatError(f"{self._url} {what}: give the address of a neardup service")


def _connection(url: str) -> tuple[http.client.HTTPConnection, str]:
    """Not open yet; and the path before all paths."""
    kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
    try:
        parts = urlsplit(url)
        if parts.hostname and parts.scheme in kinds:
            open_later = kinds[parts.scheme](parts.hostname, parts.port, timeout=TIMEOUT)
            return open_later, parts.path.rstrip("/")
    except (ValueError, http.client.InvalidURL):
        pass
    raise UsageError(f"{url!r} is not the address of a service: write it as http://127.0.0.1:8080")


def _seconds(given: str | None) -> float:
    """How long to wait, as a header says it; dates are not read."""
    return float(given) if given and given.isascii() and given.isdigit() else 1.0
