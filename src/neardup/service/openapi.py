"""The OpenAPI description: what FastAPI can't see of handlers that read bodies by themselves."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from neardup.index.validation import LONGEST_ID
from neardup.service.bodies import JSON, LINES
from neardup.service.error_responses import ERROR_NAMES
from neardup.service.limits import ServiceLimits
from neardup.service.metrics import CONTENT_TYPE
from neardup.service.models import ErrorBody
from neardup.service.routes import BODY_ERRORS, ROUTES, Route

SCHEME: Final = "api_key"
REF: Final = "#/components/schemas/{model}"
GUARDED_ERRORS: Final = (401, 403, 429, 500, 503)
PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "id": {
        "in": "path",
        "name": "id",
        "required": True,
        "schema": {"type": "string", "minLength": 1},
        "description": "Percent-encoded UTF-8; slashes may stand as they are.",
    },
    "number": {
        "in": "path",
        "name": "number",
        "required": True,
        "schema": {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    },
    "replace": {
        "in": "query",
        "name": "replace",
        "schema": {"type": "boolean", "default": False},
        "description": "Of a stream: documents take the place of those with the same ids.",
    },
}


def responses_of(route: Route) -> dict[int | str, dict[str, Any]]:
    """What FastAPI is told of a route's answers."""
    expected = GUARDED_ERRORS if route.scope else (500, 503)
    errors = {*expected, *route.errors, *(BODY_ERRORS if route.takes else ())}
    told: dict[int | str, dict[str, Any]] = {
        status: {"model": ErrorBody, "description": ERROR_NAMES[status].replace("_", " ")}
        for status in sorted(errors)
    }
    if route.gives:
        kinds = route.gives[0] if len(route.gives) == 1 else route.gives[0] | route.gives[1]
        told[route.status] = {"model": kinds, "description": "done"}
        if route.lines:
            told[route.status]["content"] = {LINES: {"schema": {"type": "string"}}}
    elif route.status == 200:
        content = {CONTENT_TYPE.partition(";")[0]: {"schema": {"type": "string"}}}
        told[200] = {"content": content, "description": "done"}
    return told


def extra_of(route: Route) -> dict[str, Any]:
    """What FastAPI does not know of a route's requests."""
    extra: dict[str, Any] = {"security": [{SCHEME: []}] if route.scope else []}
    names = [name for name in ("id", "number") if "{" + name in route.path]
    if route.lines:
        names.append("replace")
    if names:
        extra["parameters"] = [PARAMETERS[name] for name in names]
    if route.takes:
        content: dict[str, Any] = {
            JSON: {"schema": {"anyOf": [_ref(model) for model in route.takes]}}
        }
        if route.lines:
            content[LINES] = {"schema": {"type": "string"}}
        extra["requestBody"] = {"required": True, "content": content}
    if route.scope:
        extra["description"] = f"{route.handler.__doc__}\n\nNeeds the scope {route.scope}."
    return extra


def describe(app: FastAPI, settings: ServiceLimits) -> dict[str, Any]:
    """The whole description."""
    made = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes
    )
    models = [model for route in ROUTES for model in (*route.takes, route.lines) if model]
    _, schemas = models_json_schema([(model, "validation") for model in models], ref_template=REF)
    known = made["components"]["schemas"]
    known.update(schemas["$defs"])
    made["components"]["securitySchemes"] = {SCHEME: {"type": "http", "scheme": "bearer"}}
    _state_limits(known, settings)
    return made


def _state_limits(schemas: dict[str, Any], settings: ServiceLimits) -> None:
    for name in ("OneDocument", "NewDocument"):
        fields = schemas[name]["properties"]
        text, _ = fields["id"]["anyOf"][0]["anyOf"]
        text["maxLength"] = LONGEST_ID
        fields["text"]["anyOf"][0]["maxLength"] = settings.text_length
    schemas["CheckText"]["properties"]["text"]["maxLength"] = settings.text_length
    schemas["CheckTexts"]["properties"]["texts"]["maxItems"] = settings.batch
    schemas["NewDocuments"]["properties"]["documents"]["maxItems"] = settings.batch


def _ref(model: type) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}
