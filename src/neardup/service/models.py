"""The models of requests and answers: they validate, and the OpenAPI description is made of them.

Sizes that an operator can change (`limits.py`) are checked earlier, by `bodies.parse_json`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    create_model,
    model_validator,
)

from neardup.errors import SpecMismatch
from neardup.index.answer import Answer, SignalAnswer
from neardup.index.cluster_pages import MARK
from neardup.index.validation import LONGEST_ID, check_id
from neardup.option_table import options_at
from neardup.service.error_responses import invalid
from neardup.sketch.bulk import column_count, column_type
from neardup.sketcher import SketchedDocuments
from neardup.spec import Spec
from neardup.text.arrays import Ragged

LARGEST_NUMBER: Final = 2**63 - 1
NUMBER_WANTED: Final = "the number of a cluster, as answers about documents have it"


def _valid_id(id: str) -> str:
    check_id(id)
    return id


def _digits_as_text(value: Any) -> Any:
    return str(value) if type(value) is int else value


def _require_digits(wanted: str) -> BeforeValidator:
    """Accept ASCII digits alone; Pydantic also accepts spaces, underscores and other scripts."""

    def parse(value: Any) -> int:
        if not (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20):
            raise ValueError(f"must be {wanted}")
        return int(value)

    return BeforeValidator(parse)


def _true_or_false(value: Any) -> Any:
    """Read the words of a query; Pydantic also accepts yes, on, 1 and others."""
    return {"true": True, "false": False}.get(value, value)


def _decode_base64(value: Any) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("must be the base64 of the slots' bytes") from None


IdText = Annotated[
    str,
    AfterValidator(_valid_id),
    Field(
        json_schema_extra={"minLength": 1, "maxLength": LONGEST_ID, "pattern": r"^[^\x00]+$"},
        description=f"1 to {LONGEST_ID:,} bytes of UTF-8, without NUL.",
    ),
]
Id = Annotated[
    IdText,
    BeforeValidator(_digits_as_text, json_schema_input_type=IdText | int),
    Field(description="A whole number stands for its decimal digits."),
]
ClusterNumber = Annotated[int, Field(ge=0, le=LARGEST_NUMBER), _require_digits(NUMBER_WANTED)]


Group = Annotated[
    Annotated[str, Field(max_length=LONGEST_ID)] | None,
    BeforeValidator(_digits_as_text, json_schema_input_type=str | int | None),
    Field(
        description="The group of a document, if the index was made with --within: only documents "
        "of the same group are compared. Those without one are a group, too.",
    ),
]


class StrictModel(BaseModel):
    """Unknown fields are refused, types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Vector = Annotated[
    list[float],
    Field(
        description="The document's vector, if the index was made with vectors: as many numbers as "
        "those of the index have."
    ),
]


class Signature(StrictModel):
    """A signature that the client made, by the specification of the index."""

    fingerprint: str = Field(description="Of the specification, as GET /v1/stats has it.")
    slots: Annotated[
        bytes,
        BeforeValidator(_decode_base64, json_schema_input_type=str),
        Field(description="Base64 of the slots, little-endian, in order."),
    ]
    content: Annotated[
        str | None,
        Field(pattern="^[0-9a-f]{32}$", description="The content hash, 32 hexadecimal digits."),
    ] = None


class CheckText(StrictModel):
    """Is this text a copy of something?"""

    text: str
    within: Group = None


class CheckTexts(StrictModel):
    """Are these texts copies of something? Each is checked by itself."""

    texts: Annotated[list[str], Field(min_length=1)]
    within: Annotated[
        list[Group] | None, Field(description="The group of each text, as for one text.")
    ] = None


class CheckVector(StrictModel):
    """Is the document of this vector, and of this text if the index compares texts, a copy?"""

    vector: Vector
    text: str | None = None
    within: Group = None


class CheckVectors(StrictModel):
    """The same of several documents. Each is checked by itself."""

    vectors: Annotated[list[Vector | None], Field(min_length=1)]
    texts: list[str] | None = None
    within: Annotated[
        list[Group] | None, Field(description="The group of each document, as for one.")
    ] = None

    @model_validator(mode="after")
    def _one_each(self) -> Self:
        if self.texts is not None and len(self.texts) != len(self.vectors):
            raise ValueError("give one vector for each text")
        return self


