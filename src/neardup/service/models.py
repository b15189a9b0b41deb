"""What requests and answers look like: for validation, and for the OpenAPI description."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from neardup.index.answer import Answer, Document
from neardup.service.error_responses import invalid

Text = Annotated[str, Field(min_length=1, pattern=r"^[^\x00]+$")]


def _as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


Id = Annotated[
    Text,
    BeforeValidator(_as_text, json_schema_input_type=Text | int),
    Field(description="Any text but NUL; a whole number stands for its decimal digits."),
]


class StrictModel(BaseModel):
    """Unknown fields are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Signature(StrictModel):
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


class CheckText(StrictModel):
    """Is this text a copy of something?"""

    text: str


class CheckTexts(StrictModel):
    """Are these texts copies of something? Each is asked about by itself."""

    texts: Annotated[list[str], Field(min_length=1)]


class CheckSignature(StrictModel):
    """The same, of a ready-made signature."""

    signature: Signature


class NewDocument(StrictModel):
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


class NewDocuments(StrictModel):
    """Documents to add together, in order and in one commit; each has an answer."""

    documents: Annotated[list[NewDocument], Field(min_length=1)]
    replace: bool = False


class LabelledPair(StrictModel):
    """Two documents, and whether they are duplicates."""

    a: Id
    b: Id
    duplicate: bool


class ShadowRequest(StrictModel):
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
        list[LabelledPair] | None, Field(description="To score both operating points by.")
    ] = None


class AnswerList(BaseModel):
    """One answer for each text or document, in order."""

    answers: list[Answer]


class ClusterAnswer(BaseModel):
    """A kept document and its copies; of very many copies, the first ones."""

    number: int
    size: int
    representative: Document
    members: list[Document]


class HealthStatus(BaseModel):
    """How it is."""

    status: str
    documents: int | None = None


class PromotionResult(BaseModel):
    """The shadow answers from now on; of so many documents the answer has changed."""

    moved: int


class ErrorBody(BaseModel):
    """Why a request was refused, and the cure."""

    error: str
    message: str
    request_id: str
