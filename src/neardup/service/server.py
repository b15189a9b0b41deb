"""The server: the FastAPI application, and the process that serves it with uvicorn.

One event loop; connections are bounded in time and memory (`connections.py`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from typing import Any, Final

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

import neardup
from neardup.errors import NeardupError, ParameterError
from neardup.service.access import REVIEW_PATH
from neardup.service.connections import BoundedHttpProtocol
from neardup.service.error_responses import Refusal, validation_refusal
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.logs import forward
from neardup.service.middleware import RequestMiddleware, refuse
from neardup.service.models import BODY_FIELDS
from neardup.service.review import ServiceReview, go_to_review
from neardup.service.routes import router
from neardup.service.start_page import DESCRIPTION

NOT_ALLOWED: Final = 405
ROUTING_MESSAGES: Final = {
    404: "there is no such path: /openapi.json lists them",
    NOT_ALLOWED: "this path has other methods: the header Allow lists them",
}


def create_app(service: IndexService) -> FastAPI:
    """Return the application of a service; its index is loaded when the application starts.

    The pages of documentation that FastAPI has would load scripts from elsewhere: `/` lists the
    routes instead, and tools read `/openapi.json`.

    Args:
        service: the index with its limits, log and metrics.
    """

    review = ServiceReview(service)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await review.close()
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
    app.add_route(REVIEW_PATH, go_to_review, include_in_schema=False)
    app.mount(REVIEW_PATH, review)
    app.add_middleware(RequestMiddleware, service=service)
    return app


class DescribedApp(FastAPI):
    """FastAPI with an OpenAPI description that states the limits of the service."""

    def openapi(self) -> dict[str, Any]:
        made = self.openapi_schema is not None
        description = super().openapi()
        if not made:
            limits = self.state.service.limits
            _state_limits(description["components"]["schemas"], limits)
            listing = description["paths"]["/v1/clusters"]["get"]["parameters"]
            (limit,) = (each["schema"] for each in listing if each["name"] == "limit")
            limit["anyOf"][0]["maximum"] = limits.clusters
        return description


def _state_limits(schemas: dict[str, Any], limits: ServiceLimits) -> None:
    for name in ("OneDocument", "NewDocument"):
        schemas[name]["properties"]["text"]["anyOf"][0]["maxLength"] = limits.text_length
    schemas["CheckText"]["properties"]["text"]["maxLength"] = limits.text_length
    texts = schemas["CheckTexts"]["properties"]["texts"]
    texts["maxItems"], texts["items"]["maxLength"] = limits.batch, limits.text_length
    for name in ("OneDocument", "NewDocument"):
        schemas[name]["properties"]["vector"]["anyOf"][0]["maxItems"] = limits.vector_length
    one, many = (schemas[name]["properties"] for name in ("CheckVector", "CheckVectors"))
    one["vector"]["maxItems"] = limits.vector_length
    one["text"]["anyOf"][0]["maxLength"] = limits.text_length
    many["vectors"]["maxItems"] = many["texts"]["anyOf"][0]["maxItems"] = limits.batch
    many["vectors"]["items"]["anyOf"][0]["maxItems"] = limits.vector_length
    many["texts"]["anyOf"][0]["items"]["maxLength"] = limits.text_length
    schemas["NewDocuments"]["properties"]["documents"]["maxItems"] = limits.batch
    schemas["RemovalRequest"]["properties"]["ids"]["maxItems"] = limits.batch


async def _answer_refusal(request: Request, error: NeardupError) -> Response:
    return refuse(request.app.state.service, request.scope, error)


async def _answer_invalid(request: Request, error: RequestValidationError) -> Response:
    # A location begins with body, path or query.
    fields = BODY_FIELDS.get(request.url.path, ())
    return await _answer_refusal(request, validation_refusal(error.errors(), 1, fields))


async def _answer_unroutable(request: Request, error: HTTPException) -> Response:
    """Answer a request whose path has no route, or no route for its method."""
    headers = list((error.headers or {}).items())
    if error.status_code == NOT_ALLOWED:
        headers = [("allow", ", ".join(_methods_of_path(request)))]
    message = ROUTING_MESSAGES.get(error.status_code, "the request can't be answered")
    return await _answer_refusal(request, Refusal(error.status_code, message, headers))


def _methods_of_path(request: Request) -> list[str]:
    """Return all methods of a path; the framework names those of its first route alone."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    matching = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in matching for method in route.methods or ()})


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket.

    Args:
        host: a name or address of this machine.
        port: the port; 0 for any free one.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None)
        # The text of the error repeats the address; names that can't be resolved have no number.
        reason = os.strerror(number) if number and number > 0 else str(error)
        raise ParameterError(
            f"can't listen on {host} port {port} ({reason}): choose another --port or --host"
        ) from None


