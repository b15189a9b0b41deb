"""Decisions in a real browser: each by mouse and by keyboard, undone, and never silently lost."""

from __future__ import annotations

import pytest
from support.browser import Page
from support.command_line import table
from support.review_server import ReviewServer

ACTIONS = {"same": "s", "different": "d", "unsure": "u", "prefer": "p", "keep": "x"}
SAID = "document.querySelector('#status').textContent"


def expected(server: ReviewServer, action: str, position: int) -> tuple[str, str, str | None]:
    row = table(server.run, "removed")[position]
    if action in ("prefer", "keep"):
        return action, row["id"], None
    return action, row["witness"], row["id"]


@pytest.mark.parametrize("action", ACTIONS)
def test_pair_is_decided_by_key_and_by_mouse(serve, page: Page, action: str) -> None:
    server = serve()
    server.enter(page, "pair/0")
    with page.loading():
        page.press(ACTIONS[action])
    assert server.decisions() == [expected(server, action, 0)]
    assert page.path.startswith("/pair/") and page.path != "/pair/0"
    assert page.value(SAID).startswith("Stored: ")
    following = int(page.path.rpartition("/")[2])
    with page.loading():
        page.click(f"button[value={action}]")
    assert server.decisions()[1] == expected(server, action, following)
    assert page.complaints == []
