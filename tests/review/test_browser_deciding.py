"""Decisions in a real browser: each by mouse and by keyboard, undone, and never silently lost."""

from __future__ import annotations

import pytest
from support.accessibility import find_barriers
from support.browser import Page
from support.command_line import table
from support.review_server import ReviewServer

from neardup.errors import OutputError
from neardup.review.journal import NewDecision

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


@pytest.mark.parametrize("mouse", [False, True], ids=["keys", "mouse"])
def test_undo_and_redo(serve, page: Page, mouse: bool) -> None:
    server = serve()
    server.enter(page, "pair/0")

    def do(key: str, path: str) -> None:
        with page.loading():
            if mouse:
                page.click(f"form[action='/{path}'] button")
            else:
                page.press(key)

    with page.loading():
        page.press("d")
    do("z", "undo")
    assert server.decisions() == [] and page.path == "/pair/0"
    assert page.value(SAID).startswith("Undone: different")
    do("y", "redo")
    assert server.decisions() == [expected(server, "different", 0)]
    assert page.value("document.querySelector('button[value=different]').ariaPressed") == "true"


@pytest.mark.parametrize("key, action", [("a", "keep"), ("0", "drop")])
@pytest.mark.parametrize("mouse", [False, True], ids=["keys", "mouse"])
def test_cluster_is_decided(serve, page: Page, mouse: bool, key: str, action: str) -> None:
    server = serve()
    number = table(server.run, "clusters")[0]["cluster"]
    server.enter(page, f"cluster/{number}")
    with page.loading():
        if mouse:
            page.click(f"form[action='/decide-cluster'] button[value={action}]")
        else:
            page.press(key)
    ids = {"a0", "a1", "a2", "a3"}
    assert {(done, id) for done, id, _ in server.decisions()} == {(action, id) for id in ids}


def test_key_that_is_held_down_decides_once(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "pair/0")
    with page.loading():
        page.press("s")
    following = page.path
    page.hold("s")
    page.hold("d")
    assert len(server.decisions()) == 1 and page.path == following
    with page.loading():
        page.press("d")
    assert [action for action, *_ in server.decisions()] == ["same", "different"]


def test_keys_move_among_the_copies_of_a_cluster(serve, page: Page) -> None:
    server = serve()
    number = table(server.run, "clusters")[0]["cluster"]
    server.enter(page, f"cluster/{number}")
    page.press("j")
    second = page.value("document.querySelector('article.current').id")
    with page.loading():
        page.press("x")
    row = table(server.run, "removed")[int(second.removeprefix("copy-"))]
    assert server.decisions() == [("keep", row["id"], None)]
    assert page.value("document.querySelector('article.current').id") == second  # it stays there
    with page.loading():
        page.press("k", "s")
    assert len(server.decisions()) == 2
    assert server.decisions()[1][2] not in (None, row["id"])


def test_pairs_are_decided_in_bulk_by_mouse(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "bulk?least=0&most=1&action=keep")
    with page.loading():
        page.click("form[action='/bulk'][method=post] button.primary")
    assert len(server.decisions()) == 9 and page.path == "/decisions"


def test_everything_is_reached_by_keys_alone(serve, page: Page) -> None:
    """From the overview: search, open what was found, list the keys, decide, go on."""
    server = serve()
    server.enter(page)
    page.press("/")
    page.write("a1")
    with page.loading():
        page.press("Enter")
    assert "Found for a1" in page.text("h1")
    page.press("j")
    with page.loading():
        page.press("Enter")
    page.press("?")
    assert page.value("document.querySelector('dialog').open")
    assert "undo your last decision" in page.text("dialog")
    page.press("s")  # the list is in front: nothing is decided
    page.press("Escape")
    assert not page.value("document.querySelector('dialog').open") and server.decisions() == []
    page.press("t")
    page.write("seen, 日本語 🦊")
    page.press("Escape")
    with page.loading():
        page.press("d")
    (stored,) = server.desk.journal.export()
    assert stored.note == "seen, 日本語 🦊"
    with page.loading():
        page.press("g")
    assert page.path.startswith("/pair/") and page.complaints == []


def test_tabulator_goes_through_a_page_in_reading_order(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "pair/0")
    met = []
    for _ in range(40):
        page.press("Tab")
        met.append(
            page.value(
                "(e => e.name === 'note' ? 'note' : e.value || e.textContent.trim().slice(0, 20))"
                "(document.activeElement)"
            )
        )
    wanted = ["Skip to the content", "Overview", "Log out", *ACTIONS, "note", "Why was it removed?"]
    places = [met.index(one) if one in met else -1 for one in wanted]
    assert places == sorted(places) and -1 not in places, met
    page.value("document.querySelector('button[value=unsure]').focus()")
    with page.loading():
        page.press("Enter")
    assert server.decisions()[0][0] == "unsure"


def test_from_the_first_page_to_applied_decisions(serve, page: Page) -> None:
    server = serve()
    server.enter(page)
    with page.loading():
        page.press("g")
    for key in "ddd":
        with page.loading():
            page.press(key)
    with page.loading():
        page.click("nav a[href='/decisions']")
    with page.loading():
        page.click("main a[href='/apply']")
    with page.loading():
        page.click("form[action='/apply'] button")
    page.wait_for("document.body.innerText.includes('8 removed (-1)')")
    assert "4 documents kept (+1)" in page.text("main")
    decided = server.run.parent / f"{server.run.name}-decided"
    assert len(table(decided, "removed")) == 8 and page.complaints == []
    assert find_barriers(page) == []


