"""Runs to review, and the page of one: without a browser, and as it is served to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.command_line import dedup, write_jsonl
from support.review_server import ReviewServer
from support.reviewer import DOCUMENTS, PORT, Reviewer

from neardup.review.desk import ReviewDesk
from neardup.review.run_subject import RunSubject


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., Path]:
    """Run `neardup dedup` on documents."""

    def make(documents: list[dict[str, Any]] = DOCUMENTS, *options: str) -> Path:
        write_jsonl(tmp_path / "texts.jsonl", documents)
        dedup(tmp_path / "texts.jsonl", "-o", tmp_path / "run", *options)
        return tmp_path / "run"

    return make


@pytest.fixture
def review(make_run: Callable[..., Path]) -> Iterator[Callable[..., Reviewer]]:
    """Open the review of a run, by someone who has a session."""
    desks: list[ReviewDesk] = []

    def open_review(run: Path | None = None, who: str = "ann") -> Reviewer:
        desk = ReviewDesk(RunSubject(make_run() if run is None else run), who, PORT)
        desks.append(desk)
        desk.index.wait()
        return Reviewer(desk)

    yield open_review
    for desk in desks:
        desk.close()


@pytest.fixture
def serve(make_run: Callable[..., Path]) -> Iterator[Callable[..., ReviewServer]]:
    """Serve the review of a run, for a browser: `serve().enter(page)`."""
    servers: list[ReviewServer] = []

    def start(run: Path | None = None, who: str = "ann") -> ReviewServer:
        servers.append(ReviewServer(make_run() if run is None else run, who))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
