"""What requests and answers look like: for validation, and for the OpenAPI description."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from neardup.index.answer import Answer, Document
from neardup.index.index import LONGEST_ID
from neardup.service.problems import Refused, invalid, too_large
from neardup.service.settings import Settings

Id = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]+$", description="Any text but NUL.")]
MOST_TOLD = 3
MOST_FIELDS = 16
DEEPEST = 4


class Strict(BaseModel):
    """Unknown fields are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Signature(Strict):
    """A signature that the client made, by the specification of the index."""

    fingerprint: str = Field(description="Of the specification: GET /v1/stats tells it.")
    slots: Annotated[str, Field(description="Base64 of the slots, little-endian, in order.")]
    content: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{32}$", description="The content hash, 32 hexadecimal digits."),
    ] = None

    def packed(self) -> bytes:
        """The bytes of the slots."""
        try:
            return base64.b64decode(self.slots, validate=True)
        except (binascii.Error, ValueError):
            raise invalid("signature.slots is not base64: encode the slots' bytes") from None


class CheckText(Strict):
    """Is this text a copy of something?"""

    text: str


class CheckTexts(Strict):
    """Are these texts copies of something? Each is asked about by itself."""

    texts: Annotated[list[str], Field(min_length=1)]


class CheckSignature(Strict):
    """The same, of a ready-made signature."""

    signature: Signature


class NewDocument(Strict):
    """A document to add: its text, or a ready-made signature."""

    id: Annotated[Id | None, Field(description="Without one it gets a random one.")] = None
    text: str | None = None
    signature: Signature | None = None
    metadata: Annotated[dict[str, Any] | None, Field(description="Kept with the document.")] = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None) == (self.signature is None):
            raise ValueError("give either text or signature")
        return self


class OneDocument(NewDocument):
    """A document to add, by itself."""

    replace: Annotated[bool, Field(description="Take the place of the one with this id.")] = False


class NewDocuments(Strict):
    """Documents to add together, in order and in one commit; each has an answer."""

    documents: Annotated[list[NewDocument], Field(min_length=1)]
    replace: bool = False


class Labelled(Strict):
    """Two documents, and whether they are duplicates."""

    a: Id
    b: Id
    duplicate: bool


class Shadow(Strict):
    """Another operating point, to be tried beside the current one: what differs."""

    threshold: float | None = None
    recall: float | None = None
    bands: int | None = None
    rows: int | None = None
    tables: int | str | None = None
    limit: int | None = None
    verify: str | None = None
    measure: str | None = None
    hamming: int | None = None
    blocks: int | None = None
    golden: Annotated[
        list[Labelled] | None, Field(description="To score both operating points by.")
    ] = None


class Answers(BaseModel):
    """One answer for each text or document, in order."""

    answers: list[Answer]


class FoundCluster(BaseModel):
    """A kept document and its copies; of very many copies, the first ones."""

    number: int
    size: int
    representative: Document
    members: list[Document]


class Status(BaseModel):
    """How it is."""

    status: str
    documents: int | None = None


class Promoted(BaseModel):
    """The shadow answers from now on; of so many documents the answer has changed."""

    moved: int


class Problem(BaseModel):
    """Why a request was refused, and the cure."""

    error: str
    message: str
    request_id: str


Model = TypeVar("Model", bound=BaseModel)


def parsed(body: bytes) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # Its whole message could quote the body.
        raise Refused(400, f"not valid JSON, at character {error.pos}: send one object") from None
    if not isinstance(value, dict):
        raise invalid(f"a JSON object is wanted, not {type(value).__name__}")
    return value


def checked(model: type[Model], value: dict[str, Any], settings: Settings) -> Model:
    """The value as this model; what is wrong is named, what was sent is not repeated."""
    _require_few(value, settings, DEEPEST)
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        told = [f"{_place(each['loc'])}{each['msg']}" for each in found[:MOST_TOLD]]
        more = f"; and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        raise invalid("; ".join(told) + more) from None


def _require_few(value: Any, settings: Settings, depth: int) -> None:
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


def check_text(text: str, settings: Settings) -> None:
    if len(text) > settings.text_length:
        raise too_large("a text", settings.text_length, "characters", "text_length")


def check_count(count: int, settings: Settings) -> None:
    if count > settings.batch:
        raise too_large("the batch", settings.batch, "documents", "batch")


def check_document(document: NewDocument, settings: Settings) -> None:
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


def check_metadata(metadata: dict[str, Any], settings: Settings) -> None:
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
