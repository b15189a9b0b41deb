"""The store of a URL: S3, Google Cloud Storage, Azure, the Hugging Face Hub, HTTP servers."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyarrow import fs

from neardup.corpus.http_store import HttpStore
from neardup.corpus.object_store import (
    ANSWER_SECONDS,
    BLOCK,
    CONNECT_SECONDS,
    FAMILIES,
    Remote,
    StoredObject,
    explain_error,
    try_again,
)
from neardup.corpus.urls import hide_secrets, require_host
from neardup.errors import InputError, NeardupError, UsageError


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
        except (ValueError, NotImplementedError) as error:
            raise _hub_path_error(path, error) from None
        return _of_hub(path, found) if found["type"] == "file" else None

    def below(self, path: str) -> list[StoredObject]:
        try:
            found = self._files.find(path, detail=True)
        except FileNotFoundError:
            return []
        except (ValueError, NotImplementedError) as error:
            raise _hub_path_error(path, error) from None
        return [_of_hub(name, one) for name, one in found.items() if one["type"] == "file"]

    def open(self, found: StoredObject) -> Callable[[int, int], bytes]:
        return lambda start, length: bytes(
            self._files.cat_file(found.path, start=start, end=start + length)
        )

    def write(self, path: str, source: Path) -> None:
        raise NotImplementedError

    def remove(self, path: str) -> None:
        raise NotImplementedError


def _hub_path_error(path: str, error: Exception) -> Exception:
    """Return the error for a path that the Hub can't have; the Hub's own answers as they are."""
    if isinstance(error, OSError):
        return error
    return InputError(f"hf://{path}: no place on the Hub: use hf://datasets/OWNER/NAME/PATH")


def _of_hub(path: str, found: dict[str, Any]) -> StoredObject:
    return StoredObject(path, found["size"], str(found.get("blob_id") or found.get("mtime") or ""))


def open_remote(url: str) -> Remote:
    """Return the store of a URL, and the place in it.

    Credentials come from the environment, as each store's own tools find them. For S3, also the
    endpoint (AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL) and the region (AWS_REGION or
    AWS_DEFAULT_REGION; found by the bucket otherwise).
    """
    name = hide_secrets(url)
    scheme = urlsplit(url).scheme.lower()
    if scheme in ("http", "https"):
        require_host(url)
        return Remote(HttpStore(), name, url)
    if scheme == "hf":
        return Remote(_open_hub(), name, url.partition("://")[2].rstrip("/"))
    family = FAMILIES.get(scheme, scheme)
    try:
        files, path = try_again(
            lambda: _OPENERS[family](url), lambda error: _explain_setup(error, name, family)
        )
    except ValueError as error:
        raise _explain_setup(error, name, family) from None
    return Remote(ArrowStore(files), name, path)


def _explain_setup(error: Exception, name: str, family: str) -> NeardupError:
    """Return the error for a store that can't be opened."""
    if isinstance(error, ValueError):  # also Arrow's, of URLs that it can't read
        kind = type(error).__name__
        return UsageError(
            f"{name}: the store can't be opened ({kind}): check the URL and the credentials"
        )
    return explain_error(error, name, family)


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
    # Its own default are 15 minutes of silence.
    patience = timedelta(seconds=ANSWER_SECONDS)
    return fs.GcsFileSystem(anonymous=user == "anonymous", retry_time_limit=patience), path


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
