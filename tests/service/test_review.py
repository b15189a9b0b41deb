"""The review page of a service: behind a key of scope admin, which opens a session."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from support.redis_index import fresh_address
from support.reviewer import DOCUMENTS
from support.serving import LOCAL, Served, serving

from neardup.index.index import Index
from neardup.service.api_keys import ApiKeys
from neardup.service.review import LOGIN_BURST

FORM_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')


@pytest.fixture
def keys(tmp_path) -> dict[str, str]:
    found = ApiKeys(tmp_path / "data")
    scopes = {"boss": ("admin",), "reader": ("read", "write", "texts")}
    return {name: found.add(name, given, "2026-01-01") for name, given in scopes.items()}


@pytest.fixture
def served(tmp_path, keys) -> Iterator[Served]:
    with Index.open(tmp_path / "data", keep_texts=True) as index:
        for one in DOCUMENTS:
            index.add(one["id"], one["text"])
    with serving(tmp_path / "data", guarded=True) as service:
        yield service


def log_in(served: Served, key: str, status: int = 200, **headers: str) -> str:
    answer = served.post("/review/login", data={"key": key}, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.text


def send(served: Served, path: str, **fields: object) -> int:
    token = FORM_TOKEN.search(served.get("/review/bulk").text)[1]
    return served.post(f"/review/{path}", data={"form_token": token} | fields).status_code


def wait_for_list(served: Served) -> None:
    while "is being made" in served.get("/review/").text:
        pass


def test_key_of_an_admin_opens_the_pages(served, keys):
    assert "API key" in served.get("/review").text  # the form
    assert "9 of 12 documents are copies" in log_in(served, keys["boss"])
    wait_for_list(served)
    assert "<ins>" in served.get("/review/pair/0").text
    assert send(served, "decide", position=0, seen=0, action="same", then="next") == 200
    assert "boss" in served.get("/review/decisions").text
    assert {line["route"] for line in served.logged if "/review" in str(line)} == {"/review"}


def test_people_without_a_key_learn_nothing_of_the_index(served, keys):
    for path in ("/review", "/review/login", "/review/static/review.js", "/review/open?token="):
        answer = served.get(path)
        assert not any(name.startswith("x-neardup") for name in answer.headers)
        assert "12 documents" not in answer.text
    assert served.get("/review/open?token=").status_code == 403


def test_other_keys_are_refused(served, keys):
    for key in (keys["reader"], "nonsense", ""):
        assert "scope admin" in log_in(served, key, 403)
    assert served.get("/review/", follow_redirects=False).headers["location"] == "/review/login"
    assert served.post("/review/undo", data={}).status_code == 403
    bearer = {"authorization": f"Bearer {keys['boss']}"}
    assert "API key" in served.get("/review/clusters", headers=bearer).text  # a session is needed


def test_cookie_and_forms_are_those_of_the_page(served, keys):
    answer = served.post("/review/login", data={"key": keys["boss"]}, follow_redirects=False)
    cookie = answer.headers["set-cookie"].lower()
    assert all(part in cookie for part in ("httponly", "samesite=strict", "path=/review/"))
    fields = {"position": 0, "seen": 0, "action": "same", "then": "next"}
    for token in ({}, {"form_token": "x" * 43}):
        assert served.post("/review/decide", data=fields | token).status_code == 403
    assert "another page" in log_in(served, keys["boss"], 403, origin="http://evil.example")
    policy = served.get("/review/").headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_cookie_is_sent_by_tls_alone_where_the_browser_came_by_tls(served, keys, scheme):
    """Also if the proxy that ends TLS does not say so."""
    origin = {"origin": LOCAL.replace("http", scheme)}
    answer = served.post(
        "/review/login", data={"key": keys["boss"]}, headers=origin, follow_redirects=False
    )
    assert answer.status_code == 303
    assert ("secure" in answer.headers["set-cookie"].lower()) == (scheme == "https")


def test_session_ends_with_logout_and_with_its_key(served, keys, tmp_path):
    log_in(served, keys["boss"])
    thief = TestClient(served.app, LOCAL, cookies=dict(served.cookies), follow_redirects=False)
    assert thief.get("/review/").status_code == 200
    assert send(served, "logout") == 200
    assert thief.get("/review/").headers["location"] == "/review/login"
    log_in(served, keys["boss"])
    assert "copies" in served.get("/review/").text
    ApiKeys(tmp_path / "data").revoke("boss")
    assert "API key" in served.get("/review/").text
    assert "scope admin" in log_in(served, keys["boss"], 403)


def test_guessing_is_slowed_down(served, keys):
    for _ in range(LOGIN_BURST):
        log_in(served, "guess", 403)
    assert "too many attempts" in log_in(served, keys["boss"], 429)


def test_service_without_keys_has_no_open_page(tmp_path):
    with serving(tmp_path / "data") as service:
        assert "neardup keys add" in service.get("/review/").text
        assert "scope admin" in log_in(service, "", 403)
        assert service.get("/v1/stats").status_code == 200


def test_service_of_an_index_on_redis_says_where_its_page_is(tmp_path):
    address = fresh_address()
    with serving(address) as service:
        answer = service.get("/review/login")
        assert answer.status_code == 404 and "--store FOLDER" in answer.json()["message"]
        assert "127.0.0.1" not in answer.text


def test_forms_have_limits(served, keys):
    log_in(served, keys["boss"])
    form = {"content-type": "application/x-www-form-urlencoded"}
    answer = served.post("/review/decide", content=b"x" * (2 << 20), headers=form)
    assert answer.status_code == 413
