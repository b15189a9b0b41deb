"""Calls of object stores: what is tried again, what gets a cure, and what is our own mistake."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from neardup.corpus import object_store
from neardup.corpus.object_store import ATTEMPTS, Remote
from neardup.errors import InputError


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
