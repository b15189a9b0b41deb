"""Errors as JSON answers: {"error": name, "message": what happened and the cure, "request_id"}."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import Response

import neardup
from neardup.errors import FormatError, NeardupError


class JsonResponse(Response):
    """A JSON answer with a status and headers."""

    media_type = "application/json"

    def __init__(
        self, content: Any, status: int = 200, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(orjson.dumps(content), status, dict(headers))


UNAVAILABLE: Final = 503
RETRY_SECONDS: Final = 1
"""What somebody is told who came when there was no room."""
ERROR_NAMES: Final = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "too_slow",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid",
    429: "too_many_requests",
    500: "internal_error",
    503: "unavailable",
    507: "no_room",
}
"""For programs to compare; Python's own names of them change."""
Header = tuple[str, str]


class Refusal(NeardupError):  # noqa: N818  # reads as what happened
    """A request that is refused before the index is asked."""

    def __init__(self, status: int, message: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(message)
        self.http_status = status
        self.headers = tuple(headers)


def unauthorized(message: str) -> Refusal:
    return Refusal(401, message, [("www-authenticate", "Bearer")])


def too_many(seconds: float) -> Refusal:
    wait = max(1, int(seconds + 0.999))
    message = f"more documents a second than the limit allows: try again in {wait} s"
    return Refusal(429, message, [("retry-after", str(wait))])


def at_once(most: int) -> Refusal:
    message = f"a key may have {most} requests under way at once: wait for an answer first"
    return Refusal(429, message, [("retry-after", str(RETRY_SECONDS))])


def too_large(what: str, most: int, unit: str, limit: str) -> Refusal:
    return Refusal(413, f"{what} is longer than {most} {unit}: send less, or raise --limit {limit}")


def invalid(message: str) -> Refusal:
    return Refusal(422, message)


def describe_error(error: BaseException) -> tuple[int, dict[str, Any], list[Header]]:
    """The status, what the client is told, and headers."""
    if not isinstance(error, NeardupError):
        name = ERROR_NAMES[500]
        message = "a mistake in neardup; the log of the service has the place, by the request id"
        return 500, {"error": name, "message": message}, []
    # Files of the service that are damaged are not the client's mistake.
    status = 500 if isinstance(error, FormatError) else error.http_status
    headers = list(getattr(error, "headers", ()))
    if status == UNAVAILABLE:
        headers.append(("retry-after", str(RETRY_SECONDS)))
    # The name of a file need not be UTF-8.
    message = str(error).encode(errors="backslashreplace").decode()
    return status, {"error": error_name(error), "message": message}, headers


def error_name(error: NeardupError) -> str:
    """A name that programs can compare.

    >>> error_name(Refusal(404, "not there")), error_name(neardup.SpecMismatch("another spec"))
    ('not_found', 'spec_mismatch')
    """
    if isinstance(error, Refusal):
        return ERROR_NAMES.get(error.http_status, "refused")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def error_response(error: BaseException, request_id: str) -> JsonResponse:
    """The answer to a request that failed."""
    status, told, headers = describe_error(error)
    return JsonResponse({**told, "request_id": request_id}, status, headers)


def error_place(error: BaseException) -> str:
    """Where an unexpected error came from. Its message could quote a document: it is not told."""
    home = str(Path(neardup.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(home)]
    if not (ours or frames):
        return "unknown"
    last = (ours or list(frames))[-1]
    return f"{Path(last.filename).name}, line {last.lineno}"