class CheckSignature(StrictModel):
    """Is the document of this signature a copy of something?"""

    signature: Signature
    within: Group = None


OBJECT: Final[dict[str, Any]] = {"type": "object"}
NO_TEXT: Final[dict[str, Any]] = {"text": {"type": "null"}}
NO_SIGNATURE: Final[dict[str, Any]] = {"signature": {"type": "null"}}
NO_VECTOR: Final[dict[str, Any]] = {"vector": {"type": "null"}}
ARRAY: Final[dict[str, Any]] = {"type": "array"}


class NewDocument(StrictModel):
    """A document to add: its text, its vector or both; or a ready-made signature."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {"required": ["text"], "properties": {"text": {"type": "string"}, **NO_SIGNATURE}},
                {
                    "required": ["signature"],
                    "properties": {"signature": OBJECT, **NO_TEXT, **NO_VECTOR},
                },
                {
                    "required": ["vector"],
                    "properties": {"vector": ARRAY, **NO_TEXT, **NO_SIGNATURE},
                },
            ]
        }
    )

    id: Annotated[Id | None, Field(description="Without one, a random one is chosen.")] = None
    text: str | None = None
    signature: Signature | None = None
    vector: Vector | None = None
    metadata: Annotated[dict[str, Any] | None, Field(description="Kept with the document.")] = None
    within: Group = None

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.text is None and self.vector is None) == (self.signature is None):
            raise ValueError("give either text or signature")
        return self


class OneDocument(NewDocument):
    """A document to add, by itself."""

    replace: Annotated[bool, Field(description="Take the place of the one with this id.")] = False


class NewDocuments(StrictModel):
    """Documents to add together, in order and in one commit; each has an answer."""

    documents: Annotated[list[NewDocument], Field(min_length=1)]
    replace: bool = False

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if len({document.signature is None for document in self.documents}) > 1:
            raise ValueError("a batch has texts or signatures: send them in two batches")
        return self


class RemovalRequest(StrictModel):
    """Documents to remove together."""

    ids: Annotated[
        list[Id],
        Field(min_length=1, description="Of a repeated id, only the first can be found."),
    ]


class StreamOptions(BaseModel):
    """The query of a stream of documents."""

    model_config = ConfigDict(extra="forbid")

    replace: Annotated[
        bool,
        BeforeValidator(_true_or_false),
        Field(strict=True, description="Documents take the place of those with the same ids."),
    ] = False


class PageOptions(BaseModel):
    """The query for a page of clusters."""

    model_config = ConfigDict(extra="forbid")

    limit: Annotated[
        Annotated[int, Field(ge=1), _require_digits("a whole number, such as 100")] | None,
        Field(description="The most clusters of the page; 100 by default."),
    ] = None
    after: Annotated[
        str | None,
        Field(pattern=f"^{MARK}$", description="The `next` of the page before."),
    ] = None


class DocumentOptions(BaseModel):
    """The query for a document."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[
        bool,
        BeforeValidator(_true_or_false),
        Field(
            strict=True,
            description="Answer its text too, if the index stores texts; needs the scope texts.",
        ),
    ] = False


