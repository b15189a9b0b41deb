"""The application: an index behind HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

import neardup
from neardup.service.access import require_scope
from neardup.service.calls import Call
from neardup.service.error_responses import Refusal, error_name, error_response
from neardup.service.index_service import IndexService
from neardup.service.middleware import RequestMiddleware
from neardup.service.openapi import describe, extra_of, responses_of
from neardup.service.routes import ROUTES, Route

DESCRIPTION = "Is this new document a copy of something that came before?"


def create_app(service: IndexService) -> FastAPI:
    """The application of a service; its index is loaded when it starts.

    There are no pages of documentation in it, because they would fetch scripts from elsewhere:
    `/openapi.json` is for the tools that you have.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    app = FastAPI(
        title="neardup",
        version=neardup.__version__,
        description=DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for route in ROUTES:
        app.add_api_route(
            route.path,
            _endpoint(route, service),
            methods=[route.method],
            status_code=route.status,
            response_class=Response,
            response_model=None,
            responses=responses_of(route),
            openapi_extra=extra_of(route),
            operation_id=route.handler.__name__,
            name=route.handler.__name__,
        )
    app.add_exception_handler(HTTPException, _no_such_route)
    app.add_middleware(RequestMiddleware, service=service)
    app.state.service = service
    made: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not made:
            made.update(describe(app, service.settings))
        return made

    app.openapi = openapi  # type: ignore[method-assign]
    return app


def _endpoint(route: Route, service: IndexService) -> Callable[[Request], Awaitable[Response]]:
    seconds = service.settings.request_seconds

    async def endpoint(request: Request) -> Response:
        record = request.scope["record"]
        record.route = route.path
        require_scope(record, route.scope)
        try:
            async with asyncio.timeout(seconds):
                return await route.handler(Call(service, request, record))
        except TimeoutError:
            raise Refusal(
                503, f"no answer in {seconds} s: send it again, nothing is added twice by an id"
            ) from None

    endpoint.__doc__ = route.handler.__doc__
    return endpoint


async def _no_such_route(request: Request, error: Exception) -> Response:
    """What is not a route, or not with this method."""
    status, headers = getattr(error, "status_code", 500), getattr(error, "headers", None)
    known = {
        404: "there is no such path: /openapi.json lists them",
        405: "this path has other methods: the header Allow lists them",
    }
    record = request.scope["record"]
    told = known.get(status, "the request can't be answered")
    refused = Refusal(status, told, list((headers or {}).items()))
    record.error = error_name(refused)
    return error_response(refused, record.id)
