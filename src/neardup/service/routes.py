"""What the service answers: each route with its scope, what it takes and what it gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor

from neardup.index.answer import Answer, Document
from neardup.index.explain import Explanation
from neardup.service import reading, shadowing, writing
from neardup.service.api_keys import ADMIN, READ, WRITE
from neardup.service.calls import Call
from neardup.service.models import (
    AnswerList,
    CheckSignature,
    CheckText,
    CheckTexts,
    ClusterAnswer,
    HealthStatus,
    NewDocument,
    NewDocuments,
    OneDocument,
    PromotionResult,
    ShadowRequest,
)


class AnyText(Convertor[str]):
    """Of a path: all that is left of it, slashes and ends of lines too."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", AnyText())
Handler = Callable[[Call], Awaitable[Response]]
BODY_ERRORS: Final = (400, 408, 413, 415, 422)


@dataclass(frozen=True)
class Route:
    """A method of a path."""

    method: str
    path: str
    scope: str | None
    """What an API key must be good for; None: everybody may ask."""
    handler: Handler
    gives: tuple[Any, ...] = ()
    """One of these."""
    takes: tuple[type[BaseModel], ...] = ()
    lines: type[BaseModel] | None = None
    """What a line is, if it takes a stream too."""
    errors: tuple[int, ...] = ()
    """Besides those that every route has."""
    status: int = 200


ROUTES: Final = (
    Route(
        "POST",
        "/v1/check",
        READ,
        reading.check,
        (Answer, AnswerList),
        (CheckText, CheckTexts, CheckSignature),
        errors=(409,),
    ),
    Route("POST", "/v1/explain", READ, reading.explain, (Explanation,), (CheckText,)),
    Route(
        "POST",
        "/v1/documents",
        WRITE,
        writing.add,
        (Answer, AnswerList),
        (OneDocument, NewDocuments),
        lines=NewDocument,
        errors=(409, 507),
    ),
    Route("GET", "/v1/documents/{id:any}", READ, reading.document, (Document,), errors=(404, 422)),
    Route(
        "DELETE",
        "/v1/documents/{id:any}",
        WRITE,
        writing.remove,
        errors=(404, 422, 507),
        status=204,
    ),
    Route(
        "GET", "/v1/clusters/{number}", READ, reading.cluster, (ClusterAnswer,), errors=(404, 422)
    ),
    Route("POST", "/v1/shadow/start", ADMIN, shadowing.start, (dict[str, Any],), (ShadowRequest,)),
    Route("GET", "/v1/shadow/report", ADMIN, shadowing.report, (dict[str, Any],), errors=(400,)),
    Route(
        "POST",
        "/v1/shadow/promote",
        ADMIN,
        shadowing.promote,
        (PromotionResult,),
        errors=(400, 507),
    ),
    Route("POST", "/v1/shadow/drop", ADMIN, shadowing.drop, errors=(400,), status=204),
    Route("GET", "/v1/stats", READ, reading.stats, (dict[str, Any],)),
    Route("GET", "/metrics", READ, reading.metrics),
    Route("GET", "/healthz", None, reading.health, (HealthStatus,)),
    Route("GET", "/readyz", None, reading.ready, (HealthStatus,)),
)
