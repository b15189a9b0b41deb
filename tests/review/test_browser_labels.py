"""Labelling in a real browser: with the keyboard alone, undone, and nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.accessibility import find_barriers
from support.browser import Page
from support.labelled_run import make_labelled_run, truth
from support.review_server import ReviewServer

KEYS = {"same": "s", "different": "d", "unsure": "u"}


@pytest.fixture
def server(tmp_path: Path, serve) -> ReviewServer:
    return serve(make_labelled_run(tmp_path, 30))


def answers(server: ReviewServer, who: str = "ann") -> dict[int, str]:
    return server.desk.labels.answers(who)


def test_all_pairs_are_answered_with_the_keyboard_alone(server, page: Page) -> None:
    server.enter(page, "label")
    pairs = server.desk.labels.draw.pairs
    for pair in pairs:
        assert page.path == f"/label/{pair.number}"
        with page.loading():
            page.press(KEYS[truth(pair)])
    assert page.path == "/labels"
    assert answers(server) == {pair.number: truth(pair) for pair in pairs}
    assert "After 30 answers: precision" in page.value("document.body.innerText")
    assert page.complaints == []


def test_an_answer_is_undone_and_redone_by_keys(server, page: Page) -> None:
    server.enter(page, "label")
    for key in "su":
        with page.loading():
            page.press(key)
    with page.loading():
        page.press("z")
    assert page.path == "/label/1"
    assert answers(server) == {0: "same"}
    with page.loading():
        page.press("y")
    assert answers(server) == {0: "same", 1: "unsure"}
    assert server.decisions() == [], "decisions are another matter"
    assert page.complaints == []


def test_a_mouse_answers_too(server, page: Page) -> None:
    server.enter(page, "label/3")
    with page.loading():
        page.click("button[value=different]")
    assert answers(server) == {3: "different"}
    assert page.path == "/label/0"


def test_figures_are_a_key_away_and_lead_on(server, page: Page) -> None:
    server.enter(page, "label", width=360)
    with page.loading():
        page.press("r")
    assert page.path == "/labels"
    assert page.value("document.documentElement.scrollWidth") <= 360
    with page.loading():
        page.press("n")
    assert page.path == "/label/0"
    assert page.value("document.documentElement.scrollWidth") <= 360


def test_a_server_that_is_gone_is_told_and_nothing_is_lost(server, page: Page) -> None:
    server.enter(page, "label")
    with page.loading():
        page.press("s")
    server.stop()
    page.press("d")
    page.wait_for("document.querySelector('#status').textContent.includes('does not answer')")
    server.start()
    assert answers(server) == {0: "same"}


@pytest.mark.parametrize("path", ["label", "labels"])
@pytest.mark.parametrize("dark", [False, True])
def test_nobody_is_left_out(server, page: Page, path: str, dark: bool) -> None:
    server.desk.labels.journal.answer([(n, "same") for n in range(30)], "ben")
    server.desk.labels.journal.answer([(n, "different") for n in range(0, 30, 2)], "eve")
    server.enter(page, path, dark=dark)
    assert find_barriers(page) == []
