"""The review page of a service in a real browser: a key is typed, a pair is decided."""

from __future__ import annotations

from support.accessibility import find_barriers
from support.browser import Page
from support.command_line import neardup
from support.reviewer import DOCUMENTS
from support.running import running

from neardup.index.index import Index
from neardup.service.api_keys import ApiKeys


def test_key_opens_the_pages_and_a_pair_is_decided(tmp_path, page: Page) -> None:
    data = tmp_path / "posts"
    with Index.open(data, keep_texts=True) as index:
        for one in DOCUMENTS:
            index.add(one["id"], one["text"])
    key = ApiKeys(data).add("boss", ("admin",), "2026-01-01")
    with running(data) as service:
        service.event("ready")
        page.open(f"{service.url}/review", width=360)
        assert find_barriers(page) == []
        page.press("Tab", "Tab")
        page.write("a wrong key")
        with page.loading():
            page.press("Enter")
        assert "scope admin" in page.text()
        page.open(f"{service.url}/review/login")
        page.click("input[name=key]")
        page.write(key)
        with page.loading():
            page.press("Enter")
        assert page.path == "/review/" and "9 of 12 documents are copies" in page.text("h1")
        page.wait_for("!!document.querySelector('main figure')")  # it goes on by itself
        assert page.complaints == [] and find_barriers(page) == []
        with page.loading():
            page.press("g")
        with page.loading():
            page.press("d")
        with page.loading():
            page.press("z")
        with page.loading():
            page.press("s")
        assert page.path.startswith("/review/pair/") and page.complaints == []
        with page.loading():
            page.click("form[action='/review/logout'] button")
        page.open(f"{service.url}/review/clusters")
        assert page.path == "/review/login"
    ran = neardup("review", data, "--export", tmp_path / "decisions.jsonl")
    assert "1 decisions" in ran.err