class ClusterOptions(BaseModel):
    """The query for a cluster."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[
        bool,
        BeforeValidator(_true_or_false),
        Field(
            strict=True,
            description="Answer texts too, in pages, if the index stores texts; needs the scope "
            "texts.",
        ),
    ] = False
    after: Annotated[
        ClusterNumber,
        Field(description="Leave out the copies up to this number: the `next` of the page before."),
    ] = 0


def _tag_by_field(**tags: str) -> Callable[[Any], str]:
    """Return a function that chooses the model of a body by a field that only this model has."""

    def choose(value: Any) -> str:
        names = value if isinstance(value, dict) else type(value).model_fields
        return next((tag for field, tag in tags.items() if field in names), "<one>")

    return choose


CheckRequest = Annotated[
    Annotated[CheckText, Tag("<one>")]
    | Annotated[CheckTexts, Tag("<many>")]
    | Annotated[CheckVector, Tag("<vector>")]
    | Annotated[CheckVectors, Tag("<vectors>")]
    | Annotated[CheckSignature, Tag("<signature>")],
    Discriminator(
        _tag_by_field(
            vectors="<vectors>", vector="<vector>", texts="<many>", signature="<signature>"
        )
    ),
]
ExplainRequest = Annotated[
    Annotated[CheckText, Tag("<one>")] | Annotated[CheckVector, Tag("<vector>")],
    Discriminator(_tag_by_field(vector="<vector>")),
]
AddRequest = Annotated[
    Annotated[OneDocument, Tag("<one>")] | Annotated[NewDocuments, Tag("<many>")],
    Discriminator(_tag_by_field(documents="<many>")),
]


BODY_FIELDS: Final = {
    "/v1/check": {
        field
        for model in (CheckText, CheckTexts, CheckVector, CheckVectors, CheckSignature)
        for field in model.model_fields
    },
    "/v1/documents": {*OneDocument.model_fields, *NewDocuments.model_fields},
    "/v1/documents/delete": {*RemovalRequest.model_fields},
}
"""Path -> the names of the fields that a body may have there."""


class LabelledPair(StrictModel):
    """Two documents, and whether they are duplicates."""

    a: Id
    b: Id
    duplicate: bool


if TYPE_CHECKING:
    ShadowPoint = StrictModel
else:
    ShadowPoint = create_model(
        "ShadowPoint",
        __base__=StrictModel,
        **{
            name: (row.type | None, Field(None, description=row.explained))
            for name, row in options_at("shadow of a service").items()
        },
    )


class ShadowRequest(ShadowPoint):
    """Another operating point, to be tried beside the current one: what differs."""

    golden: Annotated[
        list[LabelledPair] | None, Field(description="To score both operating points by.")
    ] = None


class AnswerList(BaseModel):
    """One answer for each text or document, in order."""

    answers: list[Answer | SignalAnswer]


class RemovalResult(BaseModel):
    """What was removed."""

    removed: Annotated[int, Field(description="How many documents were removed.")]
    missing: Annotated[list[str], Field(description="The ids that no document had.")]


class ServiceDescription(BaseModel):
    """What answers here, and where its routes are described."""

    name: str
    version: str
    description: str
    openapi: Annotated[str, Field(description="The path of this description.")]
    documentation: Annotated[str, Field(description="The address of the guide.")]


class HealthStatus(BaseModel):
    """Whether the service answers, and whether its index is loaded."""

    status: str
    documents: int | None = None


class PromotionResult(BaseModel):
    """The shadow answers from now on."""

    moved: Annotated[int, Field(description="Documents whose answer has changed.")]


class ErrorBody(BaseModel):
    """Why a request was refused, and the cure."""

    error: str
    message: str
    request_id: str


def make_sketch(signatures: Sequence[Signature], spec: Spec) -> SketchedDocuments:
    """Return the signatures of clients as sketched documents.

    Args:
        signatures: the signatures. One without a content hash is identified by its slots.
        spec: the specification of the index, which they must have.
    """
    kind = np.dtype(column_type(spec)).newbyteorder("<")
    size = column_count(spec) * kind.itemsize
    contents = []
    for signature in signatures:
        if signature.fingerprint != spec.fingerprint:
            raise SpecMismatch(
                "a signature has another specification than the index, which has "
                f"{spec.fingerprint}: make it with the specification of GET /v1/stats"
            )
        if len(signature.slots) != size:
            raise invalid(
                f"signature.slots has {len(signature.slots)} bytes, not {size}: send all slots"
            )
        contents.append(_content_hash(signature))
    count = len(signatures)
    slots = np.frombuffer(b"".join(signature.slots for signature in signatures), kind)
    return SketchedDocuments(
        content=np.frombuffer(b"".join(contents), "<u8").reshape(count, 2).astype(np.uint64),
        signatures=slots.reshape(count, column_count(spec)).astype(column_type(spec)),
        shingles=Ragged(np.empty(0, np.uint64), np.zeros(count + 1, np.int64)),
        apart=None,
        lengths=np.zeros(count, np.int64),
    )


def _content_hash(signature: Signature) -> bytes:
    if signature.content is not None:
        return bytes.fromhex(signature.content)
    return hashlib.blake2b(signature.slots, digest_size=16).digest()
