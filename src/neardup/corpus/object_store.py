"""Places in object stores: calls are tried again, and errors get a cure.

A store lists objects, reads ranges of them and writes whole ones. Transient errors (connections
that are refused, reset or too slow, 429 and 5xx) are tried again with growing pauses, ATTEMPTS
times in all. Other errors of a store, and host names that nobody knows, become one line with the
cure. It never has a user, a
password, the query of a signed URL or the store's own message, which can contain them.
"""

from __future__ import annotations

import http.client
import random
import re
import socket
import time
import urllib.error
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import pyarrow as pa

from neardup.corpus.urls import is_signed
from neardup.errors import InputError, MissingInput, NeardupError, OutputError

ATTEMPTS: Final = 6
FIRST_PAUSE: Final = 0.2
CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 60
BLOCK: Final = 2 << 20
"""The most bytes that are read or written at a time."""

_TRANSIENT: Final = re.compile(
    "NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|INTERNAL_FAILURE|REQUEST_TIMEOUT|THROTTL"
    "|HTTP status (?:408|429|5\\d\\d)|curlCode|[Tt]imed? ?out|[Cc]onnection|[Uu]navailable"
)
_DENIED: Final = re.compile(
    "ACCESS_DENIED|FORBIDDEN|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|UNRECOGNIZED_CLIENT"
    "|MISSING_AUTHENTICATION|INVALID_CLIENT_TOKEN|HTTP status 40[13]|PermissionDenied"
    "|AuthenticationFailed|Unauthenticated|credential"
)
_EXPIRED: Final = re.compile("Expired|EXPIRED")
NO_BUCKET, NOT_FOUND = "there is no such bucket", "not found"
UNKNOWN_HOST: Final = "the name of its host is unknown"
_NO_BUCKET: Final = re.compile(
    "NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|BucketNotFound|Bucket '[^']*' not found"
)
_UNKNOWN_HOST: Final = re.compile(
    "[Cc]ould ?n[o']t resolve host|Name or service not known|nodename nor servname|getaddrinfo fail"
)
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_NETWORK_LIBRARIES: Final = (
    *("httpx", "httpx2", "httpcore", "httpcore2"),
    *("requests", "urllib3", "aiohttp"),
)
_STORE_LIBRARIES: Final = (*_NETWORK_LIBRARIES, "huggingface_hub", "hf_xet", "fsspec")
_CURES: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws; "
    "s3://anonymous@BUCKET for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS; gs://anonymous@BUCKET for a public bucket",
    "hf": "hf auth login, or HF_TOKEN",
    "abfs": "az login, or AZURE_STORAGE_KEY",
    "http": "the URL",
}
FAMILIES: Final = {"gcs": "gs", "abfss": "abfs", "https": "http"}

Result = TypeVar("Result")


@dataclass(frozen=True)
class StoredObject:
    """An object of a store.

    path    where the store has it
    size    its bytes
    stamp   changes if its content does: the time of its last change, its ETag if that is known
    ranged  whether parts of it can be read; else only all of it, from the beginning
    """

    path: str
    size: int
    stamp: str
    ranged: bool = True


class ObjectStore(Protocol):
    """A place of objects. Every method may raise errors that `Remote` translates."""

    def find(self, path: str) -> StoredObject | None:
        """Return an object; None if there is none of that name."""

    def below(self, path: str) -> list[StoredObject]:
        """Return all objects whose names begin with this path and a slash."""

    def open(self, found: StoredObject) -> Callable[[int, int], bytes]:
        """Return a function that reads (start, length) of an object, in any thread."""

    def write(self, path: str, source: Path) -> None:
        """Write a file to an object, which exists only when it is complete."""

    def remove(self, path: str) -> None:
        """Remove an object."""


class ExpiredError(InputError):
    """A signed URL that is refused: it was signed for a time that is over, or for another use."""


