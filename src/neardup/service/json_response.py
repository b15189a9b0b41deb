"""JSON answers, made by orjson; dataclasses are written as they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
from fastapi import Response


class Json(Response):
    """A JSON answer with a status and headers."""

    media_type = "application/json"

    def __init__(
        self, content: Any, status: int = 200, headers: Iterable[tuple[str, str]] = ()
    ) -> None:
        super().__init__(orjson.dumps(content), status, dict(headers))
