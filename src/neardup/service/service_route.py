"""Requests and routes: what every route of the service has in common.

FastAPI reads the body of a request before it runs dependencies. So a route checks the scope of the
API key first, then reads the body within its limits, and leaves the rest to FastAPI: validation by
the declared models, parameters of path and query, the OpenAPI description.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Request, Response, params
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.models import HTTPBearer
from fastapi.routing import APIRoute
from fastapi.security.base import SecurityBase
from starlette.convertors import Convertor, register_url_convertor
from starlette.routing import Match
from starlette.types import Scope

from neardup.service.access import require_scope
from neardup.service.bodies import JSON, NDJSON, content_type, parse_json, read_body
from neardup.service.error_responses import Refusal, invalid

if TYPE_CHECKING:
    from neardup.index.index import Index
    from neardup.service.index_service import IndexService
    from neardup.service.limits import ServiceLimits
    from neardup.service.middleware import RequestRecord

ANY_ID: Final = "{id:any}"
"""The end of a path that is an id, which may contain slashes."""
API: Final = "/v1/"
"""The beginning of the paths that programs use, not monitors."""
LONGEST_NAME: Final = 60
"""Characters of a parameter's name that a message shows."""
Handler = Callable[[Request], Coroutine[Any, Any, Response]]
Result = TypeVar("Result")


class ServiceRequest(Request):
    """A request that the middleware has admitted; its body is bounded."""

    _value: dict[str, Any] | None = None

    @property
    def service(self) -> IndexService:
        service: IndexService = self.scope["app"].state.service
        return service

    @property
    def limits(self) -> ServiceLimits:
        return self.service.limits

    @property
    def record(self) -> RequestRecord:
        record: RequestRecord = self.scope["record"]
        return record

    async def read_json(self) -> None:
        """Read and parse the body, within the limits."""
        if content_type(self.record.headers) != JSON:
            raise Refusal(415, f"Content-Type is not {JSON}: set it, and send JSON")
        body = await read_body(
            self.receive, self.record.headers, self.limits, self.hold, self.charge_bytes
        )
        self.record.body_read = True
        self._value = parse_json(body, self.limits)

    async def body(self) -> bytes:
        """Return a placeholder: FastAPI tests whether there is a body, and then calls `json`."""
        return b"" if self._value is None else b"{}"

    async def json(self) -> Any:
        return self._value

    def hold(self, count: int) -> None:
        """Reserve the memory of a body.

        Args:
            count: the bytes of the body that are in memory.
        """
        self.service.gate.hold(self.record, count)

    def charge(self, documents: int, empty_lines: int = 0) -> None:
        """Charge documents, and empty lines between them, to the rate of the key or the address."""
        self.service.gate.charge(self.record, documents, time.monotonic(), empty_lines)

    def charge_bytes(self, count: int) -> None:
        """Charge bytes of the body to the rate of the key or the address."""
        self.service.gate.charge_bytes(self.record, count, time.monotonic())

    def wait_seconds(self) -> float:
        """Return the seconds until the key or the address may send more."""
        return self.service.gate.wait_seconds(self.record, time.monotonic())

    def check_key_again(self, scope: str) -> None:
        """Refuse the request if its key has been revoked since it arrived.

        Args:
            scope: the scope that the key must have.
        """
        self.service.gate.check_again(self.record, scope)

    async def read(self, query: Callable[[Index], Result]) -> Result:
        """Query the index, in a thread."""
        return await self.service.read(self.record.party, query)

    async def scan(self, query: Callable[[Index], Result]) -> Result:
        """Go through whole tables of the index, in a thread of their own."""
        return await self.service.scan(self.record.party, query)

    async def write(self, change: Callable[[Index], Result]) -> Result:
        """Change the index in a thread; the change is durable when this returns."""
        return await self.service.write(self.record.party, change)

    async def remove(self, ids: Sequence[str]) -> list[bool]:
        """Remove documents, in a thread; return for each id whether a document had it."""
        return await self.service.remove(self.record.party, ids)


class ServiceRoute(APIRoute):
    """Checks the scope, reads the body, and cancels requests that take too long.

    The scopes are those of the route's `Security` dependencies, which FastAPI writes into the
    OpenAPI description, so that the description states what is enforced.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        dependencies: Sequence[params.Depends] | None = None,
        **options: Any,
    ) -> None:
        self.scopes = [
            scope
            for dependency in dependencies or ()
            if isinstance(dependency, params.Security)
            for scope in dependency.scopes or ()
        ]
        self._prefix = path.removesuffix(ANY_ID) if path.endswith(ANY_ID) else None
        super().__init__(path, endpoint, dependencies=dependencies, **options)

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler() if self._has_parameters else self._call_endpoint

        # Routes for monitors ignore a query: their answer matters more.
        refuses_query = self.path.startswith(API) and not self.dependant.query_params

        async def handle_bounded(starlette_request: Request) -> Response:
            request = ServiceRequest(starlette_request.scope, starlette_request.receive)
            record, limits = request.record, request.limits
            record.route = self.path
            for scope in self.scopes:
                require_scope(record, scope)
            if refuses_query and request.scope["query_string"]:
                raise self._refuse_query(request)
            if self._prefix is not None:
                request.path_params["id"] = _decode_path(request).removeprefix(self._prefix)
            try:
                async with asyncio.timeout(limits.request_seconds):
                    if self.body_field is not None:
                        await request.read_json()
                    return await handle(request)
            except TimeoutError:
                raise Refusal(
                    503,
                    f"no answer in {limits.request_seconds} s: send it again, nothing is added "
                    "twice by an id",
                ) from None

        return handle_bounded

    def _refuse_query(self, request: ServiceRequest) -> Refusal:
        """Return the refusal of a query, for a route that takes none."""
        name = next(iter(request.query_params), "?")[:LONGEST_NAME]
        cure = "leave it out" if self.body_field is None else "put it into the JSON object"
        return invalid(f"{name}: this route takes no parameters in its query: {cure}")

    @property
    def _has_parameters(self) -> bool:
        dependant = self.dependant
        return bool(dependant.path_params or dependant.query_params or dependant.header_params)

    async def _call_endpoint(self, request: Any) -> Response:
        """Call an endpoint whose only parameters are the request and its body.

        FastAPI would resolve its dependencies on each request, a sixth of the time of a check.
        """
        if self.body_field is None:
            response: Response = await self.endpoint(request)
            return response
        body, errors = self.body_field.validate(await request.json(), {}, loc=("body",))
        if errors:
            raise RequestValidationError(errors)
        response = await self.endpoint(request, body)
        return response


def _decode_path(request: Request) -> str:
    """Decode the path as it was sent; the server replaces bytes that are not UTF-8 by U+FFFD."""
    try:
        return unquote_to_bytes(request.scope["raw_path"]).decode("utf-8")
    except UnicodeDecodeError:
        raise invalid("the id is not UTF-8: percent-encode its UTF-8 bytes") from None


class NdjsonRoute(ServiceRoute):
    """A route for bodies of JSON lines; another route of the same path handles other bodies."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child = super().matches(scope)
        if match is Match.FULL and content_type(dict(scope["headers"])) != NDJSON:
            return Match.NONE, {}
        return match, child


class ApiKeyScheme(SecurityBase):
    """The API key in the OpenAPI description; the middleware checks it."""

    def __init__(self) -> None:
        self.model, self.scheme_name = HTTPBearer(), "api_key"

    async def __call__(self) -> None:
        return


API_KEY = ApiKeyScheme()


class AnyText(Convertor[str]):
    """Matches the rest of a path, including slashes and line ends."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


register_url_convertor("any", AnyText())
