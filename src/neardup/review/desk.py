"""What the review page works on: a run or an index, its list of clusters, decisions, sessions."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from neardup.report.run_folder import RunRecord
from neardup.review.apply_work import ApplyWork
from neardup.review.frame import PageLink, ReviewFrame
from neardup.review.journal import DecisionJournal
from neardup.review.label_desk import LabelDesk
from neardup.review.run_index import ReviewIndex
from neardup.review.run_subject import RunSubject
from neardup.review.sessions import EntryToken, ReviewSessions
from neardup.review.subject import ReviewSubject
from neardup.review.visits import ReviewRefusal

LINKS: Final = (
    PageLink("", "Overview"),
    PageLink("clusters", "Clusters"),
    PageLink("next", "Review", "g"),
    PageLink("bulk", "In bulk"),
    PageLink("decisions", "Decisions"),
)
ONLY_RUNS: Final = "this page is one of runs: an index has none of it"
STRANGER: Final = "this page needs its token: open the address that neardup review has printed"


def open_journal(subject: ReviewSubject) -> DecisionJournal:
    """Open the decisions about a run or an index.

    Args:
        subject: What they are about.
    """
    return DecisionJournal(subject.folder / "decisions.sqlite", subject.fingerprint)


class ReviewDesk:
    """A finished run or an index that people review.

    Args:
        subject: The run, or the index.
        who: The name of the person who opens the address with the token.
        port: The port of the server; part of the names by which it can be reached.
        renewed: Gets a new token, when one that was used comes again.
        prefix: What all paths begin with.
        labels: The pairs that people label; None if none were drawn.
    """

    stranger = STRANGER
    login_path = ""

    def __init__(
        self,
        subject: ReviewSubject,
        who: str,
        port: int,
        renewed: Callable[[str], None] = lambda _: None,
        prefix: str = "",
        labels: LabelDesk | None = None,
    ) -> None:
        self.labels = labels
        self.start = ""
        """The path of the first page."""
        self.subject, self.who, self.prefix = subject, who, prefix
        links = LINKS if labels is None else (*LINKS, PageLink("label", "Label"))
        self.frame = ReviewFrame(prefix, links, subject.name)
        self.sessions, self.token = ReviewSessions(), EntryToken(renewed)
        # Cookies are those of a name, whatever the port: two servers must not mix theirs up.
        self.cookie = f"neardup-review-{port}"
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self.journal = open_journal(subject)
        self.texts, self.threshold = subject.texts, subject.threshold
        path = subject.folder / "index.sqlite"
        self.index = ReviewIndex(subject.tables, path)
        self.texts.index = self.index
        self._apply_work = ApplyWork(subject.apply) if isinstance(subject, RunSubject) else None

    @property
    def apply_work(self) -> ApplyWork:
        """Makes the run again with the decisions."""
        if self._apply_work is None:
            raise ReviewRefusal(404, ONLY_RUNS)
        return self._apply_work

    @property
    def run(self) -> Path:
        """The folder of the run."""
        return self._run.run

    @property
    def record(self) -> RunRecord:
        """The record of the run."""
        return self._run.record

    @property
    def _run(self) -> RunSubject:
        if not isinstance(self.subject, RunSubject):
            raise ReviewRefusal(404, ONLY_RUNS)
        return self.subject

    def has_host(self, name: str) -> bool:
        """Return whether a request was made for this server.

        Args:
            name: The Host header, in lower case.
        """
        return any(secrets.compare_digest(name.encode(), host.encode()) for host in self._hosts)

    def close(self) -> None:
        """Close all files."""
        if self._apply_work is not None:
            self._apply_work.stop()
        self.index.stop()
        self.journal.close()
        if self.labels is not None:
            self.labels.close()
