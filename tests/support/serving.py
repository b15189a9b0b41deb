"""A service in this process, with a real index behind it."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from neardup.index.index import Index
from neardup.service.api_keys import ApiKeys
from neardup.service.background import GoldenSet
from neardup.service.index_service import IndexService
from neardup.service.limits import ServiceLimits
from neardup.service.logs import Log
from neardup.service.server import create_app

LOCAL = "http://127.0.0.1"
WORDS = [f"w{n}" for n in range(2_000)]


class Served(TestClient):
    """A client of a service, and what the service logged."""

    def __init__(self, service: IndexService, log: io.StringIO) -> None:
        super().__init__(create_app(service), base_url=LOCAL, raise_server_exceptions=False)
        self.service, self._log = service, log

    @property
    def logged(self) -> list[dict[str, Any]]:
        assert self.service.log.drain(10)
        return [json.loads(line) for line in self._log.getvalue().splitlines()]

    def wait_ready(self) -> None:
        ends = time.monotonic() + 300  # kernels may have to be compiled
        while self.get("/readyz").status_code != 200:
            assert time.monotonic() < ends
            assert self.service.failure is None, repr(self.service.failure)
            time.sleep(0.01)


@contextmanager
def serving(
    data: Path | str,
    settings: ServiceLimits | None = None,
    *,
    guarded: bool = False,
    golden: GoldenSet | None = None,
    audited: bool = False,
    **options: Any,
) -> Iterator[Served]:
    log = io.StringIO()
    service = IndexService(
        lambda say: Index.open(data, say=say, **options),
        settings or ServiceLimits(),
        data,
        log=Log(log),
        guarded=guarded,
        golden=golden,
        audited=audited,
    )
    with Served(service, log) as client:
        client.wait_ready()
        yield client


def key(data: Path | str, *scopes: str) -> dict[str, str]:
    """The header with a new key."""
    name = "-".join(scopes) or "none"
    return {"Authorization": f"Bearer {ApiKeys(data).add(name, scopes, 'now')}"}


def text(seed: int, count: int = 60) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=count))
