"""A run to review, and someone who reviews it without a browser."""

from __future__ import annotations

import re
from html import unescape

from starlette.testclient import TestClient

from neardup.review.application import create_review
from neardup.review.desk import ReviewDesk
from support.command_line import edited

PORT = 8123
DOCUMENTS = [
    {"id": f"{letter}{n}", "text": edited(seed, *([n * 9] if n else []), count=160)}
    for seed, letter in enumerate("abc")
    for n in range(4)
]
"""Three clusters: a document and three copies of it with one other word each."""


class Reviewer:
    """Someone with a session, who follows links and sends forms."""

    def __init__(self, desk: ReviewDesk) -> None:
        self.desk = desk
        self.client = TestClient(create_review(desk), f"http://127.0.0.1:{PORT}")
        opened = self.client.get("/open", params={"token": desk.token.value})
        assert opened.status_code == 200, opened.text

    def get(self, path: str, status: int = 200) -> str:
        answer = self.client.get(path)
        assert answer.status_code == status, answer.text
        return unescape(answer.text)

    def send(self, path: str, status: int = 200, **fields: object) -> str:
        (secret,) = [c.value for c in self.client.cookies.jar if c.name == self.desk.cookie]
        token = self.desk.sessions.find(secret).form_token
        answer = self.client.post(path, data={"form_token": token} | fields)
        assert answer.status_code == status, answer.text
        return unescape(answer.text)

    def decide(self, action: str, position: int, status: int = 200, **fields: object) -> str:
        """Decide about a pair, as the form on its page does."""
        page = self.get(f"/pair/{position}")
        (seen,) = set(re.findall(r'name="seen" value="(\d+)"', page))
        sent = {"position": position, "seen": seen, "action": action, "then": "next"} | fields
        return self.send("/decide", status, **sent)

    def decisions(self) -> list[tuple[str, str, str | None]]:
        return [(one.action, one.a, one.b) for one in self.desk.journal.export()]
