"""From bytes to what the models say; what is wrong, or too large, is refused by name."""

from __future__ import annotations

from typing import Any, TypeVar

import orjson
from pydantic import BaseModel, ValidationError

from neardup.index.validation import LONGEST_ID
from neardup.service.error_responses import Refusal, invalid, too_large
from neardup.service.limits import ServiceLimits
from neardup.service.models import NewDocument

MOST_TOLD = 3
MOST_FIELDS = 16
DEEPEST = 4
Model = TypeVar("Model", bound=BaseModel)


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # Its whole message could quote the body.
        raise Refusal(400, f"not valid JSON, at character {error.pos}: send one object") from None
    if not isinstance(value, dict):
        raise invalid(f"a JSON object is wanted, not {type(value).__name__}")
    return value


def checked(model: type[Model], value: dict[str, Any], settings: ServiceLimits) -> Model:
    """The value as this model; what is wrong is named, what was sent is not repeated."""
    _require_few(value, settings, DEEPEST)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        told = [
            _place(each["loc"]) + each["msg"].removeprefix("Value error, ")
            for each in found[:MOST_TOLD]
        ]
        more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        raise invalid("; ".join(told) + more) from None


def _require_few(value: Any, settings: ServiceLimits, depth: int) -> None:
    """Refuse at once what has very many fields or items: each would make an error of its own."""
    if isinstance(value, dict):
        if len(value) > MOST_FIELDS:
            raise invalid(
                f"an object has more than {MOST_FIELDS} fields: send those that are known"
            )
        inner = [each for name, each in value.items() if name != "metadata"]
    elif isinstance(value, list):
        check_count(len(value), settings)
        inner = value
    else:
        return
    for each in inner if depth else ():
        _require_few(each, settings, depth - 1)


def _place(names: tuple[int | str, ...]) -> str:
    place = ".".join(str(name)[:40] for name in names)
    return f"{place}: " if place else ""


def check_text(text: str, settings: ServiceLimits) -> None:
    if len(text) > settings.text_length:
        raise too_large("a text", settings.text_length, "characters", "text_length")


def check_count(count: int, settings: ServiceLimits) -> None:
    if count > settings.batch:
        raise too_large("the batch", settings.batch, "documents", "batch")


def check_document(document: NewDocument, settings: ServiceLimits) -> None:
    """Refuse what is larger than this service allows."""
    if document.text is not None:
        check_text(document.text, settings)
    if document.id is not None:
        check_id(document.id)
    if document.metadata is not None:
        check_metadata(document.metadata, settings)


def check_id(id: str) -> None:
    if len(id.encode()) > LONGEST_ID:
        raise invalid(f"an id is longer than {LONGEST_ID} bytes of UTF-8: use a shorter one")
    if "\x00" in id or not id:
        raise invalid("an id is a text of one character at least, and without NUL: use another one")


def check_metadata(metadata: dict[str, Any], settings: ServiceLimits) -> None:
    level: list[Any] = [metadata]
    for _ in range(settings.metadata_depth):
        level = [inner for each in level for inner in _inside(each)]
    if level:
        raise invalid(f"metadata is nested deeper than {settings.metadata_depth}: make it flatter")
    if len(orjson.dumps(metadata)) > settings.metadata_bytes:
        raise invalid(
            f"metadata is longer than {settings.metadata_bytes} bytes: keep it elsewhere, by id"
        )


def _inside(value: Any) -> list[Any]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [each for each in inner if isinstance(each, dict | list)]
