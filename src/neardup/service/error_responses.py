"""Errors as JSON answers: {"error": name, "message": what happened and the cure, "request_id"}."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import Response

import neardup
from neardup.errors import FormatError, NeardupError, OutputError, ServersUnavailable

UNAVAILABLE: Final = 503
RETRY_SECONDS: Final = 1
"""The Retry-After of a request that was refused because the service is busy."""
ERRORS_LISTED: Final = 3
"""The number of validation errors that a message lists."""
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
"""Stable names for programs; Python's own names of statuses change."""
MODEL_TAGS: Final = frozenset(["<one>", "<many>", "<signature>"])
"""Names that Pydantic gives to the alternatives of a body; they are not fields."""
Header = tuple[str, str]


class JsonResponse(Response):
    """A JSON answer, made by orjson; dataclasses are written as they are.

    Args:
        content: a value that orjson can serialise.
        status: the HTTP status.
        headers: further headers.

    >>> JsonResponse({"status": "ok"}).body
    b'{"status":"ok"}'
    """

    media_type = "application/json"

    def __init__(self, content: Any, status: int = 200, headers: Iterable[Header] = ()) -> None:
        super().__init__(orjson.dumps(content), status, dict(headers))


class Refusal(NeardupError):  # noqa: N818  # reads as what happened
    """A request that is refused before the index is used.

    Args:
        status: the HTTP status.
        message: what is wrong, and the cure.
        headers: headers of the answer.
    """

    def __init__(self, status: int, message: str, headers: Sequence[Header] = ()) -> None:
        super().__init__(message)
        self.http_status = status
        self.headers = tuple(headers)


def unauthorized(message: str) -> Refusal:
    return Refusal(401, message, [("www-authenticate", "Bearer")])


def rate_exceeded(seconds: float) -> Refusal:
    wait = max(1, int(seconds + 0.999))
    message = f"more documents or bytes a second than the limit allows: try again in {wait} s"
    return Refusal(429, message, [("retry-after", str(wait))])


def key_busy(most: int, what: str) -> Refusal:
    message = f"an API key may have {most} {what} under way: wait for an answer first"
    return Refusal(429, message, [("retry-after", str(RETRY_SECONDS))])


def too_large(thing: str, most: int, unit: str, limit: str) -> Refusal:
    return Refusal(
        413, f"{thing} is longer than {most} {unit}: send less, or raise --limit {limit}"
    )


def invalid(message: str) -> Refusal:
    return Refusal(422, message)


def validation_refusal(
    errors: Sequence[Any], prefix: int = 0, fields: Iterable[str] = ()
) -> Refusal:
    """Return the refusal of a value that a model does not accept.

    Args:
        errors: as Pydantic lists them. Fields are named; the values that were sent are not
            repeated.
        prefix: how many parts of a location come before the first field.
        fields: the names that fields of the request may have; the nearest to an unknown one is
            suggested.

    >>> str(validation_refusal([{"loc": ("body", "text"), "msg": "Field required"}], prefix=1))
    'text: Field required'
    >>> unknown = {"loc": ("txt",), "msg": "", "type": "extra_forbidden"}
    >>> str(validation_refusal([unknown], fields=["id", "text"]))
    'txt: unknown field: did you mean text?'
    """
    listed = [
        _field_path(error["loc"][prefix:]) + _describe_problem(error, fields)
        for error in errors[:ERRORS_LISTED]
    ]
    more = f"; and {len(errors) - ERRORS_LISTED} more" if len(errors) > ERRORS_LISTED else ""
    return invalid("; ".join(listed) + more)


def _describe_problem(error: Any, fields: Iterable[str]) -> str:
    if error.get("type") != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    near = get_close_matches(str(error["loc"][-1])[:40].lower(), [*fields], 1)
    return f"unknown field: did you mean {near[0]}?" if near else "unknown field: leave it out"


def _field_path(location: tuple[int | str, ...]) -> str:
    path = ".".join(str(part)[:40] for part in location if part not in MODEL_TAGS)
    return f"{path}: " if path else ""


def describe_error(error: BaseException) -> tuple[int, dict[str, Any], list[Header]]:
    """Return the status, the body and the headers of the answer to an error.

    Paths of files are in the log alone.
    """
    if not isinstance(error, NeardupError):
        message = "internal error: see the log of the service at this request id"
        return 500, {"error": ERROR_NAMES[500], "message": message}, []
    status, message = error.http_status, str(error)
    if isinstance(error, FormatError):  # Files of the service are damaged, not the request.
        status, message = 500, "a file of the index is damaged: see the log of the service"
    elif isinstance(error, OutputError):
        message = "the service can't write to its disk, nothing was stored: see its log"
    elif isinstance(error, ServersUnavailable):
        message = "the servers of the index can't be reached: try again, nothing is added twice"
    message = message.encode(
        errors="backslashreplace"
    ).decode()  # Names of files need not be UTF-8.
    headers = list(getattr(error, "headers", ()))
    if status == UNAVAILABLE:
        headers.append(("retry-after", str(RETRY_SECONDS)))
    return status, {"error": error_name(error), "message": message}, headers


def error_name(error: NeardupError) -> str:
    """Return the stable name of an error.

    >>> error_name(Refusal(404, "not there")), error_name(neardup.SpecMismatch("another spec"))
    ('not_found', 'spec_mismatch')
    """
    if isinstance(error, Refusal):
        return ERROR_NAMES.get(error.http_status, "refused")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).lower()


def error_response(error: BaseException, request_id: str) -> JsonResponse:
    """Return the answer to a failed request."""
    status, body, headers = describe_error(error)
    return JsonResponse({**body, "request_id": request_id}, status, headers)


def error_place(error: BaseException) -> str:
    """Return the file and line of an unexpected error, without its message, which could quote a
    document."""
    home = str(Path(neardup.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(home)]
    if not (ours or frames):
        return "unknown"
    last = (ours or list(frames))[-1]
    return f"{Path(last.filename).name}, line {last.lineno}"
