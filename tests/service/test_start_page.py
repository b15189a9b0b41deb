"""What a person or a program sees at the address of the service itself."""

from __future__ import annotations

import base64
import hashlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.serving import Served, key, serving, text

import neardup
from neardup.service.start_page import GUIDE, quality


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    data = tmp_path_factory.mktemp("data")
    header = key(data, "read", "write")
    with serving(data) as client:
        client.post("/v1/documents", json={"id": "secret-id", "text": text(1)}, headers=header)
        yield client


def test_a_browser_without_a_key_sees_what_this_is_and_where_the_api_is_described(
    guarded: Served,
) -> None:
    page = guarded.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert f"neardup {neardup.__version__}" in page.text and GUIDE in page.text
    described = guarded.get("/openapi.json").json()["paths"]
    for path, methods in described.items():
        for method in methods:
            assert f"{method.upper()} {path}</code>" in page.text, path
    assert "prefers-color-scheme: dark" in page.text


def test_the_page_tells_nothing_of_the_index_and_loads_nothing(guarded: Served) -> None:
    page = guarded.get("/")
    index = guarded.service.index
    for secret in ("secret-id", index.spec.fingerprint, str(index.path), "word:5"):
        assert secret not in page.text
    assert not [name for name in page.headers if name.startswith("x-neardup")]
    policy = dict(
        part.split(" ", 1) for part in page.headers["content-security-policy"].split("; ")
    )
    (style,) = re.findall("<style>(.*?)</style>", page.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["style-src"] == f"'sha256-{digest}'"
    assert not re.search(r"<(script|img|link|iframe)|style=|src=", page.text)


def test_a_program_gets_json(guarded: Served) -> None:
    answer = guarded.get("/", headers={"Accept": "application/json"})
    assert answer.headers["vary"] == "Accept"
    assert answer.json()["version"] == neardup.__version__
    assert answer.json()["openapi"] == "/openapi.json"
    assert set(answer.json()) == {"name", "version", "description", "openapi", "documentation"}
    head = guarded.head("/")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("accept", "is_json"),
    [
        ("", False),
        ("*/*", False),
        ("application/json, text/html", False),
        ("text/html;q=0.5, application/json", True),
        ("application/*", True),
        ("APPLICATION/JSON; q=1", True),
        ("application/json;q=nonsense", False),
        (";;,,=q", False),
        ("x," * 16_000 + "application/json", False),
    ],
)
def test_the_accept_header_decides(accept: str, is_json: bool) -> None:
    assert (quality(accept, "application/json") > quality(accept, "text/html")) == is_json


def test_the_guide_is_in_the_documentation_of_the_project() -> None:
    root = Path(__file__).parents[2]
    urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
    folder, _, page = GUIDE.rpartition("/")
    assert folder == urls["Documentation"].replace("/tree/", "/blob/")
    assert (root / "docs" / page).exists()