@dataclass(frozen=True)
class Remote:
    """A store, and a place in it; every call is tried again after transient errors.

    url   the place, without secrets, for messages and names
    path  the place, as the store calls it
    """

    store: ObjectStore
    url: str
    path: str

    @property
    def family(self) -> str:
        """The kind of the store, by its scheme."""
        scheme = self.url.partition(":")[0]
        return FAMILIES.get(scheme, scheme)

    def find(self) -> StoredObject | None:
        """Return the object at this place; None if there is none."""
        return self.retry(lambda: self.store.find(self.path))

    def below(self) -> list[StoredObject]:
        """Return the objects under this place, sorted by name."""
        found = self.retry(lambda: self.store.below(self.path.rstrip("/")))
        return sorted(found, key=lambda one: one.path.encode())

    def upload(self, source: Path, name: str = "") -> None:
        """Write a file to this place, or to `name` under it."""
        place = f"{self.path.rstrip('/')}/{name}" if name else self.path
        self.retry(lambda: self.store.write(place, source), writing=True)

    def remove(self, name: str) -> None:
        """Remove an object under this place."""
        self.retry(lambda: self.store.remove(f"{self.path.rstrip('/')}/{name}"), writing=True)

    def retry(self, action: Callable[[], Result], writing: bool = False) -> Result:
        """Return what the action returns; try again after a transient error, with pauses."""
        return try_again(action, lambda error: self._explain(error, writing))

    def _explain(self, error: Exception, writing: bool) -> NeardupError:
        if is_signed(self.path) and _status(error) in (400, 401, 403):
            return ExpiredError(
                f"{self.url}: the signed URL is refused, it may have expired: sign it again, for "
                "longer than the run takes, and run again",
                self.url,
            )
        return explain_error(error, self.url, self.family, writing)


def try_again(action: Callable[[], Result], explain: Callable[[Exception], NeardupError]) -> Result:
    """Return what an action returns; try again after a transient error, with pauses.

    Args:
        action: What to do.
        explain: Returns the error to raise if it fails for good.
    """
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return action()
        except Exception as error:  # the stores' libraries have no common class of errors
            if not is_store_error(error):
                raise
            if attempt == ATTEMPTS or not is_transient(error):
                raise explain(error) from None
        # Many readers that were refused at once should not come back at once.
        time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311
    raise AssertionError


def explain_error(error: Exception, url: str, family: str, writing: bool = False) -> NeardupError:
    """Return the error for a place that can't be used, in one line with the cure.

    Args:
        error: What the store raised.
        url: The place, without secrets.
        family: The kind of the store, a key of `_CURES`.
        writing: Whether something was to be written there.
    """
    what, cure = _find_cause(error, family)
    message = f"{url}: {what}: {cure}"
    if writing:
        return OutputError(message)
    missing = (NO_BUCKET, NOT_FOUND, UNKNOWN_HOST)
    return (MissingInput if what in missing else InputError)(message, url)


def _find_cause(error: Exception, family: str) -> tuple[str, str]:
    """Return what went wrong, and the cure."""
    text, status = str(error), _status(error)
    access = _CURES.get(family, "the credentials")
    if _is_unknown_host(error):
        endpoint = ", and AWS_ENDPOINT_URL" if family == "s3" else ""
        return UNKNOWN_HOST, f"check the URL and the network{endpoint}"
    if _NO_BUCKET.search(text):
        return NO_BUCKET, "check its name and, for S3, AWS_ENDPOINT_URL"
    if _EXPIRED.search(text):
        return "the credentials have expired", f"get new ones ({access})"
    if status in (401, 403) or _DENIED.search(text):
        return "access denied", f"check {access}"
    if isinstance(error, FileNotFoundError) or status in (404, 410):
        return NOT_FOUND, "check the URL"
    if is_transient(error):
        tries = f"tried {ATTEMPTS} times"
        return f"the store does not answer ({tries})", "check the network, and run again"
    return f"the store refused it ({type(error).__name__})", "check the URL and its access"


def is_store_error(error: Exception) -> bool:
    """Return whether a store, its library or the network raised an error; else it is a mistake."""
    if isinstance(error, (OSError, pa.ArrowException, http.client.HTTPException)):
        return True
    return any(_library(kind) in _STORE_LIBRARIES for kind in type(error).__mro__)


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _status(error: Exception) -> int | None:
    """Return the HTTP status of an error, if it has one."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code
    status: int | None = getattr(getattr(error, "response", None), "status_code", None)
    return status


def _is_unknown_host(error: Exception) -> bool:
    """Return whether a host name does not exist; a name server that does not answer is no proof."""
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, socket.gaierror):
        return reason.errno != socket.EAI_AGAIN
    return bool(_UNKNOWN_HOST.search(str(error)))


def is_transient(error: Exception) -> bool:
    """Return whether the same call may succeed later."""
    if _is_unknown_host(error):
        return False
    status = _status(error)
    if status is not None:
        return status in _TRANSIENT_STATUS
    if isinstance(error, (ConnectionError, TimeoutError, http.client.HTTPException)):
        return True
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, OSError)
    if _library(type(error)) in _NETWORK_LIBRARIES:
        return True
    return isinstance(error, (OSError, pa.ArrowException)) and bool(_TRANSIENT.search(str(error)))
