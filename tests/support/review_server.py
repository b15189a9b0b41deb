"""The review page of a run as it is served, for a browser."""

from __future__ import annotations

import socket
from pathlib import Path
from threading import Thread

import uvicorn

from neardup.review.application import create_review
from neardup.review.desk import ReviewDesk
from neardup.review.label_desk import LABELS_FILE, LabelDesk
from neardup.review.run_subject import RunSubject
from support.browser import Page

HOST = "127.0.0.1"


class ReviewServer:
    """A server in a thread; it can be stopped, and started again on its port.

    Args:
        run: The folder of the run.
        who: The name that decisions are stored under.
    """

    def __init__(self, run: Path, who: str = "ann") -> None:
        self.run, self.who, self._port = run, who, 0
        self.start()

    def start(self) -> None:
        """Serve; the list of clusters is there when this returns."""
        bound = socket.create_server((HOST, self._port))
        self._port = bound.getsockname()[1]
        self.url = f"http://{HOST}:{self._port}"
        subject = RunSubject(self.run)
        labels = LabelDesk(subject) if (subject.folder / LABELS_FILE).exists() else None
        self.desk = ReviewDesk(subject, self.who, self._port, labels=labels)
        self.desk.index.wait()
        config = uvicorn.Config(
            create_review(self.desk), log_level="error", ws="none", timeout_graceful_shutdown=1
        )
        self._server = uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, kwargs={"sockets": [bound]}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the server; the browser can't reach it any more."""
        self._server.should_exit = True
        self._thread.join()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def entrance(self) -> str:
        """The address with the token, which works once."""
        return f"{self.url}/open?token={self.desk.token.value}"

    def enter(self, page: Page, path: str = "", **window: int | bool) -> Page:
        """Open a page of the review by the address with the token, as a person does first.

        Args:
            page: Where.
            path: The page that is opened then.
            window: Width, height and dark, as `Page.open` takes them.
        """
        with page.loading(2):  # it goes on by itself
            page.open(self.entrance, **window)
        if path:
            page.open(f"{self.url}/{path}", **window)
        return page

    def decisions(self) -> list[tuple[str, str, str | None]]:
        """Return what was decided, on what."""
        return [(one.action, one.a, one.b) for one in self.desk.journal.export()]