Reread = Callable[[], tuple[ServiceLimits, str | None]]
"""Returns the limits and the supplied API key as they are in files now."""


def run(app: FastAPI, bound: socket.socket, proxy: str | None, reread: Reread) -> None:
    """Serve until SIGTERM or SIGINT; then finish the requests under way.

    SIGHUP makes the file of the log again, and takes over what was changed in files. If the index
    can't be loaded, stop and raise the error.

    Args:
        app: the application, with the service in its state.
        bound: the socket to listen on.
        proxy: the address of a proxy whose X-Forwarded-For is trusted.
        reread: reads limits and the supplied API key again.
    """
    service: IndexService = app.state.service
    limits = service.limits
    forward(service.log, "uvicorn", "uvicorn.error", "asyncio")
    shared = {
        "limits": limits,
        "metrics": service.metrics,
        "proxies": frozenset(proxy.replace(" ", "").split(",") if proxy else ()),
        "held": Counter[str](),
    }
    protocol: type[BoundedHttpProtocol] = type("Protocol", (BoundedHttpProtocol,), shared)
    config = uvicorn.Config(
        app,
        http=protocol,
        loop="uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        proxy_headers=proxy is not None,
        forwarded_allow_ips=proxy or "",
        timeout_keep_alive=limits.keep_alive_seconds,
        timeout_graceful_shutdown=limits.shutdown_seconds,
    )
    server = uvicorn.Server(config)

    def end() -> None:
        server.should_exit = True

    service.when_failed, service.stopping = end, lambda: server.should_exit
    # For signals before the server handles them and after it has stopped, when it raises the one
    # that stopped it again.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: end())

    def reload() -> None:
        service.log.reopen()
        before = asdict(service.limits)
        try:
            limits, supplied = reread()
        except NeardupError as error:
            service.log.event("not_reloaded", message=str(error))
            return
        service.reload(limits, supplied)
        protocol.limits = limits
        config.timeout_keep_alive = limits.keep_alive_seconds
        config.timeout_graceful_shutdown = limits.shutdown_seconds
        app.openapi_schema = None  # it states limits
        changed = {name: now for name, now in asdict(limits).items() if now != before[name]}
        service.log.event("reloaded", changed_limits=changed)

    signal.signal(signal.SIGHUP, lambda *_: reload())
    name, port = bound.getsockname()[:2]
    where = f"[{name}]" if ":" in name else name
    service.log.event("listening", url=f"http://{where}:{port}")
    server.run(sockets=[bound])
    if service.failure is not None:
        raise service.failure


SWITCH_SECONDS: Final = 0.0005
MMAP_THRESHOLD: Final = -3
"""M_MMAP_THRESHOLD of <malloc.h>."""
LARGE: Final = 256 << 10


def tune_process() -> None:
    """Switch threads more often, and return the memory of large arrays at once.

    With Python's default of five milliseconds, a busy thread makes all others wait that long. The C
    library raises the size from which memory is returned to the system by itself, up to 32 MB;
    smaller pieces stay fragmented, and a process that runs for months grows without end.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    with suppress(OSError, AttributeError):  # another C library than glibc
        ctypes.CDLL(None).mallopt(MMAP_THRESHOLD, LARGE)
