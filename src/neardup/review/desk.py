"""What the review page works on: a finished run, its index and texts, decisions, and sessions."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from neardup.decisions import fingerprint_run
from neardup.report.run_documents import read_run_record
from neardup.report.run_folder import RunRecord, read_record
from neardup.review.frame import PageLink, ReviewFrame
from neardup.review.journal import DecisionJournal
from neardup.review.run_index import ReviewIndex
from neardup.review.sessions import EntryToken, ReviewSessions
from neardup.review.sources import SourceNames
from neardup.review.texts import ReviewTexts

REVIEW_FOLDER: Final = "review"
"""The folder in OUT with what the review stores; a new run in OUT leaves it alone."""
LINKS: Final = (
    PageLink("", "Overview"),
    PageLink("clusters", "Clusters"),
    PageLink("next", "Review"),
    PageLink("bulk", "In bulk"),
    PageLink("decisions", "Decisions"),
)
STRANGER: Final = "this page needs its token: open the address that neardup review has printed"


def open_journal(run: Path) -> DecisionJournal:
    """Open the decisions about a run.

    Args:
        run: The folder of the run.
    """
    path = run / REVIEW_FOLDER / "decisions.sqlite"
    return DecisionJournal(path, fingerprint_run(read_run_record(run)))


class ReviewDesk:
    """A finished run that people review.

    Args:
        run: The folder of the run.
        who: The name of the person who opens the address with the token.
        port: The port of the server; part of the names by which it can be reached.
        renewed: Gets a new token, when one that was used comes again.
        prefix: What all paths begin with.
    """

    stranger = STRANGER
    login_path = ""

    def __init__(
        self,
        run: Path,
        who: str,
        port: int,
        renewed: Callable[[str], None] = lambda _: None,
        prefix: str = "",
    ) -> None:
        self.run, self.who, self.prefix = run, who, prefix
        content: dict[str, Any] = read_run_record(run)
        self.record: RunRecord = read_record(run)
        self.frame = ReviewFrame(prefix, LINKS, run.resolve().name)
        self.sessions, self.token = ReviewSessions(), EntryToken(renewed)
        # Cookies are those of a name, whatever the port: two servers must not mix theirs up.
        self.cookie = f"neardup-review-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        folder = run / REVIEW_FOLDER
        self.journal = open_journal(run)
        self.sources = SourceNames(file.file for file in self.record.inputs)
        self.texts = ReviewTexts(run, content)
        self.index = ReviewIndex(
            run, folder / "index.sqlite", self.threshold, self.sources, self.texts.spans
        )
        self.texts.index = self.index

    @property
    def threshold(self) -> float:
        """The similarity at which decisions are least certain."""
        return 1.0 if self.record.threshold is None else self.record.threshold

    def has_host(self, name: str) -> bool:
        """Return whether a request was made for this server.

        Args:
            name: The Host header, in lower case.
        """
        return any(secrets.compare_digest(name.encode(), host.encode()) for host in self._hosts)

    def close(self) -> None:
        """Close all files."""
        self.index.stop()
        self.journal.close()
