"""Objects in stores: S3, Google Cloud Storage, Azure, the Hugging Face Hub, HTTP servers.

`open_store` finds the store of a URL. A store lists objects, reads ranges of them and writes whole
ones. Transient errors (connections that are refused, reset or too slow, 429 and 5xx) are tried
again with growing pauses, ATTEMPTS times in all. Other errors become one line with the cure. It
never has a user, a password, the query of a signed URL or the store's own message, which can
contain them.
"""

from __future__ import annotations

import base64
import http.client
import os
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from neardup.corpus.urls import hide_secrets
from neardup.errors import InputError, NeardupError, OutputError, UsageError

ATTEMPTS: Final = 6
FIRST_PAUSE: Final = 0.2
CONNECT_SECONDS: Final = 10
ANSWER_SECONDS: Final = 60
BLOCK: Final = 4 << 20
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
_NO_BUCKET: Final = re.compile("NO_SUCH_BUCKET|NoSuchBucket|ContainerNotFound|BucketNotFound")
_TRANSIENT_STATUS: Final = frozenset({408, 425, 429, 500, 502, 503, 504})
_NETWORK_MODULES: Final = ("httpx", "httpcore", "requests", "urllib3", "aiohttp")
_CURES: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or the profile in ~/.aws; "
    "s3://anonymous@BUCKET for a public bucket",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS; gs://anonymous@BUCKET for a public bucket",
    "hf": "hf auth login, or HF_TOKEN",
    "abfs": "az login, or AZURE_STORAGE_KEY",
    "http": "the URL",
}
_FAMILIES: Final = {"gcs": "gs", "abfss": "abfs", "https": "http"}

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


class ArrowStore:
    """A store that PyArrow's file systems read and write."""

    def __init__(self, files: fs.FileSystem) -> None:
        self._files = files

    def find(self, path: str) -> StoredObject | None:
        info = self._files.get_file_info(path)
        return _stored(info) if info.type == fs.FileType.File else None

    def below(self, path: str) -> list[StoredObject]:
        selector = fs.FileSelector(path, recursive=True, allow_not_found=True)
        found = self._files.get_file_info(selector)
        if not found:
            bucket = path.partition("/")[0]
            if self._files.get_file_info(bucket).type == fs.FileType.NotFound:
                raise FileNotFoundError("NO_SUCH_BUCKET")
        return [_stored(info) for info in found if info.type == fs.FileType.File]

    def open(self, found: StoredObject) -> Callable[[int, int], bytes]:
        file = self._files.open_input_file(found.path)
        return lambda start, length: file.read_at(length, start)

    def write(self, path: str, source: Path) -> None:
        with open(source, "rb") as file, self._files.open_output_stream(path) as sink:
            while block := file.read(BLOCK):
                sink.write(block)

    def remove(self, path: str) -> None:
        self._files.delete_file(path)


def _stored(info: fs.FileInfo) -> StoredObject:
    return StoredObject(info.path, info.size, str(info.mtime_ns))


class HubStore:
    """The Hugging Face Hub, by its own file system for fsspec. It is only read."""

    def __init__(self, files: Any) -> None:
        self._files = files

    def find(self, path: str) -> StoredObject | None:
        try:
            found = self._files.info(path)
        except FileNotFoundError:
            return None
        return _of_hub(path, found) if found["type"] == "file" else None

    def below(self, path: str) -> list[StoredObject]:
        try:
            found = self._files.find(path, detail=True)
        except FileNotFoundError:
            return []
        return [_of_hub(name, one) for name, one in found.items() if one["type"] == "file"]

    def open(self, found: StoredObject) -> Callable[[int, int], bytes]:
        return lambda start, length: bytes(
            self._files.cat_file(found.path, start=start, end=start + length)
        )

    def write(self, path: str, source: Path) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        raise NotImplementedError


def _of_hub(path: str, found: dict[str, Any]) -> StoredObject:
    return StoredObject(path, found["size"], str(found.get("blob_id") or found.get("mtime") or ""))


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
    return urllib.request.urlopen(asked, timeout=ANSWER_SECONDS)  # noqa: S310


