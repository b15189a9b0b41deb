"""Another operating point, tried and promoted over HTTP."""

from __future__ import annotations

import time
from pathlib import Path

from support.serving import Served, serving, text


def in_step(client: Served) -> dict[str, object]:
    ends = time.monotonic() + 30
    while (found := client.get("/v1/shadow/report").json())["state"] == "building":
        assert time.monotonic() < ends
        time.sleep(0.01)
    return found


def test_a_shadow_is_started_reported_promoted_and_dropped(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for path in ("report", "promote", "drop"):
            ask = client.get if path == "report" else client.post
            refused = ask(f"/v1/shadow/{path}")
            assert (refused.status_code, refused.json()["error"]) == (400, "usage_error")
        first, changed = text(1), text(1).rsplit(" ", 12)[0] + " " + text(2, 12)
        for id, one in (("a", first), ("b", changed)):
            client.post("/v1/documents", json={"id": id, "text": one})
        assert client.get("/v1/documents/b").json()["status"] == "new"
        labelled = [{"a": "a", "b": "b", "duplicate": True}]
        begun = client.post("/v1/shadow/start", json={"threshold": 0.5, "golden": labelled})
        assert begun.status_code == 200
        assert in_step(client)["agreement"]["only_shadow"] == 1
        assert client.post("/v1/shadow/promote").json() == {"moved": 1}
        assert client.get("/v1/documents/b").json()["duplicate_of"] == "a"
        assert client.get("/v1/stats").json()["parameters"]["threshold"] == 0.5
        assert client.post("/v1/shadow/start", json={"threshold": 0.9}).status_code == 200
        assert client.post("/v1/shadow/start", json={"threshold": 0.9}).status_code == 400
        assert client.post("/v1/shadow/drop").status_code == 204


def test_impossible_operating_points_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        for body in (
            {"threshold": 7},
            {"bands": 3},
            {"bands": 10**9, "rows": 10**9},
            {"verify": "no"},
            {"limit": -1},
            {"tables": "x"},
        ):
            assert client.post("/v1/shadow/start", json=body).status_code == 400, body
