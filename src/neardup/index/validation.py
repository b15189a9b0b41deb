"""Check and encode the id, the metadata and the text that a caller sends with a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from neardup.errors import ParameterError

LONGEST_ID: Final = 1_024
"""The most bytes of UTF-8 of an id."""
LONGEST_METADATA: Final = 1 << 20
"""The most characters of a document's metadata as JSON."""


def is_valid_id(id: str) -> bool:
    """Return whether an id has an allowed length and no NUL."""
    return 0 < len(id) <= LONGEST_ID and len(id.encode()) <= LONGEST_ID and "\0" not in id


def check_id(id: str) -> None:
    """Raise ParameterError unless `id` is a valid id."""
    if not isinstance(id, str):
        raise ParameterError(f"an id is a text, not {type(id).__name__}")
    try:
        valid = is_valid_id(id)
    except UnicodeEncodeError:
        raise ParameterError("an id must be valid Unicode: it has a lone surrogate") from None
    if not valid:
        raise ParameterError(
            f"an id has 1 to {LONGEST_ID:,} bytes of UTF-8 and no NUL, this one has {len(id):,} "
            "characters"
        )


def encode_metadata(
    metadata: Sequence[dict[str, Any] | None] | None, documents: int
) -> list[str | None]:
    """Return the metadata of each document as JSON, or None."""
    if metadata is None:
        return [None] * documents
    if len(metadata) != documents:
        raise ParameterError(f"{len(metadata)} metadata for {documents} ids: give one for each")
    return [None if one is None else _json(one) for one in metadata]


def _json(metadata: dict[str, Any]) -> str:
    try:
        text = json.dumps(metadata, allow_nan=False, separators=(",", ":"))
        json.loads(text)  # metadata that is nested too deeply can be written, but not read
    except (TypeError, ValueError, RecursionError):
        raise ParameterError(
            "metadata must be JSON: objects, lists, texts, numbers, true, false, null"
        ) from None
    if len(text) > LONGEST_METADATA:
        raise ParameterError(
            f"metadata has {len(text):,} characters as JSON, {LONGEST_METADATA:,} is the most: "
            "keep it elsewhere, by id"
        )
    return text


def encode_text(text: Any) -> bytes:
    """Return the bytes that are stored of a text; token ids are stored as a JSON list."""
    if isinstance(text, str):
        return text.encode()
    return json.dumps([int(token) for token in text], separators=(",", ":")).encode()


def decode_text(data: bytes, *, tokens: bool) -> Any:
    """Return the text, or the list of token ids, from its stored bytes."""
    return json.loads(data) if tokens else data.decode()