def _described(url: str, answer: Any) -> StoredObject:
    whole = answer.headers.get("Content-Range", "").rpartition("/")[2]
    size = whole or answer.headers.get("Content-Length")
    if size is None or not size.isdigit():
        raise InputError(
            f"{hide_secrets(url)}: the server does not tell its size: download it first"
        )
    changed = answer.headers.get("Last-Modified", "")
    when = str(parsedate_to_datetime(changed).timestamp()) if changed else ""
    stamp = f"{when} {answer.headers.get('ETag', '')}".strip()
    return StoredObject(url, int(size), stamp, ranged=answer.status == 206)


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
        return _FAMILIES.get(scheme, scheme)

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
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return action()
            except NeardupError:
                raise
            except Exception as error:
                if attempt == ATTEMPTS or not is_transient(error):
                    raise self._explain(error, writing) from None
            # Many readers that were refused at once should not come back at once.
            time.sleep(FIRST_PAUSE * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311
        raise AssertionError

    def _explain(self, error: Exception, writing: bool) -> NeardupError:
        what, cure = self._cause(error)
        message = f"{self.url}: {what}: {cure}"
        return OutputError(message) if writing else InputError(message, self.url)

    def _cause(self, error: Exception) -> tuple[str, str]:
        """Return what went wrong, and the cure."""
        text, status = str(error), getattr(error, "code", None)
        access = _CURES.get(self.family, "the credentials")
        if _NO_BUCKET.search(text):
            return "there is no such bucket", "check its name and, for S3, AWS_ENDPOINT_URL"
        if _EXPIRED.search(text):
            return "the credentials have expired", f"get new ones ({access})"
        if status in (401, 403) or _DENIED.search(text):
            return "access denied", f"check {access}"
        if isinstance(error, FileNotFoundError) or status in (404, 410):
            return "not found", "check the URL"
        if is_transient(error):
            tries = f"tried {ATTEMPTS} times"
            return f"the store does not answer ({tries})", "check the network, and run again"
        return f"the store refused it ({type(error).__name__})", "check the URL and its access"


def is_transient(error: Exception) -> bool:
    """Return whether the same call may succeed later."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in _TRANSIENT_STATUS
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status is not None:
        return status in _TRANSIENT_STATUS
    if isinstance(error, (ConnectionError, TimeoutError, http.client.HTTPException)):
        return True
    if isinstance(error, urllib.error.URLError):
        return isinstance(error.reason, OSError)
    if type(error).__module__.split(".")[0] in _NETWORK_MODULES:
        return True
    return isinstance(error, (OSError, pa.ArrowException)) and bool(_TRANSIENT.search(str(error)))


def open_remote(url: str) -> Remote:
    """Return the store of a URL, and the place in it.

    Credentials come from the environment, as each store's own tools find them. For S3, also the
    endpoint (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL) and the region (AWS_REGION or
    AWS_DEFAULT_REGION; found by the bucket otherwise).
    """
    name = hide_secrets(url)
    scheme = urlsplit(url).scheme.lower()
    if scheme in ("http", "https"):
        return Remote(HttpStore(), name, url)
    if scheme == "hf":
        return Remote(_open_hub(), name, url.partition("://")[2].rstrip("/"))
    with _name_setup_errors(name):
        files, path = _OPENERS[_FAMILIES.get(scheme, scheme)](url)
    return Remote(ArrowStore(files), name, path)


@contextmanager
def _name_setup_errors(name: str) -> Iterator[None]:
    try:
        yield
    except NeardupError:
        raise
    except (OSError, ValueError, pa.ArrowException) as error:
        kind = type(error).__name__
        raise UsageError(
            f"{name}: the store can't be opened ({kind}): check the URL and the credentials"
        ) from None


def _split(url: str) -> tuple[str | None, str | None, str]:
    """Return user, password and bucket/key of a URL."""
    parts = urlsplit(url, allow_fragments=False)
    user, _, host = parts.netloc.rpartition("@")
    name, _, secret = user.partition(":")
    query = f"?{parts.query}" if "?" in url else ""  # a key may have a question mark
    return unquote(name) or None, unquote(secret) or None, (host + parts.path + query).rstrip("/")


def _open_s3(url: str) -> tuple[fs.FileSystem, str]:
    user, secret, path = _split(url)
    given = (
        {"anonymous": True} if user == "anonymous" else {"access_key": user, "secret_key": secret}
    )
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(path.partition("/")[0])
    files = fs.S3FileSystem(
        **{name: value for name, value in given.items() if value},
        endpoint_override=endpoint,
        region=region,
        connect_timeout=CONNECT_SECONDS,
        request_timeout=ANSWER_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=2),
    )
    return files, path


def _open_gs(url: str) -> tuple[fs.FileSystem, str]:
    user, _, path = _split(url)
    return fs.GcsFileSystem(anonymous=user == "anonymous"), path


def _open_azure(url: str) -> tuple[fs.FileSystem, str]:
    files, path = fs.FileSystem.from_uri(url)
    return files, path


def _open_hub() -> HubStore:
    try:
        from huggingface_hub import HfFileSystem
    except ImportError:
        raise UsageError(
            "hf:// needs huggingface_hub: pip install 'neardup[remote]', or download it first"
        ) from None
    return HubStore(HfFileSystem())


_OPENERS: Final[dict[str, Callable[[str], tuple[fs.FileSystem, str]]]] = {
    "s3": _open_s3,
    "gs": _open_gs,
    "abfs": _open_azure,
}
"""Scheme -> what opens the store of a URL, and finds the place in it."""