# -- several tabs, several people ----------------------------------------------------------------


def test_second_tab_is_told_what_the_first_has_done(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "pair/0")
    other = page.tab()
    other.open(f"{server.url}/pair/0")
    with page.loading():
        page.press("s")
    other.press("d")
    said = other.wait_for(f"{SAID}.includes('has changed since') && {SAID}")
    assert "ann decided 'same'" in said and other.path == "/pair/0"
    assert server.decisions() == [expected(server, "same", 0)]
    with other.loading():
        other.ask("Page.reload")
    with other.loading():
        other.press("d")
    assert server.decisions()[1] == expected(server, "different", 0)


def test_two_people_at_once(serve, page: Page) -> None:
    first = serve()
    second = serve(first.run, "bob")
    first.enter(page, "pair/0")
    other = second.enter(page.stranger(), "pair/0")
    with other.loading():
        other.press("d")
    page.press("t")
    page.write("I see it otherwise")
    page.press("Escape", "s")
    said = page.wait_for(f"{SAID}.includes('Nothing was stored') && {SAID}")
    assert "bob decided 'different'" in said
    with page.loading():
        page.ask("Page.reload")
    assert "different · bob" in page.text("main")
    assert page.value("document.querySelector('[name=note]').value") == "I see it otherwise"
    with page.loading():
        page.press("s")
    page.open(f"{first.url}/decisions")
    assert "two people disagree" in page.text("main")


# -- what goes wrong -----------------------------------------------------------------------------


def test_server_that_stops_is_told_and_nothing_typed_is_lost(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "pair/0")
    page.press("t")
    page.write("half a sentence")
    page.press("Escape")
    server.stop()
    page.press("s")
    page.wait_for(f"{SAID}.includes('does not answer')")
    assert page.value("document.querySelector('[name=note]').value") == "half a sentence"
    server.start()
    page.click("#status button")  # Try again: the session ended with the server
    page.wait_for(f"{SAID}.includes('open the address')")
    server.enter(page.tab())
    with page.loading():
        page.ask("Page.reload")
    assert page.value("document.querySelector('[name=note]').value") == "half a sentence"
    with page.loading():
        page.press("s")
    (stored,) = server.desk.journal.export()
    assert (stored.action, stored.note) == ("same", "half a sentence")
    with page.loading():
        page.ask("Page.navigate", url=f"{server.url}/pair/0")
    assert page.value("document.querySelector('[name=note]').value") == ""  # it is stored


def test_full_disk_is_told_and_nothing_is_lost(serve, page: Page) -> None:
    server = serve()
    server.enter(page, "pair/0")
    with page.loading():
        page.press("s")
    opened = server.desk.journal._opened
    pages = opened.execute("PRAGMA page_count").fetchone()[0]
    opened.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(OutputError):
        for number in range(10_000):
            server.desk.journal.decide([NewDecision("keep", f"other {number}")], "bob")
    stored = server.decisions()
    page.press("t")
    page.write("what I think")
    page.press("Escape", "u")
    page.wait_for(f"{SAID}.includes('nothing was stored')")
    assert page.value("document.querySelector('[name=note]').value") == "what I think"
    assert server.decisions() == stored
    opened.execute("PRAGMA max_page_count = 100000")
    with page.loading():
        page.press("u")
    assert server.decisions()[:-1] == stored


def test_page_without_a_token_shows_nothing(serve, page: Page) -> None:
    server = serve()
    for path in ("", "pair/0", "text?file=x&row=0", "open?token=wrong"):
        page.open(f"{server.url}/{path}")
        assert "To the overview" in page.text() and "Is the removed one" not in page.text()
    token = server.entrance
    server.enter(page)
    other = page.stranger()
    other.open(token)  # it works once
    assert "has been used" in other.text()


FORGED = """<form method="post" action="{url}/decide">
<input name="position" value="0"><input name="seen" value="0"><input name="action" value="same">
<input name="then" value="next"><button>A kitten</button></form>"""


def test_forged_form_changes_nothing(serve, page: Page, tmp_path) -> None:
    server = serve()
    server.enter(page)
    trap = tmp_path / "kitten.html"
    trap.write_text(FORGED.format(url=server.url))
    page.open(trap)
    with page.loading():
        page.click("button")
    assert "That is not possible" in page.text() and server.decisions() == []


def test_stolen_cookie_is_worth_nothing_after_logout(serve, page: Page) -> None:
    server = serve()
    server.enter(page)
    (cookie,) = page.ask("Network.getCookies", urls=[server.url])["cookies"]
    assert cookie["httpOnly"] and cookie["sameSite"] == "Strict"
    assert page.value("document.cookie") == ""
    thief = page.stranger()
    stolen = {"name": cookie["name"], "value": cookie["value"], "url": server.url}
    thief.ask("Network.setCookie", **stolen)
    thief.open(f"{server.url}/pair/0")
    assert "Is the removed one" in thief.text()
    with page.loading():
        page.click("form[action='/logout'] button")
    assert "You are logged out" in page.text()
    thief.open(f"{server.url}/pair/0")
    assert "needs its token" in thief.text()
