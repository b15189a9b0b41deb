"""What a full disk or a damaged file does: the request fails and says so, reading goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

from support.disks import full_disk
from support.serving import Served, serving, text

LINES = {"Content-Type": "application/x-ndjson"}


def documents(first: int, count: int = 50) -> list[dict[str, str]]:
    return [{"id": f"d{n}", "text": text(n, 300)} for n in range(first, first + count)]


def events(client: Served, name: str) -> list[str]:
    return [line["message"] for line in client.logged if line["event"] == name]


def test_full_disk_gives_507_and_queries_continue(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        assert client.post("/v1/documents", json={"documents": documents(0)}).status_code == 200
        with full_disk(100_000):
            lines = "".join(json.dumps(one) + "\n" for one in documents(50))
            for refused in (
                client.post("/v1/documents", json={"documents": documents(50)}),
                client.post("/v1/documents", content=lines, headers=LINES),
            ):
                assert (refused.status_code, refused.json()["error"]) == (507, "output_error")
                assert str(tmp_path) not in refused.text, "paths are for the log"
            assert client.get("/v1/documents/d50").status_code == 404
            assert client.post("/v1/check", json={"text": text(3, 300)}).json()["cluster"] == 4
            assert client.get("/readyz").json()["documents"] == 50
        assert len(events(client, "failed")) == 2
        assert str(tmp_path) in events(client, "failed")[0]
        again = client.post("/v1/documents", json={"documents": documents(50)}).json()["answers"]
        assert [one["status"] for one in again] == ["new"] * 50


def test_damaged_index_file_gives_500(tmp_path: Path) -> None:
    with serving(tmp_path) as client:
        client.post("/v1/documents", json={"documents": documents(0, 1_000)})
    (stored,) = tmp_path.glob("**/index.sqlite")
    content = bytearray(stored.read_bytes())
    page = 1 << 15
    for place in range(2 * page, len(content), page):  # not those that tell what is where
        content[place : place + 200] = bytes(200)
    with serving(tmp_path) as client:
        stored.write_bytes(content)
        answer = client.get("/v1/documents/d500")
        assert (answer.status_code, answer.json()["error"]) == (500, "format_error")
        assert str(tmp_path) not in answer.text
        assert "damaged" in events(client, "failed")[0]
        assert client.get("/healthz").status_code == 200


def test_data_folder_name_may_be_invalid_utf8(tmp_path: Path) -> None:
    data = tmp_path / os.fsdecode(b"\xff")
    with serving(data) as client:
        (data / "api-keys.json").write_text("{")
        assert client.get("/v1/stats").status_code == 503
        assert any("can't be read as API keys" in said for said in events(client, "message"))
    with serving(tmp_path / os.fsdecode(b"\xfe")) as client, full_disk(100_000):
        refused = client.post("/v1/documents", json={"documents": documents(0)})
        assert (refused.status_code, refused.json()["error"]) == (507, "output_error")
