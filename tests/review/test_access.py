"""Only the holder of the token sees the page, and only its own forms change something."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient
from support.reviewer import PORT

from neardup.review.application import create_review, static_files
from neardup.review.sessions import (
    MOST_SESSIONS,
    SESSION_SECONDS,
    EntryToken,
    ReviewSessions,
)


def stranger(reviewer, host=f"127.0.0.1:{PORT}"):
    return TestClient(create_review(reviewer.desk), f"http://{host}")


def test_page_without_token_is_refused(review):
    other = stranger(review())
    for path in ("/", "/clusters", "/next", "/text?file=x&row=0", "/export/jsonl", "/alive"):
        answer = other.get(path)
        assert answer.status_code == 403 and "token" in answer.text
    assert other.post("/undo", data={}).status_code == 403
    assert other.get("/open?token=wrong").status_code == 403
    assert other.get("/open").status_code == 403


def test_looking_at_the_address_does_not_use_it(review):
    """As programs do that show what is behind a link."""
    reviewer = review()
    reviewer.desk.token.value = "next"
    assert stranger(reviewer).head("/open?token=next").status_code == 403
    assert stranger(reviewer).get("/open?token=next").status_code == 200


def test_token_opens_one_session():
    printed = []
    token = EntryToken(printed.append)
    first = token.value
    assert not token.redeem("wrong") and token.redeem(first) and not token.redeem(first)
    assert printed == [token.value] and token.value != first
    assert not token.redeem(first) and len(printed) == 1  # the new one is still unused
    assert token.redeem(token.value) and not token.redeem("")


def test_session_ends_with_logout_and_when_it_is_too_old():
    now = [0.0]
    sessions = ReviewSessions(lambda: now[0])
    secret = sessions.begin("ann")
    assert sessions.find(secret).who == "ann"
    sessions.end(secret)
    assert sessions.find(secret) is None
    old = sessions.begin("ann")
    now[0] += SESSION_SECONDS + 1
    assert sessions.find(old) is None
    assert sessions.find(sessions.begin("ann", lambda: False)) is None
    first = sessions.begin("ann")
    for _ in range(MOST_SESSIONS):
        sessions.begin("bob")
    assert sessions.find(first) is None


def test_stolen_cookie_is_worth_nothing_after_logout(review):
    reviewer = review()
    thief = stranger(reviewer)
    thief.cookies.update(reviewer.client.cookies)
    assert thief.get("/").status_code == 200
    assert "You are logged out" in reviewer.send("/logout")
    assert thief.get("/").status_code == 403


def test_cookie_is_for_this_page_alone(review):
    reviewer = review()
    answer = stranger(reviewer)
    token = reviewer.desk.token
    token.value = "next"
    cookie = answer.get("/open?token=next").headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and f"review-{PORT}=" in cookie


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"127.0.0.1:{PORT + 1}", ""])
def test_other_names_are_refused(review, host):
    reviewer = review()
    answer = reviewer.client.get("/", headers={"host": host})
    assert answer.status_code == 421


def test_forged_forms_change_nothing(review):
    reviewer = review()
    fields = {"position": "0", "seen": "0", "action": "same", "then": "next"}
    for token in ({}, {"form_token": ""}, {"form_token": "x" * 43}):
        assert reviewer.client.post("/decide", data=fields | token).status_code == 403
    origin = {"origin": "http://evil.example"}
    assert reviewer.client.post("/decide", data=fields, headers=origin).status_code == 403
    assert reviewer.client.get("/", headers={"sec-fetch-site": "cross-site"}).status_code == 403
    as_json = {"content-type": "text/plain"}
    assert reviewer.client.post("/decide", content="{}", headers=as_json).status_code == 415
    form = {"content-type": "application/x-www-form-urlencoded"}
    for body, status in ((b"x" * (2 << 20), 413), (b"\xff=1", 400), (b"a=%ff", 400)):
        assert reviewer.client.post("/decide", content=body, headers=form).status_code == status
    assert reviewer.decisions() == []


def test_every_answer_has_the_policy(review):
    reviewer = review()
    for path in ("/", "/nothing", "/static/review.js", "/text?file=x&row=0", "/export/jsonl"):
        headers = reviewer.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert ("no-store" in headers["cache-control"]) == (not path.startswith("/static/"))


def test_nothing_is_inline_and_nothing_is_foreign(review):
    reviewer = review()
    for path in ("/", "/clusters", "/pair/0", "/bulk?least=0&most=1", "/decisions"):
        page = reviewer.get(path)
        assert " style=" not in page and "<style" not in page and " onclick" not in page
        assert '<script type="module" src="/static/review.js"></script>' in page
        assert "http://" not in page and "https://" not in page


def test_scripts_and_styles_are_small(review):
    sizes = {name: len(content) for name, content in static_files().items()}
    assert sum(sizes.values()) <= 150_000
    assert review().client.get("/static/desk.py").status_code == 404
