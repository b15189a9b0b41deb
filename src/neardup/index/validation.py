"""What callers give with a document: its id, its metadata, and the text as it is kept."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from neardup.errors import ParameterError

LONGEST_ID: Final = 1_024
"""Bytes of UTF-8."""
LONGEST_METADATA: Final = 1 << 20
"""Characters of JSON."""


def is_valid_id(id: str) -> bool:
    """Whether an index takes this id."""
    return 0 < len(id) <= LONGEST_ID and len(id.encode()) <= LONGEST_ID and "\0" not in id


def check_id(id: str) -> None:
    """Refuse what is no id."""
    if not isinstance(id, str):
        raise ParameterError(f"an id is a text, not {type(id).__name__}")
    try:
        good = is_valid_id(id)
    except UnicodeEncodeError:
        raise ParameterError("an id must be valid Unicode: it has a lone surrogate") from None
    if not good:
        raise ParameterError(
            f"an id has 1 to {LONGEST_ID:,} bytes of UTF-8 and no NUL, this one has {len(id):,} "
            "characters"
        )


def encode_metadata(
    given: Sequence[dict[str, Any] | None] | None, documents: int
) -> list[str | None]:
    """As JSON, for each document."""
    if given is None:
        return [None] * documents
    if len(given) != documents:
        raise ParameterError(f"{len(given)} metadata for {documents} ids: give one for each")
    return [None if one is None else _json(one) for one in given]


def _json(metadata: dict[str, Any]) -> str:
    try:
        text = json.dumps(metadata, allow_nan=False, separators=(",", ":"))
        json.loads(text)  # what is nested too deeply can be written, and not be read
    except (TypeError, ValueError, RecursionError):
        raise ParameterError(
            "metadata must be what JSON can say: texts, numbers, lists, objects"
        ) from None
    if len(text) > LONGEST_METADATA:
        raise ParameterError(
            f"metadata has {len(text):,} characters as JSON, {LONGEST_METADATA:,} is the most: "
            "keep it elsewhere, by id"
        )
    return text


def encode_text(text: Any) -> bytes:
    """A text to be stored; of token ids a list as JSON."""
    if isinstance(text, str):
        return text.encode()
    return json.dumps([int(token) for token in text], separators=(",", ":")).encode()


def decode_text(data: bytes, *, tokens: bool) -> Any:
    """The text, or the list of token ids, that was stored."""
    return json.loads(data) if tokens else data.decode()
