"""What a handler is given: the request, and the service that answers it."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import Request

from neardup.service.bodies import JSON, whole_body
from neardup.service.checking import check_id, parsed
from neardup.service.error_responses import Refusal, invalid
from neardup.service.limits import ServiceLimits

if TYPE_CHECKING:
    from neardup.service.index_service import IndexService
    from neardup.service.middleware import RequestRecord

LARGEST: Final = 2**63 - 1
NUMBER: Final = re.compile("[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class Call:
    """A request that was let in."""

    service: IndexService
    request: Request
    record: RequestRecord

    @property
    def settings(self) -> ServiceLimits:
        return self.service.settings

    async def json(self) -> dict[str, Any]:
        """The JSON object of the body."""
        self.require_type(JSON)
        body = await whole_body(self.request.receive, self.record.headers, self.settings, self.hold)
        self.record.body_read = True
        return parsed(body)

    def check_again(self, scope: str) -> None:
        """Refuse to go on if the key has been revoked meanwhile."""
        self.service.gate.check_again(self.record, scope)

    def hold(self, count: int) -> None:
        """Say how many bytes of the body are held now."""
        self.service.gate.hold(self.record, count)

    @property
    def content_type(self) -> str:
        stated = self.record.headers.get(b"content-type", b"").decode("latin-1")
        return stated.partition(";")[0].strip().lower()

    def require_type(self, *wanted: str) -> None:
        if self.content_type not in wanted:
            raise Refusal(415, f"Content-Type must be {' or '.join(wanted)}: say what the body is")

    def charge(self, documents: int) -> None:
        """Count documents against the rates of whoever sends them."""
        self.service.gate.charge(self.record, documents, time.monotonic())

    def debt(self) -> float:
        """Seconds until the same one may send more."""
        return self.service.gate.debt(self.record, time.monotonic())

    def id_after(self, prefix: str) -> str:
        """The rest of the path, percent-decoded; an id may have slashes in it."""
        try:
            path = unquote_to_bytes(self.request.scope["raw_path"]).decode("utf-8")
        except UnicodeDecodeError:
            raise invalid("the id is not UTF-8: percent-encode its UTF-8 bytes") from None
        id = path.removeprefix(prefix)
        check_id(id)
        return id

    def number(self) -> int:
        """The number in the path."""
        text = str(self.request.path_params["number"])
        number = int(text) if NUMBER.fullmatch(text) else LARGEST + 1
        if number > LARGEST:
            raise invalid("a cluster has a number: take it from the answer about a document")
        return number

    def flag(self, name: str) -> bool:
        """Whether a flag is set in the query; other names are refused."""
        given = dict(self.request.query_params)
        value = given.pop(name, "false")
        if given:
            raise invalid(f"{next(iter(given))[:40]!r} in the query is not known: use {name}")
        if value not in ("true", "false"):
            raise invalid(f"{name} in the query must be true or false")
        return value == "true"
