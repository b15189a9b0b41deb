"""Calls of object stores: what is tried again, what gets a cure, and what is our own mistake."""

from __future__ import annotations

import socket
from typing import Any

import pyarrow as pa
import pytest

from neardup.corpus import object_store, storage
from neardup.corpus.object_store import ATTEMPTS, Remote
from neardup.corpus.storage import open_remote
from neardup.errors import InputError, MissingInput


class FailingStore:
    """A store whose `find` raises the errors in turn, and finds nothing at last."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def find(self, path: str) -> None:
        if self.errors:
            raise self.errors.pop(0)


def find(*errors: Exception) -> Any:
    store = FailingStore(*errors)
    return Remote(store, "s3://bucket/a", "bucket/a").find()  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "FIRST_PAUSE", 0.0)


@pytest.mark.parametrize("mistake", [TypeError("x"), AttributeError("x"), KeyError("x")])
def test_a_mistake_of_neardup_is_not_shown_as_one_of_the_store(mistake: Exception) -> None:
    with pytest.raises(type(mistake)) as raised:
        find(mistake)
    assert raised.value is mistake


def test_errors_of_the_stores_libraries_get_a_cure() -> None:
    hub = pytest.importorskip("huggingface_hub.errors")
    for error in (OSError("x"), pa.ArrowInvalid("x"), hub.HFValidationError("x")):
        with pytest.raises(InputError, match="s3://bucket/a: the store refused it"):
            find(error)


def test_transient_errors_are_tried_again() -> None:
    httpx = pytest.importorskip("httpx")
    for error in (ConnectionResetError(), httpx.ReadTimeout("x"), pa.ArrowIOError("timed out")):
        assert find(*[error] * (ATTEMPTS - 1)) is None
        with pytest.raises(InputError, match=f"tried {ATTEMPTS} times"):
            find(*[error] * ATTEMPTS)


def test_a_host_that_nobody_knows_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def look_up(*given: object, **_: object) -> None:
        asked.append(given)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    with pytest.raises(MissingInput, match="name of its host is unknown: check the URL and"):
        open_remote("https://no-such-host.invalid/x.jsonl").find()
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("said", "kind", "message"),
    [
        ("Bucket 'b' not found", MissingInput, "there is no such bucket: check its name"),
        (
            "AWS Error NETWORK_CONNECTION: curlCode: 6, Could not resolve hostname",
            MissingInput,
            "the name of its host is unknown: check the URL and the network, and AWS_ENDPOINT_URL",
        ),
        (
            "AWS Error ACCESS_DENIED during HeadBucket",
            InputError,
            "access denied: check AWS_ACCESS",
        ),
        ("something else", InputError, r"the store refused it \(OSError\): check the URL"),
    ],
)
def test_a_bucket_whose_region_is_not_found_says_why(
    monkeypatch: pytest.MonkeyPatch, said: str, kind: type[Exception], message: str
) -> None:
    def resolve(bucket: str) -> str:
        raise OSError(said)

    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(storage.fs, "resolve_s3_region", resolve)
    with pytest.raises(kind, match=f"^s3://b/x.jsonl: {message}"):
        open_remote("s3://b/x.jsonl")
