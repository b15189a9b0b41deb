"""The OpenAPI description is true: what it allows, and what it does not, is answered as it says."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import settings
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.python.asgi import ASGIClient
from support.serving import LOCAL, key, serving, text
from support.strategies import examples

from neardup.index.index import Index
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.logs import Log
from neardup.service.server import create_app

NOT_STARTED = IndexService(
    lambda _: Index.open("nowhere"),
    ServiceLimits(),
    Path("nowhere"),
    log=Log(io.StringIO()),
    guarded=False,
)
RAW = create_app(NOT_STARTED).openapi()
described = schemathesis.openapi.from_dict(RAW)
load_all_checks()
WANTED = [
    CHECKS.get_one(name)
    for name in (
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_schema_conformance",
        "unsupported_method",
        # A stream answers wrong lines one by one, and a valid request is refused if there is no
        # shadow: the checks of what is accepted don't apply. `test_access.py` tests keys.
        "response_headers_conformance",
        "missing_required_header",
    )
]


@schemathesis.serializer("application/x-ndjson")
def as_lines(_: Any, value: Any) -> bytes:
    """Whatever a line is, the stream goes on."""
    return (value if isinstance(value, str) else str(value)).encode("utf-8", "surrogatepass")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ASGIClient]:
    data = tmp_path_factory.mktemp("data")
    header = key(data, "read", "write", "admin")
    with serving(data, ServiceLimits(source_rate=0, key_rate=0)) as client:
        documents = [{"id": id, "text": text(n // 2)} for n, id in enumerate("0ab1")]
        client.post("/v1/documents", json={"documents": documents}, headers=header)
        session = ASGIClient(running(client.app))
        session.headers.update(header)
        yield session


def running(app: Any) -> Any:
    """The application without its start and end, which are not the client's."""

    async def only_requests(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await app(scope, receive, send)
            return
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})

    return only_requests


@described.parametrize()
@settings(max_examples=examples(40))
def test_answers_conform_to_the_openapi_description(
    case: schemathesis.Case, session: ASGIClient
) -> None:
    case.call_and_validate(base_url=LOCAL, session=session, checks=WANTED)


def test_errors_and_keys_are_described() -> None:
    assert RAW["components"]["securitySchemes"]["api_key"] == {"type": "http", "scheme": "bearer"}
    for path, methods in RAW["paths"].items():
        for operation in methods.values():
            guarded = path not in ("/", "/healthz", "/readyz")
            assert bool(operation.get("security")) == guarded, path
            assert ("401" in operation["responses"]) == guarded
            assert "503" in operation["responses"]
    (id, _) = RAW["components"]["schemas"]["NewDocument"]["properties"]["id"]["anyOf"]
    assert [each["type"] for each in id["anyOf"]] == ["string", "integer"]
    body = RAW["paths"]["/v1/documents"]["post"]["requestBody"]["content"]
    assert set(body) == {"application/json", "application/x-ndjson"}
