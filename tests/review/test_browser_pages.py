"""Pages in a real browser: nothing of a document runs, all texts and windows are right."""

from __future__ import annotations

import pytest
from support.accessibility import find_barriers
from support.browser import Page

PATHS = ("", "clusters", "cluster/0", "pair/0", "document?id=a1", "compare?a=a0&b=b0", "bulk")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_pages_have_no_barriers(serve, page: Page, dark: bool) -> None:
    server = serve()
    server.enter(page, dark=dark)
    for path in (*PATHS, "bulk?least=0&most=1", "decisions", "pair/0?view=one"):
        page.open(f"{server.url}/{path}", dark=dark)
        assert page.complaints == []
        assert find_barriers(page) == [], path


def test_check_of_barriers_finds_one(serve, page: Page) -> None:
    serve().enter(page)
    page.value("document.querySelector('main').append(document.createElement('img')), true")
    assert find_barriers(page) == ["image-alt: ['<img>']"]
