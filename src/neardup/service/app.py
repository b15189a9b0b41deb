"""The application: FastAPI with the routes of the service, its middleware and error handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

import neardup
from neardup.errors import NeardupError
from neardup.service.error_responses import Refusal, validation_refusal
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.middleware import RequestMiddleware, refuse
from neardup.service.routes import router

DESCRIPTION: Final = "Is this new document a copy of something that came before?"
NOT_ALLOWED: Final = 405
ROUTING_MESSAGES: Final = {
    404: "there is no such path: /openapi.json lists them",
    NOT_ALLOWED: "this path has other methods: the header Allow lists them",
}


def create_app(service: IndexService) -> FastAPI:
    """The application of a service; its index is loaded when it starts.

    There are no pages of documentation in it, because they would fetch scripts from elsewhere:
    `/openapi.json` is for tools.

    Args:
        service: the index, its limits, its log and its metrics.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = DescribedApp(
        title="neardup",
        version=neardup.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=[*router.routes],
        exception_handlers={
            NeardupError: _answer_refusal,
            RequestValidationError: _answer_invalid,
            HTTPException: _answer_unroutable,
        },
    )
    app.state.service = service
    app.add_middleware(RequestMiddleware, service=service)
    return app


class DescribedApp(FastAPI):
    """FastAPI, whose OpenAPI description states the limits of the service too."""

    def openapi(self) -> dict[str, Any]:
        made = self.openapi_schema is not None
        description = super().openapi()
        if not made:
            _state_limits(description["components"]["schemas"], self.state.service.limits)
        return description


def _state_limits(schemas: dict[str, Any], limits: ServiceLimits) -> None:
    for name in ("OneDocument", "NewDocument"):
        schemas[name]["properties"]["text"]["anyOf"][0]["maxLength"] = limits.text_length
    schemas["CheckText"]["properties"]["text"]["maxLength"] = limits.text_length
    texts = schemas["CheckTexts"]["properties"]["texts"]
    texts["maxItems"], texts["items"]["maxLength"] = limits.batch, limits.text_length
    schemas["NewDocuments"]["properties"]["documents"]["maxItems"] = limits.batch


async def _answer_refusal(request: Request, error: NeardupError) -> Response:
    return refuse(request.app.state.service, request.scope, error)


async def _answer_invalid(request: Request, error: RequestValidationError) -> Response:
    # A location begins with body, path or query.
    return await _answer_refusal(request, validation_refusal(error.errors(), prefix=1))


async def _answer_unroutable(request: Request, error: HTTPException) -> Response:
    """The answer to a path that is no route, or not with this method."""
    headers = list((error.headers or {}).items())
    if error.status_code == NOT_ALLOWED:
        headers = [("allow", ", ".join(_methods_of_path(request)))]
    message = ROUTING_MESSAGES.get(error.status_code, "the request can't be answered")
    return await _answer_refusal(request, Refusal(error.status_code, message, headers))


def _methods_of_path(request: Request) -> list[str]:
    """All methods of a path: the framework names those of its first route."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in route.methods or ()})
